//! What senders do, one request at a time: as `message::inline` and `message::relay` do it.

use std::time::Duration;

use super::page::{LEASE, at};
use super::world::{Late, World};
use crate::core::message::event::LetterAct;
use crate::core::message::letter::{Letter, MessageState};

/// Messages that are sent before the first of them is deleted.
const TOGETHER: usize = 10;

/// The rules of senders. A walk with a broken rule must find the fault that the rule prevents.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Rules {
    pub(super) broken: Option<Broken>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Broken {
    /// The message that was taken is deleted before the messages that were sent after it.
    TakenIsDeletedFirst,
    /// A relay takes a message that another sender has taken.
    TakesWhatIsNotDue,
    /// A dead message blocks no other message.
    DeadHoldsNothingUp,
    /// A message that its target did not take blocks no other message.
    FailureHoldsNothingUp,
    /// A delete does not depend on the revision that was sent.
    DeletesWhateverIsThere,
    /// A target's silence counts as taken.
    SilenceIsSent,
    /// The process that commits does not stop at the first message that its target does not take.
    InlineGoesOn,
}

impl Broken {
    pub(super) const ALL: [Self; 7] = [
        Self::TakenIsDeletedFirst,
        Self::TakesWhatIsNotDue,
        Self::DeadHoldsNothingUp,
        Self::FailureHoldsNothingUp,
        Self::DeletesWhateverIsThere,
        Self::SilenceIsSent,
        Self::InlineGoesOn,
    ];
}

/// A message as a sender saw it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Seen {
    place: usize,
    id: usize,
    revision: String,
    is_pending: bool,
    due: i64,
}

/// A process that sends, and how far it is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Actor {
    /// The process that committed, before it sends this one.
    Inline {
        next: usize,
    },
    /// It was sent, and is to be deleted.
    InlineSent {
        place: usize,
    },
    Gone,
    /// A relay that has read nothing.
    Idle,
    /// It has read these, and takes the first.
    Read {
        rest: Vec<Seen>,
    },
    /// It took one, and sends until then.
    Sending {
        row: Vec<Seen>,
        now: Seen,
        rest: Vec<Seen>,
        until: i64,
    },
    /// A message was not sent. The relay writes this down, and then deletes the messages that were
    /// sent.
    SetsAside {
        row: Vec<Seen>,
        failed: Seen,
        never: bool,
    },
    Deleting {
        row: Vec<Seen>,
        gone: usize,
        all: bool,
        rest: Vec<Seen>,
    },
}

type Next = Vec<(String, World)>;

fn seen(letter: &Letter, place: usize, id: usize) -> Seen {
    Seen {
        place,
        id,
        revision: letter.revision.clone(),
        is_pending: letter.state == MessageState::Unsent,
        due: letter.next_due.timestamp(),
    }
}

