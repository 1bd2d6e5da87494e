//! A relay sends messages of one subject in rows: how many, for how long, and in which order they
//! are deleted.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use chrono::TimeDelta;
use lock_token_testing::{CallFate, Exchange};
use locker::message::{Envelope, MessageState, NewMessage, Router, Sent, Target};
use locker::relay::Relay;
use locker::workflow::{Flow, Stop, Workflow, Workflows};
use locker::{Clock as _, Intervened, Operator};
use locker_tests::{Fate, TestClock, Wire};

use crate::consumer::the_dead;
use crate::post::{MINUTE, Post};

/// A broker that takes its time.
#[derive(Debug, Clone)]
struct Slow {
    clock: TestClock,
    takes: Duration,
    took: Arc<Mutex<usize>>,
}

impl Target for Slow {
    async fn send(&self, batch: &[Envelope]) -> Vec<Sent> {
        self.clock.advance(self.takes);
        *self.took.lock().unwrap() += batch.len();
        batch.iter().map(|_| Sent::Done).collect()
    }
}

fn slow(post: &Post, takes: Duration) -> Slow {
    Slow { clock: post.desk.bench.clock.clone(), takes, took: Arc::default() }
}

/// This many messages of one subject, which are due.
async fn due(count: usize) -> (Post, Workflows, Wire) {
    let post = Post::new().await;
    let (workflows, wire) = post.desk.machine();
    for number in 0..count {
        let told = NewMessage::new(format!("told/{number}"), &number).subject("order/7");
        post.commit([workflows.outbox().message(told).unwrap()]).await;
    }
    post.desk.bench.clock.advance(MINUTE);
    (post, workflows, wire)
}

fn to(slow: &Slow) -> Router {
    Router::new().route("*", slow.clone())
}

#[tokio::test(start_paused = true)]
async fn ten_at_most_are_sent_again_where_none_can_be_deleted() {
    let (post, workflows, wire) = due(25).await;
    let target = slow(&post, Duration::ZERO);
    for _ in 0..25 {
        wire.matching(|it| it.operation == "DeleteItem", Fate::Denied);
    }
    let done = Relay::new(&workflows, to(&target)).run().await.unwrap();
    assert_eq!((done.sent, done.failed, *target.took.lock().unwrap()), (10, 1, 10), "{done:?}");
    assert_eq!(post.unsent().await, 25);
}

#[tokio::test(start_paused = true)]
async fn a_row_ends_in_time_for_another_relay() {
    let (post, workflows, wire) = due(3).await;
    // Two in half of the minute for which a relay has its subject.
    let target = slow(&post, Duration::from_secs(16));
    let done = Relay::new(&workflows, to(&target)).run().await.unwrap();
    assert_eq!((done.sent, post.unsent().await), (3, 0), "{done:?}");
    let is_taken = |it: &Exchange| it.operation == "PutItem" && it.request.to_string().contains("told/");
    let taken = wire.take().iter().filter(|it| is_taken(it)).count();
    assert_eq!(taken, 2, "each row begins with one that is taken");
}

#[tokio::test(start_paused = true)]
async fn nothing_is_sent_in_the_last_two_seconds() {
    let (post, workflows, _) = due(25).await;
    let target = slow(&post, Duration::from_secs(1));
    let until = post.desk.bench.clock.now() + TimeDelta::seconds(14);
    let done = Relay::new(&workflows, to(&target)).deadline(until).run().await.unwrap();
    assert_eq!((done.sent, post.unsent().await), (12, 13), "{done:?}");
    assert_eq!((done.dead, done.waiting, done.failed, done.finished), (0, 0, 0, false), "{done:?}");
}

