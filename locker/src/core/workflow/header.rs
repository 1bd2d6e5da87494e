//! The header of a workflow: its driver, its state and when it is due. It never contains a result.

use std::time::Duration;

use chrono::{DateTime, Utc};

use crate::core::answer::Body;
use crate::core::retention::Retention;
use crate::core::shard;
use crate::core::token::record::Intervention;

/// The state of a workflow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum State {
    /// Its steps are running.
    Running,
    /// Its steps are being compensated.
    Compensating,
    /// It completed with an answer.
    Completed,
    /// It failed permanently, and its compensations are complete.
    Failed,
    /// It was cancelled, and its compensations are complete.
    Cancelled,
    /// The reaper is about to delete it.
    Reaping,
}

impl State {
    /// The name of the state, as stored and shown.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Compensating => "compensating",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::Reaping => "reaping",
        }
    }

    pub(crate) fn named(name: &str) -> Option<Self> {
        use State::{Cancelled, Compensating, Completed, Failed, Reaping, Running};
        [Running, Compensating, Completed, Failed, Cancelled, Reaping]
            .into_iter()
            .find(|state| state.as_str() == name)
    }

    /// Whether the workflow has ended, so that no driver runs it any more.
    #[must_use]
    pub const fn is_final(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled | Self::Reaping)
    }
}

/// The list of the index that contains a workflow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum List {
    /// Unfinished: a completer drives it once it is due.
    Unfinished,
    /// Quarantined: it waits for an operator.
    Quarantine,
    /// Finished: the reaper deletes it once it is due.
    Finished,
}

impl List {
    /// The value of `status`, without the shard suffix.
    pub(crate) const fn base(self) -> &'static str {
        match self {
            Self::Unfinished => "unfinished",
            Self::Quarantine => "quarantine",
            Self::Finished => "finished",
        }
    }

    pub(crate) fn of_status(status: &str) -> Option<Self> {
        [Self::Unfinished, Self::Quarantine, Self::Finished]
            .into_iter()
            .find(|listed| shard::is_of(status, listed.base()))
    }
}

/// A header, as stored.
#[derive(Debug, Clone)]
pub(crate) struct Header {
    /// The partition key.
    pub(crate) workflow: String,
    /// The name of its code.
    pub(crate) name: String,
    pub(crate) state: State,
    /// `None`: finished, and kept for ever.
    pub(crate) listed: Option<List>,
    /// When another driver or the completer may claim it, or the reaper may delete it.
    pub(crate) next_due: DateTime<Utc>,
    /// Changes with every write.
    pub(crate) revision: String,
    /// The id of the current or last run. Changes with every claim.
    pub(crate) attempt: String,
    /// The owner that drives it. `None`: no driver.
    pub(crate) locked_by: Option<String>,
    /// Runs begun since an operator last intervened.
    pub(crate) attempts: u32,
    pub(crate) created: DateTime<Utc>,
    pub(crate) ended: Option<DateTime<Utc>>,
    pub(crate) fingerprint: Option<String>,
    pub(crate) input: Option<Body>,
    /// Where the answer or the first failure is stored.
    pub(crate) result: Option<Body>,
    /// The state that it ends in once it is compensated.
    pub(crate) ending: Option<State>,
    /// Why it waits, or why it is in quarantine.
    pub(crate) reason: Option<String>,
    /// The item of the step whose result the code cannot read, if it is in quarantine for that.
    pub(crate) waits_for: Option<String>,
    /// How long one run is expected to take.
    pub(crate) expected: Duration,
    pub(crate) retention: Retention,
    /// The version of the workflow's key.
    pub(crate) key_version: u32,
    pub(crate) intervention: Option<Intervention>,
}

impl Header {
    /// Identifies this workflow, as started, in the record of a step that has its own key.
    pub(crate) fn run_id(&self) -> String {
        format!("{} {}", self.workflow, crate::core::time::to_text(self.created))
    }

    /// Sets it aside for an operator. The new attempt refuses writes of a run that are still in flight. `waits_for`: the
    /// item of the step whose result cannot be read.
    pub(crate) fn quarantine(
        &mut self,
        now: DateTime<Utc>,
        attempt: String,
        reason: String,
        waits_for: Option<String>,
    ) {
        self.listed = Some(List::Quarantine);
        self.next_due = now;
        self.attempt = attempt;
        self.locked_by = None;
        self.reason = Some(reason);
        self.waits_for = waits_for;
    }

    pub(crate) fn is_quarantined(&self) -> bool {
        self.listed == Some(List::Quarantine)
    }

    /// Whether it is due and no driver runs it: it was released, or is overdue by more than the clock skew.
    pub(crate) fn is_claimable(&self, now: DateTime<Utc>, skew: Duration) -> bool {
        let due = if self.locked_by.is_some() {
            crate::core::time::after(self.next_due, skew)
        } else {
            self.next_due
        };
        self.listed == Some(List::Unfinished) && due <= now
    }
}
