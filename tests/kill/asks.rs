//! Which token is asked for next, and what was answered so far.

use std::collections::{HashMap, VecDeque};
use std::sync::Mutex;
use std::time::Duration;

use tokio::time::Instant;

/// How often a token is asked for, each time until there is an answer or no patience.
const COPIES: u32 = 2;
/// How often one of them tries.
const TRIES: u32 = 6;
/// New tokens come in blocks, in which the copies are mixed, so that several ask at the same time.
const BLOCK: u32 = 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Kind {
    /// Of the functions.
    Order,
    /// Of `locker once`.
    Once,
    /// Of the workers that take over.
    Taken,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Token {
    pub(crate) kind: Kind,
    pub(crate) id: u32,
}

impl Token {
    pub(crate) fn key(self) -> String {
        match self.kind {
            Kind::Order => format!("@kim/order/create/{}", self.id),
            Kind::Once => format!("once/{}", self.id),
            Kind::Taken => format!("taken/{}", self.id),
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Ask {
    pub(crate) token: Token,
    tries: u32,
    not_before: Instant,
}

/// What an ask came to.
#[derive(Debug)]
pub(crate) enum Came {
    /// An answer, with its text where the caller gets it.
    Answered(Option<String>),
    Nothing,
}

pub(crate) struct Asks(Mutex<State>);

struct State {
    queues: HashMap<Kind, Queue>,
    rng: fastrand::Rng,
    /// What each token that was asked for has answered: `None` while it has not.
    told: HashMap<Token, Option<Told>>,
    /// Tokens whose callers got different answers.
    differing: Vec<String>,
    finished: u64,
}

#[derive(Default)]
struct Told(Option<String>);

struct Queue {
    waiting: VecDeque<Ask>,
    next: u32,
    limit: u32,
    out: usize,
}

impl Asks {
    pub(crate) fn new(tokens: u32, seed: u64) -> Self {
        // A process for each token is slow, so there are fewer of these.
        let once = (tokens / 25).min(1000);
        let taken = tokens / 20;
        let limits = [(Kind::Order, tokens - once - taken), (Kind::Once, once), (Kind::Taken, taken)];
        let queue = |limit| Queue { waiting: VecDeque::new(), next: 0, limit, out: 0 };
        Self(Mutex::new(State {
            queues: limits.into_iter().map(|(kind, limit)| (kind, queue(limit))).collect(),
            rng: fastrand::Rng::with_seed(seed ^ 0xa5),
            told: HashMap::new(),
            differing: Vec::new(),
            finished: 0,
        }))
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.lock().expect("the asks")
    }

    /// Up to this many asks. `None`: there will be no more.
    pub(crate) fn take(&self, kind: Kind, most: usize) -> Option<Vec<Ask>> {
        let mut state = self.state();
        let State { queues, rng, told, .. } = &mut *state;
        let queue = queues.get_mut(&kind)?;
        let now = Instant::now();
        let mut taken = Vec::new();
        for _ in 0..queue.waiting.len() {
            let Some(ask) = queue.waiting.pop_front() else { break };
            if taken.len() < most && ask.not_before <= now {
                taken.push(ask);
            } else {
                queue.waiting.push_back(ask);
            }
        }
        if taken.len() < most && queue.next < queue.limit {
            let end = queue.limit.min(queue.next + BLOCK);
            let mut block: Vec<u32> = (queue.next..end).flat_map(|id| [id; COPIES as usize]).collect();
            rng.shuffle(&mut block);
            queue.next = end;
            for id in block {
                let token = Token { kind, id };
                told.entry(token).or_insert(None);
                queue.waiting.push_back(Ask { token, tries: 0, not_before: now });
            }
            while taken.len() < most && queue.waiting.back().is_some() {
                taken.extend(queue.waiting.pop_back());
            }
        }
        queue.out += taken.len();
        let over = taken.is_empty() && queue.out == 0 && queue.waiting.is_empty();
        (!over).then_some(taken)
    }

    pub(crate) fn done(&self, ask: Ask, came: Came) {
        let mut state = self.state();
        let State { queues, told, differing, finished, .. } = &mut *state;
        let Some(queue) = queues.get_mut(&ask.token.kind) else { return };
        queue.out -= 1;
        match came {
            Came::Answered(answer) => {
                *finished += 1;
                let Told(before) = told.entry(ask.token).or_default().get_or_insert_default();
                match (before, answer) {
                    (Some(before), Some(answer)) if *before != answer => {
                        differing.push(format!("{}: {before} and {answer}", ask.token.key()));
                    }
                    (before @ None, answer) => *before = answer,
                    _ => {}
                }
            }
            Came::Nothing if ask.tries + 1 < TRIES => {
                let pause = Duration::from_millis(150 << ask.tries);
                let (tries, not_before) = (ask.tries + 1, Instant::now() + pause);
                queue.waiting.push_back(Ask { tries, not_before, ..ask });
            }
            Came::Nothing => *finished += 1,
        }
    }

    /// Ask for no token that was not asked for before.
    pub(crate) fn no_more(&self) {
        for queue in self.state().queues.values_mut() {
            queue.limit = queue.next;
        }
    }

    /// Ask once more for what has no answer.
    pub(crate) fn ask_again(&self) {
        let mut state = self.state();
        let silent = silent(&state);
        for token in silent {
            let ask = Ask { token, tries: TRIES - 2, not_before: Instant::now() };
            if let Some(queue) = state.queues.get_mut(&token.kind) {
                queue.waiting.push_back(ask);
            }
        }
    }

    /// Asks that came to an end, of how many.
    pub(crate) fn progress(&self) -> (u64, u64) {
        let state = self.state();
        let tokens: u32 = state.queues.values().map(|queue| queue.limit).sum();
        (state.finished, u64::from(tokens * COPIES))
    }

    /// How many tokens were asked for.
    pub(crate) fn tokens(&self) -> usize {
        self.state().told.len()
    }

    /// What was asked for and not answered.
    pub(crate) fn silent(&self) -> Vec<Token> {
        silent(&self.state())
    }

    pub(crate) fn differing(&self) -> Vec<String> {
        self.state().differing.clone()
    }
}

fn silent(state: &State) -> Vec<Token> {
    let mut silent: Vec<_> =
        state.told.iter().filter(|(_, told)| told.is_none()).map(|(token, _)| *token).collect();
    silent.sort_unstable();
    silent
}
