//! What really happens in a plan, and what each actor hears of it.

use locker::Clock as _;
use locker::message::Sent;
use std::fmt;
use std::hash::{DefaultHasher, Hash as _};
use std::task::Waker;

use super::super::choices::Choices;
use super::super::fate::Fate;
use super::super::ids::of_any_plan;
use super::super::invariant::{Invariant, Violation};
use super::super::memory::Memory;
use super::super::port::{Heard, Wire};
use super::books::{Books, Call};
use super::broker::{Post, Sending};
use super::options::Turn;
use super::provider::Answer;
use super::scenario::{FORGETS, Provider};
use super::told::Told;
use crate::TestClock;

/// The actor that settles everything in the end. All goes well for it.
pub(super) const SETTLER: usize = 8;

/// A request on its way, or a call.
#[derive(Debug, Clone)]
pub(super) enum What {
    Table { operation: String, body: Vec<u8> },
    Call(Call),
    Send(Sending),
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Table { operation, body } => write!(f, "{operation} {}", String::from_utf8_lossy(body)),
            Self::Call(call) => write!(f, "{call:?}"),
            Self::Send(sending) => write!(f, "{sending:?}"),
        }
    }
}

#[derive(Debug)]
pub(super) enum Reply {
    Table(Box<Heard>),
    Call(Answer),
    Send(Sent),
}

#[derive(Debug)]
pub(super) struct Request {
    pub(super) number: u64,
    pub(super) actor: usize,
    pub(super) what: What,
    pub(super) reply: Option<Reply>,
    waker: Option<Waker>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(super) enum Life {
    #[default]
    NotYet,
    Alive,
    Ended,
    Died,
}

#[derive(Debug, Default)]
pub(super) struct Actor {
    pub(super) life: Life,
    /// Everything that it asked and heard, and when: what it does next depends on nothing else.
    pub(super) history: DefaultHasher,
    /// The request that does not get through, however often it is sent.
    pub(super) outage: Option<Vec<u8>>,
}

#[derive(Debug)]
pub(super) struct World {
    pub(super) memory: Memory,
    pub(super) clock: TestClock,
    pub(super) choices: Choices,
    /// So often may something go otherwise.
    pub(super) left: usize,
    pub(super) fates: &'static [Fate],
    pub(super) provider: Provider,
    pub(super) actors: [Actor; SETTLER + 1],
    pub(super) requests: Vec<Request>,
    next: u64,
    /// Counts the plans.
    pub(super) plan: u64,
    /// What arrives late, and who sent it.
    pub(super) late: Vec<(usize, What)>,
    pub(super) books: Books,
    pub(super) post: Post,
    pub(super) told: Told,
    pub(super) violations: Vec<Violation>,
    pub(super) exchanges: usize,
    pub(super) trace: Option<Vec<String>>,
    /// The scheduler, which waits until every actor does.
    pub(super) scheduler: Option<Waker>,
}

impl World {
    pub(super) fn new(memory: Memory, clock: TestClock) -> Self {
        Self {
            memory,
            clock,
            choices: Choices::from_plan(&super::super::Plan::default()),
            left: 0,
            fates: super::super::fate::FEW,
            provider: FORGETS,
            actors: Default::default(),
            requests: Vec::new(),
            next: 0,
            plan: 0,
            late: Vec::new(),
            books: Books::default(),
            post: Post::default(),
            told: Told::default(),
            violations: Vec::new(),
            exchanges: 0,
            trace: None,
            scheduler: None,
        }
    }

    /// Forget a plan. Its items are cleared away by what made them.
    pub(super) fn reset(&mut self) {
        self.actors = Default::default();
        self.requests.clear();
        self.late.clear();
        self.books = Books::default();
        self.post = Post::default();
        self.told = Told::default();
        self.violations.clear();
        self.exchanges = 0;
        self.scheduler = None;
    }

    pub(super) fn decide(&mut self, of: usize) -> usize {
        let decided = if self.left == 0 { 0 } else { self.choices.pick_rarely(of) };
        self.left -= usize::from(decided > 0);
        decided
    }

    pub(super) fn note(&mut self, line: impl FnOnce() -> String) {
        if let Some(trace) = &mut self.trace {
            trace.push(line());
        }
    }

    pub(super) fn violated(&mut self, invariant: Invariant, seen: String) {
        self.judged(Some(Violation { invariant, seen }));
    }

    pub(super) fn judged(&mut self, violation: Option<Violation>) {
        let Some(violation) = violation else { return };
        self.note(|| format!("VIOLATED {violation}"));
        self.violations.push(violation);
    }

    /// A request or a call arrives at the wire.
    pub(super) fn asks(&mut self, actor: usize, what: What) -> u64 {
        let now = self.clock.now().timestamp_millis();
        (of_any_plan(&what.to_string(), self.plan), now).hash(&mut self.actors[actor].history);
        if let What::Call(call) = &what {
            self.judge_call(actor, call);
        }
        self.next += 1;
        let number = self.next;
        self.requests.push(Request { number, actor, what, reply: None, waker: None });
        if actor == SETTLER {
            self.grant(number, Turn::WELL);
        }
        if let Some(scheduler) = &self.scheduler {
            scheduler.wake_by_ref();
        }
        number
    }

    /// The first request of an actor that waits for an answer.
    pub(super) fn waiting(&self, actor: usize) -> Option<&Request> {
        self.requests.iter().find(|request| request.actor == actor && request.reply.is_none())
    }

    /// Whether an actor was given an answer that it has not taken yet.
    pub(super) fn is_to_take(&self, actor: usize) -> bool {
        self.requests.iter().any(|request| request.actor == actor && request.reply.is_some())
    }

    pub(super) fn take_reply(&mut self, number: u64, waker: &Waker) -> Option<Reply> {
        let request = self.requests.iter_mut().find(|request| request.number == number)?;
        let reply = request.reply.take();
        if reply.is_none() {
            request.waker = Some(waker.clone());
        }
        if reply.is_some() {
            self.requests.retain(|request| request.number != number);
        }
        reply
    }

    /// Give a request its answer.
    pub(super) fn answer(&mut self, number: u64, reply: Reply) {
        let now = self.clock.now().timestamp_millis();
        let Some(request) = self.requests.iter_mut().find(|request| request.number == number) else { return };
        (of_any_plan(&format!("{reply:?}"), self.plan), now).hash(&mut self.actors[request.actor].history);
        request.reply = Some(reply);
        if let Some(waker) = request.waker.take() {
            waker.wake();
        }
    }

    /// An actor dies, with all that it waits for.
    pub(super) fn dies(&mut self, actor: usize) {
        self.actors[actor].life = Life::Died;
        self.requests.retain(|request| request.actor != actor);
        self.books.forget(actor);
        self.note(|| format!("actor {actor} dies"));
    }
}

impl Wire for World {
    fn arrives(&mut self, client: usize, operation: &str, body: &[u8], _: bool) -> u64 {
        self.asks(client, What::Table { operation: operation.to_owned(), body: in_order(body).into_bytes() })
    }

    fn heard(&mut self, request: u64, waker: &Waker) -> Option<Heard> {
        match self.take_reply(request, waker)? {
            Reply::Table(heard) => Some(*heard),
            Reply::Call(_) | Reply::Send(_) => None,
        }
    }

    fn leaves(&mut self, request: u64) {
        self.requests.retain(|other| other.number != request);
    }
}

/// The same JSON with its names in order. Those of the SDK and of the engine are in any.
pub(super) fn in_order(json: &[u8]) -> String {
    serde_json::from_slice::<serde_json::Value>(json).expect("JSON").to_string()
}
