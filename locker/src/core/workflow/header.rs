//! The header of a workflow: who drives it, how far it is, when it is due. It never holds a result.

use std::time::Duration;

use chrono::{DateTime, Utc};

use crate::core::answer::Body;
use crate::core::record::Intervention;
use crate::core::shard;
use crate::settings::Retention;

/// How far a workflow is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum WorkflowState {
    /// It goes forward.
    Running,
    /// It is being undone.
    Compensating,
    /// It has its answer.
    Completed,
    /// It failed for good, and what was to be undone is undone.
    Failed,
    /// It was cancelled, and what was to be undone is undone.
    Cancelled,
    /// The reaper is about to forget it.
    Reaping,
}

impl WorkflowState {
    /// The word that is stored and shown.
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
        use WorkflowState::{Cancelled, Compensating, Completed, Failed, Reaping, Running};
        [Running, Compensating, Completed, Failed, Cancelled, Reaping]
            .into_iter()
            .find(|state| state.as_str() == name)
    }

    /// Whether nothing more happens to it by itself.
    #[must_use]
    pub const fn is_final(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled | Self::Reaping)
    }
}

/// Where a workflow stands in the index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Listed {
    /// Unfinished: a completer drives it once it is due.
    Unfinished,
    /// In quarantine: a person has to look.
    Quarantine,
    /// Finished: the reaper forgets it once it is due.
    Finished,
}

impl Listed {
    /// The value of `status`, before the number of the shard.
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
    /// The partition.
    pub(crate) workflow: String,
    /// Which code drives it.
    pub(crate) name: String,
    pub(crate) state: WorkflowState,
    /// `None`: finished, and kept for ever.
    pub(crate) listed: Option<Listed>,
    /// When the next one may act: a taker-over, a completer, the reaper.
    pub(crate) next_due: DateTime<Utc>,
    /// Changes with every write.
    pub(crate) revision: String,
    /// Who drives it, or drove it last. Changes when somebody else does.
    pub(crate) attempt: String,
    /// `None`: nobody drives it.
    pub(crate) locked_by: Option<String>,
    /// How often somebody began to drive it since a person last looked.
    pub(crate) attempts: u32,
    pub(crate) created: DateTime<Utc>,
    pub(crate) ended: Option<DateTime<Utc>>,
    pub(crate) fingerprint: Option<String>,
    pub(crate) input: Option<Body>,
    /// Where the answer or the first failure lies.
    pub(crate) result: Option<Body>,
    /// How it ends when it is undone.
    pub(crate) ending: Option<WorkflowState>,
    /// Why it waits, or why it is in quarantine.
    pub(crate) reason: Option<String>,
    /// How long one drive is expected to take.
    pub(crate) expected: Duration,
    pub(crate) retention: Retention,
    /// The version of the workflow's key.
    pub(crate) key_version: u32,
    pub(crate) intervention: Option<Intervention>,
}

impl Header {
    /// For whom a step with a key of its own is started: this run of this workflow.
    pub(crate) fn run_id(&self) -> String {
        format!("{} {}", self.workflow, crate::core::time::to_text(self.created))
    }

    pub(crate) fn is_quarantined(&self) -> bool {
        self.listed == Some(Listed::Quarantine)
    }

    /// Nobody drives it any more: let go of, or past its time by more than the clocks may differ.
    pub(crate) fn is_claimable(&self, now: DateTime<Utc>, skew: Duration) -> bool {
        let due = if self.locked_by.is_some() {
            crate::core::time::after(self.next_due, skew)
        } else {
            self.next_due
        };
        self.listed == Some(Listed::Unfinished) && due <= now
    }
}
