//! The record of an event from outside, and of the code that waits for it.
//!
//! One record for each name stores whether the code waits, whether the event came, and whether the
//! code has received it. Each write of a sender or a driver is conditional on the revision that it
//! read.
//!
//! The first event under a name is the main event. Other events under the name are surplus events.

mod identity;
mod receipt;
mod signal;
mod transition;

use std::ops::Deref;

use chrono::{DateTime, Utc};

use super::header::Header;
use super::step::{Intent, RecordId};
use crate::core::token::record::Intervention;

pub use signal::Signalled;

pub(crate) use identity::Identity;
pub(crate) use receipt::{EventReceipt, Former, receipt_places};
pub(crate) use signal::{Decision, Met, Read, Signal};
pub(crate) use transition::{EventAct, EventRefusal, MOST_RECORDS, NewWait, Reached, fitting, owes};

/// The state of an event from outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum EventState {
    /// The code waits for the event.
    Waiting,
    /// The event is stored, and the code has not read it.
    Given,
    /// The code has the event. Final, unless the workflow fails or is cancelled.
    Taken,
    /// The time of the wait passed before the event came: the code receives `None` in each run.
    Expired,
    /// The event is stored, and the code can no longer receive it. It is listed until it is
    /// handled.
    Late,
    /// The compensation of the event is complete, an operator has handled the event, or the event
    /// has moved to the next version of the workflow's key.
    Handled,
}

impl EventState {
    pub(crate) const ALL: [Self; 6] =
        [Self::Waiting, Self::Given, Self::Taken, Self::Expired, Self::Late, Self::Handled];

    /// Returns the name of the state, as stored and shown.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
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
    /// The workflow failed or was cancelled, so its forward code no longer runs.
    Cancel,
    /// The workflow had ended.
    End,
    /// The event was in time, but the workflow ended before the code read it.
    Unread,
    /// The code received the event, and then the workflow failed or was cancelled.
    Failed,
    /// Another event with this name was stored before.
    Another,
}

impl LateCause {
    pub(crate) const ALL: [Self; 6] =
        [Self::Time, Self::Cancel, Self::End, Self::Unread, Self::Failed, Self::Another];

    /// Returns the cause, as stored and shown.
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
/// create or change a record.
#[derive(Debug, Clone)]
pub(crate) struct EventRecord(EventData);

/// The stored data of an event.
#[derive(Debug, Clone)]
pub(crate) struct EventData {
    pub(crate) id: RecordId,
    /// The name of the code of its workflow, for the list of late events.
    pub(crate) workflow_name: String,
    /// The start of its workflow. Distinguishes an earlier workflow with the same key.
    pub(crate) run: DateTime<Utc>,
    pub(crate) state: EventState,
    /// Changes with every write.
    pub(crate) revision: String,
    /// The wait of the code. `None`: the code had not reached its wait when the event came.
    pub(crate) wait: Option<Waited>,
    pub(crate) arrived: Option<Arrived>,
    /// Why the event is late, or was late before it was handled.
    pub(crate) cause: Option<LateCause>,
    /// The attempt id of the run that took the event, or that recorded `Expired`.
    pub(crate) ended_by: Option<String>,
    /// The operator who acted on it last.
    pub(crate) intervention: Option<Intervention>,
}

/// A wait of the code, as recorded by the first run that reached it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Waited {
    pub(crate) since: DateTime<Utc>,
    pub(crate) until: DateTime<Utc>,
    /// Whether a compensation waits. Such a wait stays open while the workflow is compensated.
    pub(crate) of_compensation: bool,
    /// Whether a former version of the key waited, and the event moved to this version unread. The
    /// compensation applies until the code of this version reaches its own wait.
    pub(crate) former: bool,
    /// The compensation that runs once if the event is late, or if the workflow fails or is
    /// cancelled after the code received it.
    pub(crate) on_late: Option<Intent>,
}

/// An event, as its sender gave it.
#[derive(Debug, Clone)]
pub(crate) struct Arrived {
    pub(crate) identity: Identity,
    pub(crate) at: DateTime<Utc>,
    /// The attempt id of the sender's call, so that the call recognises its event after a lost
    /// reply.
    pub(crate) by: String,
}

impl Deref for EventRecord {
    type Target = EventData;

    fn deref(&self) -> &EventData {
        &self.0
    }
}

impl EventRecord {
    /// Wraps data that was read from the table.
    pub(crate) const fn stored(data: EventData) -> Self {
        Self(data)
    }

    /// Returns the size of its value in bytes, as stored.
    pub(crate) fn bytes(&self) -> usize {
        self.0.arrived.as_ref().map_or(0, |arrived| arrived.identity.value.bytes.len())
    }

    /// Returns whether the event belongs to the workflow that was started at this time.
    pub(crate) fn is_of(&self, run: DateTime<Utc>) -> bool {
        self.0.run == run
    }

    /// Returns whether the event is compensated if the workflow fails or is cancelled: forward code
    /// declared `on_late`.
    fn is_undone(&self) -> bool {
        self.0.wait.as_ref().is_some_and(|wait| wait.on_late.is_some() && !wait.of_compensation)
    }

    /// Returns whether the wait for the event declared a compensation.
    pub(crate) fn has_compensation(&self) -> bool {
        self.0.wait.as_ref().is_some_and(|wait| wait.on_late.is_some())
    }

    /// Returns whether forward code has reached its wait.
    pub(crate) fn is_reached(&self) -> bool {
        match self.0.wait.as_ref().filter(|wait| !wait.former) {
            Some(wait) => !wait.of_compensation,
            None => self.0.state == EventState::Taken,
        }
    }

    /// Returns the same record, with the operator who gave the event.
    #[cfg_attr(not(feature = "operator"), allow(dead_code, reason = "operators have a console"))]
    pub(crate) fn given_by(mut self, operator: Intervention) -> Self {
        self.0.intervention = Some(operator);
        self
    }

    /// Returns whether the code waits for the event, and may still receive it.
    pub(crate) fn is_awaited(&self, header: &Header) -> bool {
        self.0.state == EventState::Waiting && signal::closed(header, self).is_none()
    }

    /// Returns the compensation that must run.
    ///
    /// Only the main event of a name has a compensation, so the compensation of a wait runs at most
    /// once.
    pub(crate) fn owed(&self) -> Option<&Intent> {
        let wait = self.0.wait.as_ref().filter(|_| self.0.state == EventState::Late);
        wait.and_then(|wait| wait.on_late.as_ref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_stored_word_is_read_back() {
        for state in EventState::ALL {
            assert_eq!(EventState::named(state.as_str()), Some(state));
        }
        for cause in LateCause::ALL {
            assert_eq!(LateCause::named(cause.as_str()), Some(cause));
        }
        assert_eq!((EventState::named("early"), LateCause::named("early")), (None, None));
    }
}
