//! Messages from the outbox through a FIFO queue, a topic and a bus, to a consumer of each.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use futures_util::stream::{self, StreamExt as _};
use locker::aws::{EventBus, Sqs, Topic};
use locker::inbox::{Delivery, Incoming, Taken};
use locker::message::{MessageState, NewMessage, Router};
use locker::relay::Relay;
use locker::workflow::{Flow, Outcome, Stop, Workflow, Workflows};
use locker::{Failure, SystemClock};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::account::Account;
use crate::row::Row;

const TARGETS: [&str; 3] = ["queue", "topic", "bus"];
/// The messages of a workflow, which are one subject. Their order is kept.
const OF_A_WORKFLOW: u32 = 10;
/// Two transactions have this many each.
const OF_A_STEP: u32 = 5;

#[derive(Clone)]
struct Letters;

impl Workflow for Letters {
    const NAME: &'static str = "letters";
    type Input = String;
    type Output = ();

    async fn run(&self, flow: &Flow, topic: String) -> Result<(), Stop> {
        for step in 0..OF_A_WORKFLOW / OF_A_STEP {
            let mut tell = flow.atomic(format!("tell#{step}"));
            for number in step * OF_A_STEP..(step + 1) * OF_A_STEP {
                tell = tell.send(NewMessage::new(&topic, &number));
            }
            tell.commit(&()).await?;
        }
        Ok(())
    }
}

fn router(account: &Account) -> Router {
    let run = &account.run;
    Router::new()
        .route("queue/*", Sqs::queue(&account.sqs, &run.queue))
        .route("topic/*", Topic::new(&account.sns, &run.topic))
        .route("bus/*", EventBus::new(&account.events, &run.bus))
}

/// The count of messages to each target, and when the last of them was committed.
#[derive(Debug)]
pub(crate) struct Committed {
    to_each: u32,
    began: Instant,
}

/// Commits the messages. Every second workflow sends its messages at once, and the relay sends the
/// others, half a minute after their commit.
pub(crate) async fn commit(account: &Account) -> Committed {
    let began = Instant::now();
    let workflows = account.run.messages.div_ceil(OF_A_WORKFLOW);
    let at_once = account.workflows().sending(router(account)).build().expect("workflows");
    let later = account.workflows().build().expect("workflows");
    let all = TARGETS.into_iter().flat_map(|target| (0..workflows).map(move |number| (target, number)));
    let (at_once, later) = (&at_once, &later);
    let done = stream::iter(all).map(async |(target, number)| {
        let through: &Workflows = if number % 2 == 0 { at_once } else { later };
        let started = through.start(&Letters, (target, number), &format!("{target}/letter")).run().await;
        match started {
            Ok(Outcome::Completed(_)) => None,
            other => Some(format!("{other:?}")),
        }
    });
    let failed: Vec<_> =
        done.buffer_unordered(account.width()).filter_map(std::future::ready).collect().await;
    let (all, seconds) = (TARGETS.len() as u32 * workflows, began.elapsed().as_secs_f64());
    Row::new(format!("{all} workflows commit {} messages", all * OF_A_WORKFLOW))
        .expected(format!("{all} complete"))
        .seen(match failed.first() {
            None => format!("{all} in {seconds:.1} s"),
            Some(first) => format!("{} did not, first: {first}", failed.len()),
        })
        .is(failed.is_empty());
    Committed { to_each: workflows * OF_A_WORKFLOW, began: Instant::now() }
}

/// The messages that a consumer took.
#[derive(Debug, Default)]
struct Consumed {
    /// The numbers of each subject, in the order of their transactions.
    numbers: BTreeMap<String, Vec<u32>>,
    taken: u32,
    deliveries: u32,
    others: Vec<String>,
}

