//! The counts of a run over waiting messages.

use serde::Serialize;

use crate::session::due_work::Counts;

/// The counts of a run of a consumer.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ConsumerReport {
    /// Messages that were processed.
    pub handled: usize,
    /// Messages that failed with a transient failure. They are processed again after a pause.
    pub waiting: usize,
    /// Messages that became dead in this run.
    pub dead: usize,
    /// Groups with a due message that another run processes, or has taken over from this run.
    pub taken_elsewhere: usize,
    /// Groups whose messages could not be read, written or deleted, or whose write has an unknown
    /// outcome. Messages that are still in the table are processed again.
    pub failed: usize,
}

impl Counts for ConsumerReport {
    fn add(&mut self, part: Self) {
        self.handled += part.handled;
        self.waiting += part.waiting;
        self.dead += part.dead;
        self.taken_elsewhere += part.taken_elsewhere;
        self.failed += part.failed;
    }
}
