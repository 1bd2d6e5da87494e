//! The header of a workflow: its driver, its state and when it is due. It never contains a result.

mod event;
mod failed_runs;
mod transition;

use std::ops::Deref;
use std::time::Duration;

use chrono::{DateTime, Utc};

use crate::core::answer::Body;
use crate::core::key::Key;
pub use crate::core::listed::List;
use crate::core::retention::Retention;
use crate::core::token::record::Intervention;
use crate::core::token::work::Work;
use crate::core::workflow::place::{Run, workflow_key};

pub use event::Awaited;
pub use failed_runs::FailedRuns;

pub(crate) use event::{
    Claim, DriverAct, Events, HeaderEvent, HeaderRefusal, MostCrashes, OperatorAct, Pause, ReaperAct, Stamp,
    Waits,
};
pub(crate) use failed_runs::{Failures, LatestCause};
pub(crate) use transition::{Continues, NewWorkflow};

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
    /// It continues as another version of its key.
    Continued,
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
            Self::Continued => "continued",
            Self::Reaping => "reaping",
        }
    }

    pub(crate) fn named(name: &str) -> Option<Self> {
        use State::{Cancelled, Compensating, Completed, Continued, Failed, Reaping, Running};
        [Running, Compensating, Completed, Failed, Cancelled, Continued, Reaping]
            .into_iter()
            .find(|state| state.as_str() == name)
    }

    /// Whether the workflow has ended, so that no driver runs it any more.
    #[must_use]
    pub const fn is_final(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled | Self::Continued | Self::Reaping)
    }
}

/// A header. Only its [transitions](Header::on) make another one.
#[derive(Debug, Clone)]
pub(crate) struct Header(HeaderData);

/// What is stored of a header.
#[derive(Debug, Clone)]
pub(crate) struct HeaderData {
    /// The partition key.
    pub(crate) workflow: String,
    /// The name of its code.
    pub(crate) name: String,
    /// The highest version of the code that has driven it.
    pub(crate) code: u32,
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
    /// The run that made progress last, and the runs begun since then.
    pub(crate) attempts: u32,
    /// The latest runs in a row that lost their driver, with or without progress: killed, hung, or
    /// aborted. The run under way counts. After three of them it runs alone.
    pub(crate) lost_in_a_row: u32,
    /// Those of them since the last progress. `Limits::attempts` counts them.
    pub(crate) lost_without_progress: u32,
    /// All runs that lost their driver since the start or an operator's act. `Limits::crashes`
    /// counts them. The run under way does not count.
    pub(crate) lost_in_all: u32,
    /// Since when it makes no progress: its start, a run that recorded an outcome, the end of a
    /// wait that its code chose, or an operator's act.
    pub(crate) since: DateTime<Utc>,
    pub(crate) created: DateTime<Utc>,
    pub(crate) ended: Option<DateTime<Utc>>,
    /// An operator ended it as it was.
    pub(crate) closed: bool,
    /// The number of the last step that the operator saw who closed it. Clocks differ, so times do
    /// not show which steps are later.
    pub(crate) closed_after: Option<u32>,
    pub(crate) fingerprint: Option<String>,
    pub(crate) input: Option<Body>,
    /// Where the answer or the first failure is stored.
    pub(crate) result: Option<Body>,
    /// The state that it ends in once it is compensated.
    pub(crate) ending: Option<State>,
    /// Why it waits, or why it is in quarantine.
    pub(crate) reason: Option<String>,
    /// The item of the step for which it is in quarantine: in doubt, or with a result that the code
    /// cannot read.
    pub(crate) waits_for: Option<String>,
    /// An outcome was reported while its driver was at work, which may not have seen it.
    pub(crate) reported: bool,
    /// The number of events from outside that are stored, one for each name.
    pub(crate) signals: u32,
    /// The number of other events under a name that has its event.
    pub(crate) surplus: u32,
    /// What its code waits for, while it has no driver.
    pub(crate) waits: Option<Waits>,
    /// It has ended as `ending` states, and only a late event is still compensated.
    pub(crate) stands: bool,
    /// How long one run is expected to take.
    pub(crate) expected: Duration,
    pub(crate) retention: Retention,
    /// The version of the workflow's key.
    pub(crate) key_version: u32,
    /// The version of the key under which the workflow continues. In the first version of such a
    /// workflow it is always the latest one, so nobody follows a chain.
    pub(crate) continued_as: Option<u32>,
    /// The first version, which this one continues. `None`: this is the first one.
    pub(crate) continues: Option<u32>,
    pub(crate) intervention: Option<Intervention>,
    /// The token or the workflow whose work began it.
    pub(crate) within: Option<Work>,
    /// What its runs failed of.
    pub(crate) failures: Failures,
}

impl Deref for Header {
    type Target = HeaderData;

    fn deref(&self) -> &HeaderData {
        &self.0
    }
}

impl Header {
    /// What was read from the table.
    pub(crate) const fn stored(data: HeaderData) -> Self {
        Self(data)
    }

    /// The key of the workflow.
    pub(crate) fn key(&self) -> Key {
        Key::stored(workflow_key(&self.workflow).to_owned())
    }

    /// Identifies this workflow, as started, in the record of a step that has its own key.
    pub(crate) fn run_id(&self) -> String {
        Run { workflow: &self.workflow, started: self.created }.to_string()
    }

    pub(crate) fn is_quarantined(&self) -> bool {
        self.listed == Some(List::Quarantine)
    }

    /// Whether it is quarantined until the step of this item has an outcome.
    pub(crate) fn awaits(&self, item: &str) -> bool {
        self.is_quarantined() && self.waits_for.as_deref() == Some(item)
    }

    /// The outcome that callers receive. `None`: it has not ended.
    pub(crate) fn answered(&self) -> Option<State> {
        let state = if self.stands { self.ending? } else { self.state };
        state.is_answered().then_some(state)
    }

    /// Whether its code is to be driven forward.
    pub(crate) fn is_forward(&self) -> bool {
        self.state == State::Running
    }

    /// Whether it is due and no driver runs it: it was released, or is overdue by more than the
    /// clock skew.
    pub(crate) fn is_claimable(&self, now: DateTime<Utc>, skew: Duration) -> bool {
        let due = if self.locked_by.is_some() {
            crate::core::time::after(self.next_due, skew)
        } else {
            self.next_due
        };
        matches!(self.listed, Some(List::Unfinished | List::Failing)) && due <= now
    }
}
