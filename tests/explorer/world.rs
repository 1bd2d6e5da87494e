//! What really happens in a plan, and what each client learns: the judge sees both.

use std::task::Waker;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use locker::Clock as _;
use serde_json::Value;
use tokio::time::Instant;

use super::choices::Choices;
use super::fate::{Fate, Learned, heard};
use super::invariant::{Invariant, Violation};
use super::memory::{Memory, Reply};
use super::port::{Heard, Wire};
use super::stored::{Stored, StoredState};
use crate::TestClock;

/// The allowance for clock skew that every locker of a plan has.
pub(super) const SKEW: TimeDelta = TimeDelta::seconds(5);

/// What a request does to the token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Begin,
    Finish,
    Release,
    Doubt,
    /// A begin whose outcome is unknown gives back the token that it took over: its own due time
    /// ends, and that of the attempt before counts again.
    GiveBack,
    Extend,
    /// Reads, and what happens to the item of an answer.
    Beside,
}

/// A request on its way.
#[derive(Debug, Clone)]
pub(super) struct Asked {
    pub(super) client: usize,
    pub(super) call: u64,
    pub(super) kind: Kind,
    /// The attempt that it is sent for.
    pub(super) attempt: String,
    pub(super) operation: String,
    pub(super) body: Vec<u8>,
}

/// A write that was applied to the token.
#[derive(Debug)]
struct Written {
    call: u64,
    client: usize,
    kind: Kind,
    attempt: String,
}

#[derive(Debug, Default)]
pub(super) struct Client {
    pub(super) parked: Option<Asked>,
    pub(super) heard: Option<Heard>,
    call: u64,
    /// How far its program is: the call, and how often it asked and sent an end.
    pub(super) at: (&'static str, usize, usize),
    /// Whether it got an answer, its own or another client's.
    pub(super) answered: bool,
    /// What its present call has learned, and when.
    pub(super) in_call: Vec<(Learned, Duration)>,
    call_began: Option<Instant>,
    /// The attempt of the begin that is on its way, or of the token that it holds.
    pub(super) attempt: String,
}

/// One plan as it plays out.
#[derive(Debug)]
pub(super) struct World {
    pub(super) memory: Memory,
    pub(super) clock: TestClock,
    pub(super) choices: Choices,
    /// So many exchanges more may go in several ways.
    pub(super) depth: usize,
    pub(super) fates: &'static [Fate],
    pub(super) take_over: bool,
    pub(super) key: String,
    pub(super) clients: [Client; 3],
    pub(super) late: Vec<Asked>,
    pub(super) effects: Vec<String>,
    pub(super) answers: Vec<String>,
    pub(super) violations: Vec<Violation>,
    pub(super) exchanges: usize,
    written: Vec<Written>,
    pub(super) beside: Vec<String>,
    pub(super) trace: Option<Vec<String>>,
}

impl World {
    pub(super) fn new(memory: Memory, clock: TestClock) -> Self {
        Self {
            memory,
            clock,
            choices: Choices::from_plan(&super::Plan::default()),
            depth: 0,
            fates: super::fate::FEW,
            take_over: false,
            key: String::new(),
            clients: Default::default(),
            late: Vec::new(),
            effects: Vec::new(),
            answers: Vec::new(),
            violations: Vec::new(),
            exchanges: 0,
            written: Vec::new(),
            beside: Vec::new(),
            trace: None,
        }
    }

    /// Forget a plan, and clear its items away.
    pub(super) fn reset(&mut self) {
        self.memory.delete(&self.key);
        for key in std::mem::take(&mut self.beside) {
            self.memory.delete(&key);
        }
        self.clients = Default::default();
        self.late.clear();
        self.effects.clear();
        self.answers.clear();
        self.violations.clear();
        self.written.clear();
        self.exchanges = 0;
    }

    pub(super) fn decide(&mut self, of: usize) -> usize {
        if self.depth == 0 { 0 } else { self.choices.pick(of) }
    }

