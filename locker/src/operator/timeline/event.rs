//! The events of a timeline.

use std::fmt;

use chrono::{DateTime, Utc};
use serde::{Serialize, Serializer};

use crate::core::time;
use crate::core::token::record::Intervention;
use crate::core::token::resolution::Resolution;
use crate::core::token::work::Work;
use crate::session::AuditRecord;

/// The kind of an event of a token, a workflow or a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Happening {
    /// It was begun or started.
    Begun,
    /// It was taken over from an attempt that was overdue or in doubt.
    TakenOver,
    /// It was left in doubt: the outcome of its work is unknown.
    InDoubt,
    /// It was due, and its owner had not ended it.
    Overdue,
    /// Runs of its code failed for one cause. The event has the time of the last failure.
    RunFailed,
    /// It made its last known progress.
    Progressed,
    /// An event from outside came.
    Signalled,
    /// Its owner expected to be done by then, or a wait for an event ends then.
    Due,
    /// A driver may resume it from then on.
    Driven,
    /// It completed.
    Completed,
    /// It failed, and the failure is its outcome.
    Failed,
    /// It failed, and waits for an operator.
    Held,
    /// It was quarantined: no completer drives it.
    Quarantined,
    /// It ended without an outcome of its own: cancelled, compensated, withdrawn or freed.
    Ended,
    /// An operator acted on it.
    Operator(Resolution),
    /// It may be deleted from then on.
    Forgotten,
}

impl Happening {
    /// Returns the word for the event, as shown.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Begun => "begun",
            Self::TakenOver => "taken over",
            Self::InDoubt => "in doubt",
            Self::Overdue => "overdue",
            Self::RunFailed => "run failed",
            Self::Progressed => "progressed",
            Self::Signalled => "signalled",
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

/// An event. If its time is ahead, the event is expected.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct TimelineEvent {
    /// The time of the event.
    #[serde(serialize_with = "time::serialize")]
    pub at: DateTime<Utc>,
    /// The token or the workflow.
    pub of: Work,
    /// The step, or the event from outside, if the event is of one.
    pub step: Option<String>,
    /// The kind of the event.
    pub what: Happening,
    /// The owner, the driver or the operator that caused it.
    pub by: Option<String>,
    /// The cause of a failure, the reason of an operator, or other details.
    pub cause: Option<String>,
}

impl TimelineEvent {
    pub(in crate::operator) const fn new(at: DateTime<Utc>, of: Work, what: Happening) -> Self {
        Self { at, of, step: None, what, by: None, cause: None }
    }

    pub(in crate::operator) fn by(mut self, by: impl Into<String>) -> Self {
        self.by = Some(by.into());
        self
    }

    pub(in crate::operator) fn because(mut self, cause: Option<impl Into<String>>) -> Self {
        self.cause = cause.map(Into::into);
        self
    }

    pub(in crate::operator) fn at_step(mut self, step: impl Into<String>) -> Self {
        self.step = Some(step.into());
        self
    }

    /// The event of an act in the audit.
    pub(super) fn of_act(act: &AuditRecord) -> Option<Self> {
        let event = Self::new(act.at?, act.work(), Happening::Operator(act.resolution?));
        let event = event.because(act.reason.as_deref());
        let event = act.by.iter().fold(event, |event, by| event.by(by));
        Some(act.step.iter().fold(event, |event, step| event.at_step(step)))
    }

    /// The event of an act that a record contains.
    pub(super) fn of_intervention(of: Work, done: Resolution, by: &Intervention) -> Self {
        Self::new(by.at, of, Happening::Operator(done)).by(&by.by).because(Some(&by.reason))
    }
}
