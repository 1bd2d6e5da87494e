//! The record of one step.

mod event;
mod id;
mod kind;
mod placed;
mod report;
mod result;
mod transition;
mod versions;

use std::ops::Deref;

use chrono::{DateTime, Utc};

use crate::core::private::Private;
use crate::core::token::record::Intervention;

pub(crate) use event::{Begin, End, HolderAct, NewStep, OperatorStep, StepEvent, StepRefusal};
pub(crate) use id::RecordId;
pub use kind::{StepKind, StepState};
pub(crate) use placed::Placed;
pub use report::Reported;
pub(crate) use report::{Decision, Happened, Outcome, Report, Seen};
pub(crate) use result::{Apart, StepResult};
pub(crate) use versions::Versions;

/// The compensation of a step, as declared when the step started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Intent {
    pub(crate) name: String,
    /// JSON.
    pub(crate) input: Private<String>,
    /// How long the provider recognises the compensation's key, in seconds.
    pub(crate) recognised: u64,
}

/// The record of a step. Only its [transitions](StepRecord::on) make another one.
#[derive(Debug, Clone)]
pub(crate) struct StepRecord(StepData);

/// What is stored of a step.
#[derive(Debug, Clone)]
pub(crate) struct StepData {
    pub(crate) id: RecordId,
    pub(crate) kind: StepKind,
    pub(crate) state: StepState,
    /// Changes with every write.
    pub(crate) revision: String,
    /// The attempt that it records.
    pub(crate) attempt: String,
    /// The run that started it last or, once it has an outcome, the run that recorded the outcome.
    pub(crate) owner: String,
    /// The workflow (its partition, and when it was started) that compensates it, if the step has
    /// its own key.
    pub(crate) started_for: Option<String>,
    /// When its workflow was started, if it has no key of its own: tells a former life of the
    /// workflow's key apart.
    pub(crate) run: Option<DateTime<Utc>>,
    /// When this version of its key was used first.
    pub(crate) created: DateTime<Utc>,
    /// Until then, the driver that started it may be at work.
    pub(crate) due: DateTime<Utc>,
    pub(crate) ended: Option<DateTime<Utc>>,
    /// The position of the step in the order of starts.
    pub(crate) number: u32,
    pub(crate) input: Option<String>,
    /// The version of its key; while it is free, the version of its next start.
    pub(crate) key_version: u32,
    /// Versions of a key of its own that were compensated before it was started again: an outcome
    /// of theirs is known.
    pub(crate) settled: Versions,
    pub(crate) pivot: bool,
    pub(crate) compensation: Option<Intent>,
    /// The key of the record that a pointer refers to.
    pub(crate) points_to: Option<String>,
    pub(crate) result: Option<StepResult>,
    pub(crate) ttl: Option<i64>,
    pub(crate) intervention: Option<Intervention>,
}

impl Deref for StepRecord {
    type Target = StepData;

    fn deref(&self) -> &StepData {
        &self.0
    }
}

impl StepRecord {
    /// What was read from the table.
    pub(crate) const fn stored(data: StepData) -> Self {
        Self(data)
    }

    /// Whether it may be started again.
    pub(crate) const fn is_free(&self) -> bool {
        matches!(self.0.state, StepState::Withdrawn | StepState::Freed)
    }

    /// The record of a step with a key of its own that this pointer refers to.
    pub(crate) fn shared(&self) -> Option<RecordId> {
        let key = self.0.points_to.as_deref().filter(|_| self.0.kind == StepKind::Pointer);
        key.map(RecordId::shared)
    }

    /// The same record, with its result at hand.
    pub(crate) fn set_result(&mut self, result: StepResult) {
        self.0.result = Some(result);
    }

    /// Whether this large result is the one in the record.
    pub(crate) fn refers_to(&self, result: &StepResult) -> bool {
        match (&self.0.result, result) {
            (Some(StepResult::Beside(own)), StepResult::Beside(other)) => own.id == other.id,
            _ => false,
        }
    }

    pub(crate) fn is_completed(&self) -> bool {
        self.0.state == StepState::Completed
    }

    /// Whether it belongs to the workflow that was started then. A step with a key of its own
    /// belongs to none.
    pub(crate) fn is_of(&self, run: DateTime<Utc>) -> bool {
        self.0.run.is_none_or(|own| own == run)
    }
}
