//! The outcomes of a begin.

use std::time::Duration;

use chrono::{DateTime, Utc};
use serde::de::DeserializeOwned;

use crate::core::answer::{AnswerError, from_json};
use crate::core::class::Class;
use crate::core::private::Private;
use crate::core::token::record::Record;
use crate::session::history::{Reported, digest};
use crate::token::lock::guard::Lock;

/// The outcome of a begin.
///
/// Every outcome is a value; an [`Error`](crate::Error) means that there is none.
#[derive(Debug)]
#[must_use = "an acquired token stays in progress until it is ended"]
pub enum Begun {
    /// The token is yours: do the work, then end the lock.
    Acquired(Lock),
    /// The work was done before; this is its stored answer.
    Completed(Replay),
    /// The work failed before, and its stored failure is the answer.
    Failed(StoredFailure),
    /// The work failed before, and its stored failure waits for an operator.
    Held(StoredFailure),
    /// Another caller is working, or died while working.
    InProgress(Holder),
    /// The key was used for another request, which may have been processed. Do not do the work; ask
    /// the caller to send that request unchanged, or this request with a new key.
    Mismatch(Box<Record>),
    /// The table was restored, and may have forgotten that the work was done. Do not do the work.
    /// The key is held until an operator resolves or releases it; see
    /// [`Settings::restored`](crate::Settings::restored).
    Restored(Box<Record>),
}

impl Begun {
    /// The outcome as the history records it.
    pub(crate) fn told(&self) -> Reported<'_> {
        let told = |outcome, record, digest| Reported { outcome, found: Record::attempt(record), digest };
        match self {
            Self::Acquired(lock) => match lock.predecessor() {
                Some(record) => told("tookOver", record, None),
                None => Reported { outcome: "acquired", ..Reported::default() },
            },
            Self::Completed(replay) => {
                told("completed", replay.record(), replayed(replay.record(), replay.json()))
            }
            Self::Failed(failure) => {
                told("failed", failure.record(), replayed(failure.record(), failure.json()))
            }
            Self::Held(failure) => told("held", failure.record(), digest(failure.json())),
            Self::InProgress(holder) => told("inProgress", holder.record(), None),
            Self::Mismatch(record) => told("mismatch", record, None),
            Self::Restored(record) => told("restored", record, None),
        }
    }
}

/// The digest of a result for the history. A result that was erased has none.
fn replayed(record: &Record, json: &str) -> Option<String> {
    if record.is_redacted() { None } else { digest(json) }
}

/// The value of a stored result.
fn decoded<T: DeserializeOwned>(record: &Record, json: &str) -> Result<T, AnswerError> {
    if record.is_redacted() { Err(AnswerError::Redacted) } else { from_json(json) }
}

/// A stored answer, replayed.
#[derive(Debug)]
pub struct Replay {
    pub(crate) record: Box<Record>,
    pub(crate) json: Private<String>,
}

impl Replay {
    /// Decodes the answer. It equals the value that was stored.
    ///
    /// # Errors
    ///
    /// [`AnswerError::Decode`] if the stored answer does not match the type `T`.
    /// [`AnswerError::Redacted`] if an operator erased the answer.
    pub fn result<T: DeserializeOwned>(&self) -> Result<T, AnswerError> {
        decoded(&self.record, &self.json)
    }

    /// The answer as JSON text. Empty if an operator erased it
    /// ([`Record::is_redacted`]).
    #[must_use]
    pub fn json(&self) -> &str {
        &self.json
    }

    /// The token it was stored with.
    #[must_use]
    pub const fn record(&self) -> &Record {
        &self.record
    }
}

/// A stored failure, replayed.
#[derive(Debug)]
pub struct StoredFailure {
    pub(crate) record: Box<Record>,
    pub(crate) json: Private<String>,
    pub(crate) class: Class,
}

impl StoredFailure {
    /// Decodes the failure. It equals the value that was stored.
    ///
    /// # Errors
    ///
    /// [`AnswerError::Decode`] if the stored failure does not match the type `E`.
    /// [`AnswerError::Redacted`] if an operator erased the failure.
    pub fn error<E: DeserializeOwned>(&self) -> Result<E, AnswerError> {
        decoded(&self.record, &self.json)
    }

    /// The failure as JSON text. Empty if an operator erased it ([`Record::is_redacted`]).
    #[must_use]
    pub fn json(&self) -> &str {
        &self.json
    }

    /// The class of the failure: [`Class::Permanent`] if it is the answer, [`Class::NeedsOperator`]
    /// if it waits for an operator.
    #[must_use]
    pub const fn class(&self) -> Class {
        self.class
    }

    /// The token it was stored with.
    #[must_use]
    pub const fn record(&self) -> &Record {
        &self.record
    }
}

/// The owner of a token in progress, and when to ask again.
#[derive(Debug, Clone)]
pub struct Holder {
    pub(crate) record: Box<Record>,
    pub(crate) retry_after: Duration,
    /// How long the token has been overdue, if it is.
    #[cfg(feature = "http")]
    pub(crate) overdue: Option<Duration>,
    /// Whether a later begin with the same options takes the token over.
    #[cfg(feature = "http")]
    pub(crate) is_continued: bool,
}

impl Holder {
    /// The owner's name, such as `order_update/<request id>`.
    #[must_use]
    pub fn locked_by(&self) -> &str {
        self.record.locked_by()
    }

    /// When the token was begun.
    #[must_use]
    pub const fn since(&self) -> DateTime<Utc> {
        self.record.created()
    }

    /// When the work is expected to be complete; past it, the token is overdue.
    #[must_use]
    pub const fn due(&self) -> DateTime<Utc> {
        self.record.expected_completion()
    }

    /// How long to wait before asking again: as long as the work has been in progress, but from 1
    /// to 60 seconds.
    #[must_use]
    pub const fn retry_after(&self) -> Duration {
        self.retry_after
    }

    /// The token as stored.
    #[must_use]
    pub const fn record(&self) -> &Record {
        &self.record
    }
}