impl World {
    /// Everything that this process may do next.
    pub(super) fn steps_of(&self, number: usize, rules: Rules) -> Next {
        let actor = self.actors[number].clone();
        let to = |world: &Self, actor: Actor| {
            let mut world = world.clone();
            world.actors[number] = actor;
            world
        };
        let mut next: Next = Vec::new();
        if self.faults > 0 && !matches!(actor, Actor::Idle | Actor::Gone) {
            let mut dead = to(self, if number == 0 { Actor::Gone } else { Actor::Idle });
            dead.faults -= 1;
            next.push((format!("{number} dies"), dead));
        }
        match actor {
            Actor::Gone => {}
            Actor::Inline { next: place } => {
                let Some(letter) = self.table.get(place) else {
                    return vec![(format!("{number} is done"), to(self, Actor::Gone))];
                };
                let Some(letter) = letter.clone() else {
                    // It sends from memory.
                    return vec![(format!("{number} goes on"), to(self, Actor::Inline { next: place + 1 }))];
                };
                let goes_on = || match rules.broken {
                    Some(Broken::InlineGoesOn) => Actor::Inline { next: place + 1 },
                    _ => Actor::Gone,
                };
                for (what, after, heard) in self.sends(place) {
                    let then = match heard {
                        Heard::Done => Actor::InlineSent { place },
                        Heard::Silence if rules.broken == Some(Broken::SilenceIsSent) => {
                            Actor::InlineSent { place }
                        }
                        Heard::Later | Heard::Silence => goes_on(),
                        Heard::Never => {
                            let mut refused = to(&after, goes_on());
                            // It has seen the message as it committed it.
                            let act = LetterAct::Refused { class: None, cause: "no".to_owned() };
                            refused.write(place, &format!("commit {place}"), act);
                            next.push((
                                format!("{number} sends {place}: {what}, and sets it aside"),
                                refused,
                            ));
                            continue;
                        }
                    };
                    next.push((format!("{number} sends {place}: {what}"), to(&after, then)));
                }
                drop(letter);
            }
            Actor::InlineSent { place } => {
                let mine =
                    Seen { place, id: place, revision: format!("commit {place}"), is_pending: true, due: 0 };
                for (what, after, gone) in self.deletes(&mine, rules) {
                    let then = if gone { Actor::Inline { next: place + 1 } } else { Actor::Gone };
                    next.push((format!("{number} deletes {place}: {what}"), to(&after, then)));
                }
            }
            Actor::Idle => {
                let stored = self.table.iter().enumerate();
                let rest: Vec<_> = stored
                    .filter_map(|(place, letter)| Some((place, letter.as_ref()?)))
                    .filter(|(_, letter)| letter.state != MessageState::Archived)
                    .filter(|(_, letter)| {
                        letter.state != MessageState::Dead || rules.broken != Some(Broken::DeadHoldsNothingUp)
                    })
                    .map(|(place, letter)| seen(letter, place, self.id(place)))
                    .collect();
                if !rest.is_empty() {
                    next.push((format!("{number} reads"), to(self, Actor::Read { rest })));
                }
            }
            Actor::Read { mut rest } => {
                if rest.is_empty() {
                    return vec![(format!("{number} is done"), to(self, Actor::Idle))];
                }
                let head = rest.remove(0);
                let is_due = head.due <= self.now || rules.broken == Some(Broken::TakesWhatIsNotDue);
                if !head.is_pending || !is_due {
                    return vec![(format!("{number} passes"), to(self, Actor::Idle))];
                }
                let mut after = self.clone();
                let taken = match rules.broken {
                    // As if it were due.
                    Some(Broken::TakesWhatIsNotDue) => {
                        let now = after.now;
                        after.now = now.max(head.due);
                        let taken = after.take(head.place, &head.revision);
                        after.now = now;
                        taken
                    }
                    _ => after.take(head.place, &head.revision),
                };
                let then = match taken {
                    Some(taken) => Actor::Sending {
                        row: Vec::new(),
                        now: seen(&taken, head.place, head.id),
                        rest,
                        until: (taken.next_due - LEASE / 2).timestamp(),
                    },
                    None => Actor::Idle,
                };
                next.push((format!("{number} takes {}", head.place), to(&after, then)));
                if self.faults > 0 {
                    let mut lost = to(self, Actor::Idle);
                    lost.faults -= 1;
                    lost.late.push(Late::Take(head.place, head.revision));
                    next.push((format!("{number} takes {}: late", head.place), lost));
                }
            }
            Actor::Sending { row, now, rest, until } => {
                for (what, after, heard) in self.sends(now.id) {
                    let then = self.after_send((row.clone(), now.clone(), rest.clone(), until), heard, rules);
                    next.push((format!("{number} sends {}: {what}", now.place), to(&after, then)));
                }
            }
            Actor::SetsAside { row, failed, never } => {
                let act = match never {
                    true => LetterAct::Refused { class: None, cause: "no".to_owned() },
                    false => LetterAct::Failed {
                        class: None,
                        cause: "later".to_owned(),
                        pause: Duration::from_secs(5),
                    },
                };
                let mut after = self.clone();
                after.write(failed.place, &failed.revision, act);
                let then = Actor::Deleting { row: row.clone(), gone: 0, all: true, rest: Vec::new() };
                next.push((format!("{number} sets {} aside", failed.place), to(&after, then.clone())));
                if self.faults > 0 {
                    let mut lost = to(self, then);
                    lost.faults -= 1;
                    next.push((format!("{number} sets {} aside: lost", failed.place), lost));
                }
            }
            Actor::Deleting { row, gone, all, rest } => {
                // The message that was taken is deleted last.
                let of = match rules.broken {
                    Some(Broken::TakenIsDeletedFirst) => row.get(gone),
                    _ if gone + 1 < row.len() => row.get(gone + 1),
                    _ if gone < row.len() && all => row.first(),
                    _ => None,
                };
                let Some(of) = of.cloned() else {
                    return vec![(format!("{number} has deleted"), to(self, Actor::Read { rest }))];
                };
                for (what, after, is_gone) in self.deletes(&of, rules) {
                    let then = Actor::Deleting {
                        row: row.clone(),
                        gone: gone + 1,
                        all: all && is_gone,
                        rest: rest.clone(),
                    };
                    next.push((format!("{number} deletes {}: {what}", of.place), to(&after, then)));
                }
            }
        }
        next
    }

