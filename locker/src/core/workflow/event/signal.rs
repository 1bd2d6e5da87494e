//! The decision about a signal: an event that a sender gives to a workflow.

use super::receipt::{self, Former};
use super::{Arrived, EventData, EventRecord, EventState, Identity, LateCause};
use crate::core::workflow::header::{Header, HeaderEvent, Stamp, State};
use crate::core::workflow::place::Place;
use crate::core::workflow::step::RecordId;

/// The answer to a signal. See [`Workflows::signal`](crate::workflow::Workflows::signal).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
#[non_exhaustive]
pub enum Signalled {
    /// The event is stored, and the code receives it at its wait.
    ///
    /// If the workflow ends before the code reads the event, the event becomes late.
    Accepted,
    /// The same event was stored before. Nothing was written, so a repeated signal is harmless.
    Duplicate,
    /// Another event with this name was stored before.
    ///
    /// This event is stored and listed for an operator. The code never receives it, and no
    /// compensation runs for it.
    AlreadyGiven,
    /// The event came after the time of its wait, a cancel or the end.
    ///
    /// It is stored and listed for an operator. The outcome of the workflow does not change.
    #[non_exhaustive]
    Late {
        /// Whether the compensation of the wait runs ([`on_late`](crate::workflow::Wait::on_late)).
        compensates: bool,
    },
    /// No workflow has this key: it was not started, or it was deleted. **Nothing was stored.**
    ///
    /// Answer the sender with an error, so that the sender sends the event again, or store the
    /// event and signal again later.
    NotStarted,
}

impl Signalled {
    /// Returns whether the event is stored. If `false`, signal again later.
    #[must_use]
    pub const fn is_stored(self) -> bool {
        !matches!(self, Self::NotStarted)
    }
}

/// An event, and the call of its sender.
#[derive(Debug, Clone)]
pub(crate) struct Signal {
    /// The name of the event.
    pub(crate) name: String,
    pub(crate) identity: Identity,
    /// The attempt id, which is the same for all rounds of one call.
    pub(crate) by: String,
    /// The answer of the last write of this call. The reply to that write may be lost.
    pub(crate) answer: Option<Signalled>,
}

/// The items that the decision depends on, as they were read.
#[derive(Debug)]
pub(crate) struct Met {
    pub(crate) header: Option<Header>,
    /// The main event of the name.
    pub(crate) event: Option<EventRecord>,
    /// Other events of the name. `None`: they were not read.
    pub(crate) surplus: Option<Vec<EventRecord>>,
    /// The events of former versions of the key. `None`: they were not read.
    pub(crate) former: Option<Former>,
}

impl Met {
    /// Returns the items of the former version, for a second decision about the same signal: the
    /// event is late there.
    pub(crate) fn into_former(self) -> Self {
        let former = self.former.unwrap_or_default();
        let (header, event) = former.last.unzip();
        Self { header, event, surplus: None, former: Some(Former { last: None, ..former }) }
    }
}

/// The items that a decision still needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Read {
    /// The other events of the name.
    Surplus,
    /// The events of former versions.
    Former,
    /// No more items: decide on the items of the former version ([`Met::into_former`]).
    Nothing,
}

