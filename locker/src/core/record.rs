//! A stored token, read.

use chrono::{DateTime, Utc};

use super::answer::Body;
use super::key::Key;
use crate::settings::Retention;

/// A lock token as it is stored.
///
/// `Debug` shows the state and the times; the key appears as a digest, the answer as its length.
#[derive(Debug, Clone)]
pub struct Record {
    pub(crate) key: Key,
    pub(crate) locked_by: String,
    pub(crate) attempt: Option<String>,
    pub(crate) created: DateTime<Utc>,
    pub(crate) expected_completion: DateTime<Utc>,
    pub(crate) actual_completion: Option<DateTime<Utc>>,
    pub(crate) state: State,
    pub(crate) body: Option<Body>,
    pub(crate) expires: Option<DateTime<Utc>>,
    pub(crate) fingerprint: Option<StoredFingerprint>,
    /// As the token was begun with; `None` on records of other writers.
    pub(crate) retention: Option<Retention>,
    pub(crate) taken_over_from: Option<String>,
    pub(crate) intervention: Option<Intervention>,
    pub(crate) seen: Seen,
}

/// What a token is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum State {
    /// Somebody works on it, or died at it. `status` is `inProgress`.
    InProgress,
    /// The work succeeded and its answer is stored. `status` is absent.
    Completed,
    /// The work failed for good, and the failure is the answer. `status` is absent.
    CompletedErr,
    /// The work failed and a person has to look. `status` is `error`.
    Failed,
    /// A person let go of it. It counts as absent, and stays to show who and why.
    Released,
}

impl State {
    /// A word for people and programs, as the command prints it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::InProgress => "inProgress",
            Self::Completed => "completed",
            Self::CompletedErr => "completedErr",
            Self::Failed => "error",
            Self::Released => "released",
        }
    }

    /// Whether nothing more happens to it. Only such a record is ever forgotten.
    #[must_use]
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::CompletedErr | Self::Released)
    }
}

/// What a person did to a token, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Intervention {
    /// Who.
    pub by: String,
    /// Why.
    pub reason: String,
    /// When.
    pub at: DateTime<Utc>,
}

/// A fingerprint as stored; it does not show in debug prints.
#[derive(Clone)]
pub(crate) struct StoredFingerprint(pub(crate) String);

impl std::fmt::Debug for StoredFingerprint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("StoredFingerprint(..)")
    }
}

/// The stored text by which a later write makes sure that the record is still the one that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) attempt: Option<String>,
    pub(crate) status: Option<String>,
    pub(crate) created: String,
    pub(crate) expected_completion: String,
}

impl Record {
    /// The key.
    #[must_use]
    pub const fn key(&self) -> &Key {
        &self.key
    }

    /// Who holds it or held it last, such as `order_update/<request id>`: where to look in the logs.
    #[must_use]
    pub fn locked_by(&self) -> &str {
        &self.locked_by
    }

    /// The id of the begin that wrote it. Absent on records of other writers.
    #[must_use]
    pub fn attempt(&self) -> Option<&str> {
        self.attempt.as_deref()
    }

    /// When it was begun.
    #[must_use]
    pub const fn created(&self) -> DateTime<Utc> {
        self.created
    }

    /// When its work was expected to be done.
    #[must_use]
    pub const fn expected_completion(&self) -> DateTime<Utc> {
        self.expected_completion
    }

    /// When its work ended, if it has.
    #[must_use]
    pub const fn actual_completion(&self) -> Option<DateTime<Utc>> {
        self.actual_completion
    }

    /// What it is doing.
    #[must_use]
    pub const fn state(&self) -> State {
        self.state
    }

    /// When it may be forgotten (attribute `ttl`). Never for unfinished and failed work.
    #[must_use]
    pub const fn expires(&self) -> Option<DateTime<Utc>> {
        self.expires
    }

    /// The attempt that this one took over from, if it did.
    #[must_use]
    pub fn taken_over_from(&self) -> Option<&str> {
        self.taken_over_from.as_deref()
    }

    /// What a person did to it, if anybody did.
    #[must_use]
    pub const fn intervention(&self) -> Option<&Intervention> {
        self.intervention.as_ref()
    }

    /// Whether work on it should be done by now and is not.
    #[must_use]
    pub fn is_overdue(&self, now: DateTime<Utc>) -> bool {
        self.state == State::InProgress && self.expected_completion < now
    }

    /// Whether the record counts as absent: released, or terminal and past its `ttl` while DynamoDB
    /// has not deleted it yet. It mirrors the condition of a begin, to the second and strictly.
    pub(crate) fn counts_as_absent(&self, expired_at: DateTime<Utc>) -> bool {
        let expired = self.expires.is_some_and(|expires| expires.timestamp() < expired_at.timestamp());
        self.state == State::Released || (self.state.is_terminal() && expired)
    }

    pub(crate) fn is_held_by(&self, attempt: &str) -> bool {
        self.state == State::InProgress && self.attempt.as_deref() == Some(attempt)
    }
}
