//! A busy subject, a target that is down, dead heads and archived messages affect only themselves,
//! and cost almost nothing while they last.

use std::time::Duration;

use chrono::TimeDelta;
use lock_token_testing::CallFate;
use locker::message::{Envelope, NewMessage, Router, Sent, Target};
use locker::relay::{Relay, RelayReport};
use locker::workflow::Workflows;
use locker::{Clock as _, Intervened, RunReport};
use locker_tests::{Wire, ada};

use crate::bench::price_of;
use crate::consumer::the_dead;
use crate::post::{Letters, MINUTE, Post};

/// Commits one message for each pair of topic and subject.
async fn commit(post: &Post, workflows: &Workflows, all: impl IntoIterator<Item = (&str, String)>) {
    let outbox = workflows.outbox();
    let put = |(topic, subject)| outbox.message(NewMessage::new(topic, &1).subject(subject)).unwrap();
    let puts: Vec<_> = all.into_iter().map(put).collect();
    for some in puts.chunks(50) {
        post.commit(some.to_vec()).await;
    }
}

fn subjects(name: &'static str, count: usize) -> impl Iterator<Item = (&'static str, String)> {
    (0..count).map(move |number| (name, format!("{name}/{number:03}")))
}

/// A relay with a route for `down`, and one for `sent`; other topics have none.
fn relay(post: &Post) -> (Relay, Wire) {
    let (workflows, wire) = post.desk.machine();
    let router = Router::new().route("down", post.broker.clone()).route("sent", Takes);
    (Relay::new(&workflows, router), wire)
}

struct Takes;

impl Target for Takes {
    async fn send(&self, batch: &[Envelope]) -> Vec<Sent> {
        vec![Sent::Done; batch.len()]
    }
}

/// Requests, and units of reads and writes.
fn bill(wire: &Wire) -> (usize, f64) {
    let exchanges = wire.take();
    (exchanges.len(), exchanges.iter().map(price_of).sum())
}

/// Runs with time for a few hundred requests of 5 ms.
async fn short_run(post: &Post) -> (RunReport<RelayReport>, Wire) {
    let (relay, wire) = relay(post);
    wire.delay(Duration::from_millis(5));
    let until = post.desk.bench.clock.now() + TimeDelta::milliseconds(2500);
    let clock = post.desk.bench.clock.clone();
    let ticks = tokio::spawn(async move {
        loop {
            tokio::time::sleep(Duration::from_millis(5)).await;
            clock.advance(Duration::from_millis(5));
        }
    });
    let done = relay.concurrency(5).deadline(until).run().await.unwrap();
    ticks.abort();
    wire.delay(Duration::ZERO);
    (done, wire)
}

/// h02
#[tokio::test(start_paused = true)]
async fn target_that_is_down_holds_up_no_other_target() {
    let post = Post::new().await;
    let (workflows, _) = post.desk.machine();
    commit(&post, &workflows, subjects("down", 600)).await;
    post.desk.bench.clock.advance(Duration::from_secs(1));
    commit(&post, &workflows, subjects("sent", 1)).await;
    post.desk.bench.clock.advance(MINUTE);
    post.calls.always(CallFate::Refused);
    let (done, wire) = short_run(&post).await;
    let (requests, units) = bill(&wire);
    println!("h02: {requests} requests, {units} units, {:?}", done.counts);
    assert_eq!(done.sent, 1, "{done:?}");
    let (relay, wire) = relay(&post);
    post.desk.bench.clock.advance(MINUTE);
    let done = relay.run().await.unwrap();
    let (requests, units) = bill(&wire);
    println!("h02, later: {requests} requests, {units} units, {:?}", done.counts);
    // Their number depends on the jitter: 155 to 190.
    assert!(requests <= 250, "{requests} requests in a run that sends nothing");
}

/// Subjects with a dead head, and a message that waits for it.
async fn dead_heads(count: usize) -> (Post, Workflows) {
    let post = Post::new().await;
    let (workflows, _) = post.desk.machine();
    commit(&post, &workflows, subjects("down", count)).await;
    post.desk.bench.clock.advance(MINUTE);
    post.calls.always(CallFate::Declined);
    assert_eq!(relay(&post).0.run().await.unwrap().dead, count);
    commit(&post, &workflows, subjects("down", count)).await;
    post.desk.bench.clock.advance(MINUTE);
    (post, workflows)
}

