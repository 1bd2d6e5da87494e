//! Writes as data: what is decided here is translated in `store`, and nowhere else.

use chrono::{DateTime, Utc};

use super::answer::{Body, Encoded};
use super::key::Key;
use super::record::{Intervention, Seen};
use crate::settings::Retention;

/// A token about to be begun.
#[derive(Debug, Clone)]
pub(crate) struct NewToken {
    pub(crate) key: Key,
    pub(crate) locked_by: String,
    pub(crate) attempt: String,
    pub(crate) created: DateTime<Utc>,
    pub(crate) expected_completion: DateTime<Utc>,
    pub(crate) status: String,
    pub(crate) fingerprint: Option<String>,
    pub(crate) taken_over_from: Option<String>,
    /// How long the answer will be kept, so that a person who resolves it keeps it as long.
    pub(crate) retention: Retention,
    /// What is past its `ttl` at this time counts as absent.
    pub(crate) expired_at: DateTime<Utc>,
}

/// How work ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Finish {
    /// With an answer.
    Success,
    /// With a failure that is the answer.
    Failure,
    /// With a failure that waits for a person, under this `status`.
    NeedsPerson { status: String },
}

impl Finish {
    /// A word for logs and metrics.
    pub(crate) const fn outcome(&self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Failure => "failure",
            Self::NeedsPerson { .. } => "error",
        }
    }
}

/// One request that changes one item.
#[derive(Debug, Clone)]
pub(crate) enum Write {
    /// Put the token, unless there is one.
    Begin { token: NewToken },
    /// Put the token over an overdue one: the one seen, if it is still due before `due_before`.
    TakeOver { token: NewToken, seen: Seen, due_before: DateTime<Utc> },
    /// Store how the work ended, if the attempt still holds the token.
    Finish { key: Key, attempt: String, at: DateTime<Utc>, finish: Finish, body: Body, ttl: Option<i64> },
    /// Delete the token, if the attempt still holds it.
    Release { key: Key, attempt: String },
    /// Move the due time back, if the attempt still holds the token. Never moves it forward.
    Extend { key: Key, attempt: String, due: DateTime<Utc> },
    /// A person says that the work is done, if the token is still the one seen. The new attempt
    /// shuts out whoever held it.
    Resolve { key: Key, attempt: String, seen: Seen, person: Intervention, body: Body, ttl: Option<i64> },
    /// A person lets go of the token, if it is still the one seen.
    Free { key: Key, seen: Seen, person: Intervention, ttl: Option<i64> },
    /// Store an answer beside its token.
    PutAnswer { key: String, encoded: Encoded, ttl: Option<i64> },
    /// Give an answer that its token no longer points to a `ttl`: a reader may be on its way to it.
    ExpireAnswer { key: String, ttl: i64 },
    /// Delete an answer that no token points to.
    DropAnswer { key: String },
}

impl Write {
    /// How a token ends by it, for metrics.
    pub(crate) const fn outcome(&self) -> &'static str {
        match self {
            Self::Finish { finish, .. } => finish.outcome(),
            Self::Release { .. } | Self::Free { .. } => "released",
            _ => "resolved",
        }
    }

    /// The verb, as logs and errors name it.
    pub(crate) const fn verb(&self) -> &'static str {
        match self {
            Self::Begin { .. } => "begin",
            Self::TakeOver { .. } => "take over",
            Self::Finish { finish: Finish::Success, .. } => "complete",
            Self::Finish { finish: Finish::Failure, .. } => "complete with an error",
            Self::Finish { finish: Finish::NeedsPerson { .. }, .. } => "fail",
            Self::Release { .. } => "release",
            Self::Extend { .. } => "extend",
            Self::Resolve { .. } => "resolve",
            Self::Free { .. } => "release by hand",
            Self::PutAnswer { .. } => "store the answer",
            Self::ExpireAnswer { .. } => "expire a former answer",
            Self::DropAnswer { .. } => "drop an unused answer",
        }
    }
}

/// The key of the item that holds a large answer.
///
/// No key of a token has a space, so no token can be mistaken for an answer. The token's key comes
/// first, so that a policy on leading keys holds for both. The id is new for every end that is
/// tried, so that no late writer can replace an answer that somebody has read.
pub(crate) fn answer_key(token: &str, id: &str) -> String {
    format!("{token} result {id}")
}
