//! The counts of handling messages that wait.

use serde::Serialize;

use crate::session::due_work::Counts;

/// The counts of a run of a consumer.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ConsumerReport {
    /// Messages that were handled.
    pub handled: usize,
    /// Messages whose handler failed with a transient failure: they are handled again after a
    /// pause.
    pub waiting: usize,
    /// Messages that are dead since this run.
    pub dead: usize,
    /// Groups with a due message that another run has, or that became another's while it was
    /// handled here, such as after 15 minutes.
    pub passed_by: usize,
    /// Groups whose messages could not be read, written or deleted, as far as is known. What is
    /// still there is handled again.
    pub failed: usize,
}

impl Counts for ConsumerReport {
    fn add(&mut self, part: Self) {
        self.handled += part.handled;
        self.waiting += part.waiting;
        self.dead += part.dead;
        self.passed_by += part.passed_by;
        self.failed += part.failed;
    }
}
