//! Batches of one subject, to a target that keeps their order: which messages share one.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use chrono::TimeDelta;
use locker::Class;
use locker::message::{Envelope, MessageState, NewMessage, Router, Sent, Target};
use locker::relay::Relay;
use locker_tests::Fate;

use crate::consumer::in_state;
use crate::post::{MINUTE, Post};

/// Records its batches. `silent`: it does not reply about these topics.
#[derive(Debug, Clone)]
struct Ordered {
    batches: Arc<Mutex<Vec<String>>>,
    most: (usize, usize),
    silent: &'static str,
}

impl Ordered {
    fn of(messages: usize, bytes: usize) -> Self {
        Self { batches: Arc::default(), most: (messages, bytes), silent: "-" }
    }

    fn router(&self) -> Router {
        Router::new().route("*", self.clone())
    }

    /// The topics of each batch since the last time.
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.batches.lock().unwrap())
    }
}

impl Target for Ordered {
    fn most_messages(&self) -> usize {
        self.most.0
    }

    fn most_bytes(&self) -> usize {
        self.most.1
    }

    fn keeps_order(&self) -> bool {
        true
    }

    async fn send(&self, batch: &[Envelope]) -> Vec<Sent> {
        let topics: Vec<_> = batch.iter().map(|it| it.topic.as_str()).collect();
        self.batches.lock().unwrap().push(topics.join(" "));
        // It accepts no message after one that it did not accept.
        let accepted = topics.iter().take_while(|topic| **topic != self.silent).count();
        let is_accepted = |number| number < accepted;
        let sent =
            |number| if is_accepted(number) { Sent::Done } else { Sent::Unknown("silence".to_owned()) };
        (0..batch.len()).map(sent).collect()
    }
}

fn told(topic: &str) -> NewMessage {
    NewMessage::new(topic, &7).subject("order/7")
}

/// Commits these messages, which are then due.
async fn due(post: &Post, messages: impl IntoIterator<Item = NewMessage>) {
    let (workflows, _) = post.desk.machine();
    for message in messages {
        post.commit([workflows.outbox().message(message).unwrap()]).await;
    }
    post.desk.bench.clock.advance(MINUTE);
}

#[tokio::test(start_paused = true)]
async fn batch_of_a_subject_is_as_large_as_its_target_allows_and_ten_at_most() {
    let bytes = 10_000;
    for (target, lengths) in [
        (Ordered::of(100, bytes), vec![10, 10, 5]),
        (Ordered::of(4, bytes), vec![4, 4, 2, 4, 4, 2, 4, 1]),
        (Ordered::of(100, 700), vec![2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 1]),
    ] {
        let post = Post::new().await;
        due(&post, (0..25).map(|_| told("told"))).await;
        let done = Relay::new(&post.desk.machine().0, target.router()).run().await.unwrap();
        assert_eq!(done.sent, 25, "{done:?}");
        let sent: Vec<_> = target.take().iter().map(|batch| batch.split(' ').count()).collect();
        assert_eq!(sent, lengths, "{:?}", target.most);
    }
}

#[tokio::test(start_paused = true)]
async fn message_of_another_target_or_that_has_expired_ends_a_batch() {
    let post = Post::new().await;
    let until = post.desk.now() + TimeDelta::seconds(30);
    let messages = [told("x/1"), told("x/2"), told("y/3"), told("x/4"), told("x/5").expires(until)];
    due(&post, messages.into_iter().chain([told("x/6"), told("x/7")])).await;
    let target = Ordered::of(10, 10_000);
    let router = Router::new().route("x/*", target.clone()).route("y/*", target.clone());
    let done = Relay::new(&post.desk.machine().0, router).run().await.unwrap();
    assert_eq!((done.sent, done.expired), (6, 1), "{done:?}");
    assert_eq!(target.take(), ["x/1 x/2", "y/3", "x/4", "x/6 x/7"]);
}

