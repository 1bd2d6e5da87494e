//! What the driver of a workflow makes of the record of an event.

use chrono::{DateTime, Utc};

use super::{EventData, EventRecord, EventState, LateCause, Waited};
use crate::core::workflow::header::Stamp;
use crate::core::workflow::step::{Intent, RecordId};

/// A wait, as the code asks for it.
#[derive(Debug, Clone)]
pub(crate) struct NewWait {
    pub(crate) id: RecordId,
    pub(crate) workflow_name: String,
    /// When the workflow was started.
    pub(crate) run: DateTime<Utc>,
    pub(crate) until: DateTime<Utc>,
    pub(crate) of_compensation: bool,
    pub(crate) on_late: Option<Intent>,
}

impl NewWait {
    fn reached(&self, now: DateTime<Utc>) -> Waited {
        Waited {
            since: now,
            until: self.until,
            of_compensation: self.of_compensation,
            on_late: self.on_late.clone(),
        }
    }
}

/// What the driver does to an event.
#[derive(Debug, Clone)]
pub(crate) enum EventAct {
    /// The code receives it at this wait. `by`: the run.
    Take { by: String, at: Box<NewWait> },
    /// The time of the wait is past, and no event came.
    Expire { by: String },
    /// The workflow ends. `undoes`: it failed or was cancelled, so an event that the code received
    /// is compensated like a step that completed.
    Leave { undoes: bool },
    /// The workflow continues as another version of its key, which receives the event.
    Move,
    /// Its compensation is complete.
    Handle,
}

/// Why a record is not changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EventRefusal {
    /// A record is there, in this state.
    Found(EventState),
    /// It was written since it was seen, or is of a former life of the key.
    Changed,
}

/// What a wait means, as the record stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reached {
    /// Write that the code waits.
    Begin,
    /// The run ends here, until this time.
    Wait(DateTime<Utc>),
    /// Write that the time is past.
    Expire,
    /// Write that the code has the event, and return it.
    Take,
    /// The code has the event: return it.
    Return,
    /// The code has no event, and never will.
    Nothing,
}

impl Reached {
    /// **A given event counts although its time is past.** The sender received `Accepted` for it,
    /// and the record decides, and not two clocks.
    pub(crate) fn of(record: Option<&EventRecord>, now: DateTime<Utc>) -> Self {
        let Some(record) = record else { return Self::Begin };
        match record.state {
            EventState::Waiting => match record.wait.as_ref().map(|wait| wait.until) {
                Some(until) if until > now => Self::Wait(until),
                _ => Self::Expire,
            },
            EventState::Given => Self::Take,
            EventState::Taken => Self::Return,
            EventState::Expired | EventState::Late | EventState::Handled => Self::Nothing,
        }
    }
}

impl EventRecord {
    /// Begin to wait where there is no record of this workflow.
    pub(crate) fn wait(stored: Option<&Self>, new: &NewWait, stamp: Stamp) -> Result<Self, EventRefusal> {
        if let Some(stored) = stored.filter(|stored| stored.is_of(new.run)) {
            return Err(EventRefusal::Found(stored.state));
        }
        Ok(Self(EventData {
            id: new.id.clone(),
            workflow_name: new.workflow_name.clone(),
            run: new.run,
            state: EventState::Waiting,
            revision: stamp.revision,
            wait: Some(new.reached(stamp.now)),
            arrived: None,
            cause: None,
            ended_by: None,
        }))
    }

    /// What the act makes of this record, if it still is as it was seen.
    pub(crate) fn on(&self, seen: &str, act: &EventAct, stamp: Stamp) -> Result<Self, EventRefusal> {
        if self.revision != *seen {
            return Err(EventRefusal::Changed);
        }
        let mut next = self.0.clone();
        match (act, self.state) {
            (EventAct::Take { by, at }, EventState::Given) => {
                (next.state, next.ended_by) = (EventState::Taken, Some(by.clone()));
                // An event that came before its wait gets the compensation of the wait here.
                next.wait.get_or_insert_with(|| at.reached(stamp.now));
            }
            (EventAct::Expire { by }, EventState::Waiting)
                if Reached::of(Some(self), stamp.now) == Reached::Expire =>
            {
                (next.state, next.ended_by) = (EventState::Expired, Some(by.clone()));
            }
            (EventAct::Leave { .. }, EventState::Given) => {
                (next.state, next.cause) = (EventState::Late, Some(LateCause::Unread));
            }
            (EventAct::Leave { undoes: true }, EventState::Taken) if self.is_undone() => {
                (next.state, next.cause) = (EventState::Late, Some(LateCause::Failed));
            }
            (EventAct::Move, EventState::Given) | (EventAct::Handle, EventState::Late) => {
                next.state = EventState::Handled
            }
            (_, state) => return Err(EventRefusal::Found(state)),
        }
        next.revision = stamp.revision;
        Ok(Self(next))
    }
}

impl EventRecord {
    /// An event that the code had not read, in the version of the key that continues the workflow.
    pub(crate) fn moved(&self, workflow: &str, run: DateTime<Utc>, stamp: Stamp) -> Self {
        let id = RecordId { workflow: workflow.to_owned(), item: self.id.item.clone() };
        Self(EventData {
            id,
            workflow_name: self.workflow_name.clone(),
            run,
            state: EventState::Given,
            revision: stamp.revision,
            wait: None,
            arrived: self.arrived.clone(),
            cause: None,
            ended_by: None,
        })
    }
}

/// Whether a workflow with these events, which ends now, owes a compensation. Events that the code
/// has not read are late by then.
pub(crate) fn owes(events: &[EventRecord]) -> bool {
    events.iter().any(|event| event.owed().is_some())
}
