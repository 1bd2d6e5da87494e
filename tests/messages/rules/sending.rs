//! How messages are sent: to whom, how many at a time, after which pauses, and behind what.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lock_token_testing::CallFate;
use locker::message::{Envelope, MessageState, NewMessage, Router, Sent, Target};
use locker::relay::{OutboxMessage, Relay};
use locker::workflow::Workflows;
use locker::{Clock as _, Intervened};
use locker_tests::Fate;

use crate::consumer::{in_state, the_dead};
use crate::post::{Letters, MINUTE, Post};

use super::{ada, commit};

#[tokio::test(start_paused = true)]
async fn a_topic_without_a_route_holds_up_those_behind_it_and_is_said_when_it_is_due() {
    let post = Post::new().await;
    let topics = ["known/1", "odd/1", "known/2"].map(|topic| (topic.to_owned(), "order/7".to_owned()));
    commit(&post, topics.clone()).await;
    let router = || Router::new().route("known/*", post.broker.clone());
    let (workflows, _) = post.desk.machine();
    let relay = async || Relay::new(&workflows, router()).run().await;
    let early = relay().await.unwrap();
    assert!(early.unknown.is_empty(), "{early:?}");
    post.desk.bench.clock.advance(MINUTE);
    for _ in 0..2 {
        let done = relay().await.unwrap();
        assert_eq!(done.unknown.get("odd/1"), Some(&1), "{done:?}");
        assert_eq!(post.topics(), ["known/1"]);
    }
    // Nor does one who sends at once what it committed.
    let post = Post::new().await;
    let router = Router::new().route("known/*", post.broker.clone());
    let workflows = locker::workflow::Workflows::builder(&post.desk.bench.client, &post.desk.table)
        .with_clock(Arc::new(post.desk.bench.clock.clone()))
        .source("/letters")
        .sending(router)
        .build()
        .unwrap();
    let outbox = workflows.outbox();
    let puts =
        topics.map(|(topic, subject)| outbox.message(NewMessage::new(topic, &1).subject(subject)).unwrap());
    post.commit(puts.clone()).await;
    outbox.send(puts).await;
    assert_eq!(post.topics(), ["known/1"]);
}

/// Three messages of one subject, as they were committed.
async fn three(post: &Post, workflows: &Workflows) -> Vec<OutboxMessage> {
    let told = |n| NewMessage::new(format!("told/{n}"), &n).subject("order/7");
    let messages: Vec<_> = (0..3).map(|n| workflows.outbox().message(told(n)).unwrap()).collect();
    post.commit(messages.clone()).await;
    messages
}

#[tokio::test(start_paused = true)]
async fn one_who_sends_at_once_stops_at_what_is_dead_or_cannot_be_deleted() {
    for (fate, dead) in [(CallFate::Declined, 1), (CallFate::Lost, 0), (CallFate::Refused, 0)] {
        let post = Post::new().await;
        let (workflows, _) = post.sender();
        let messages = three(&post, &workflows).await;
        post.calls.next([fate]);
        workflows.outbox().send(messages).await;
        assert_eq!((post.topics().len(), the_dead(&workflows).await.len()), (0, dead), "{fate:?}");
    }
    let post = Post::new().await;
    let (workflows, wire) = post.sender();
    let messages = three(&post, &workflows).await;
    wire.matching(|it| it.operation == "DeleteItem", Fate::Denied);
    workflows.outbox().send(messages).await;
    assert_eq!((post.topics(), post.unsent().await), (vec!["told/0".to_owned()], 3));
}

#[tokio::test(start_paused = true)]
async fn pauses_grow_and_each_try_is_counted_also_behind_the_first() {
    let post = Post::new().await;
    commit(&post, [("told".to_owned(), "order/7".to_owned())]).await;
    post.calls.always(CallFate::Refused);
    post.desk.bench.clock.advance(MINUTE);
    let mut tries = 0;
    for _ in 0..60 {
        tries += post.relay().0.run().await.unwrap().waiting;
        post.desk.bench.clock.advance(Duration::from_secs(10));
    }
    assert!((5..=9).contains(&tries), "{tries} tries in ten minutes");
    // A follower.
    let post = Post::new().await;
    commit(&post, (0..2).map(|n| (format!("told/{n}"), "order/7".to_owned()))).await;
    post.calls.matching(|what| what.contains("told/1"), CallFate::Refused);
    post.desk.bench.clock.advance(MINUTE);
    let done = post.relay().0.run().await.unwrap();
    assert_eq!((done.sent, done.waiting), (1, 1), "{done:?}");
    let left = in_state(&post.desk.machine().0, MessageState::Unsent).await.remove(0);
    assert_eq!((left.topic(), left.attempts()), ("told/1", 1));
}

