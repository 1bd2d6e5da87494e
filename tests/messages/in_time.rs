//! A relay sends in time: nothing after its deadline, after its lease, or to a target that takes
//! nothing.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use lock_token_testing::{CallFate, TestClock};
use locker::dead_letters::{DeadLetters, Decision};
use locker::message::{Envelope, NewMessage, Router, Sent, Target};
use locker::relay::Relay;
use locker::workflow::Message;
use locker::{Clock as _, Operator};

use crate::post::{MINUTE, Post};

/// A message, and when it was begun.
type Begun = (DateTime<Utc>, String);

/// Takes one message at a time, slowly.
#[derive(Clone)]
struct Slow {
    clock: TestClock,
    /// `None`: it never replies.
    takes: Option<Duration>,
    begun: Arc<Mutex<Vec<Begun>>>,
    calls: Arc<AtomicUsize>,
}

impl Target for Slow {
    fn most_messages(&self) -> usize {
        1
    }

    async fn send(&self, batch: &[Envelope]) -> Vec<Sent> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        let now = self.clock.now();
        self.begun.lock().unwrap().extend(batch.iter().map(|envelope| (now, envelope.id.clone())));
        match self.takes {
            Some(takes) => tokio::time::sleep(takes).await,
            None => std::future::pending().await,
        }
        vec![Sent::Done; batch.len()]
    }
}

/// This many messages that are due, each of a subject of its own, and their target. The clock goes
/// on by itself.
async fn due(count: u32, takes: Option<Duration>) -> (Post, Slow) {
    let post = Post::new().await;
    let (workflows, _) = post.desk.machine();
    for number in 0..count {
        let told = NewMessage::new("told/0", &number).subject(format!("order/{number}"));
        post.commit([workflows.outbox().message(told).unwrap()]).await;
    }
    post.desk.bench.clock.advance(MINUTE);
    let slow =
        Slow { clock: post.desk.bench.clock.clone(), takes, begun: Arc::default(), calls: Arc::default() };
    let clock = post.desk.bench.clock.clone();
    tokio::spawn(async move {
        loop {
            tokio::time::sleep(Duration::from_millis(500)).await;
            clock.advance(Duration::from_millis(500));
        }
    });
    (post, slow)
}

#[tokio::test(start_paused = true)]
async fn no_message_is_sent_after_the_deadline() {
    let (post, slow) = due(40, Some(Duration::from_secs(9))).await;
    let deadline = post.desk.bench.clock.now() + TimeDelta::seconds(20);
    let relay = Relay::new(&post.desk.machine().0, Router::new().route("*", slow.clone()));
    let done = relay.deadline(deadline).run().await.unwrap();
    let last = deadline - TimeDelta::seconds(2);
    let late = slow.begun.lock().unwrap().iter().filter(|(at, _)| *at > last).count();
    assert_eq!((late, done.finished), (0, false), "{done:?}");
    assert!(post.desk.bench.clock.now() <= deadline, "{done:?}");
}

#[tokio::test(start_paused = true)]
async fn a_send_that_is_begun_before_the_deadline_ends_before_it() {
    let (post, slow) = due(40, None).await;
    let deadline = post.desk.bench.clock.now() + TimeDelta::seconds(3);
    let relay = Relay::new(&post.desk.machine().0, Router::new().route("*", slow.clone())).concurrency(1);
    let done = relay.deadline(deadline).run().await.unwrap();
    let late = post.desk.bench.clock.now() - deadline;
    assert!(late <= TimeDelta::zero(), "it ended {late} after its deadline: {done:?}");
}

#[tokio::test(start_paused = true)]
async fn no_message_is_sent_after_its_lease() {
    let (post, slow) = due(100, Some(Duration::from_secs(9))).await;
    let router = || Router::new().route("*", slow.clone());
    let one = Relay::new(&post.desk.machine().0, router()).concurrency(100);
    let other = Relay::new(&post.desk.machine().0, router()).concurrency(100);
    let beside = async {
        tokio::time::sleep(Duration::from_secs(65)).await;
        other.run().await.unwrap()
    };
    let (one, other) = tokio::join!(one.run(), beside);
    let (one, other) = (one.unwrap(), other);
    assert!(one.taken_elsewhere > 0 && one.sent > 0 && other.sent > 0, "{one:?} {other:?}");
    let router = Router::new().route("*", slow.clone());
    for _ in 0..10 {
        tokio::time::sleep(MINUTE).await;
        Relay::new(&post.desk.machine().0, router.clone()).run().await.unwrap();
    }
    // Each once: what one relay left was sent by another, and by nobody else.
    let mut ids: Vec<_> = slow.begun.lock().unwrap().iter().map(|(_, id)| id.clone()).collect();
    let calls = ids.len();
    ids.sort();
    ids.dedup();
    assert_eq!((calls, ids.len()), (100, 100), "{one:?} {other:?}");
}

#[tokio::test(start_paused = true)]
async fn target_that_hangs_is_skipped() {
    let (post, slow) = due(40, None).await;
    let relay = Relay::new(&post.desk.machine().0, Router::new().route("*", slow.clone()));
    let done = relay.run().await.unwrap();
    let calls = slow.calls.load(Ordering::SeqCst);
    // Eight at a time, and none after those.
    assert!((5..=8).contains(&calls), "{calls} calls: {done:?}");
    assert_eq!(done.target_down + done.waiting, 40, "{done:?}");
}

#[tokio::test(start_paused = true)]
async fn compensated_and_discarded_message_is_not_sent() {
    let (post, slow) = due(100, Some(Duration::from_secs(9))).await;
    let (workflows, _) = post.desk.machine();
    let one = Relay::new(&post.desk.machine().0, Router::new().route("*", slow.clone())).concurrency(100);
    let compensated = Mutex::new(0);
    let beside = async {
        tokio::time::sleep(Duration::from_secs(65)).await;
        post.calls.always(CallFate::Declined);
        let dead = post.relay().0.concurrency(100).run().await.unwrap().dead;
        let letters = DeadLetters::new(&workflows, Operator::new("orders", "no such customer").unwrap());
        let decide = async |_: &Message| {
            *compensated.lock().unwrap() += 1;
            Decision::Discard
        };
        letters.run(decide).await.unwrap();
        (dead, slow.calls.load(Ordering::SeqCst))
    };
    let (one, (dead, sent)) = tokio::join!(one.run(), beside);
    let after = slow.calls.load(Ordering::SeqCst) - sent;
    let compensated = *compensated.lock().unwrap();
    assert!(dead > 0 && compensated == dead, "{dead} {compensated}");
    assert_eq!(after, 0, "compensated and discarded, and sent: {:?}", one.unwrap());
}
