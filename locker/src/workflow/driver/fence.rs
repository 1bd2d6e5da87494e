//! The fence around a driver: its writes of the header, and whether it still owns the workflow.

use crate::core::workflow::event::{EventAct, EventRecord, fitting, owes};
use crate::core::workflow::header::{DriverAct, Events, Header, HeaderEvent, HeaderRefusal, State};
use crate::error::Error;
use crate::metrics;
use crate::store::{Action, Changed, Over, Written};
use crate::workflow::flow::Flow;
use crate::workflow::stop::StopKind;

/// How often events may come while a run ends.
const ROUNDS: u32 = 10;

/// Why a header was not written.
#[derive(Debug)]
pub(crate) enum Unwritten {
    /// Another driver has the workflow, or it has ended.
    Lost,
    Store(Error),
}

impl From<Error> for Unwritten {
    fn from(error: Error) -> Self {
        Self::Store(error)
    }
}

impl From<Unwritten> for StopKind {
    fn from(unwritten: Unwritten) -> Self {
        match unwritten {
            Unwritten::Lost => Self::Lost,
            Unwritten::Store(error) => Self::Store(error),
        }
    }
}

impl Flow {
    /// Changes the header, if this driver still owns the workflow.
    pub(crate) async fn act(&self, verb: &'static str, act: DriverAct) -> Result<(), Unwritten> {
        match self.change(verb, &self.driver(act, self.known_events(false))).await? {
            None => Ok(()),
            Some(_) => Err(Unwritten::Lost),
        }
    }

    fn driver(&self, act: DriverAct, events: Events) -> HeaderEvent {
        HeaderEvent::Driver { attempt: self.attempt().to_owned(), events, act }
    }

    /// Ends the workflow, if this driver still owns it. Events that the code has not read are late
    /// from then on.
    pub(crate) async fn end_by(&self, verb: &'static str, act: DriverAct) -> Result<(), Unwritten> {
        // A sender may store an event between the reads of this run and its end. The header counts
        // the events, so the end is refused if one is missing here. Then they are read again.
        for _ in 0..ROUNDS {
            let (left, owed) = self.events_left(&act).await?;
            let event = self.driver(act.clone(), self.known_events(owed));
            let refused = if left.is_empty() {
                self.change(verb, &event).await?
            } else {
                self.end_with(verb, &event, left).await?
            };
            match refused {
                None => return Ok(()),
                Some(HeaderRefusal::Signalled) => self.read_events().await?,
                Some(_) => return Err(Unwritten::Lost),
            }
        }
        Err(Error::Contended { verb, tries: ROUNDS }.into())
    }

    /// The events that are late by this end, each as it was read and as it will be, and whether the
    /// end owes a compensation.
    async fn events_left(
        &self,
        end: &DriverAct,
    ) -> Result<(Vec<(EventRecord, EventRecord)>, bool), Unwritten> {
        let context = self.context();
        let has_ended = self.lock_header().ended.is_some();
        let undoes = match end {
            DriverAct::Fail { .. } => true,
            // The first end decided about the events that the code had received: an operator may
            // have closed the workflow.
            DriverAct::EndCompensated => !has_ended,
            _ => false,
        };
        let leave = EventAct::Leave { undoes };
        let (mut left, mut at_the_end) = (Vec::new(), Vec::new());
        for event in self.events() {
            if let Ok(next) = event.on(&event.revision, &leave, context.stamp()) {
                at_the_end.push(next.clone());
                left.push((event, next));
            } else {
                at_the_end.push(event);
            }
        }
        // A transaction takes 100 items and 4 MB. The events beyond that are late a moment before
        // the end.
        for (event, _) in left.split_off(fitting(left.iter().map(|(event, _)| event), 0)) {
            let changed = context.act_on_event("leave the event", event, &leave, self.until().for_end());
            if let Changed::Done(next) = Box::pin(changed).await? {
                metrics::count_left_events([&next]);
                self.note_event(next);
            }
        }
        Ok((left, owes(&at_the_end)))
    }