#[tokio::test(start_paused = true)]
async fn messages_of_a_target_that_is_down_are_counted() {
    let post = Post::new().await;
    commit(&post, (0..20).map(|n| ("told".to_owned(), format!("order/{}", n % 10)))).await;
    post.calls.always(CallFate::Refused);
    post.desk.bench.clock.advance(MINUTE);
    let done = post.relay().0.concurrency(1).run().await.unwrap();
    assert_eq!((done.waiting, done.target_down), (5, 10), "{done:?}");
}

/// Says yes, and remembers what it was given.
#[derive(Debug, Clone, Default)]
struct Seen {
    batches: Arc<Mutex<Vec<Vec<Envelope>>>>,
    /// At the same time, now and at the most.
    at_once: Arc<Mutex<(usize, usize)>>,
    most_bytes: usize,
    /// Each second message is not taken.
    stumbles: bool,
}

impl Target for Seen {
    fn most_bytes(&self) -> usize {
        if self.most_bytes == 0 { 1_000_000 } else { self.most_bytes }
    }

    async fn send(&self, batch: &[Envelope]) -> Vec<Sent> {
        {
            let mut at_once = self.at_once.lock().unwrap();
            at_once.0 += 1;
            at_once.1 = at_once.1.max(at_once.0);
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
        self.at_once.lock().unwrap().0 -= 1;
        self.batches.lock().unwrap().push(batch.to_vec());
        let fails = |it: &Envelope| self.stumbles && it.topic.ends_with("odd");
        batch.iter().map(|it| if fails(it) { Sent::Later("no".to_owned()) } else { Sent::Done }).collect()
    }
}

#[tokio::test(start_paused = true)]
async fn a_target_is_given_no_more_than_it_takes() {
    let post = Post::new().await;
    commit(&post, (0..200).map(|n| ("told".to_owned(), format!("order/{n}")))).await;
    post.desk.bench.clock.advance(MINUTE);
    let (workflows, _) = post.desk.machine();
    let seen = Seen { most_bytes: 1_500, ..Seen::default() };
    let router = Router::new().route("*", seen.clone());
    let done = Relay::new(&workflows, router).concurrency(200).run().await.unwrap();
    assert_eq!(done.sent, 200, "{done:?}");
    let batches = seen.batches.lock().unwrap().clone();
    let bytes = |batch: &Vec<Envelope>| batch.iter().map(|it| it.to_json().unwrap().len()).sum::<usize>();
    assert!(batches.iter().all(|batch| bytes(batch) <= 1_500) && batches.iter().any(|batch| batch.len() > 1));
    assert!(seen.at_once.lock().unwrap().1 <= 8, "{:?}", seen.at_once);

    let post = Post::new().await;
    commit(&post, (0..200).map(|n| ("told".to_owned(), format!("order/{n}")))).await;
    // Two workflows tell of one subject.
    let (workflows, _) = post.desk.machine();
    for key in 0..4 {
        let code = Letters(vec![("told", Some("seat"))]);
        workflows.start(&code, ("letters", key), &()).run().await.unwrap();
    }
    post.desk.bench.clock.advance(MINUTE);
    let seen = Seen::default();
    let router = Router::new().route("*", seen.clone());
    let done = Relay::new(&workflows, router).concurrency(300).run().await.unwrap();
    assert_eq!(done.sent, 204, "{done:?}");
    for batch in seen.batches.lock().unwrap().iter() {
        let subjects: BTreeSet<_> = batch.iter().map(|it| it.subject.clone()).collect();
        assert!(batch.len() <= 10 && subjects.len() == batch.len(), "{} of {}", subjects.len(), batch.len());
    }
}

/// Five in a row, and not in all.
#[tokio::test(start_paused = true)]
async fn target_that_takes_some_messages_is_not_skipped() {
    let post = Post::new().await;
    let topic = |n| if n % 2 == 0 { "told/odd" } else { "told/even" };
    commit(&post, (0..20).map(|n| (topic(n).to_owned(), format!("order/{n:02}")))).await;
    post.desk.bench.clock.advance(MINUTE);
    let (workflows, _) = post.desk.machine();
    let seen = Seen { stumbles: true, ..Seen::default() };
    let router = Router::new().route("*", seen);
    let done = Relay::new(&workflows, router).concurrency(1).run().await.unwrap();
    assert_eq!((done.sent, done.waiting, done.target_down), (10, 10, 0), "{done:?}");
}

#[tokio::test(start_paused = true)]
async fn the_first_route_that_fits_counts_and_a_target_that_hangs_is_waited_for_for_ten_seconds() {
    let post = Post::new().await;
    commit(&post, [("told/1".to_owned(), "order/7".to_owned())]).await;
    post.desk.bench.clock.advance(MINUTE);
    let (workflows, _) = post.desk.machine();
    let (first, second) = (Seen::default(), Seen::default());
    let router = Router::new().route("told/*", first.clone()).route("*", second.clone());
    assert_eq!(Relay::new(&workflows, router).run().await.unwrap().sent, 1);
    assert_eq!((first.batches.lock().unwrap().len(), second.batches.lock().unwrap().len()), (1, 0));

    commit(&post, [("told/2".to_owned(), "order/7".to_owned())]).await;
    post.desk.bench.clock.advance(MINUTE);
    post.calls.always(CallFate::DiesBefore);
    let began = tokio::time::Instant::now();
    let done = post.relay().0.run().await.unwrap();
    assert_eq!(done.waiting, 1, "{done:?}");
    assert!(began.elapsed() < Duration::from_secs(12), "{:?}", began.elapsed());
}

#[tokio::test]
async fn each_bound_of_a_message_is_where_it_is_said_to_be() {
    let post = Post::new().await;
    let (workflows, _) = post.desk.machine();
    let outbox = workflows.outbox();
    let told = |topic: usize, subject: usize, body: usize| {
        let message = NewMessage::new("a".repeat(topic), &"x".repeat(body));
        outbox.message(message.subject("\u{e9}".repeat(subject))).is_ok()
    };
    assert!(told(128, 512, 256 * 1024 - 2), "two quotation marks are of the body, too");
    assert!(!told(129, 1, 1) && !told(1, 513, 1) && !told(1, 1, 256 * 1024 - 1));
}

/// One process, whose clock is set back, and two, whose clocks differ.
#[tokio::test(start_paused = true)]
async fn later_message_has_a_greater_sequence_despite_clocks() {
    let post = Post::new().await;
    let (workflows, _) = post.desk.machine();
    let outbox = workflows.outbox();
    let clock = &post.desk.bench.clock;
    let now = clock.now();
    for (number, back) in [0, 5, 3].into_iter().enumerate() {
        clock.set(now - chrono::TimeDelta::seconds(back));
        let told = NewMessage::new(format!("told/{number}"), &1).subject("order/7");
        post.commit([outbox.message(told).unwrap()]).await;
    }
    clock.set(now);
    post.settle().await;
    assert_eq!(post.topics(), ["told/0", "told/1", "told/2"]);
    assert!(post.broker.took().is_sorted_by_key(|it| it.sequence.clone()), "{:?}", post.broker.took());
}

#[tokio::test(start_paused = true)]
async fn sending_at_once_ends_with_the_deadline_of_its_run() {
    let post = Post::new().await;
    post.calls.next([CallFate::DiesBefore]);
    let (workflows, _) = post.sender();
    let until = post.desk.bench.clock.now() + chrono::TimeDelta::milliseconds(500);
    let began = tokio::time::Instant::now();
    drop(workflows.start(&Letters::in_order(1), "letters/1", &()).deadline(until).run().await);
    assert!(began.elapsed() < Duration::from_millis(1500), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_topic_without_a_route_that_waits_is_not_said_to_be_due() {
    let post = Post::new().await;
    let (workflows, _) = post.desk.machine();
    let code = Letters(vec![("known/1", Some("a")), ("odd/1", Some("b"))]);
    workflows.start(&code, "letters/1", &()).run().await.unwrap();
    post.desk.bench.clock.advance(MINUTE);
    post.calls.matching(|what| what.contains("known/1"), CallFate::Declined);
    post.calls.matching(|what| what.contains("odd/1"), CallFate::Refused);
    let done = post.relay().0.run().await.unwrap();
    assert_eq!((done.dead, done.waiting), (1, 1), "{done:?}");
    let dead = the_dead(&workflows).await.remove(0);
    assert_eq!(workflows.redrive(&dead, &ada()).await.unwrap(), Intervened::Done);
    // A pause is longer.
    post.desk.bench.clock.advance(Duration::from_secs(1));
    let router = Router::new().route("known/*", post.broker.clone());
    let done = Relay::new(&workflows, router).run().await.unwrap();
    assert_eq!((done.sent, done.unknown.len()), (1, 0), "{done:?}");
}
