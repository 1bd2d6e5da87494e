//! Where the items of a workflow are stored.

/// Where a record is stored.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct RecordId {
    pub(crate) workflow: String,
    pub(crate) item: String,
}

/// The sort keys of the items of a workflow.
pub(crate) const HEADER: &str = "#";
pub(crate) const STEP: &str = "step/";
pub(crate) const COMPENSATION: &str = "compensation/";
pub(crate) const LATE_COMPENSATION: &str = "compensation-late/";
pub(crate) const INPUT: &str = "#input/";
pub(crate) const ANSWER: &str = "#answer/";
pub(crate) const MESSAGE: &str = "message/";
/// For a step that has its own key.
pub(crate) const SHARED: &str = "once";
/// Begins the sort keys of what outlives the workflow. It sorts after everything that a resume reads.
pub(crate) const LASTING: &str = "~";
/// One entry for each workflow that was deleted.
pub(crate) const LEDGER: &str = "~ledger/";
/// One record for each act of an operator.
pub(crate) const AUDIT: &str = "~audit/";

impl RecordId {
    pub(crate) fn step(workflow: &str, name: &str) -> Self {
        Self { workflow: workflow.to_owned(), item: format!("{STEP}{name}") }
    }

    pub(crate) fn compensation(workflow: &str, name: &str, late: bool) -> Self {
        let prefix = if late { LATE_COMPENSATION } else { COMPENSATION };
        Self { workflow: workflow.to_owned(), item: format!("{prefix}{name}") }
    }

    pub(crate) fn shared(key: &str) -> Self {
        Self { workflow: key.to_owned(), item: SHARED.to_owned() }
    }

    /// What tells it apart from the other records that a workflow refers to: a step with a key of its own has its record
    /// elsewhere.
    pub(crate) fn place(&self) -> String {
        if self.item == SHARED { format!("{} {SHARED}", self.workflow) } else { self.item.clone() }
    }

    /// The name of the step, without the prefix of its sort key.
    pub(crate) fn name(&self) -> &str {
        self.item.split_once('/').map_or(&self.item, |(_, name)| name)
    }
}
