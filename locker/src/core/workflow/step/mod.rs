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

/// The record of a step. Only its [transitions](StepRecord::on) create a changed record.
#[derive(Debug, Clone)]
pub(crate) struct StepRecord(StepData);

/// The stored data of a step.
#[derive(Debug, Clone)]
pub(crate) struct StepData {
    pub(crate) id: RecordId,
    pub(crate) kind: StepKind,
    pub(crate) state: StepState,
    /// Changes with every write.
    pub(crate) revision: String,
    /// The id of the attempt that started the step. An act of an operator and a report change it.
    pub(crate) attempt: String,
    /// The run that started the step last. Once the step has an outcome: the run that recorded it.
    pub(crate) owner: String,
    /// The workflow (its partition and its start) that compensates the step, if the step has its
    /// own key.
    pub(crate) started_for: Option<String>,
    /// The start of its workflow, if the step does not have its own key. Distinguishes an earlier
    /// workflow with the same key.
    pub(crate) run: Option<DateTime<Utc>>,
    /// The first use of this version of its key.
    pub(crate) created: DateTime<Utc>,
    /// The time until which the driver that started the step may be at work.
    pub(crate) due: DateTime<Utc>,
    pub(crate) ended: Option<DateTime<Utc>>,
    /// The position of the step in the order of starts.
    pub(crate) number: u32,
    pub(crate) input: Option<String>,
    /// The version of its key. While the step may be started again: the version of the next start.
    pub(crate) key_version: u32,
    /// Versions of its own key whose outcomes are settled, such as compensated versions. A report
    /// of such an outcome is not compensated again.
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
    /// Wraps data that was read from the table.
    pub(crate) const fn stored(data: StepData) -> Self {
        Self(data)
    }

    /// Returns whether the step may be started again.
    pub(crate) const fn is_free(&self) -> bool {
        matches!(self.0.state, StepState::Withdrawn | StepState::Freed)
    }

    /// Returns the id of the record to which this pointer refers. `None`: it is not a pointer.
    pub(crate) fn shared(&self) -> Option<RecordId> {
        let key = self.0.points_to.as_deref().filter(|_| self.0.kind == StepKind::Pointer);
        key.map(RecordId::shared)
    }

    /// Sets the result, after it was read from its separate item.
    pub(crate) fn set_result(&mut self, result: StepResult) {
        self.0.result = Some(result);
    }

    /// Returns whether the record refers to this large result.
    pub(crate) fn refers_to(&self, result: &StepResult) -> bool {
        match (&self.0.result, result) {
            (Some(StepResult::Beside(own)), StepResult::Beside(other)) => own.id == other.id,
            _ => false,
        }
    }

    /// Returns whether both steps have the same result.
    pub(crate) fn has_result_of(&self, other: &Self) -> bool {
        let digest = |record: &Self| record.result.as_ref().map(StepResult::digest);
        digest(self) == digest(other)
    }

    pub(crate) fn is_completed(&self) -> bool {
        self.0.state == StepState::Completed
    }

    /// Returns whether the step belongs to the workflow that was started at this time.
    ///
    /// A step with its own key belongs to no single workflow: `true`.
    pub(crate) fn is_of(&self, run: DateTime<Utc>) -> bool {
        self.0.run.is_none_or(|own| own == run)
    }
}
