//! The header of a workflow: its driver, its state and its due time. It never contains a result.

mod event;
mod failed_runs;
mod transition;

use std::ops::Deref;
use std::time::Duration;

use chrono::{DateTime, Utc};

use crate::core::answer::Body;
use crate::core::key::Key;
pub use crate::core::listed::List;
use crate::core::restored;
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
    /// Returns the name of the state, as stored and shown.
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

    /// Returns whether the workflow has ended. No driver runs an ended workflow.
    #[must_use]
    pub const fn is_final(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled | Self::Continued | Self::Reaping)
    }
}

/// A header. Only its [transitions](Header::on) create a changed header.
#[derive(Debug, Clone)]
pub(crate) struct Header(HeaderData);

/// The stored data of a header.
#[derive(Debug, Clone)]
pub(crate) struct HeaderData {
    /// The partition key.
    pub(crate) workflow: String,
    /// The name of its code.
    pub(crate) name: String,
    /// The highest version of the code that has driven the workflow.
    pub(crate) code: u32,
    pub(crate) state: State,
    /// The list of the index. `None`: the workflow is finished and kept forever.
    pub(crate) listed: Option<List>,
    /// When another driver or the completer may claim it, or the reaper may delete it.
    pub(crate) next_due: DateTime<Utc>,
    /// Changes with every write.
    pub(crate) revision: String,
    /// The id of the current or last run. Changes with every claim.
    pub(crate) attempt: String,
    /// The owner that drives the workflow. `None`: no driver.
    pub(crate) locked_by: Option<String>,
    /// The number of runs from the last run with progress on, including that run.
    pub(crate) attempts: u32,
    /// The latest runs in a row that lost their driver, with or without progress: killed, hung, or
    /// aborted. The current run counts. After three lost drivers the workflow runs alone.
    pub(crate) lost_in_a_row: u32,
    /// The same, since the last progress. `Limits::attempts` limits it.
    pub(crate) lost_without_progress: u32,
    /// All runs that lost their driver since the start or an operator's act. `Limits::crashes`
    /// limits it. The current run does not count.
    pub(crate) lost_in_all: u32,
    /// The start of the time without progress: the start of the workflow, a run that recorded an
    /// outcome, the end of a wait that the code chose, or an operator's act.
    pub(crate) since: DateTime<Utc>,
    pub(crate) created: DateTime<Utc>,
    pub(crate) ended: Option<DateTime<Utc>>,
    /// Whether a run must not compensate a late step or event, because an operator closed the
    /// workflow. A retry clears it until the workflow ends, or another step or event is late.
    pub(crate) closed: bool,
    /// The number of the last step that the operator saw when they closed the workflow. It is
    /// kept until an operator compensates the whole workflow. Clocks differ, so times do not show
    /// which steps are later.
    pub(crate) closed_after: Option<u32>,
    pub(crate) fingerprint: Option<String>,
    pub(crate) input: Option<Body>,
    /// The place of the answer or of the first failure.
    pub(crate) result: Option<Body>,
    /// The final state after the compensations.
    pub(crate) ending: Option<State>,
    /// The reason of a wait or of the quarantine.
    pub(crate) reason: Option<String>,
    /// The item of the step for which the workflow is in quarantine: a step in doubt, or a step
    /// with a result that the code cannot read.
    pub(crate) waits_for: Option<String>,
    /// Whether an outcome was reported while a driver was at work. The driver may not have read the
    /// outcome.
    pub(crate) reported: bool,
    /// The number of stored events, one for each name.
    pub(crate) signals: u32,
    /// The number of stored surplus events: other events under a name that has an event.
    pub(crate) surplus: u32,
    /// The waits of its code, while no driver runs the workflow.
    pub(crate) waits: Option<Waits>,
    /// Whether callers receive the outcome `ending`, while a late event is still compensated.
    pub(crate) stands: bool,
    /// The expected time of one run.
    pub(crate) expected: Duration,
    pub(crate) retention: Retention,
    /// The version of the workflow's key.
    pub(crate) key_version: u32,
    /// The version of the key as which the workflow continues. In the first version: the latest
    /// version, so readers follow no chain. In a version in between: the next version.
    pub(crate) continued_as: Option<u32>,
    /// The first version of the workflow. `None`: this is the first version.
    pub(crate) continues: Option<u32>,
    /// Whether a wait of a former version declared a compensation. Then a signal reads the receipt
    /// of the last wait for its name.
    pub(crate) follows_waits: bool,
    pub(crate) intervention: Option<Intervention>,
    /// When an operator last acted on the whole workflow, or in a restored table on the work that
    /// started it or on the version before it. Only such an act lets the workflow run after a
    /// restore of the table. A decision about a step does not: other steps may be forgotten.
    pub(crate) opened: Option<DateTime<Utc>>,
    /// The token or the workflow whose work started this workflow.
    pub(crate) within: Option<Work>,
    /// The causes of its failed runs.
    pub(crate) failures: Failures,
}

