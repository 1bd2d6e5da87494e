//! The state machine of a message: the next state for each event.

#![cfg_attr(
    not(feature = "messages"),
    allow(dead_code, reason = "only relay, inbox and dead letters use all of it")
)]

use std::time::Duration;

use super::event::{LetterAct, LetterEvent, LetterRefusal, Mark};
use super::letter::{BodyAt, Letter, MessageState, cause_out_of_queue, caused_at};
use crate::core::class::Class;
use crate::core::{cause, time};

/// A message that could not be sent for this long since its first try is dead. The time before the
/// first try does not count: the message may have been queued after a dead message.
const LONGEST: Duration = Duration::from_secs(72 * 60 * 60);

impl Letter {
    /// Returns this message after the event.
    pub(crate) fn on(&self, event: &LetterEvent, mark: Mark) -> Result<Self, LetterRefusal> {
        // A relay and an operator decide from the same message. Only the first of them writes.
        if self.revision != event.seen {
            return Err(LetterRefusal::Changed);
        }
        // Only dead messages are held.
        if self.is_held(mark.now) && !event.holds {
            return Err(LetterRefusal::NotDue);
        }
        let mut next = self.0.clone();
        match (&event.act, self.state) {
            (LetterAct::Take { by, lease }, MessageState::Unsent | MessageState::Waiting) => {
                // Another relay has the message until then, or its pause is not over. Without this,
                // two relays would send it at the same time.
                if self.next_due > mark.now {
                    return Err(LetterRefusal::NotDue);
                }
                // The outcome of the attempt before is unknown: its lease ended without a write.
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
                // Taking a message counts its attempt. A message that was sent without being taken
                // is counted here.
                if self.locked_by.is_none() {
                    next.attempts = self.attempts.saturating_add(1);
                }
                let first = *next.first_try.get_or_insert(mark.now);
                // A consumer limits attempts, not time.
                if self.state == MessageState::Unsent && time::after(first, LONGEST) <= mark.now {
                    next.state = MessageState::Dead;
                    next.next_due = mark.now;
                }
            }
            (LetterAct::Refused { class, cause }, MessageState::Unsent | MessageState::Waiting) => {
                // The message was sent without being taken: right after its commit, or after the
                // message of its subject that was taken. A message that its queue does not deliver
                // was not tried.
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
            // Later messages do not wait for an archived message. If the body is in its queue, the
            // group waits there, so such a message cannot be archived.
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
            // The message stays dead: a redrive has the corrected message sent or processed. The
            // audit record contains the former body, which is missing here if it is in a queue.
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

    /// A message stays in doubt: the outcome of a later attempt does not show that of an earlier
    /// one.
    fn doubt(&self) -> Option<Class> {
        self.class.filter(|class| *class == Class::InDoubt)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::message::letter::tests::{aside, at, committed};
    use crate::core::message::letter::{LetterData, Order, ReceivedLetter};

    /// Received at 10, after a dead message of its group.
    fn waiting() -> Letter {
        Letter::received(ReceivedLetter { dead: None, ..aside(Order::Group("order/7")) })
    }

    fn take() -> LetterAct {
        LetterAct::Take { by: "relay".to_owned(), lease: Duration::from_secs(60) }
    }

    fn failed(class: Option<Class>) -> LetterAct {
        LetterAct::Failed { class, cause: "no reply".to_owned(), pause: Duration::from_secs(5) }
    }

    fn refused(class: Option<Class>) -> LetterAct {
        LetterAct::Refused { class, cause: "no such queue".to_owned() }
    }

    fn on(letter: &Letter, seconds: i64, act: LetterAct) -> Result<Letter, LetterRefusal> {
        let mark = Mark { now: at(seconds), revision: "next".to_owned() };
        letter.on(&LetterEvent::new(&letter.revision, act), mark)
    }

    #[test]
    fn waiting_message_is_in_doubt_if_its_lease_ends() {
        let taken = on(&waiting(), 10, take()).unwrap();
        assert_eq!((taken.class, taken.next_due), (None, at(70)));
        assert_eq!(on(&taken, 69, take()), Err(LetterRefusal::NotDue));
        assert!(on(&taken, 70, take()).unwrap().is_in_doubt());
    }

    #[test]
    fn later_failure_replaces_each_class_but_in_doubt() {
        for (class, next) in [
            (None, Class::Permanent),
            (Some(Class::Transient), Class::Permanent),
            (Some(Class::InDoubt), Class::InDoubt),
        ] {
            let letter = Letter(LetterData { class, ..committed().0 });
            for act in [failed(Some(Class::Permanent)), refused(Some(Class::Permanent))] {
                assert_eq!(on(&letter, 40, act).unwrap().class, Some(next), "{class:?}");
            }
        }
    }

    #[test]
    fn message_is_dead_72_hours_after_its_first_try() {
        let tried = on(&committed(), 40, failed(None)).unwrap();
        let state_after = |seconds: i64| on(&tried, 40 + seconds, failed(None)).unwrap().state;
        assert_eq!(state_after(259_199), MessageState::Unsent);
        assert_eq!(state_after(259_200), MessageState::Dead);
    }

    #[test]
    fn refusal_of_an_unsent_message_counts_one_attempt() {
        let attempts = |letter: &Letter| on(letter, 50, refused(None)).unwrap().attempts;
        let taken = on(&committed(), 40, take()).unwrap();
        assert_eq!([&committed(), &taken].map(attempts), [1, 1]);
        assert_eq!(attempts(&waiting()), 0, "a message that its queue does not deliver was not tried");
    }
}