/// Runs relay and consumers until each message was consumed.
pub(crate) async fn send_and_consume(account: &Account, committed: &Committed) {
    let patience = Duration::from_secs(if account.run.moto { 60 } else { 20 * 60 });
    let (run, all) = (&account.run, committed.to_each);
    let relayed = tokio::time::timeout(patience, relay(account));
    let consumed = [(0, &run.queue), (1, &run.topic_queue), (2, &run.bus_queue)]
        .map(|(at, url)| consume(account, TARGETS[at], url, all, patience));
    let (relayed, consumed) = tokio::join!(relayed, futures_util::future::join_all(consumed));
    let names =
        ["outbox, SQS FIFO, inbox", "outbox, SNS FIFO, SQS, inbox", "outbox, EventBridge, SQS, inbox"];
    let seconds = committed.began.elapsed().as_secs();
    for (at, consumed) in consumed.into_iter().enumerate() {
        let is_ordered = TARGETS[at] != "bus";
        let (mut right, mut wrong) = (0, String::new());
        for (subject, mut numbers) in consumed.numbers {
            if !is_ordered {
                numbers.sort_unstable();
            }
            if numbers.iter().copied().eq(0..OF_A_WORKFLOW) {
                right += 1;
            } else {
                wrong = format!("{subject}: {numbers:?}");
            }
        }
        let subjects = all / OF_A_WORKFLOW;
        let order = if is_ordered { "each in order" } else { "in any order" };
        Row::new(format!("{all} messages: {}", names[at]))
            .expected(format!("{all} once, {subjects} subjects complete, {order}"))
            .seen(format!(
                "{} once of {} deliveries, {right} subjects, {seconds} s {} {wrong}",
                consumed.taken,
                consumed.deliveries,
                consumed.others.first().map_or("", String::as_str)
            ))
            .is(consumed.taken == all && right == subjects && consumed.others.is_empty());
    }
    let (is_empty, seen) = match relayed {
        Ok(Ok(sent)) => (true, format!("0; the relay sent {sent}")),
        Ok(Err(error)) => (false, error),
        Err(_) => (false, format!("some, after {} s", patience.as_secs())),
    };
    Row::new("messages that stay in the outbox").expected("0").seen(seen).is(is_empty);
}

/// Runs the relay until the outbox is empty. Returns how many messages it sent.
async fn relay(account: &Account) -> Result<usize, String> {
    let workflows = account.workflows().build().expect("workflows");
    let mut sent = 0;
    loop {
        let deadline = locker::Clock::now(&SystemClock) + Duration::from_secs(55);
        let relay = Relay::new(&workflows, router(account)).deadline(deadline);
        let done = relay.concurrency(account.width()).run().await.map_err(|error| error.to_string())?;
        sent += done.sent;
        if done.dead > 0 {
            return Err(format!("{} dead", done.dead));
        }
        let unsent = workflows.messages(MessageState::Unsent).limit(1).fetch().await;
        let unsent = unsent.map_err(|error| error.to_string())?;
        if unsent.items.is_empty() && unsent.is_complete() {
            return Ok(sent);
        }
        tokio::time::sleep(Duration::from_secs(2)).await;
    }
}

async fn consume(account: &Account, name: &str, url: &str, all: u32, patience: Duration) -> Consumed {
    let workflows = account.workflows().build().expect("workflows");
    let inbox = workflows.inbox(name).expect("an inbox");
    let sqs = Sqs::queue(&account.sqs, url);
    // Moto may give one message to two receivers that ask at the same time.
    let width = if account.run.moto { 1 } else { 4 };
    let consumer = inbox.consumer().concurrency(width).hiding(sqs.clone());
    let (consumed, done) = (Mutex::new(Consumed::default()), Notify::new());
    let handle = async |delivery: Delivery| {
        let message = Incoming::parse(&delivery.body)?;
        let taken = inbox.atomic(&message).commit().await?;
        let mut consumed = consumed.lock().expect("no panic");
        consumed.deliveries += 1;
        let (subject, number) = (message.subject.clone().unwrap_or_default(), message.data()?);
        let numbers = consumed.numbers.entry(subject).or_default();
        let is_known = numbers.contains(&number);
        match taken {
            Taken::Now if is_known => consumed.others.push(format!("{number} was taken twice")),
            // Before: the transaction of the first delivery was applied, and its reply was lost.
            Taken::Now | Taken::Before if !is_known => {
                numbers.push(number);
                consumed.taken += 1;
            }
            Taken::Before => {}
            other => consumed.others.push(format!("{other:?}")),
        }
        if consumed.taken == all {
            done.notify_one();
        }
        Ok::<_, Failure>(())
    };
    let stop = async { drop(tokio::time::timeout(patience, done.notified()).await) };
    sqs.poll(&consumer, Duration::from_secs(5), handle, stop).await;
    consumed.into_inner().expect("no panic")
}
