//! What a run of the completer came to, for its caller, the log and the metrics.

use std::collections::BTreeMap;

use super::completer::Completer;
use super::drive::Ended;
use crate::core::workflow::header::Listed;
use crate::error::Error;
use crate::metrics;

/// What a completer did.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Completed {
    /// Workflows that it took.
    pub taken: usize,
    /// Came to an answer.
    pub completed: usize,
    /// Failed for good and are undone, or were cancelled and are undone.
    pub undone: usize,
    /// Wait for their next try.
    pub waiting: usize,
    /// Were parked for a person.
    pub quarantined: usize,
    /// Were due and somebody else came first.
    pub passed_by: usize,
    /// Panicked, or took too long. They wait for their next try.
    pub broken_off: usize,
    /// Could not be driven since DynamoDB did not answer, or their items cannot be read.
    pub failed: usize,
    /// Due workflows for which no code is registered here, by name. Nothing was done to them.
    pub unknown: BTreeMap<String, usize>,
    /// Whether all that was due was seen. **If not, there may be more.**
    pub finished: bool,
    /// What stopped it, other than its deadline or its limit.
    pub stopped_by: Option<Error>,
}

impl Completed {
    pub(super) fn count(&mut self, ended: &Ended) {
        match ended {
            Ended::Completed(_) => self.completed += 1,
            Ended::Failed(_) | Ended::Cancelled => self.undone += 1,
            Ended::Quarantined(_) => self.quarantined += 1,
            Ended::Waiting(_) | Ended::Mismatch => self.waiting += 1,
        }
    }
}

impl Completer {
    pub(super) async fn tell(&self, done: &Completed) {
        const COUNT_TO: usize = 1000;
        let count = |listed| {
            self.deadline.into_iter().fold(self.workflows.list(listed), super::WorkflowListing::deadline)
        };
        let unfinished = count(Listed::Unfinished).due().count(COUNT_TO).await.ok();
        let quarantine = count(Listed::Quarantine).count(COUNT_TO).await.ok();
        let counted = |count: Option<crate::Count>| count.map(|count| count.at_least);
        let finished = done.finished && done.unknown.is_empty();
        metrics::completed(counted(unfinished), counted(quarantine), finished);
        for (name, count) in &done.unknown {
            tracing::error!(workflow.name = name, count, "due workflows have no code here");
        }
        tracing::info!(
            taken = done.taken,
            completed = done.completed,
            undone = done.undone,
            waiting = done.waiting,
            quarantined = done.quarantined,
            broken_off = done.broken_off,
            failed = done.failed,
            unfinished = counted(unfinished),
            in_quarantine = counted(quarantine),
            finished,
            "completed what was due"
        );
    }
}
