//! The result of handling what waits.

use serde::Serialize;

use crate::error::{Error, as_text};

/// The result of a run of a consumer.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ConsumerReport {
    /// Messages that were handled.
    pub handled: usize,
    /// Messages whose handler failed with a transient failure: they are handled again after a pause.
    pub waiting: usize,
    /// Messages that are dead since this run.
    pub dead: usize,
    /// Groups with a due message that another run has, or that became another's while it was handled here.
    pub passed_by: usize,
    /// Groups whose messages could not be read, written or deleted, as far as is known. What is still there is handled again.
    pub failed: usize,
    /// Whether everything that is due was seen. **If not, there may be more.**
    pub finished: bool,
    /// What stopped it, other than its deadline.
    #[serde(serialize_with = "as_text", skip_serializing_if = "Option::is_none")]
    pub stopped_by: Option<Error>,
}

impl ConsumerReport {
    pub(super) const fn add(&mut self, part: &Self) {
        self.handled += part.handled;
        self.waiting += part.waiting;
        self.dead += part.dead;
        self.passed_by += part.passed_by;
        self.failed += part.failed;
    }
}
