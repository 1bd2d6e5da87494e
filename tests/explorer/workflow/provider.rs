//! Calls of the provider as exchanges, and what becomes of requests and calls.

use locker::Clock as _;
use std::future::poll_fn;
use std::task::Poll;

use super::super::fate::{Fate, heard};
use super::super::invariant::Invariant;
use super::super::port::{Heard, Shared, Wire as _};
use super::books::{Call, Made, Said, Verb};
use super::options::Turn;
use super::world::{Reply, What, World, in_order};

/// How long a step is expected to take, and what clocks may differ by.
pub(super) const BUSY_MILLIS: i64 = 30_000 + 5_000;

/// What a caller of the provider hears.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Answer {
    Said(Said),
    /// It is too busy, and did nothing.
    Busy,
    /// It refuses, and did nothing.
    Refused,
    /// It did it, and the answer cannot be read.
    Unreadable,
    Silence,
}

impl Shared<World> {
    /// Call the provider.
    pub(super) async fn call(&self, actor: usize, call: Call) -> Answer {
        let waiting = Calling { shared: self, number: self.world().asks(actor, What::Call(call)) };
        poll_fn(|context| match self.world().take_reply(waiting.number, context.waker()) {
            Some(Reply::Call(answer)) => Poll::Ready(answer),
            _ => Poll::Pending,
        })
        .await
    }
}

/// A call whose caller no longer waits was never made.
pub(super) struct Calling<'a> {
    pub(super) shared: &'a Shared<World>,
    pub(super) number: u64,
}

impl Drop for Calling<'_> {
    fn drop(&mut self) {
        self.shared.world().leaves(self.number);
    }
}

impl World {
    /// Whether the first driver that called for a step may still wait for the answer.
    pub(super) fn is_at_work(&self, place: (usize, usize)) -> bool {
        let now = self.clock.now().timestamp_millis();
        let waits = |made: &Made| made.open && !made.answered && now < made.at + BUSY_MILLIS;
        let of_step = |made: &&Made| made.call.place == place && made.call.verb == Verb::Do;
        self.books.made.iter().filter(of_step).any(waits)
    }

    /// Whether this call may be made, for all that its caller knows.
    pub(super) fn judge_call(&mut self, actor: usize, call: &Call) {
        let now = self.clock.now().timestamp_millis();
        let changes = matches!(call.verb, Verb::Do | Verb::Undo);
        let of_key = |made: &&Made| made.call.key == call.key && made.call.verb == Verb::Do;
        if changes {
            let at_work = self.books.made.iter().filter(of_key).find(|made| {
                made.actor != actor && made.open && !made.answered && now < made.at + BUSY_MILLIS
            });
            // One that was suspended after its own start, and wakes behind whoever took over from
            // it, cannot be held back.
            let at_work = at_work.filter(|made| {
                let (mine, theirs) = [actor, made.actor].map(|of| self.books.started(of, &call.key)).into();
                mine.is_none() || theirs.is_none() || mine >= theirs
            });
            if let Some(made) = at_work {
                let seen = format!(
                    "{:?} of {} {} ms after actor {} began",
                    call.verb,
                    call.key,
                    now - made.at,
                    made.actor
                );
                self.violated(Invariant::NotEarly, seen);
            }
        }
        self.judge_again(call, now);
        self.books.made.push(Made {
            call: call.clone(),
            actor,
            at: now,
            open: changes,
            coming: changes,
            answered: false,
        });
    }

    /// A call that may have taken place is made again only if the provider is sure to recognise it,
    /// or if a probe or an operator allowed it.
    fn judge_again(&mut self, call: &Call, now: i64) {
        let what = match call.verb {
            Verb::Do => Invariant::OneEffect,
            Verb::Undo => Invariant::OneCompensation,
            Verb::Probe | Verb::ProbeUndo => return,
        };
        let before = |made: &&Made| made.call.under == call.under && made.call.verb == call.verb;
        let Some(first) = self.books.made.iter().find(before).map(|made| made.at) else { return };
        let is_open = self.books.made.iter().filter(before).any(|made| made.open);
        let window = i64::try_from(self.provider.recognises.as_millis()).expect("a short time");
        // What is sent in time may still take as long as it is expected to.
        let is_recognised = now < first + window - BUSY_MILLIS;
        if is_open && !is_recognised && !self.books.by_operator.contains(&call.key) {
            let seen =
                format!("{:?} under {} again in doubt, {} ms later", call.verb, call.under, now - first);
            self.violated(what, seen);
        }
    }

