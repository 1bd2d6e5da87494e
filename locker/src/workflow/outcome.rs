//! The outcome of a workflow, for its caller.

pub(crate) mod ended;
mod present;
pub(crate) mod read;

use std::ops::Deref;
use std::time::Duration;

use chrono::{DateTime, Utc};

use super::stop::StepFailure;
use crate::core::time;

/// The outcome of a workflow. Each variant is an answer to the call; an [`Error`](crate::Error) is
/// not.
#[derive(Debug)]
#[non_exhaustive]
pub enum Outcome<T> {
    /// The workflow completed with this answer.
    Completed(Completion<T>),
    /// The workflow failed permanently and its steps are compensated, unless an operator closed it
    /// as it was. This failure is its answer from now on.
    Failed(Failed),
    /// The workflow was cancelled and its steps are compensated, unless an operator closed it as it
    /// was.
    Cancelled,
    /// Another driver runs it, or it waits for its next attempt. It continues without this caller.
    InProgress(Waiting),
    /// The workflow is in quarantine until an operator acts, for this reason.
    Quarantined(String),
    /// The key is in use for another request or another workflow.
    Mismatch,
    /// Newer code has driven the workflow, which is unfinished. Code of that version continues it:
    /// ask again with it, or later.
    Newer(Newer),
}

/// The versions of the code of a workflow, [`Workflow::VERSION`](super::Workflow::VERSION).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Newer {
    /// The version that has driven the workflow.
    pub stored: u32,
    /// The version of the caller.
    pub own: u32,
}

/// An answer, and whether it is a replay.
#[derive(Debug)]
pub struct Completion<T> {
    pub(crate) answer: T,
    pub(crate) replayed: bool,
}

impl<T> Completion<T> {
    /// The answer.
    pub fn into_inner(self) -> T {
        self.answer
    }

    /// Whether an earlier call produced it.
    #[must_use]
    pub const fn is_replay(&self) -> bool {
        self.replayed
    }
}

impl<T> Deref for Completion<T> {
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
    /// The first failure. A later failure of a compensation does not replace it.
    #[must_use]
    pub const fn failure(&self) -> &StepFailure {
        &self.failure
    }

    /// Whether an earlier call produced it.
    #[must_use]
    pub const fn is_replay(&self) -> bool {
        self.replayed
    }
}

/// A workflow that continues without its caller.
#[derive(Debug, Clone)]
pub struct Waiting {
    pub(crate) locked_by: Option<String>,
    pub(crate) due: DateTime<Utc>,
    pub(crate) after: Duration,
    pub(crate) reason: Option<String>,
}

/// How long a caller waits before it asks again, if the workflow changes after this time.
fn pause(after: Duration) -> Duration {
    after.clamp(Duration::from_secs(1), Duration::from_secs(60))
}

impl Waiting {
    /// Enqueued only: no driver has claimed it.
    pub(crate) fn enqueued(now: DateTime<Utc>, begins: DateTime<Utc>) -> Self {
        let after = pause(time::between(now, begins));
        Self { locked_by: None, due: begins.max(now), after, reason: None }
    }

    /// The owner of the driver that runs it. `None`: it waits for its next attempt.
    #[must_use]
    pub fn locked_by(&self) -> Option<&str> {
        self.locked_by.as_deref()
    }

    /// When its next attempt is due, or its driver is expected to be done.
    #[must_use]
    pub const fn due(&self) -> DateTime<Utc> {
        self.due
    }

    /// How long to wait before asking again: between 1 and 60 seconds.
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
