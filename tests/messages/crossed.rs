//! Rules of sending that meet: the time of a caller and a slow target, a commit and a relay, the end
//! of a delay and the order of a subject, an expiry and a busy target.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use chrono::TimeDelta;
use locker::message::{Envelope, NewMessage, Router, Sent, Target};
use locker::relay::{OutboxMessage, Relay};
use locker::workflow::{Flow, Stop, Workflow, Workflows};

use crate::post::{MINUTE, Post};

/// Takes this long for each call, never replies to the topic `hangs`, and records the messages at
/// the begin of each call.
#[derive(Debug, Clone, Default)]
struct Slow {
    takes: Duration,
    is_single: bool,
    took: Arc<Mutex<Vec<Envelope>>>,
    calls: Arc<Mutex<usize>>,
}

impl Target for Slow {
    async fn send(&self, batch: &[Envelope]) -> Vec<Sent> {
        *self.calls.lock().unwrap() += 1;
        if batch.iter().any(|it| it.topic == "hangs") {
            return std::future::pending().await;
        }
        self.took.lock().unwrap().extend(batch.iter().cloned());
        tokio::time::sleep(self.takes).await;
        vec![Sent::Done; batch.len()]
    }

    fn most_messages(&self) -> usize {
        if self.is_single { 1 } else { 10 }
    }
}

impl Slow {
    fn of(takes: Duration) -> Self {
        Self { takes, ..Self::default() }
    }

    fn router(&self) -> Router {
        Router::new().route("*", self.clone())
    }

    fn calls(&self) -> usize {
        *self.calls.lock().unwrap()
    }
}

/// A process that sends to this target at once.
fn process(post: &Post, target: &Slow) -> Workflows {
    Workflows::builder(&post.desk.bench.client, &post.desk.table)
        .with_clock(Arc::new(post.desk.bench.clock.clone()))
        .source("/letters")
        .sending(target.router())
        .build()
        .unwrap()
}

fn told(workflows: &Workflows, topic: &str) -> OutboxMessage {
    workflows.outbox().message(NewMessage::new(topic, &7).subject("order/7")).unwrap()
}

/// The earlier message is of a process that does not send at once.
#[tokio::test(start_paused = true)]
async fn message_that_a_relay_has_sent_is_not_sent_at_once() {
    let post = Post::new().await;
    let (workflows, _) = post.sender();
    post.commit([told(&workflows, "told/0")]).await;
    post.desk.bench.clock.advance(MINUTE);
    let later = told(&workflows, "told/1");
    post.commit([later.clone()]).await;
    assert_eq!(post.relay().0.run().await.unwrap().sent, 2);
    workflows.outbox().send([later]).await;
    assert_eq!((post.topics(), post.unsent().await), (vec!["told/0".to_owned(), "told/1".to_owned()], 0));
}

#[tokio::test(start_paused = true)]
async fn message_that_is_given_to_two_calls_is_sent_once() {
    let post = Post::new().await;
    let (workflows, _) = post.sender();
    let messages = [told(&workflows, "told/0"), told(&workflows, "told/1")];
    post.commit(messages.clone()).await;
    workflows.outbox().send([messages[0].clone()]).await;
    workflows.outbox().send(messages).await;
    assert_eq!((post.topics(), post.unsent().await), (vec!["told/0".to_owned(), "told/1".to_owned()], 0));
}

/// Commits 90 messages of one subject in one step.
#[derive(Debug, Clone)]
struct Many;

impl Workflow for Many {
    const NAME: &'static str = "many";
    type Input = ();
    type Output = ();

    async fn run(&self, flow: &Flow, (): ()) -> Result<(), Stop> {
        let message = |number: usize| NewMessage::new("told", &number).subject("order/7");
        let step = (0..90).fold(flow.atomic("tell"), |step, number| step.send(message(number)));
        step.commit(&()).await
    }
}

/// The time of a caller ends between two messages, not in the middle of a call.
#[tokio::test(start_paused = true)]
async fn caller_that_has_too_many_messages_sends_none_twice() {
    let post = Post::new().await;
    let target = Slow::of(Duration::from_millis(70));
    let workflows = process(&post, &target);
    let many: Vec<_> = (0..90).map(|_| told(&workflows, "told")).collect();
    post.commit(many.clone()).await;
    let began = tokio::time::Instant::now();
    workflows.outbox().send(many).await;
    assert!(began.elapsed() < Duration::from_millis(2100), "{:?}", began.elapsed());
    workflows.start(&Many, "many/1", &()).run().await.unwrap();
    let at_once = target.calls();
    while post.unsent().await > 0 {
        post.desk.bench.clock.advance(MINUTE);
        Relay::new(&post.desk.machine().0, target.router()).run().await.unwrap();
    }
    let took = target.took.lock().unwrap().clone();
    let ids: BTreeSet<_> = took.iter().map(|it| it.id.clone()).collect();
    assert_eq!((took.len(), ids.len()), (180, 180));
    assert!(at_once > 20, "{at_once} were sent at once");
}

/// Its callers wait for up to 2 seconds each, until the target is down.
#[tokio::test(start_paused = true)]
async fn commits_do_not_call_a_target_that_hangs() {
    let post = Post::new().await;
    let target = Slow::default();
    let workflows = process(&post, &target);
    for number in 0..10 {
        let message = NewMessage::new("hangs", &number).subject(format!("order/{number}"));
        let message = workflows.outbox().message(message).unwrap();
        post.commit([message.clone()]).await;
        workflows.outbox().send([message]).await;
    }
    assert_eq!(target.calls(), 5);
}

#[tokio::test(start_paused = true)]
async fn message_does_not_wait_for_one_whose_delay_has_ended() {
    let post = Post::new().await;
    let (workflows, _) = post.sender();
    let delayed = NewMessage::new("late", &7).subject("order/7").delay(Duration::from_secs(1));
    let delayed = workflows.outbox().message(delayed).unwrap();
    post.desk.bench.clock.advance(Duration::from_secs(2));
    let told = told(&workflows, "told");
    let both = [delayed, told];
    post.commit(both.clone()).await;
    workflows.outbox().send(both).await;
    assert_eq!(post.topics(), ["told"]);
}

/// A relay takes all of them, and its target is busy with the first ones.
#[tokio::test(start_paused = true)]
async fn message_that_expires_before_its_call_is_not_sent() {
    let post = Post::new().await;
    let (workflows, _) = post.desk.machine();
    let until = post.desk.now() + TimeDelta::seconds(63);
    let message = |number: usize| {
        let told = NewMessage::new("told", &number).subject(format!("order/{number}")).expires(until);
        workflows.outbox().message(told).unwrap()
    };
    post.commit((0..12).map(message).collect::<Vec<_>>()).await;
    post.desk.bench.clock.advance(MINUTE);
    let clock = post.desk.bench.clock.clone();
    tokio::spawn(async move {
        loop {
            tokio::time::sleep(Duration::from_millis(100)).await;
            clock.advance(Duration::from_millis(100));
        }
    });
    let target = Slow { is_single: true, ..Slow::of(Duration::from_secs(5)) };
    let done = Relay::new(&workflows, target.router()).run().await.unwrap();
    assert_eq!((done.sent, done.expired, target.calls()), (8, 4, 8), "{done:?}");
    assert_eq!(post.unsent().await, 0);
}