    /// Let a request come to this.
    pub(super) fn grant(&mut self, number: u64, turn: Turn) {
        let Some(request) = self.requests.iter().find(|request| request.number == number) else { return };
        let (actor, what, fate) = (request.actor, request.what.clone(), turn.fate);
        self.exchanges += 1;
        let reply = match &what {
            What::Table { operation, body } => {
                let reply = fate.applies().then(|| self.memory.ask(operation, body)).map(|reply| {
                    let body = in_order(reply.body.as_bytes());
                    super::super::memory::Reply { body, ..reply }
                });
                if turn.stays {
                    self.actors[actor].outage = Some(body.clone());
                    self.books.forget(actor);
                }
                let status = reply.as_ref().map_or(0, |reply| reply.status);
                if status == 200 && operation == "PutItem" {
                    self.books.starts(actor, body, self.clock.now().timestamp_millis());
                }
                self.note(|| {
                    let item = in_short(body);
                    format!("actor {actor}: {operation} {item}: {fate:?}, status {status}")
                });
                Reply::Table(Box::new(Heard::new(heard(fate, body, reply))))
            }
            What::Call(call) => Reply::Call(self.granted(actor, call, fate)),
            What::Send(sending) => Reply::Send(self.sends(actor, sending, fate)),
        };
        if fate == Fate::Late {
            self.late.push((actor, what));
        }
        if !fate.kills() {
            self.answer(number, reply);
        }
    }

    fn granted(&mut self, actor: usize, call: &Call, fate: Fate) -> Answer {
        let said = fate
            .applies()
            .then(|| self.books.apply(call, self.provider, self.clock.now().timestamp_millis()));
        self.note(|| {
            format!("actor {actor}: {:?} {} under {}: {fate:?}, {said:?}", call.verb, call.key, call.under)
        });
        let answer = match (fate, said) {
            (Fate::Ok, Some(said)) => Answer::Said(said),
            (Fate::Throttled, _) => Answer::Busy,
            (Fate::Conflict, _) => Answer::Refused,
            (Fate::UnavailableAfter, _) => Answer::Unreadable,
            _ => Answer::Silence,
        };
        let mine = |made: &&mut Made| made.actor == actor && made.call == *call && made.coming;
        if let Some(made) = self.books.made.iter_mut().rev().find(mine) {
            made.coming = fate == Fate::Late;
            made.answered = !fate.kills();
            made.open = !matches!(answer, Answer::Busy | Answer::Refused | Answer::Said(Said::Void));
        }
        match &answer {
            Answer::Said(Said::Done(receipt)) if call.verb == Verb::Do => {
                for effect in self.books.effects.iter_mut().filter(|effect| effect.receipt == *receipt) {
                    effect.heard.insert(actor);
                }
            }
            // Told that it did not happen and will not, a caller may go on.
            Answer::Said(Said::Nothing) if matches!(call.verb, Verb::Probe | Verb::ProbeUndo) => {
                self.books.clear(&call.under);
            }
            _ => {}
        }
        answer
    }

    /// Let a late request arrive.
    pub(super) fn deliver(&mut self, number: usize) {
        let (actor, what) = self.late.remove(number);
        match what {
            What::Send(sending) => self.post.take(sending),
            What::Table { operation, body } => {
                let status = self.memory.ask(&operation, &body).status;
                self.note(|| {
                    format!("late, of actor {actor}: {operation} {}: status {status}", in_short(&body))
                });
            }
            What::Call(call) => {
                let said = self.books.apply(&call, self.provider, self.clock.now().timestamp_millis());
                for made in self.books.made.iter_mut().filter(|made| made.call == call) {
                    made.coming = false;
                }
                self.note(|| format!("late, of actor {actor}: {:?} {}: {said:?}", call.verb, call.key));
            }
        }
    }
}

/// What a request writes, for a trace.
fn in_short(body: &[u8]) -> String {
    let body: serde_json::Value = serde_json::from_slice(body).unwrap_or_default();
    let of = |item: &serde_json::Value| {
        let text = |name: &str| item[name]["S"].as_str().unwrap_or("-").to_owned();
        format!("{} {} {} {}", text("workflow"), text("item"), text("state"), text("status"))
    };
    let puts = body["TransactItems"].as_array().into_iter().flatten();
    let items: Vec<_> =
        puts.filter_map(|action| action["Put"].get("Item")).chain(body.get("Item")).map(of).collect();
    items.join(", ")
}