    fn after_send(
        &self,
        (mut row, now, mut rest, until): (Vec<Seen>, Seen, Vec<Seen>, i64),
        heard: Heard,
        rules: Rules,
    ) -> Actor {
        let never = heard == Heard::Never;
        let counts =
            heard == Heard::Done || (heard == Heard::Silence && rules.broken == Some(Broken::SilenceIsSent));
        if !counts && rules.broken != Some(Broken::FailureHoldsNothingUp) {
            return Actor::SetsAside { row, failed: now, never };
        }
        if counts {
            row.push(now);
        }
        let is_over = row.len() >= TOGETHER || self.now >= until;
        match rest.first() {
            Some(follower) if !is_over && follower.is_pending => {
                let now = rest.remove(0);
                Actor::Sending { row, now, rest, until }
            }
            _ => Actor::Deleting { row, gone: 0, all: true, rest },
        }
    }

    /// Returns the possible results of a send.
    fn sends(&self, id: usize) -> Vec<(&'static str, Self, Heard)> {
        let with = |pushes: bool, is_fault: bool, late: bool| {
            let mut world = self.clone();
            world.faults -= u8::from(is_fault);
            if pushes {
                world.broker.push(id);
            }
            if late {
                world.late.push(Late::Send(id));
            }
            world
        };
        let mut all = vec![("taken", with(true, false, false), Heard::Done)];
        if self.faults > 0 {
            all.extend([
                ("throttled", with(false, true, false), Heard::Later),
                ("lost", with(false, true, false), Heard::Silence),
                ("taken, its reply lost", with(true, true, false), Heard::Silence),
                ("late", with(false, true, true), Heard::Silence),
                ("refused", with(false, true, false), Heard::Never),
            ]);
        }
        all
    }

    /// Returns the possible results of a delete, and whether the relay knows that the message is
    /// gone.
    fn deletes(&self, of: &Seen, rules: Rules) -> Vec<(&'static str, Self, bool)> {
        let seen = match (rules.broken, &self.table[of.place]) {
            (Some(Broken::DeletesWhateverIsThere), Some(stored)) => stored.revision.clone(),
            _ => of.revision.clone(),
        };
        let mut after = self.clone();
        let gone = after.delete(of.place, &seen);
        let mut all = vec![(if gone { "gone" } else { "changed" }, after, gone)];
        if self.faults > 0 {
            let mut lost = self.clone();
            lost.faults -= 1;
            let mut late = lost.clone();
            late.late.push(Late::Delete(of.place, seen));
            all.extend([("lost", lost, false), ("late", late, false)]);
        }
        all
    }

    /// No process is at work.
    pub(super) fn stop(&mut self) {
        for (number, actor) in self.actors.iter_mut().enumerate() {
            *actor = if number == 0 { Actor::Gone } else { Actor::Idle };
        }
    }

    /// Whether all relays have ended their run.
    pub(super) fn is_over(&self) -> bool {
        self.actors.iter().all(|actor| matches!(actor, Actor::Idle | Actor::Gone))
    }

    pub(super) fn is_due(&self) -> bool {
        let due = |letter: &Letter| letter.state == MessageState::Unsent && letter.next_due <= at(self.now);
        self.table.iter().flatten().any(due)
    }
}

/// The outcome of sending a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Heard {
    Done,
    /// The target does not have it: it throttles, or refuses it for a reason that does not lie in
    /// the message.
    Later,
    /// The target may have it.
    Silence,
    /// The target refuses the message: it is dead at once.
    Never,
}