/// The first message was sent and not deleted, and the second one had no reply.
#[tokio::test(start_paused = true)]
async fn message_in_doubt_shares_no_batch_of_its_subject() {
    let post = Post::new().await;
    due(&post, ["a", "b", "c", "d"].map(told)).await;
    let target = Ordered { silent: "b", ..Ordered::of(10, 10_000) };
    let (relay, wire) = post.desk.machine();
    wire.matching(|it| it.operation == "DeleteItem", Fate::Denied);
    drop(Relay::new(&relay, target.router()).run().await);
    assert_eq!(target.take(), ["a b c d"]);
    let target = Ordered { silent: "-", ..target };
    post.desk.bench.clock.advance(MINUTE + Duration::from_secs(1));
    let done = Relay::new(&post.desk.machine().0, target.router()).run().await.unwrap();
    assert_eq!(done.sent, 4, "{done:?}");
    assert_eq!(target.take(), ["a", "b", "c d"]);
    assert_eq!(post.unsent().await, 0);
}

/// Keeps the order of a batch, and panics.
pub(super) struct Panics;

impl Target for Panics {
    fn keeps_order(&self) -> bool {
        true
    }

    async fn send(&self, _: &[Envelope]) -> Vec<Sent> {
        panic!("a bug")
    }
}

#[tokio::test(start_paused = true)]
async fn panic_of_a_target_leaves_its_message_in_doubt_and_ends_no_run() {
    let post = Post::new().await;
    due(&post, [told("bad/1"), told("bad/2"), told("good").subject("order/8")]).await;
    let (workflows, _) = post.desk.machine();
    let router = Router::new().route("bad/*", Panics).route("*", Ordered::of(10, 10_000));
    let done = Relay::new(&workflows, router).run().await.unwrap();
    assert_eq!((done.sent, done.waiting, done.finished), (1, 1, true), "{done:?}");
    let unsent = in_state(&workflows, MessageState::Unsent).await;
    let first = unsent.iter().find(|it| it.topic() == "bad/1").unwrap();
    assert_eq!(first.cause(), Some("the target panicked: a bug"));
    assert_eq!((first.class(), unsent.len()), (Some(Class::InDoubt), 2));
}

/// Takes 100 ms for each call, and records how many calls there are at the same time.
#[derive(Debug, Clone)]
struct Counted {
    keeps_order: bool,
    calls: Arc<Mutex<(usize, usize)>>,
}

impl Target for Counted {
    fn most_messages(&self) -> usize {
        if self.keeps_order { 10 } else { 1 }
    }

    fn keeps_order(&self) -> bool {
        self.keeps_order
    }

    async fn send(&self, batch: &[Envelope]) -> Vec<Sent> {
        {
            let mut calls = self.calls.lock().unwrap();
            calls.0 += 1;
            calls.1 = calls.1.max(calls.0);
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
        self.calls.lock().unwrap().0 -= 1;
        vec![Sent::Done; batch.len()]
    }
}

#[tokio::test(start_paused = true)]
async fn batches_of_a_subject_are_limited_by_concurrency_and_others_to_eight_calls() {
    for (keeps_order, messages, concurrency, most) in [(true, 2, 12, 12), (true, 2, 3, 3), (false, 2, 30, 8)]
    {
        let post = Post::new().await;
        let subjects = (0..30).flat_map(|number| vec![number; messages]);
        due(&post, subjects.map(|number| told("told").subject(format!("order/{number}")))).await;
        let target = Counted { keeps_order, calls: Arc::default() };
        let router = Router::new().route("*", target.clone());
        let relay = Relay::new(&post.desk.machine().0, router).concurrency(concurrency);
        assert_eq!(relay.run().await.unwrap().sent, 30 * messages);
        assert_eq!(target.calls.lock().unwrap().1, most, "{keeps_order} {messages} {concurrency}");
    }
}