/// The next act of the call.
#[derive(Debug)]
pub(crate) enum Decision<'a> {
    /// Read more items, and decide again.
    Read(Read),
    /// Write the event and the header in one transaction, conditional on the revisions that were
    /// read.
    Write {
        answer: Signalled,
        event: (Option<&'a EventRecord>, Box<EventRecord>),
        header: (&'a Header, Box<Header>),
    },
    /// Write nothing.
    Answer(Signalled),
}

impl Signal {
    /// Decides about the signal. Each state of the items has a decision.
    ///
    /// **A signal does not read the clock.** An event is in time until a driver has recorded that
    /// the time has passed.
    pub(crate) fn decide<'a>(&self, met: &'a Met, stamp: Stamp) -> Decision<'a> {
        let Some(header) = met.header.as_ref().filter(|header| header.state != State::Reaping) else {
            return Decision::Answer(Signalled::NotStarted);
        };
        // A record of an earlier workflow with the same key is replaced.
        let stored = met.event.as_ref().filter(|event| event.is_of(header.created));
        if let Some(answer) = stored.and_then(|stored| self.recognised(stored)) {
            return Decision::Answer(answer);
        }
        if header.continues.is_some() {
            match &met.former {
                None => return Decision::Read(Read::Former),
                Some(former) if former.has_event => {
                    return Decision::Answer(self.answer.unwrap_or(Signalled::Duplicate));
                }
                Some(former) if stored.is_none() && former.is_late() => {
                    return Decision::Read(Read::Nothing);
                }
                Some(_) => {}
            }
        }
        match stored.map(|stored| (stored, stored.state)) {
            None if header.state.is_final() => self.arrives(met, header, None, Some(LateCause::End), stamp),
            // Forward code or a compensation may still reach a wait for this event.
            None => self.arrives(met, header, None, None, stamp),
            Some((stored, EventState::Waiting)) => {
                let cause = closed(header, stored);
                self.arrives(met, header, Some(stored), cause, stamp)
            }
            Some((stored, EventState::Expired)) => {
                self.arrives(met, header, Some(stored), Some(LateCause::Time), stamp)
            }
            Some(_) => self.meets(met, header, stamp),
        }
    }

    /// Decides about the first event of a name.
    fn arrives<'a>(
        &self,
        met: &'a Met,
        header: &'a Header,
        stored: Option<&EventRecord>,
        cause: Option<LateCause>,
        stamp: Stamp,
    ) -> Decision<'a> {
        let id = RecordId::at(&header.workflow, Place::Event(&self.name));
        let mut next = self.record(header, id, cause, &stamp);
        next.wait = stored.and_then(|stored| stored.wait.clone());
        let next = EventRecord(next);
        let is_waited_for = stored.is_some_and(|stored| stored.state == EventState::Waiting);
        let owed = next.owed().is_some();
        let answer =
            if cause.is_some() { Signalled::Late { compensates: owed } } else { Signalled::Accepted };
        let happened = HeaderEvent::Signalled { is_waited_for: is_waited_for && cause.is_none(), owed };
        write(answer, (met.event.as_ref(), next), header, &happened, stamp)
    }

    /// Decides about an event whose name already has an event.
    fn meets<'a>(&self, met: &'a Met, header: &'a Header, stamp: Stamp) -> Decision<'a> {
        let Some(surplus) = &met.surplus else { return Decision::Read(Read::Surplus) };
        let of_this_life = surplus.iter().filter(|event| event.is_of(header.created));
        if let Some(answer) = of_this_life.clone().find_map(|event| self.recognised(event)) {
            return Decision::Answer(answer);
        }
        let digest = self.identity.digest();
        let id = RecordId::at(&header.workflow, Place::Surplus { event: &self.name, digest: &digest });
        let over = surplus.iter().find(|event| event.id == id);
        let next = EventRecord(self.record(header, id, Some(LateCause::Another), &stamp));
        write(Signalled::AlreadyGiven, (over, next), header, &HeaderEvent::Surplus, stamp)
    }

    /// Returns the part of a sort key that identifies the receipt of this event.
    ///
    /// `None`: no receipt can identify the event, because it has no id and this call has not
    /// written it before.
    pub(crate) fn receipt(&self) -> Option<String> {
        let is_known = self.identity.id.is_some() || self.answer.is_some();
        is_known.then(|| receipt::digest(&self.identity, &self.by))
    }

    /// Returns the answer if this event is the stored event.
    ///
    /// After a lost reply, a call finds its own event and returns the answer of its first round.
    fn recognised(&self, stored: &EventRecord) -> Option<Signalled> {
        let arrived = stored.arrived.as_ref()?;
        match self.answer {
            Some(answer) if arrived.by == self.by => Some(answer),
            _ => arrived.identity.same(&self.identity).then_some(Signalled::Duplicate),
        }
    }

    fn record(&self, header: &Header, id: RecordId, cause: Option<LateCause>, stamp: &Stamp) -> EventData {
        EventData {
            id,
            workflow_name: header.name.clone(),
            run: header.created,
            state: if cause.is_some() { EventState::Late } else { EventState::Given },
            revision: stamp.revision.clone(),
            wait: None,
            arrived: Some(Arrived { identity: self.identity.clone(), at: stamp.now, by: self.by.clone() }),
            cause,
            ended_by: None,
            intervention: None,
        }
    }
}

/// Returns why a wait is closed. `None`: it is open. One write of the header closes all waits.
pub(super) fn closed(header: &Header, stored: &EventRecord) -> Option<LateCause> {
    let of_compensation = stored.wait.as_ref().is_some_and(|wait| wait.of_compensation);
    match header.state {
        State::Running => None,
        State::Compensating if of_compensation => None,
        State::Compensating if header.ended.is_none() => Some(LateCause::Cancel),
        _ => Some(LateCause::End),
    }
}

fn write<'a>(
    answer: Signalled,
    (over, next): (Option<&'a EventRecord>, EventRecord),
    header: &'a Header,
    happened: &HeaderEvent,
    stamp: Stamp,
) -> Decision<'a> {
    match header.on(happened, stamp) {
        Ok(then) => {
            Decision::Write { answer, event: (over, Box::new(next)), header: (header, Box::new(then)) }
        }
        Err(_) => Decision::Answer(Signalled::NotStarted),
    }
}
