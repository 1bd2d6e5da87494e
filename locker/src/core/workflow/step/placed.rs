//! A step as its workflow refers to it.

use super::{Intent, RecordId, StepKind, StepRecord};
use crate::core::workflow::place::Effect;

/// A record, and its place in a workflow. A step with its own key has one record, and a place in
/// each workflow that asks for it.
#[derive(Debug, Clone)]
pub(crate) struct Placed {
    /// The item of the workflow: the record itself, or the pointer to it.
    pub(crate) at: RecordId,
    pub(crate) number: u32,
    pub(crate) pivot: bool,
    /// How this workflow compensates it.
    pub(crate) compensation: Option<Intent>,
    pub(crate) record: StepRecord,
}

impl Placed {
    /// A step that belongs to its workflow.
    pub(crate) fn own(record: StepRecord) -> Self {
        Self {
            at: record.id.clone(),
            number: record.number,
            pivot: record.pivot,
            compensation: record.compensation.clone(),
            record,
        }
    }

    /// The record that a pointer of a workflow refers to.
    pub(crate) fn through(pointer: &StepRecord, record: StepRecord) -> Self {
        Self { record, ..Self::own(pointer.clone()) }
    }

    /// The name of the step that operators see.
    pub(crate) fn name(&self) -> String {
        self.at.shown()
    }

    /// Returns the name of its compensation: the step, and the version of its key unless it is the
    /// first. **The compensation of an effect has one name**, whether its record is in its place,
    /// or next to it as the outcome of a former version.
    pub(crate) fn effect(&self) -> Effect<'_> {
        Effect { step: self.at.step_name(), version: self.record.0.key_version }
    }

    pub(crate) const fn kind(&self) -> StepKind {
        self.record.0.kind
    }

    /// Whether the workflow with this run has to compensate it.
    pub(crate) fn is_of(&self, run: &str) -> bool {
        self.record.started_for.as_deref().is_none_or(|answerer| answerer == run)
    }
}
