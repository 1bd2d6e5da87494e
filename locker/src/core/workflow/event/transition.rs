//! The transitions of the record of an event that a driver or an operator writes.

use chrono::{DateTime, Utc};

use super::{EventData, EventRecord, EventState, LateCause, Waited};
use crate::core::answer::Encoded;
use crate::core::token::record::Intervention;
use crate::core::workflow::header::Stamp;
use crate::core::workflow::step::{Intent, RecordId};

/// A wait that the code reaches for the first time.
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
            former: false,
            on_late: self.on_late.clone(),
        }
    }
}

/// An act of a driver or an operator on an event.
#[derive(Debug, Clone)]
pub(crate) enum EventAct {
    /// The code receives the event at this wait. `by`: the attempt id of the run.
    Take { by: String, at: Box<NewWait> },
    /// The time of the wait has passed, and no event came.
    Expire { by: String },
    /// The workflow ends. `undoes`: it failed or was cancelled, so a received event is compensated
    /// like a completed step.
    Leave { undoes: bool },
    /// The workflow continues as the next version of its key, which receives the event.
    Move,
    /// The compensation of the event is complete.
    Handle,
    /// An operator has dealt with it: its compensation does not run any more.
    Dismiss { by: Intervention },
    /// An operator replaces a value that the code cannot read.
    Correct { by: Intervention, value: Encoded },
}

/// Why a record is not changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EventRefusal {
    /// The record has this state, which does not allow the act.
    Found(EventState),
    /// The record has changed since it was read, or belongs to an earlier workflow with the same
    /// key.
    Changed,
}

/// The next act of a run that has reached a wait. Depends on the record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reached {
    /// Record that the code waits.
    Begin,
    /// End the run, and wait until this time.
    Wait(DateTime<Utc>),
    /// Record that the time has passed.
    Expire,
    /// Record that the code has the event, and return it.
    Take,
    /// Return the event. An earlier run has taken it.
    Return,
    /// Return `None`, in this run and each later run.
    Nothing,
}

impl Reached {
    /// Returns the next act for this record.
    ///
    /// **A given event counts even if its time has passed:** the sender received `Accepted`. One
    /// record decides, instead of two clocks.
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
    /// Returns the record of a new wait, unless this workflow already has a record of the event.
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
            intervention: None,
        }))
    }

    /// Returns the record after the act, if its revision is the revision that was read.
    pub(crate) fn on(&self, seen: &str, act: &EventAct, stamp: Stamp) -> Result<Self, EventRefusal> {
        // A run reads an event, and then an operator corrects its value. Without this, the event
        // would be taken with the corrected value while the code receives the former one.
        if self.revision != *seen {
            return Err(EventRefusal::Changed);
        }
        let mut next = self.0.clone();
        match (act, self.state) {
            (EventAct::Take { by, at }, EventState::Given) => {
                (next.state, next.ended_by) = (EventState::Taken, Some(by.clone()));
                // An event that came before its wait gets the compensation of the wait here.
                if next.wait.as_ref().is_none_or(|wait| wait.former) {
                    next.wait = Some(at.reached(stamp.now));
                }
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
                next.state = EventState::Handled;
            }
            (EventAct::Dismiss { by }, EventState::Late) => {
                (next.state, next.intervention) = (EventState::Handled, Some(by.clone()));
            }
            (EventAct::Correct { by, value }, EventState::Given) => {
                next.arrived.iter_mut().for_each(|arrived| arrived.identity.value = value.clone());
                next.intervention = Some(by.clone());
            }
            (_, state) => return Err(EventRefusal::Found(state)),
        }
        next.revision = stamp.revision;
        Ok(Self(next))
    }
}

impl EventRecord {
    /// Returns the record of this unread event in the next version of the key.
    pub(crate) fn moved(&self, workflow: &str, run: DateTime<Utc>, stamp: Stamp) -> Self {
        let id = RecordId { workflow: workflow.to_owned(), item: self.id.item.clone() };
        let wait = self.wait.clone().map(|wait| Waited { former: true, ..wait });
        Self(EventData { id, run, revision: stamp.revision, wait, ..self.0.clone() })
    }
}

/// The most steps and events that one transaction writes, next to the header and the audit record.
/// DynamoDB takes 100 items.
pub(crate) const MOST_RECORDS: usize = 90;

/// Returns how many of these events, from the first event, fit into the transaction that ends a
/// workflow. `others`: the number of its other items, without the header and the audit record.
pub(crate) fn fitting<'a>(events: impl IntoIterator<Item = &'a EventRecord>, others: usize) -> usize {
    // DynamoDB takes 4 MB in one transaction.
    const MOST_BYTES: usize = 3 * 1024 * 1024;
    let ends = events.into_iter().scan(0, |sum, event| {
        *sum += event.bytes();
        Some(*sum)
    });
    ends.take(MOST_RECORDS.saturating_sub(others)).take_while(|end| *end <= MOST_BYTES).count()
}

/// Returns whether one of these events has a compensation that must run.
///
/// An unread event counts only after it has become late ([`EventAct::Leave`]).
pub(crate) fn owes(events: &[EventRecord]) -> bool {
    events.iter().any(|event| event.owed().is_some())
}
