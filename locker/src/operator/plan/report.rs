//! The result of applying a plan.

use serde::{Deserialize, Serialize};

use crate::core::token::work::Work;
use crate::error::{Error, as_text};

/// The outcome of one record.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Acted {
    /// The token, the workflow or the message.
    pub work: Work,
    /// The outcome.
    pub done: Done,
    /// The error, if the act [failed](Done::Failed) or is [unknown](Done::Unknown).
    #[serde(serialize_with = "as_text", skip_serializing_if = "Option::is_none")]
    pub error: Option<Error>,
    /// The reason, if the act is [not possible](Done::NotPossible).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub because: Option<String>,
}

/// The kind of the outcome of one record of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum Done {
    /// The act is done, by this run or by an earlier run of the same plan.
    Done,
    /// The record has changed since the plan was made, and was not touched.
    Changed,
    /// The act is not possible in the state of the record. Nothing was written.
    NotPossible,
    /// Nothing was written. Apply the plan again.
    Failed,
    /// The act may have been written. Apply the plan again: the next run finds out.
    Unknown,
}

/// The result of applying a plan. The numbers up to `left` add up to the records of the plan.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ApplyReport {
    /// Records on which the act is done.
    pub done: usize,
    /// Those of `done` on which an earlier run acted.
    pub done_before: usize,
    /// Records that have changed since the plan was made.
    pub changed: usize,
    /// Records in whose state the act is not possible.
    pub not_possible: usize,
    /// Records that were not written because of an error.
    pub failed: usize,
    /// Records that may have been written.
    pub unknown: usize,
    /// Records that were not begun because the run was stopped.
    pub left: usize,
    /// Redriven messages that have been sent or processed, or that expired.
    ///
    /// This number and the next two are counted by a run with
    /// [canaries](super::ApplyOptions::canary) or a [breaker](super::ApplyOptions::breaker).
    pub gone: usize,
    /// Redriven messages that are dead again, also if they were archived or discarded since.
    pub dead_again: usize,
    /// Redriven messages whose outcome is unknown: not yet sent or processed, or not readable.
    pub waiting: usize,
    /// Whether the canaries or the breaker stopped the run.
    pub tripped: bool,
}

impl ApplyReport {
    pub(super) const fn count(&mut self, done: Done) {
        let number = match done {
            Done::Done => &mut self.done,
            Done::Changed => &mut self.changed,
            Done::NotPossible => &mut self.not_possible,
            Done::Failed => &mut self.failed,
            Done::Unknown => &mut self.unknown,
        };
        *number += 1;
    }

    /// Returns whether every record has an outcome, so that no run is needed again.
    #[must_use]
    pub const fn is_finished(&self) -> bool {
        self.failed == 0 && self.unknown == 0 && self.left == 0
    }
}