impl HeaderData {
    /// Whether an operator erased the input and the answer.
    pub(crate) const fn is_redacted(&self) -> bool {
        matches!(self.input, Some(Body::Redacted)) || matches!(self.result, Some(Body::Redacted))
    }

    pub(crate) fn is_quarantined(&self) -> bool {
        self.listed == Some(List::Quarantine)
    }

    /// Returns whether the workflow is quarantined until the step of this item has an outcome.
    pub(crate) fn awaits(&self, item: &str) -> bool {
        self.is_quarantined() && self.waits_for.as_deref() == Some(item)
    }

    /// Returns whether an operator closed the workflow, and has not compensated it since. They may
    /// have repaired its effects manually.
    pub(crate) const fn was_closed(&self) -> bool {
        self.closed_after.is_some()
    }

    /// Returns whether the workflow has ended with data that a redact erases.
    pub(crate) fn may_redact(&self) -> bool {
        let has_data = self.input.is_some() || self.result.is_some();
        self.state.is_kept() && has_data && !self.is_redacted()
    }
}

impl Deref for Header {
    type Target = HeaderData;

    fn deref(&self) -> &HeaderData {
        &self.0
    }
}

impl Header {
    /// Wraps data that was read from the table.
    pub(crate) const fn stored(data: HeaderData) -> Self {
        Self(data)
    }

    /// Returns the key of the workflow.
    pub(crate) fn key(&self) -> Key {
        Key::stored(workflow_key(&self.workflow).to_owned())
    }

    /// Returns the id of this workflow with its start, for the record of a step with its own key.
    pub(crate) fn run_id(&self) -> String {
        Run { workflow: &self.workflow, started: self.created }.to_string()
    }

    /// Returns the time of the request for the work of its runs: its start, or the last act of an
    /// operator on the whole workflow.
    pub(crate) fn requested(&self) -> DateTime<Utc> {
        restored::requested(self.created, self.opened)
    }

    /// Returns the outcome that callers receive. `None`: the workflow has not ended.
    pub(crate) fn answered(&self) -> Option<State> {
        let state = if self.stands { self.ending? } else { self.state };
        state.is_answered().then_some(state)
    }

    /// Returns whether the workflow runs its forward code.
    pub(crate) fn is_forward(&self) -> bool {
        self.state == State::Running
    }

    /// Returns whether the workflow is due and no driver runs it: it was released, or it is overdue
    /// by more than the clock skew.
    pub(crate) fn is_claimable(&self, now: DateTime<Utc>, skew: Duration) -> bool {
        let due = if self.locked_by.is_some() {
            crate::core::time::after(self.next_due, skew)
        } else {
            self.next_due
        };
        matches!(self.listed, Some(List::Unfinished | List::Failing)) && due <= now
    }
}
