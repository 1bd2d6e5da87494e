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

    /// Identifies the record among all records that a workflow refers to. A step with its own key
    /// has its record in another partition, where each record has the same sort key.
    pub(crate) fn reference(&self) -> String {
        if self.item == place::SHARED {
            return format!("{} {}", self.workflow, self.item);
        }
        self.item.clone()
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::workflow::place::Effect;

    fn id(item: &str) -> RecordId {
        RecordId { workflow: "order/7".to_owned(), item: item.to_owned() }
    }

    #[test]
    fn each_record_has_the_item_of_its_place() {
        let of = Undo { effect: Effect { step: "charge", version: 2 }, late: false };
        assert_eq!(RecordId::step("order/7", "charge"), id("step/charge"));
        assert_eq!(RecordId::compensation("order/7", of), id("compensation/charge v2"));
        assert_eq!(RecordId::shared("order/7"), id("once"));
        assert_eq!(id("step/charge").place(), Ok(Place::Step("charge")));
        assert!(id("timer/charge").place().is_err());
    }

    #[test]
    fn only_a_shared_step_is_referred_to_by_its_partition() {
        assert_eq!(id("once").reference(), "order/7 once");
        assert_eq!(id("step/charge").reference(), "step/charge");
    }

    #[test]
    fn operators_see_the_name_of_a_step() {
        for (item, shown, name) in [
            ("step/charge", "charge", "charge"),
            ("step/charge v2", "charge v2", "charge"),
            ("compensation/charge", "compensation:charge", "charge"),
            ("timer", "timer", "timer"),
        ] {
            assert_eq!((id(item).shown().as_str(), id(item).step_name()), (shown, name));
        }
    }

    #[test]
    fn outcome_is_stored_next_to_its_record() {
        let outcome = Former { version: 2, digest: Some("0a1b") };
        assert_eq!(id("step/charge").beside(outcome), id("step/charge v2 0a1b"));
    }
}
