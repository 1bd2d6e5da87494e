//! The state machine of a message: what each event makes of it.

#![cfg_attr(
    not(feature = "messages"),
    allow(dead_code, reason = "only relay, inbox and dead letters use all of it")
)]

use std::time::Duration;

use super::event::{LetterAct, LetterEvent, LetterRefusal, Mark};
use super::letter::{BodyAt, Letter, MessageState, cause_out_of_queue, caused_at};
use crate::core::class::Class;
use crate::core::{cause, time};

/// A message that could not be sent for this long since the first try is dead. It may have waited
/// for longer, behind a dead one.
const LONGEST: Duration = Duration::from_secs(72 * 60 * 60);

impl Letter {
    /// What the event makes of this message.
    pub(crate) fn on(&self, event: &LetterEvent, mark: Mark) -> Result<Self, LetterRefusal> {
        if self.revision != event.seen {
            return Err(LetterRefusal::Changed);
        }
        // Of what is not dead, nothing is held.
        if self.is_held(mark.now) && !event.holds {
            return Err(LetterRefusal::NotDue);
        }
        let mut next = self.0.clone();
        match (&event.act, self.state) {
            (LetterAct::Take { by, lease }, MessageState::Unsent | MessageState::Waiting) => {
                if self.next_due > mark.now {
                    return Err(LetterRefusal::NotDue);
                }
                // Of the one who took it before, no outcome is known.
                if self.state == MessageState::Waiting && self.locked_by.is_some() {
                    next.class = Some(Class::InDoubt);
                }
                next.next_due = time::after(mark.now, *lease);
                next.locked_by = Some(by.clone());
                next.attempts = self.attempts.saturating_add(1);
                next.first_try = self.first_try.or(Some(mark.now));
            }
            (LetterAct::Failed { class, cause, pause }, MessageState::Unsent | MessageState::Waiting) => {
                next.next_due = time::after(mark.now, *pause);
                next.locked_by = None;
                next.class = self.doubt().or(*class);
                next.cause = Some(cause::shortened(cause));
                // Those behind the one that was taken were not counted.
                if self.locked_by.is_none() {
                    next.attempts = self.attempts.saturating_add(1);
                }
                let first = *next.first_try.get_or_insert(mark.now);
                // A consumer says how often it tries.
                if self.state == MessageState::Unsent && time::after(first, LONGEST) <= mark.now {
                    next.state = MessageState::Dead;
                    next.next_due = mark.now;
                }
            }
            (LetterAct::Refused { class, cause }, MessageState::Unsent | MessageState::Waiting) => {
                // Sent without being taken: right after its commit, or behind the one that was. A
                // message that its queue does not deliver was not tried.
                if self.locked_by.is_none() && self.state == MessageState::Unsent {
                    next.attempts = self.attempts.saturating_add(1);
                }
                next.state = MessageState::Dead;
                next.next_due = mark.now;
                next.locked_by = None;
                next.class = self.doubt().or(*class);
                next.cause = Some(caused_at(self.body_at, cause));
            }
            (LetterAct::MoveBody { claim }, MessageState::Dead) if self.is_in_queue() => {
                next.body.clone_from(claim);
                next.body_at = BodyAt::Claim;
                next.cause = self.cause.as_deref().map(|cause| cause_out_of_queue(cause).to_owned());
            }
            (LetterAct::Hold { by, lease }, MessageState::Dead) => {
                next.held_until = Some(time::after(mark.now, *lease));
                next.locked_by = Some(by.clone());
            }
            (LetterAct::Release, MessageState::Dead) => {
                next.held_until = None;
                next.locked_by = None;
            }
            (LetterAct::Redrive { by }, MessageState::Dead) => {
                next.held_until = None;
                next.locked_by = None;
                next.state = self.pending();
                next.next_due = mark.now;
                next.attempts = 0;
                next.first_try = None;
                next.redrives = self.redrives.saturating_add(1);
                next.intervention = Some(by.clone());
            }
            // Archived messages hold nothing up, and one in its queue holds up its group there.
            (LetterAct::Archive { by }, MessageState::Dead) if !self.is_in_queue() => {
                next.held_until = None;
                next.locked_by = None;
                next.state = MessageState::Archived;
                next.at = self.moved(true);
                next.intervention = Some(by.clone());
            }
            (LetterAct::Restore { by }, MessageState::Archived) => {
                next.state = MessageState::Dead;
                next.at = self.moved(false);
                next.intervention = Some(by.clone());
            }
            (LetterAct::Note { by }, MessageState::Dead | MessageState::Archived) => {
                next.intervention = Some(by.clone());
            }
            // It stays dead: a redrive has the corrected message sent or processed. The audit
            // record contains the former body, which is not at hand if it is in a queue.
            (LetterAct::Correct { by, body }, MessageState::Dead) if !self.is_in_queue() => {
                next.body.clone_from(body);
                next.body_at = BodyAt::Item;
                next.intervention = Some(by.clone());
            }
            _ => return Err(LetterRefusal::NotPossible),
        }
        next.revision = mark.revision;
        Ok(Self(next))
    }

    /// What was once in doubt stays so: a later attempt says nothing of it.
    fn doubt(&self) -> Option<Class> {
        self.class.filter(|class| *class == Class::InDoubt)
    }
}
