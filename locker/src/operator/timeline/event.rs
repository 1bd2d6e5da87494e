//! What happened, and when.

use std::fmt;

use chrono::{DateTime, Utc};
use serde::{Serialize, Serializer};

use crate::core::time;
use crate::core::token::resolution::Resolution;
use crate::core::token::work::Work;

/// What happened to a token, a workflow or a step; or is to happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Happening {
    /// It was begun or started.
    Begun,
    /// It was taken over from an attempt that was overdue or in doubt.
    TakenOver,
    /// It was left in doubt: it is unknown whether its work happened.
    InDoubt,
    /// It was due, and its owner had not ended it.
    Overdue,
    /// Runs of its code failed for a cause; `at` is when the last of them did.
    RunFailed,
    /// It was last known to make progress.
    Progressed,
    /// Its owner said that it would be done by then.
    Due,
    /// A driver may take it on from then.
    Driven,
    /// It completed.
    Completed,
    /// It failed, and that is its outcome.
    Failed,
    /// It failed, and waits for an operator.
    Held,
    /// It was put in quarantine: no completer drives it.
    Quarantined,
    /// It ended without an outcome of its own: cancelled, compensated, withdrawn or freed.
    Ended,
    /// An operator did this to it.
    Operator(Resolution),
    /// It may be forgotten from then.
    Forgotten,
}

impl Happening {
    /// The word for it, as shown.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Begun => "begun",
            Self::TakenOver => "taken over",
            Self::InDoubt => "in doubt",
            Self::Overdue => "overdue",
            Self::RunFailed => "run failed",
            Self::Progressed => "progressed",
            Self::Due => "due",
            Self::Driven => "driven next",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Held => "held",
            Self::Quarantined => "quarantined",
            Self::Ended => "ended",
            Self::Operator(resolution) => resolution.as_str(),
            Self::Forgotten => "forgotten",
        }
    }
}

impl fmt::Display for Happening {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl Serialize for Happening {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// Something that happened, or is to happen if its time is ahead.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Event {
    /// The time of it.
    #[serde(serialize_with = "time::serialize")]
    pub at: DateTime<Utc>,
    /// The token or the workflow.
    pub of: Work,
    /// The step, if it happened to one.
    pub step: Option<String>,
    /// The happening.
    pub what: Happening,
    /// The owner, the driver or the operator whose doing it was.
    pub by: Option<String>,
    /// The cause of a failure, the reason of an operator, or what else is known.
    pub cause: Option<String>,
}

impl Event {
    pub(super) const fn new(at: DateTime<Utc>, of: Work, what: Happening) -> Self {
        Self { at, of, step: None, what, by: None, cause: None }
    }

    pub(super) fn by(mut self, by: impl Into<String>) -> Self {
        self.by = Some(by.into());
        self
    }

    pub(super) fn because(mut self, cause: Option<impl Into<String>>) -> Self {
        self.cause = cause.map(Into::into);
        self
    }

    pub(super) fn at_step(mut self, step: impl Into<String>) -> Self {
        self.step = Some(step.into());
        self
    }
}
