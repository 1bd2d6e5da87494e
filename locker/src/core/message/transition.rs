//! The state machine of a message: what each event makes of it.

use std::time::Duration;

use super::event::{Mark, OutgoingAct, OutgoingEvent, OutgoingRefusal};
use super::outgoing::{MessageState, Outgoing};
use crate::core::{cause, time};

/// A message that could not be sent for this long is dead.
const LONGEST: Duration = Duration::from_secs(72 * 60 * 60);

impl Outgoing {
    /// What the event makes of this message.
    pub(crate) fn on(&self, event: &OutgoingEvent, mark: Mark) -> Result<Self, OutgoingRefusal> {
        if self.revision != event.seen {
            return Err(OutgoingRefusal::Changed);
        }
        let mut next = self.0.clone();
        match (&event.act, self.state) {
            (OutgoingAct::Take { by, lease }, MessageState::Unsent) => {
                if self.next_due > mark.now {
                    return Err(OutgoingRefusal::NotDue);
                }
                next.next_due = time::after(mark.now, *lease);
                next.locked_by = Some(by.clone());
                next.attempts = self.attempts.saturating_add(1);
            }
            (OutgoingAct::Failed { cause, pause }, MessageState::Unsent) => {
                next.next_due = time::after(mark.now, *pause);
                next.locked_by = None;
                next.cause = Some(cause::shortened(cause));
                // Those behind the one that was taken were not counted.
                if self.locked_by.is_none() {
                    next.attempts = self.attempts.saturating_add(1);
                }
                if time::after(self.since(), LONGEST) <= mark.now {
                    next.state = MessageState::Dead;
                    next.next_due = mark.now;
                }
            }
            (OutgoingAct::Refused { cause }, MessageState::Unsent) => {
                next.state = MessageState::Dead;
                next.next_due = mark.now;
                next.locked_by = None;
                next.cause = Some(cause::shortened(cause));
            }
            (OutgoingAct::Redrive { by }, MessageState::Dead) => {
                next.state = MessageState::Unsent;
                next.next_due = mark.now;
                next.attempts = 0;
                next.redrives = self.redrives.saturating_add(1);
                next.intervention = Some(by.clone());
            }
            _ => return Err(OutgoingRefusal::NotPossible),
        }
        next.revision = mark.revision;
        Ok(Self(next))
    }

    /// Since when it is to be sent: its commit, or an operator's redrive.
    pub(crate) fn since(&self) -> chrono::DateTime<chrono::Utc> {
        self.intervention.as_ref().map_or(self.created, |operator| operator.at)
    }
}