    /// Writes the end together with the events that the code has not read.
    async fn end_with(
        &self,
        verb: &'static str,
        event: &HeaderEvent,
        left: Vec<(EventRecord, EventRecord)>,
    ) -> Result<Option<HeaderRefusal>, Unwritten> {
        let (context, until) = (self.context(), self.until().for_end());
        let seen = self.header();
        let next = match seen.on(event, context.stamp()) {
            Ok(next) => next,
            Err(why) => return Ok(Some(why)),
        };
        let records: Vec<_> = left.iter().map(|(seen, next)| Over::Event(Some(seen), next.clone())).collect();
        let headers = [(Some(&seen), next.clone())];
        let written = context.store().change_together(verb, &records, &headers, None, until);
        match Box::pin(written).await? {
            Written::Done => {
                metrics::count_left_events(left.iter().map(|(_, next)| next));
                left.into_iter().for_each(|(_, next)| self.note_event(next));
                context.record_failed_runs(&next, until).await;
                self.hold(next);
                Ok(None)
            }
            Written::Refused { found, .. } => Ok(Some(self.refusal(found))),
        }
    }

    /// Why a transaction over the header of this run was refused. `found`: the stored header, if it
    /// had changed. Unless another driver has the workflow, read the events and decide again.
    pub(crate) fn refusal(&self, found: Option<Box<Header>>) -> HeaderRefusal {
        match found {
            // Another driver has claimed the workflow, so each further write of this run is
            // refused. Its header must not become the header of this run.
            Some(header) if header.attempt != self.attempt() => return HeaderRefusal::Lost,
            Some(header) => *self.lock_header() = *header,
            None => {}
        }
        HeaderRefusal::Signalled
    }

    /// `Some`: why nothing was written.
    async fn change(
        &self,
        verb: &'static str,
        event: &HeaderEvent,
    ) -> Result<Option<HeaderRefusal>, Unwritten> {
        // No lock is held across the request: it would block the thread of every other step.
        let seen = self.header();
        let context = self.context();
        // A write that ends a run is worth one attempt even past the deadline.
        let until = self.until().for_end();
        let rule = |stored: Option<&_>| match stored {
            Some(stored) => Header::on(stored, event, context.stamp()),
            None => Err(HeaderRefusal::Lost),
        };
        match Box::pin(context.store().change(verb, Some(seen), until, rule)).await? {
            Changed::Done(next) => {
                context.record_failed_runs(&next, until).await;
                self.hold(next);
                Ok(None)
            }
            Changed::Refused { why, .. } => Ok(Some(why)),
            Changed::Gone => Ok(Some(HeaderRefusal::Lost)),
        }
    }

    /// Remembers the header as this run wrote it.
    pub(crate) fn hold(&self, next: Header) {
        let mut header = self.lock_header();
        // The reply to an extension may arrive after that to a write that ends the run.
        if header.attempt == self.attempt() {
            *header = next;
        }
    }

    /// Whether a read shows that the workflow was deleted under this driver.
    ///
    /// The record of a step that is written after the deletion would stay for ever: no resume reads
    /// it, and no reaper finds a partition without a header. A workflow cannot be taken over, end
    /// and be deleted before the claim of its driver has ended, unless an operator cancels it. So
    /// only a driver whose claim has ended pays for the read. A machine that is suspended between
    /// this read and its write may still leave one record.
    pub(crate) async fn is_deleted(&self) -> bool {
        if self.time() < self.lock_header().next_due {
            return false;
        }
        let until = self.until_recorded().once();
        match Box::pin(self.context().store().read_header(self.workflow(), until)).await {
            Ok(Some(stored)) => stored.state == State::Reaping || stored.created != self.created(),
            Ok(None) => true,
            // A record too many is better than an outcome that is lost.
            Err(_) => false,
        }
    }

    /// Returns the check of a transaction that this driver still owns the workflow.
    pub(crate) fn still_drives(&self) -> Action {
        Action::DrivenBy { workflow: self.workflow().to_owned(), attempt: self.attempt().to_owned() }
    }

    /// Whether this driver still owns the workflow. Read after a start was written, so one side
    /// always sees the other: a takeover or a cancel writes the header first and reads the starts
    /// after that.
    pub(crate) async fn is_held(&self) -> Result<bool, StopKind> {
        let stored = Box::pin(self.context().store().read_header(self.workflow(), self.until())).await?;
        Ok(stored.is_some_and(|stored| stored.attempt == self.attempt()))
    }
}