#[tokio::test(start_paused = true)]
async fn the_one_that_was_taken_is_deleted_last_and_only_after_all_others() {
    let (post, workflows, wire) = due(3).await;
    let target = slow(&post, Duration::ZERO);
    wire.matching(|it| it.operation == "DeleteItem", Fate::Denied);
    let done = Relay::new(&workflows, to(&target)).run().await.unwrap();
    // Of the two behind it one could not be deleted: the first stays before it, so that no relay
    // begins there.
    assert_eq!((done.sent, done.failed, post.unsent().await), (3, 1, 2), "{done:?}");
    let left = workflows.messages(MessageState::Unsent).fetch().await.unwrap().items;
    assert!(left.iter().any(|it| format!("{it:?}").contains("told/0")), "{left:?}");
}

#[tokio::test(start_paused = true)]
async fn one_that_is_dead_is_not_sent_behind_one_that_was_redriven() {
    let (post, workflows, _) = due(3).await;
    let ada = Operator::new("ada", "the queue is back").unwrap();
    post.calls.matching(|what| what.contains("told/0"), CallFate::Declined);
    assert_eq!(post.relay().0.run().await.unwrap().dead, 1);
    let first = the_dead(&workflows).await.remove(0);
    assert_eq!(workflows.archive(&first, &ada).await.unwrap(), Intervened::Done);
    post.calls.matching(|what| what.contains("told/1"), CallFate::Declined);
    post.desk.bench.clock.advance(MINUTE);
    assert_eq!(post.relay().0.run().await.unwrap().dead, 1);
    // The first comes back, before the second, which is still dead.
    let archived = workflows.message(&first.work()).await.unwrap().unwrap();
    assert_eq!(workflows.restore(&archived, &ada).await.unwrap(), Intervened::Done);
    let restored = workflows.message(&first.work()).await.unwrap().unwrap();
    assert_eq!(workflows.redrive(&restored, &ada).await.unwrap(), Intervened::Done);
    post.desk.bench.clock.advance(MINUTE);
    let done = post.relay().0.run().await.unwrap();
    assert_eq!((done.sent, done.failed, post.topics()), (1, 0, vec!["told/0".to_owned()]), "{done:?}");
    assert_eq!(the_dead(&workflows).await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_run_that_came_to_its_limit_says_that_there_may_be_more() {
    let (post, workflows, _) = due(1).await;
    for subject in ["order/8", "order/9"] {
        let told = NewMessage::new("told", &1).subject(subject);
        post.commit([workflows.outbox().message(told).unwrap()]).await;
    }
    post.desk.bench.clock.advance(MINUTE);
    let done = post.relay().0.limit(1).run().await.unwrap();
    assert_eq!((done.sent, done.finished), (1, false), "{done:?}");
    let done = post.relay().0.run().await.unwrap();
    assert_eq!((done.sent, done.finished), (2, true), "{done:?}");
}

#[tokio::test(start_paused = true)]
async fn target_that_takes_nothing_is_skipped_for_the_rest_of_the_run() {
    let (post, workflows, _) = due(0).await;
    for number in 0..20 {
        let told = NewMessage::new("told", &number).subject(format!("order/{number}"));
        post.commit([workflows.outbox().message(told).unwrap()]).await;
    }
    post.desk.bench.clock.advance(MINUTE);
    post.calls.always(CallFate::Refused);
    let done = post.relay().0.concurrency(1).run().await.unwrap();
    assert_eq!((done.waiting, done.target_down, post.calls.take().len()), (5, 15, 5), "{done:?}");
    // The others were not touched: they are sent as soon as it is back.
    post.calls.always(CallFate::Ok);
    post.desk.bench.clock.advance(Duration::from_secs(1));
    let done = post.relay().0.run().await.unwrap();
    assert_eq!(done.sent, 15, "{done:?}");
}

/// The requests for the messages themselves.
fn reads(wire: &Wire) -> usize {
    let is_read = |it: &&Exchange| it.operation == "Query" && it.request.to_string().contains(":message");
    wire.take().iter().filter(is_read).count()
}

#[tokio::test(start_paused = true)]
async fn messages_after_a_dead_message_keep_order_without_reads() {
    const COUNT: usize = 120;
    let (post, workflows, _) = due(COUNT).await;
    post.calls.next([CallFate::Declined]);
    assert_eq!(post.relay().0.run().await.unwrap().dead, 1);
    let (relay, wire) = post.relay();
    relay.run().await.unwrap();
    assert_eq!(reads(&wire), 0, "the index shows that they wait");
    // Nor by a caller that sends what it has committed.
    let (sender, wire) = post.sender();
    let told = NewMessage::new(format!("told/{COUNT}"), &COUNT).subject("order/7");
    let last = sender.outbox().message(told).unwrap();
    post.commit([last.clone()]).await;
    sender.outbox().send([last]).await;
    assert_eq!((reads(&wire), post.topics().len()), (1, 0));

    let dead = the_dead(&workflows).await.remove(0);
    let ada = Operator::new("ada", "the target is back").unwrap();
    assert_eq!(workflows.redrive(&dead, &ada).await.unwrap(), Intervened::Done);
    post.desk.bench.clock.advance(MINUTE);
    let (relay, wire) = post.relay();
    assert_eq!(relay.run().await.unwrap().sent, COUNT + 1);
    assert_eq!(reads(&wire), 3);
    assert_eq!(post.topics(), (0..=COUNT).map(|number| format!("told/{number}")).collect::<Vec<_>>());
}

/// Commits this many messages of two subjects in turn, in one step.
#[derive(Debug, Clone)]
struct InTurn(usize);

impl Workflow for InTurn {
    const NAME: &'static str = "in-turn";
    type Input = ();
    type Output = ();

    async fn run(&self, flow: &Flow, (): ()) -> Result<(), Stop> {
        let subjects = ["order/7", "order/8"].into_iter().cycle().take(self.0).enumerate();
        let told = |(number, subject): (usize, &str)| {
            NewMessage::new(format!("told/{subject}/{number}"), &number).subject(subject)
        };
        let tell = subjects.map(told).fold(flow.atomic("tell"), |tell, message| tell.send(message));
        tell.commit(&()).await
    }
}

#[tokio::test(start_paused = true)]
async fn a_subject_that_waits_is_not_gone_on_with_further_back_and_others_are() {
    let post = Post::new().await;
    let (workflows, _) = post.desk.machine();
    workflows.start(&InTurn(90), "letters/1", &()).run().await.unwrap();
    post.desk.bench.clock.advance(MINUTE);
    // The first one of one subject is not taken; its later ones are on two pages.
    post.calls.matching(|what| what.contains("told/order/7/0"), CallFate::Refused);
    let done = post.relay().0.run().await.unwrap();
    assert_eq!((done.sent, done.waiting), (45, 1), "{done:?}");
    assert!(post.topics().iter().all(|topic| topic.starts_with("told/order/8")), "{:?}", post.topics());
    post.settle().await;
    let of = |subject: &str| post.topics().into_iter().filter(|it| it.contains(subject)).collect::<Vec<_>>();
    let expected = |subject: &str, odd| {
        (0..90).filter(|n| n % 2 == odd).map(|n| format!("told/{subject}/{n}")).collect::<Vec<_>>()
    };
    assert_eq!((of("order/7"), of("order/8")), (expected("order/7", 0), expected("order/8", 1)));
}

#[tokio::test(start_paused = true)]
async fn messages_after_a_topic_without_a_route_are_not_read() {
    let (post, workflows, _) = due(0).await;
    for topic in ["odd/1", "told/2"] {
        let message = NewMessage::new(topic, &7).subject("order/7");
        post.commit([workflows.outbox().message(message).unwrap()]).await;
        post.desk.bench.clock.advance(Duration::from_millis(1));
    }
    post.desk.bench.clock.advance(MINUTE);
    let (workflows, wire) = post.desk.machine();
    let router = Router::new().route("told/*", post.broker.clone());
    let done = Relay::new(&workflows, router).run().await.unwrap();
    assert_eq!((done.sent, done.unknown.get("odd/1"), reads(&wire)), (0, Some(&1), 0), "{done:?}");
}
