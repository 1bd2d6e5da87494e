//! What can happen next.

use std::time::Duration;

use super::super::fate::Fate;
use super::books::Verb;
use super::scenario::WINDOW;
use super::world::{Life, What, World};

/// What becomes of an exchange, and whether it stays so however often the same is sent again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Turn {
    pub(super) fate: Fate,
    pub(super) stays: bool,
}

const fn once(fate: Fate) -> Turn {
    Turn { fate, stays: false }
}

const fn stays(fate: Fate) -> Turn {
    Turn { fate, stays: true }
}

impl Turn {
    pub(super) const WELL: Self = once(Fate::Ok);
}

/// A read that is lost in either direction, or too early, is the same to all.
const OF_A_READ: &[Turn] = &[stays(Fate::Lost), once(Fate::DiesBefore), once(Fate::Lost)];
const OF_A_WRITE: &[Turn] = &[
    once(Fate::ReplyLost),
    stays(Fate::ReplyLost),
    stays(Fate::Lost),
    stays(Fate::Late),
    once(Fate::DiesBefore),
    once(Fate::DiesAfter),
    once(Fate::Late),
    stays(Fate::Throttled),
    stays(Fate::ErrorAfter),
    once(Fate::Conflict),
];
/// To a provider, a conflict is a refusal, and *unavailable* an answer that cannot be read.
const OF_A_CALL: &[Turn] = &[
    once(Fate::ReplyLost),
    once(Fate::Lost),
    once(Fate::Late),
    once(Fate::Throttled),
    once(Fate::DiesBefore),
    once(Fate::DiesAfter),
    once(Fate::Conflict),
    once(Fate::UnavailableAfter),
];
const OF_A_QUESTION: &[Turn] = &[once(Fate::Lost), once(Fate::DiesBefore)];
/// How many of each kind are tried where only few are.
const FEW: [usize; 4] = [2, 6, 8, 2];

/// How long it takes until the next actor comes: at once, when what it finds is overdue, or when
/// the provider has forgotten.
const JUMPS: [Duration; 3] =
    [Duration::ZERO, Duration::from_secs(70), Duration::from_secs(WINDOW.as_secs() + 70)];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    Grant(usize, Turn),
    /// The next actor comes, after this time.
    Come(Duration),
    /// Another actor goes on, and this one sleeps.
    GoOn(usize),
    /// A late request arrives.
    Deliver(usize),
    /// A completer does what is due, and then the sleepers wake.
    Settle,
}

impl World {
    /// Everything that can happen next; what usually does comes first.
    pub(super) fn options(&self, current: Option<usize>, more: bool, pause: Duration) -> Vec<Next> {
        let mut options = Vec::new();
        let awake = current.filter(|actor| self.actors[*actor].life == Life::Alive);
        let others = (0..self.actors.len())
            .filter(|actor| self.actors[*actor].life == Life::Alive && Some(*actor) != awake)
            .map(Next::GoOn);
        if let Some(actor) = awake {
            options.push(Next::Grant(actor, Turn::WELL));
            options.extend(self.turns(actor).map(|turn| Next::Grant(actor, turn)));
            if more {
                options.extend(JUMPS.map(Next::Come));
            }
            options.extend(others);
        } else if more {
            options.extend([Next::Come(pause), Next::Come(Duration::ZERO)]);
            options.extend(others);
        } else {
            options.extend(others);
            if !options.is_empty() {
                options.push(Next::Settle);
            }
        }
        if !options.is_empty() {
            options.extend((0..self.late.len()).map(Next::Deliver));
        }
        options
    }

    fn turns(&self, actor: usize) -> impl Iterator<Item = Turn> + use<> {
        let (turns, few) = match self.waiting(actor).map(|request| &request.what) {
            None => (OF_A_READ, 0),
            Some(What::Table { operation, .. }) => match operation.as_str() {
                "GetItem" | "Query" => (OF_A_READ, FEW[0]),
                _ => (OF_A_WRITE, FEW[1]),
            },
            Some(What::Send(_)) => (OF_A_CALL, FEW[2]),
            Some(What::Call(call)) => match call.verb {
                Verb::Do | Verb::Undo => (OF_A_CALL, FEW[2]),
                Verb::Probe | Verb::ProbeUndo => (OF_A_QUESTION, FEW[3]),
            },
        };
        let all = self.fates.len() > super::super::fate::FEW.len();
        turns.iter().copied().take(if all { turns.len() } else { few })
    }
}