    pub(super) fn note(&mut self, line: impl FnOnce() -> String) {
        if let Some(trace) = &mut self.trace {
            trace.push(line());
        }
    }

    pub(super) fn violated(&mut self, invariant: Invariant, seen: String) {
        self.note(|| format!("VIOLATED {}: {seen}", invariant.as_str()));
        self.violations.push(Violation { invariant, seen });
    }

    pub(super) fn now(&self) -> DateTime<Utc> {
        self.clock.now()
    }

    pub(super) fn token(&self) -> Option<Stored> {
        self.memory.item(&self.key).map(Stored::of)
    }

    /// A client starts a call of the library.
    pub(super) fn calls(&mut self, client: usize, at: (&'static str, usize, usize)) {
        self.clients[client].call += 1;
        self.calls_again(client, at);
    }

    /// A client sends the same end again.
    pub(super) fn calls_again(&mut self, client: usize, at: (&'static str, usize, usize)) {
        let client = &mut self.clients[client];
        client.at = at;
        client.in_call.clear();
        client.call_began = Some(Instant::now());
    }

    /// How long a client's present call has taken.
    pub(super) fn elapsed(&self, client: usize) -> Duration {
        self.clients[client].call_began.map_or(Duration::ZERO, |began| began.elapsed())
    }

    /// A client's request arrives at the wire.
    pub(super) fn ask(&mut self, client: usize, operation: &str, body: &[u8]) -> Asked {
        let request: Value = serde_json::from_slice(body).unwrap_or_default();
        let key = &request[if operation == "PutItem" { "Item" } else { "Key" }]["lockToken"]["S"];
        let key = key.as_str().map(str::to_owned);
        let update = request["UpdateExpression"].as_str().unwrap_or_default();
        let begins = self.clients[client].at.0 == "begin";
        let kind = match operation {
            _ if key.as_ref() != Some(&self.key) => Kind::Beside,
            "PutItem" => Kind::Begin,
            "DeleteItem" => Kind::Release,
            "UpdateItem" if update.contains("actualCompletion") => Kind::Finish,
            "UpdateItem" if update.contains("#cause") && begins => Kind::GiveBack,
            "UpdateItem" if update.contains("#cause") => Kind::Doubt,
            "UpdateItem" => Kind::Extend,
            _ => Kind::Beside,
        };
        if kind == Kind::Begin {
            self.clients[client].attempt =
                request["Item"]["attempt"]["S"].as_str().unwrap_or_default().to_owned();
        }
        if operation == "PutItem" && kind == Kind::Beside {
            self.beside.extend(key);
        }
        let Client { call, attempt, .. } = &self.clients[client];
        Asked {
            client,
            call: *call,
            kind,
            attempt: attempt.clone(),
            operation: operation.to_owned(),
            body: body.to_vec(),
        }
    }

    /// Let the engine do what a request asks, and judge it.
    pub(super) fn apply(&mut self, asked: &Asked) -> Reply {
        if asked.kind == Kind::Beside {
            return self.memory.ask(&asked.operation, &asked.body);
        }
        let before = self.token();
        let reply = self.memory.ask(&asked.operation, &asked.body);
        if reply.status == 200 {
            let after = self.token();
            self.judge_write(asked, before.as_ref(), after.as_ref());
            let Asked { call, client, kind, ref attempt, .. } = *asked;
            self.written.push(Written { call, client, kind, attempt: attempt.clone() });
        }
        reply
    }

    fn judge_write(&mut self, asked: &Asked, before: Option<&Stored>, after: Option<&Stored>) {
        let has_ended = |it: &&Stored| matches!(it.state, StoredState::Done | StoredState::Released);
        if let Some(after) = after.filter(|after| !has_ended(after) && after.ttl.is_some()) {
            self.violated(Invariant::NothingExpires, format!("{:?} with a ttl", after.state));
        }
        let Some(before) = before else { return };
        let moves = matches!(asked.kind, Kind::Extend | Kind::Doubt);
        if let Some(after) = after.filter(|after| moves && after.due < before.due) {
            self.violated(Invariant::NeverNearer, format!("due {} after {}", after.due, before.due));
        }
        let mine = before.is_held_by(&asked.attempt);
        let overdue = before.due.parse::<DateTime<Utc>>().is_ok_and(|due| due + SKEW < self.now());
        let may = match asked.kind {
            Kind::Begin if before.state == StoredState::Released => true,
            Kind::Begin => mine || (self.take_over && before.state == StoredState::InProgress && overdue),
            _ => mine,
        };
        if !may && after != Some(before) {
            let seen = format!(
                "{:?} by {} on a record {:?} of {}",
                asked.kind, asked.attempt, before.state, before.attempt
            );
            self.violated(Invariant::OwnRecord, seen);
        }
    }

    pub(super) fn told_answer(&mut self, client: usize, json: String) {
        self.clients[client].answered = true;
        self.answers.push(json);
    }

    /// Whether a write of this kind was applied for the client's attempt.
    pub(super) fn wrote(&self, client: usize, kind: Kind) -> bool {
        let attempt = &self.clients[client].attempt;
        self.written.iter().any(|written| written.kind == kind && written.attempt == *attempt)
    }

    /// Whether a write of the client's present call was applied, or may yet be.
    pub(super) fn may_have_written(&self, client: usize) -> bool {
        let call = self.clients[client].call;
        let late = self
            .late
            .iter()
            .any(|asked| (asked.client, asked.call) == (client, call) && asked.kind != Kind::Beside);
        late || self.written.iter().any(|written| (written.client, written.call) == (client, call))
    }

    /// Whether the client's attempt holds the token.
    pub(super) fn holds(&self, client: usize) -> bool {
        self.token().is_some_and(|token| token.is_held_by(&self.clients[client].attempt))
    }

    /// Let the request of a client that waits for it come to this.
    pub(super) fn grant(&mut self, client: usize, fate: Fate) {
        let Some(asked) = self.clients[client].parked.take() else { return };
        self.exchanges += 1;
        let elapsed = self.elapsed(client);
        self.clients[client].in_call.push((Learned::of(fate), elapsed));
        let reply = fate.applies().then(|| self.apply(&asked));
        self.note(|| {
            let status = reply.as_ref().map_or("-".to_owned(), |reply| reply.status.to_string());
            format!(
                "client {client}: {} {:?} by {}: {fate:?}, status {status}",
                asked.operation, asked.kind, asked.attempt
            )
        });
        let request = asked.body.clone();
        if fate == Fate::Late {
            self.late.push(asked);
        }
        if !fate.kills() {
            self.clients[client].heard = Some(Heard::new(heard(fate, &request, reply)));
        }
    }

    /// Let a late request arrive.
    pub(super) fn deliver(&mut self, number: usize) {
        let asked = self.late.remove(number);
        let reply = self.apply(&asked);
        self.note(|| format!("late: {:?} by {}: status {}", asked.kind, asked.attempt, reply.status));
    }
}

impl Wire for World {
    /// A client sends one request at a time, so the request is known by its client.
    fn arrives(&mut self, client: usize, operation: &str, body: &[u8], waits: bool) -> u64 {
        let asked = self.ask(client, operation, body);
        self.clients[client].parked = Some(asked);
        if !waits {
            self.grant(client, Fate::Ok);
        }
        client as u64
    }

    fn heard(&mut self, request: u64, _: &Waker) -> Option<Heard> {
        self.client_of(request).heard.take()
    }

    fn leaves(&mut self, request: u64) {
        let client = self.client_of(request);
        client.parked = None;
        client.heard = None;
    }
}

impl World {
    fn client_of(&mut self, request: u64) -> &mut Client {
        &mut self.clients[usize::try_from(request).expect("few clients")]
    }
}
