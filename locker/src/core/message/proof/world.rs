//! A subject with its messages in the table, the messages that its broker took, and the processes.

use std::time::Duration;

use super::page::{LEASE, ada, at, committed};
use super::relays::{Actor, Rules};
use crate::core::message::event::{LetterAct, LetterEvent, Mark};
use crate::core::message::letter::{Letter, MessageState};

/// The possible events, and their numbers.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scene {
    pub(super) messages: usize,
    pub(super) relays: usize,
    /// Requests and sends that go wrong, and processes that die.
    pub(super) faults: u8,
    /// How often the time jumps.
    pub(super) jumps: u8,
    /// Acts of an operator.
    pub(super) acts: u8,
    /// Whether the workflow is started again after all messages were sent, so that other messages
    /// are in the same places.
    pub(super) begins_anew: bool,
    pub(super) rules: Rules,
}

/// A request that has not arrived yet.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Late {
    Send(usize),
    Delete(usize, String),
    /// A write that depends on the revision, and its result.
    Take(usize, String),
}

#[derive(Debug, Clone)]
pub(super) struct World {
    /// By place.
    pub(super) table: Vec<Option<Letter>>,
    /// Whether the workflow was started again, so that each place has another message.
    pub(super) is_second: bool,
    pub(super) broker: Vec<usize>,
    pub(super) late: Vec<Late>,
    pub(super) actors: Vec<Actor>,
    pub(super) now: i64,
    pub(super) faults: u8,
    pub(super) jumps: u8,
    pub(super) acts: u8,
    /// Messages that an operator let others pass.
    pub(super) passed: Vec<bool>,
    pub(super) discarded: Vec<bool>,
    writes: Vec<u32>,
}

impl Scene {
    /// Whether every process is in time and every request has its reply.
    pub(super) const fn is_calm(self) -> bool {
        self.faults == 0 && self.jumps == 0
    }
}

impl World {
    /// Right after the commit: its process begins to send. If nothing goes wrong and no time
    /// passes, two relays begin later.
    pub(super) fn new(scene: Scene) -> Self {
        let is_calm = scene.is_calm();
        let mut actors = vec![if is_calm { Actor::Gone } else { Actor::Inline { next: 0 } }];
        actors.extend(std::iter::repeat_n(Actor::Idle, scene.relays));
        Self {
            table: (0..scene.messages).map(|place| Some(committed(place, "commit", 0))).collect(),
            is_second: false,
            broker: Vec::new(),
            late: Vec::new(),
            actors,
            now: if is_calm { 100 } else { 1 },
            faults: scene.faults,
            jumps: scene.jumps,
            acts: scene.acts,
            passed: vec![false; 2 * scene.messages],
            discarded: vec![false; 2 * scene.messages],
            writes: vec![0; scene.messages],
        }
    }

    /// What makes it another world.
    pub(super) fn place(&self) -> String {
        let letter = |letter: &Option<Letter>| {
            letter.as_ref().map(|it| (it.revision.clone(), it.state, it.next_due, it.locked_by.is_some()))
        };
        let table: Vec<_> = self.table.iter().map(letter).collect();
        let mut late = self.late.clone();
        late.sort();
        // Relays are alike.
        let mut relays: Vec<_> = self.actors.iter().skip(1).map(|actor| format!("{actor:?}")).collect();
        relays.sort();
        format!(
            "{table:?} {} {:?} {late:?} {:?} {relays:?} {} {} {} {} {:?}",
            self.is_second,
            self.broker,
            self.actors[0],
            self.now,
            self.faults,
            self.jumps,
            self.acts,
            self.passed
        )
    }

    /// The message that is in this place now.
    pub(super) fn id(&self, place: usize) -> usize {
        place + if self.is_second { self.table.len() } else { 0 }
    }

    /// The workflow was deleted, and is started again.
    pub(super) fn begun_anew(&self) -> Option<(String, Self)> {
        let may = !self.is_second && self.table.iter().all(Option::is_none);
        may.then(|| {
            let mut after = self.clone();
            after.is_second = true;
            for place in 0..after.table.len() {
                after.table[place] = Some(committed(place, "another commit", after.now));
            }
            ("it is begun anew".to_owned(), after)
        })
    }

