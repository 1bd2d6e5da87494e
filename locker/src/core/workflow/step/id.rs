//! Where the items of a workflow are stored.

use crate::core::invalid::InvalidRecord;
use crate::core::workflow::place::{self, Former, Place, Undo};

/// Where a record is stored.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct RecordId {
    pub(crate) workflow: String,
    pub(crate) item: String,
}

impl RecordId {
    pub(crate) fn at(workflow: &str, place: Place<'_>) -> Self {
        Self { workflow: workflow.to_owned(), item: place.to_string() }
    }

    pub(crate) fn step(workflow: &str, name: &str) -> Self {
        Self::at(workflow, Place::Step(name))
    }

    pub(crate) fn compensation(workflow: &str, of: Undo<'_>) -> Self {
        Self::at(workflow, Place::Compensation { of, former: None })
    }

    pub(crate) fn shared(key: &str) -> Self {
        Self::at(key, Place::Shared)
    }

    /// The place in its partition.
    pub(crate) fn place(&self) -> Result<Place<'_>, InvalidRecord> {
        Place::parse(&self.item)
    }

    /// Identifies the record among all that a workflow refers to. A step with a key of its own has
    /// its record in another partition, where each record has the same sort key.
    pub(crate) fn reference(&self) -> String {
        match self.place() {
            Ok(Place::Shared) => format!("{} {}", self.workflow, self.item),
            _ => self.item.clone(),
        }
    }

    /// The name of the step that operators see.
    pub(crate) fn shown(&self) -> String {
        self.place().map_or_else(|_| self.item.clone(), |place| place.shown())
    }

    /// The name of the step, without the version of an outcome.
    pub(crate) fn step_name(&self) -> &str {
        place::step_name(&self.item)
    }

    /// The place of an outcome next to this record.
    pub(crate) fn beside(&self, outcome: Former<'_>) -> Self {
        Self { workflow: self.workflow.clone(), item: format!("{} {outcome}", self.item) }
    }
}
