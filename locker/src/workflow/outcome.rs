//! What came of a workflow, for its caller.

use std::ops::Deref;
use std::time::Duration;

use chrono::{DateTime, Utc};

use super::stop::StepFailure;

/// What came of a workflow. Every one of these is an answer; an [`Error`](crate::Error) is none.
#[derive(Debug)]
#[non_exhaustive]
pub enum Outcome<T> {
    /// It is done, and this is its answer.
    Completed(Replayed<T>),
    /// It failed for good, and what was to be undone is undone. This is its answer from now on.
    Failed(Failed),
    /// It was cancelled, and what was to be undone is undone.
    Cancelled,
    /// Somebody drives it, or it waits for its next try. It goes on without this caller.
    InProgress(Waiting),
    /// It is in quarantine until a person has looked, for this reason.
    Quarantined(String),
    /// The key is in use for another request or another workflow.
    Mismatch,
}

/// An answer, and whether it was there before.
#[derive(Debug)]
pub struct Replayed<T> {
    pub(crate) answer: T,
    pub(crate) replayed: bool,
}

impl<T> Replayed<T> {
    /// The answer.
    pub fn into_inner(self) -> T {
        self.answer
    }

    /// Whether an earlier call came to it.
    #[must_use]
    pub const fn is_replay(&self) -> bool {
        self.replayed
    }
}

impl<T> Deref for Replayed<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.answer
    }
}

/// How a workflow failed.
#[derive(Debug, Clone)]
pub struct Failed {
    pub(crate) failure: StepFailure,
    pub(crate) replayed: bool,
}

impl Failed {
    /// The first error: what an undoing said later does not hide it.
    #[must_use]
    pub const fn failure(&self) -> &StepFailure {
        &self.failure
    }

    /// Whether an earlier call came to it.
    #[must_use]
    pub const fn is_replay(&self) -> bool {
        self.replayed
    }
}

/// A workflow that goes on without its caller.
#[derive(Debug, Clone)]
pub struct Waiting {
    pub(crate) locked_by: Option<String>,
    pub(crate) due: DateTime<Utc>,
    pub(crate) after: Duration,
    pub(crate) reason: Option<String>,
}

impl Waiting {
    /// Who drives it. `None`: it waits for its next try.
    #[must_use]
    pub fn locked_by(&self) -> Option<&str> {
        self.locked_by.as_deref()
    }

    /// When it is tried next, or its driver should be done.
    #[must_use]
    pub const fn due(&self) -> DateTime<Utc> {
        self.due
    }

    /// When to ask again: between 1 and 60 seconds.
    #[must_use]
    pub const fn retry_after(&self) -> Duration {
        self.after
    }

    /// Why it waits.
    #[must_use]
    pub fn reason(&self) -> Option<&str> {
        self.reason.as_deref()
    }
}