    fn mark(&mut self, place: usize) -> Mark {
        self.writes[place] += 1;
        Mark { now: at(self.now), revision: format!("{place}-{}", self.writes[place]) }
    }

    /// Writes if the revision is the same. Returns the written message, if it was written.
    pub(super) fn write(&mut self, place: usize, seen: &str, act: LetterAct) -> Option<Letter> {
        let stored = self.table[place].clone()?;
        let event = LetterEvent::new(seen, act);
        let next = stored.on(&event, self.mark(place)).ok()?;
        self.table[place] = Some(next.clone());
        Some(next)
    }

    pub(super) fn take(&mut self, place: usize, seen: &str) -> Option<Letter> {
        self.write(place, seen, LetterAct::Take { by: "relay".to_owned(), lease: LEASE })
    }

    /// Returns whether the message is gone, as the reply to the delete reports it.
    pub(super) fn delete(&mut self, place: usize, seen: &str) -> bool {
        match &self.table[place] {
            Some(stored) if stored.revision != seen => false,
            _ => {
                self.table[place] = None;
                true
            }
        }
    }

    /// Each late request, and the world after it arrived.
    pub(super) fn arrivals(&self) -> Vec<(String, Self)> {
        let arrive = |number: usize| {
            let mut after = self.clone();
            let late = after.late.remove(number);
            match &late {
                Late::Send(id) => after.broker.push(*id),
                Late::Delete(place, seen) => drop(after.delete(*place, seen)),
                Late::Take(place, seen) => drop(after.take(*place, seen)),
            }
            (format!("late: {late:?}"), after)
        };
        (0..self.late.len()).map(arrive).collect()
    }

    /// Returns the possible acts of an operator on dead and archived messages.
    pub(super) fn decisions(&self) -> Vec<(String, Self)> {
        let mut all = Vec::new();
        for (place, letter) in self.table.iter().enumerate() {
            let Some(letter) = letter.as_ref().filter(|_| self.acts > 0) else { continue };
            let mut decide = |verb: &str, passes: bool, act: Option<LetterAct>| {
                let mut after = self.clone();
                after.acts -= 1;
                let id = after.id(place);
                after.passed[id] |= passes;
                let done = match act {
                    Some(act) => after.write(place, &letter.revision, act).is_some(),
                    None => after.delete(place, &letter.revision),
                };
                after.discarded[id] |= verb == "discard";
                assert!(done, "an operator acts on what was read");
                all.push((format!("operator: {verb} {place}"), after));
            };
            let by = ada(self.now);
            match letter.state {
                MessageState::Dead => {
                    decide("redrive", false, Some(LetterAct::Redrive { by: by.clone() }));
                    decide("archive", true, Some(LetterAct::Archive { by }));
                    decide("discard", true, None);
                }
                MessageState::Archived => decide("restore", true, Some(LetterAct::Restore { by })),
                MessageState::Unsent | MessageState::Waiting => {}
            }
        }
        all
    }

    /// Checks the promises.
    pub(super) fn judge(&self, scene: Scene) -> Result<(), String> {
        let sent_twice = |place| self.broker.iter().filter(|sent| **sent == place).count() > 1;
        if scene.is_calm() && (0..self.passed.len()).any(sent_twice) {
            return Err(format!("a message is sent twice for no reason: {:?}", self.broker));
        }
        let first = |id: usize| self.broker.iter().position(|sent| *sent == id);
        let messages = self.table.len();
        for id in 0..if self.is_second { 2 * messages } else { messages } {
            let place = id % messages;
            let is_kept = self.id(place) == id && self.table[place].is_some();
            if !is_kept && first(id).is_none() && !self.discarded[id] {
                return Err(format!("message {id} is lost: {:?}", self.broker));
            }
            for later in id + 1..id + messages - place {
                let overtakes = match (first(id), first(later)) {
                    (Some(one), Some(other)) => other < one,
                    (None, Some(_)) => true,
                    _ => false,
                };
                if overtakes && !self.passed[id] {
                    return Err(format!("message {later} came before {id}: {:?}", self.broker));
                }
            }
        }
        Ok(())
    }

    pub(super) fn advance(&mut self, by: Duration) {
        self.now += i64::try_from(by.as_secs()).expect("seconds");
    }
}
