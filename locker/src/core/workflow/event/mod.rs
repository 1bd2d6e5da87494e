//! The record of an event from outside, and of the code that waits for it.
//!
//! One record decides everything about a name: whether code waits, whether the event came, and
//! whether the code has it. The sender and the driver write it over the revision that they read.

mod identity;
mod signal;
mod transition;

use std::ops::Deref;

use chrono::{DateTime, Utc};

use super::step::{Intent, RecordId};

pub(crate) use identity::Identity;
pub use signal::Signalled;
pub(crate) use signal::{Decision, Met, Signal};
pub(crate) use transition::{EventAct, EventRefusal, NewWait, Reached, owes};

/// The state of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum EventState {
    /// The code waits for it.
    Waiting,
    /// It is stored, and the code has not read it.
    Given,
    /// The code has it. Final, unless the workflow fails or is cancelled.
    Taken,
    /// The time of the wait passed first: the code has `None`, for ever.
    Expired,
    /// It came and cannot count. It is listed until it is handled.
    Late,
    /// Its compensation is complete, an operator has dealt with it, or the workflow continues as
    /// another version of its key, which has the event.
    Handled,
}

impl EventState {
    pub(crate) const ALL: [Self; 6] =
        [Self::Waiting, Self::Given, Self::Taken, Self::Expired, Self::Late, Self::Handled];

    /// The name of the state, as stored.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Given => "given",
            Self::Taken => "taken",
            Self::Expired => "expired",
            Self::Late => "late",
            Self::Handled => "handled",
        }
    }

    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == name)
    }
}

/// Why an event is late.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum LateCause {
    /// The time of the wait had passed.
    Time,
    /// The workflow fails or was cancelled, so its forward code does not run any more.
    Cancel,
    /// The workflow had ended.
    End,
    /// It was in time, and the code did not read it before the end.
    Unread,
    /// The code received it, and the workflow failed or was cancelled after that.
    Failed,
    /// Another event has its name.
    Another,
}

impl LateCause {
    pub(crate) const ALL: [Self; 6] =
        [Self::Time, Self::Cancel, Self::End, Self::Unread, Self::Failed, Self::Another];

    /// The cause, as stored and shown.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Time => "after its time",
            Self::Cancel => "after the cancel",
            Self::End => "after the end",
            Self::Unread => "not read before the end",
            Self::Failed => "the workflow failed or was cancelled after it",
            Self::Another => "another event under this name",
        }
    }

    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|cause| cause.as_str() == name)
    }
}

/// The record of an event. Only its [transitions](EventRecord::on) and [signals](Signal::decide)
/// make another one.
#[derive(Debug, Clone)]
pub(crate) struct EventRecord(EventData);

/// What is stored of an event.
#[derive(Debug, Clone)]
pub(crate) struct EventData {
    pub(crate) id: RecordId,
    /// The name of the code of its workflow, for the list of late events.
    pub(crate) workflow_name: String,
    /// When its workflow was started: tells a former life of the workflow's key apart.
    pub(crate) run: DateTime<Utc>,
    pub(crate) state: EventState,
    /// Changes with every write.
    pub(crate) revision: String,
    /// The wait of the code. `None`: the event came before the code reached its wait.
    pub(crate) wait: Option<Waited>,
    pub(crate) arrived: Option<Arrived>,
    /// Why it is late, or was.
    pub(crate) cause: Option<LateCause>,
    /// The run that took the event, or found its time past.
    pub(crate) ended_by: Option<String>,
}

/// A wait of the code, as it was reached first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Waited {
    pub(crate) since: DateTime<Utc>,
    pub(crate) until: DateTime<Utc>,
    /// Whether a compensation waits, so that the wait is open while the workflow is compensated.
    pub(crate) of_compensation: bool,
    /// The compensation that runs once if the event is late, or if the workflow fails or is
    /// cancelled after the code received it.
    pub(crate) on_late: Option<Intent>,
}

/// An event as its sender gave it.
#[derive(Debug, Clone)]
pub(crate) struct Arrived {
    pub(crate) identity: Identity,
    pub(crate) at: DateTime<Utc>,
    /// The call of the sender: it recognises its own event after a lost reply.
    pub(crate) by: String,
}

impl Deref for EventRecord {
    type Target = EventData;

    fn deref(&self) -> &EventData {
        &self.0
    }
}

impl EventRecord {
    /// What was read from the table.
    pub(crate) const fn stored(data: EventData) -> Self {
        Self(data)
    }

    /// Whether it belongs to the workflow that was started then.
    pub(crate) fn is_of(&self, run: DateTime<Utc>) -> bool {
        self.0.run == run
    }

    /// Whether the wait of forward code declared a compensation.
    fn is_undone(&self) -> bool {
        self.0.wait.as_ref().is_some_and(|wait| wait.on_late.is_some() && !wait.of_compensation)
    }

    /// Whether forward code has reached its wait.
    pub(crate) fn is_reached(&self) -> bool {
        match &self.0.wait {
            Some(wait) => !wait.of_compensation,
            None => self.0.state == EventState::Taken,
        }
    }

    /// The compensation that is to run. Only the main event of a name has one, so the compensation
    /// of a wait runs at most once.
    pub(crate) fn owed(&self) -> Option<&Intent> {
        let wait = self.0.wait.as_ref().filter(|_| self.0.state == EventState::Late);
        wait.and_then(|wait| wait.on_late.as_ref())
    }
}
