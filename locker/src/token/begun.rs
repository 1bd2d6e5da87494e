//! What begin answers.

use std::fmt;
use std::time::Duration;

use chrono::{DateTime, Utc};
use serde::de::DeserializeOwned;

use super::classify::Class;
use super::lock::Lock;
use crate::core::answer::{AnswerError, from_json};
use crate::core::record::Record;

/// What came of a begin. Every outcome is a value; an error means that the question was not answered.
#[derive(Debug)]
#[must_use = "an acquired token is held until it is ended"]
pub enum Begun {
    /// The token is yours: do the work, then end the lock.
    Acquired(Lock),
    /// The work was done; here is its answer.
    Completed(Replay),
    /// The work failed, and the failure is kept: as the answer, or until a person has looked.
    Failed(StoredFailure),
    /// Somebody is at work, or died at it.
    InProgress(Holder),
    /// The key was used for another request. Do nothing; tell the caller to use a new key.
    Mismatch(Box<Record>),
}

/// A stored answer.
pub struct Replay {
    pub(super) record: Box<Record>,
    pub(super) json: String,
}

impl Replay {
    /// The answer, equal to the one that was stored.
    ///
    /// # Errors
    ///
    /// [`AnswerError::Decode`] if it is not of this type.
    pub fn result<T: DeserializeOwned>(&self) -> Result<T, AnswerError> {
        from_json(&self.json)
    }

    /// The answer as JSON text.
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

impl fmt::Debug for Replay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Replay").field("record", &self.record).finish_non_exhaustive()
    }
}

/// A stored failure.
pub struct StoredFailure {
    pub(super) record: Box<Record>,
    pub(super) json: String,
    pub(super) class: Class,
}

impl StoredFailure {
    /// The failure, equal to the one that was stored.
    ///
    /// # Errors
    ///
    /// [`AnswerError::Decode`] if it is not of this type.
    pub fn error<E: DeserializeOwned>(&self) -> Result<E, AnswerError> {
        from_json(&self.json)
    }

    /// The failure as JSON text.
    #[must_use]
    pub fn json(&self) -> &str {
        &self.json
    }

    /// [`Class::Permanent`] where the failure is the answer, [`Class::NeedsPerson`] where somebody
    /// has to look first.
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

impl fmt::Debug for StoredFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoredFailure")
            .field("class", &self.class)
            .field("record", &self.record)
            .finish_non_exhaustive()
    }
}

/// Who holds a token.
#[derive(Debug, Clone)]
pub struct Holder {
    pub(super) record: Box<Record>,
    pub(super) retry_after: Duration,
}

impl Holder {
    /// Who, such as `order_update/<request id>`.
    #[must_use]
    pub fn locked_by(&self) -> &str {
        self.record.locked_by()
    }

    /// Since when.
    #[must_use]
    pub const fn since(&self) -> DateTime<Utc> {
        self.record.created()
    }

    /// When it should be done.
    #[must_use]
    pub const fn due(&self) -> DateTime<Utc> {
        self.record.expected_completion()
    }

    /// When to ask again: when it is due, in 1 second at the soonest and in 60 at the latest.
    #[must_use]
    pub const fn retry_after(&self) -> Duration {
        self.retry_after
    }

    /// The token.
    #[must_use]
    pub const fn record(&self) -> &Record {
        &self.record
    }
}
