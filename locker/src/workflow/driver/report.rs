//! The counts of a run of the completer.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::core::workflow::header::State;
use crate::session::due_work::Counts;
use crate::workflow::outcome::ended::Ended;

/// The counts of a run of the completer.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct CompleterReport {
    /// Workflows that it claimed.
    pub claimed: usize,
    /// Workflows that completed.
    pub completed: usize,
    /// Workflows that failed or were cancelled, and are compensated.
    pub compensated: usize,
    /// Workflows that wait for their next attempt.
    pub waiting: usize,
    /// Workflows that were quarantined.
    pub quarantined: usize,
    /// Workflows that another driver claimed first.
    pub taken_elsewhere: usize,
    /// Workflows whose code panicked or ran out of time. They wait for their next attempt.
    pub broken_off: usize,
    /// Workflows that could not be driven: DynamoDB did not answer, or an item cannot be read.
    pub failed: usize,
    /// Due workflows without registered or [expected](crate::workflow::Completer::also_expect)
    /// code, by name. If newer code has driven a workflow, the name is `NAME version N`. They were
    /// not changed.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub unknown: BTreeMap<String, usize>,
}

impl Counts for CompleterReport {
    fn add(&mut self, part: Self) {
        self.claimed += part.claimed;
        self.completed += part.completed;
        self.compensated += part.compensated;
        self.waiting += part.waiting;
        self.quarantined += part.quarantined;
        self.taken_elsewhere += part.taken_elsewhere;
        self.broken_off += part.broken_off;
        self.failed += part.failed;
        for (name, count) in part.unknown {
            *self.unknown.entry(name).or_default() += count;
        }
    }
}

impl CompleterReport {
    pub(crate) fn count(&mut self, ended: &Ended) {
        match ended {
            Ended::Completed(_) | Ended::Erased(State::Completed) => self.completed += 1,
            Ended::Failed(_) | Ended::Cancelled | Ended::Erased(_) => self.compensated += 1,
            Ended::Quarantined(_) => self.quarantined += 1,
            Ended::Waiting(_) | Ended::Continued(..) | Ended::Mismatch | Ended::Newer(_) => {
                self.waiting += 1;
            }
        }
    }
}
