//! A broker, and a receiver that remembers what it took.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::task::Poll;

use aws_sdk_dynamodb::types::{AttributeValue, Update};
use locker::inbox::{Incoming, ReceiveError};
use locker::message::{Envelope, Router, Sent, Target};

use super::super::fate::Fate;
use super::super::invariant::Invariant;
use super::super::memory::TABLE;
use super::super::port::Shared;
use super::program::{Program, key};
use super::provider::Calling;
use super::scenario::{Kind, WorkflowScenario};
use super::world::{Reply, What, World};

/// Begins the keys of the rows in which a receiver counts.
const HEARD: &str = "heard ";

/// A message on its way to the broker.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Sending {
    topic: String,
    subject: String,
    id: String,
    json: String,
}

/// What the broker has, in the order in which it came.
#[derive(Debug, Default, Hash)]
pub(super) struct Post {
    took: Vec<Sending>,
    /// How many of them the receiver acknowledged.
    acknowledged: usize,
    /// How many of them came while the receiver remembers everything.
    remembered: usize,
}

/// The broker as one actor sends to it.
#[derive(Debug)]
struct Broker {
    shared: Shared<World>,
    actor: usize,
}

/// Where an actor's messages go.
pub(super) fn router(shared: &Shared<World>, actor: usize) -> Router {
    Router::new().route("*", Broker { shared: shared.clone(), actor })
}

impl Target for Broker {
    async fn send(&self, batch: &[Envelope]) -> Vec<Sent> {
        let mut sent = Vec::new();
        for envelope in batch {
            let sending = Sending {
                topic: envelope.topic.clone(),
                subject: envelope.subject.clone(),
                id: envelope.id.clone(),
                json: envelope.to_json().expect("an event"),
            };
            let number = self.shared.world().asks(self.actor, What::Send(sending));
            let waiting = Calling { shared: &self.shared, number };
            let reply =
                poll_fn(|context| match self.shared.world().take_reply(waiting.number, context.waker()) {
                    Some(Reply::Send(sent)) => Poll::Ready(sent),
                    _ => Poll::Pending,
                });
            sent.push(reply.await);
        }
        sent
    }
}

impl Post {
    /// From now on the receiver may have forgotten.
    pub(super) fn is_forgotten(&mut self) {
        self.remembered = self.took.len();
    }

    pub(super) fn take(&mut self, sending: Sending) {
        self.took.push(sending);
    }
}

impl World {
    /// Let a message come to this.
    pub(super) fn sends(&mut self, actor: usize, sending: &Sending, fate: Fate) -> Sent {
        self.note(|| format!("actor {actor}: sends {}: {fate:?}", sending.topic));
        if fate.applies() {
            self.post.take(sending.clone());
        }
        match fate {
            Fate::Ok => Sent::Done,
            Fate::Throttled => Sent::Later("busy".to_owned()),
            Fate::Conflict => Sent::MessageRefused("refused".to_owned()),
            _ => Sent::Unknown("no reply".to_owned()),
        }
    }

    /// What the workflows told, by the records of their steps, in order.
    pub(super) fn committed(&self, scenario: WorkflowScenario) -> BTreeMap<String, Vec<String>> {
        let of = |workflow: usize| {
            let told = scenario.0.steps[workflow].iter().filter(|step| step.kind == Kind::Tell);
            let is_committed = |name: &str| {
                let record = self.row(&key(workflow), &format!("step/{name}"));
                record.is_some_and(|record| record.text("state") == "completed")
            };
            let topics =
                told.filter(|step| is_committed(step.name)).map(|step| format!("told/{}", step.name));
            (key(workflow), topics.collect())
        };
        (0..2).map(of).filter(|(_, topics): &(_, Vec<_>)| !topics.is_empty()).collect()
    }

    /// Judge what the broker and the receiver have in the end.
    pub(super) fn judge_post(&mut self, committed: &BTreeMap<String, Vec<String>>) {
        let mut came: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for sending in &self.post.took {
            let topics = came.entry(sending.subject.clone()).or_default();
            if !topics.contains(&sending.topic) {
                topics.push(sending.topic.clone());
            }
        }
        let sorted = |topics: &BTreeMap<String, Vec<String>>| {
            let mut topics = topics.clone();
            topics.values_mut().for_each(|topics| topics.sort());
            topics
        };
        if sorted(&came) != sorted(committed) {
            self.violated(Invariant::Sent, format!("{committed:?} was committed, and {came:?} was sent"));
        } else if came != *committed {
            self.violated(Invariant::InOrder, format!("{committed:?} was committed, and {came:?} came"));
        }
        let times = |id: &str| {
            let row = self.memory.item(&format!("{HEARD}{id}"));
            row.and_then(|row| row["times"]["N"].as_str().map(str::to_owned)).unwrap_or_default()
        };
        let wrong = self.post.took.iter().enumerate().find_map(|(number, it)| {
            let times = times(&it.id);
            // One that is too old is left to an operator.
            let is_right = times == "1" || (times.is_empty() && number >= self.post.remembered);
            (!is_right).then(|| format!("{} was taken {times:?} times", it.topic))
        });
        if let Some(seen) = wrong {
            self.violated(Invariant::TakenOnce, seen);
        }
    }
}

impl Program {
    /// Take each message that is not acknowledged, with a row that counts.
    pub(super) async fn hear(&self) {
        let inbox = self.workflows.inbox("receiver").expect("a name");
        loop {
            let next = {
                let world = self.shared.world();
                world.post.took.get(world.post.acknowledged).cloned()
            };
            let Some(sending) = next else { return };
            let message = Incoming::parse(&sending.json).expect("an event");
            let count = Update::builder()
                .table_name(TABLE)
                .key("lockToken", AttributeValue::S(format!("{HEARD}{}", sending.id)))
                .update_expression("ADD times :one")
                .expression_attribute_values(":one", AttributeValue::N("1".to_owned()));
            let count = count.build().expect("a table and a key");
            let taken = inbox.atomic(&message).update(count).commit().await;
            self.note(|| format!("takes {}: {taken:?}", sending.topic));
            if !matches!(&taken, Err(ReceiveError::TooOld { .. }))
                && !taken.as_ref().is_ok_and(|taken| taken.done().is_ok())
            {
                return;
            }
            self.shared.world().post.acknowledged += 1;
        }
    }
}
