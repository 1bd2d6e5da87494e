//! What running a plan came to.

use serde::{Deserialize, Serialize};

use crate::core::token::work::Work;
use crate::error::{Error, as_text};

/// What became of one record.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Acted {
    /// The token, the workflow or the message.
    pub work: Work,
    /// What became of it.
    pub done: Done,
    /// The error, if it [failed](Done::Failed) or is [unknown](Done::Unknown).
    #[serde(serialize_with = "as_text", skip_serializing_if = "Option::is_none")]
    pub error: Option<Error>,
}

/// What became of one record of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum Done {
    /// The act is done, by this run or by an earlier one of the same plan.
    Done,
    /// It has changed since the plan was made, and is left as it is.
    Changed,
    /// The act is not possible in its state, and nothing was written.
    NotPossible,
    /// Nothing was written. Run the plan again.
    Failed,
    /// It may have been written. Run the plan again: it finds out.
    Unknown,
}

/// What running a plan came to. The numbers up to `left` add up to the records of the plan.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct BulkReport {
    /// Records to which it is done.
    pub done: usize,
    /// Of these, those to which an earlier run had done it.
    pub done_before: usize,
    /// Records that have changed since the plan was made.
    pub changed: usize,
    /// Records in whose state the act is not possible.
    pub not_possible: usize,
    /// Records to which nothing was written, because of an error.
    pub failed: usize,
    /// Records to which it may have been done.
    pub unknown: usize,
    /// Records that were not taken on, since the run was stopped.
    pub left: usize,
    /// Messages that were redriven by a run with [canaries](super::Bulk::canary) or a [breaker](super::Bulk::breaker), and that have been sent
    /// or handled.
    pub gone: usize,
    /// Of such messages, those that are dead again, or were and have been archived or discarded since.
    pub dead_again: usize,
    /// Of such messages, those of which it was not known when the run ended: they are still to be sent or handled, or could not be read.
    pub waiting: usize,
    /// Whether the run was stopped by what became of canaries, or of which nothing is known, or by the breaker.
    pub tripped: bool,
}

impl BulkReport {
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

    /// Whether every record of the plan was dealt with, and none has to be tried again.
    #[must_use]
    pub const fn is_finished(&self) -> bool {
        self.failed == 0 && self.unknown == 0 && self.left == 0
    }
}