/// h03
#[tokio::test(start_paused = true)]
async fn dead_heads_hold_up_no_other_subject() {
    let (post, workflows) = dead_heads(600).await;
    commit(&post, &workflows, subjects("sent", 1)).await;
    post.desk.bench.clock.advance(MINUTE);
    let (done, wire) = short_run(&post).await;
    let (requests, units) = bill(&wire);
    println!("h03: {requests} requests, {units} units, {:?}", done.counts);
    assert_eq!(done.sent, 1, "{done:?}");
    let (relay, wire) = relay(&post);
    let done = relay.run().await.unwrap();
    let (requests, units) = bill(&wire);
    println!("h03, later: {requests} requests, {units} units, {:?}", done.counts);
    assert!(done.finished && requests <= 30, "{requests} requests in a run that sends nothing");
    // An operator's act makes the next message of the subject due.
    post.calls.always(CallFate::Ok);
    let dead = the_dead(&workflows).await.remove(0);
    assert_eq!(workflows.discard(&dead, &ada()).await.unwrap(), Intervened::Done);
    let done = self::relay(&post).0.run().await.unwrap();
    assert_eq!(done.sent, 1, "{done:?}");
    let dead = the_dead(&workflows).await.remove(0);
    assert_eq!(workflows.redrive(&dead, &ada()).await.unwrap(), Intervened::Done);
    let done = self::relay(&post).0.run().await.unwrap();
    assert_eq!(done.sent, 2, "{done:?}");
}

/// h03
#[tokio::test(start_paused = true)]
async fn missing_route_holds_up_no_other_topic() {
    let post = Post::new().await;
    let (workflows, _) = post.desk.machine();
    commit(&post, &workflows, subjects("odd", 600)).await;
    post.desk.bench.clock.advance(Duration::from_secs(1));
    commit(&post, &workflows, subjects("sent", 1)).await;
    post.desk.bench.clock.advance(MINUTE);
    let (done, wire) = short_run(&post).await;
    let (requests, units) = bill(&wire);
    println!("no route: {requests} requests, {units} units, {:?}", done.counts);
    assert_eq!((done.sent, done.unknown["odd"]), (1, 600), "{done:?}");
    assert!(requests <= 40, "{requests} requests");
}

/// h17
#[tokio::test(start_paused = true)]
async fn large_messages_queued_after_a_dead_one_cost_nothing() {
    let post = Post::new().await;
    if !post.desk.bench.engine.is_embedded() {
        return;
    }
    let (workflows, _) = post.desk.machine();
    let large = "x".repeat(200_000);
    for _ in 0..21 {
        let message = NewMessage::new("down", &large).subject("order/7");
        post.commit([workflows.outbox().message(message).unwrap()]).await;
        post.desk.bench.clock.advance(Duration::from_millis(1));
    }
    post.desk.bench.clock.advance(MINUTE);
    post.calls.always(CallFate::Declined);
    assert_eq!(relay(&post).0.run().await.unwrap().dead, 1);
    post.desk.bench.clock.advance(MINUTE);
    let (relay, wire) = relay(&post);
    relay.run().await.unwrap();
    let (requests, units) = bill(&wire);
    println!("h17: {requests} requests, {units} units");
    assert!(units <= 10.0, "{units} units for nothing");
}

/// Commits five older messages. While their target refuses them, they confirm that it is down.
async fn confirm(post: &Post, workflows: &Workflows) {
    commit(post, workflows, subjects("down", 5)).await;
    post.desk.bench.clock.advance(Duration::from_secs(1));
}

/// Runs a relay that works on one subject at a time. Returns the messages that it sent, the ones
/// that wait, and the ones whose target is down.
async fn counted(post: &Post) -> [usize; 3] {
    post.desk.bench.clock.advance(MINUTE);
    post.calls.always(CallFate::Refused);
    let done = relay(post).0.concurrency(1).run().await.unwrap();
    assert!(done.finished, "{done:?}");
    [done.sent, done.waiting, done.target_down]
}

/// A page of a subject has 50 messages, and a page of a list has 100.
#[tokio::test(start_paused = true)]
async fn skipped_messages_beyond_a_page_are_counted() {
    for count in [60, 130] {
        let post = Post::new().await;
        let (workflows, _) = post.desk.machine();
        confirm(&post, &workflows).await;
        let ones = |topic, count| (0..count).map(move |_| (topic, "mixed".to_owned()));
        let mixed = ones("sent", 3).chain(ones("down", count)).chain(ones("sent", 1));
        commit(&post, &workflows, mixed).await;
        assert_eq!(counted(&post).await, [3, 5, count + 1]);
    }
}

#[tokio::test(start_paused = true)]
async fn skipped_messages_beyond_a_page_of_a_workflow_are_counted() {
    let post = Post::new().await;
    let (workflows, _) = post.desk.machine();
    confirm(&post, &workflows).await;
    let mut letters = vec![("down", Some("a")); 60];
    letters.push(("sent", Some("b")));
    workflows.start(&Letters(letters), ("letters", 1), &()).run().await.unwrap();
    assert_eq!(counted(&post).await, [1, 5, 60]);
}

/// The target is down because their first message was refused.
#[tokio::test(start_paused = true)]
async fn messages_after_a_refused_message_are_not_counted_as_skipped() {
    let post = Post::new().await;
    let (workflows, _) = post.desk.machine();
    commit(&post, &workflows, subjects("down", 4)).await;
    post.desk.bench.clock.advance(Duration::from_secs(1));
    commit(&post, &workflows, (0..130).map(|_| ("down", "last".to_owned()))).await;
    assert_eq!(counted(&post).await, [0, 5, 0]);
}
