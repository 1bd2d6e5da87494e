//! The classes of refusal: what each does to its message, to its subject and to its target.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use lock_token_testing::Exchange;
use locker::message::{Envelope, MessageState, NewMessage, Router, Sent, Target};
use locker::relay::{Relay, RelayReport};
use locker::workflow::{Message, Workflows};
use locker_tests::Recorded;
use tokio::time::Instant;

use crate::post::{MINUTE, Post};

/// What a target replies to a message. `None`: nothing at all.
type Rule = Arc<dyn Fn(&Envelope) -> Option<Sent> + Send + Sync>;

/// When a call began, and the topics of its messages.
type Call = (Instant, Vec<String>);

/// A target that follows a rule, and records its calls.
#[derive(Clone)]
struct Ruled {
    rule: Arc<Mutex<Rule>>,
    calls: Arc<Mutex<Vec<Call>>>,
}

impl Ruled {
    fn by(rule: impl Fn(&Envelope) -> Option<Sent> + Send + Sync + 'static) -> Self {
        let rule: Rule = Arc::new(rule);
        Self { rule: Arc::new(Mutex::new(rule)), calls: Arc::default() }
    }

    fn follow(&self, rule: impl Fn(&Envelope) -> Option<Sent> + Send + Sync + 'static) {
        *self.rule.lock().unwrap() = Arc::new(rule);
    }

    /// The calls since the last time.
    fn take(&self) -> Vec<Call> {
        std::mem::take(&mut self.calls.lock().unwrap())
    }

    fn router(&self) -> Router {
        Router::new().route("*", self.clone())
    }
}

impl Target for Ruled {
    async fn send(&self, batch: &[Envelope]) -> Vec<Sent> {
        let topics = batch.iter().map(|it| it.topic.clone()).collect();
        self.calls.lock().unwrap().push((Instant::now(), topics));
        let rule = self.rule.lock().unwrap().clone();
        match batch.iter().map(|it| rule(it)).collect() {
            Some(sent) => sent,
            None => std::future::pending().await,
        }
    }
}

fn denied() -> Sent {
    Sent::TargetRefused("AccessDenied: no".to_owned())
}

/// Accepts all but the topic `odd`.
fn all_but_odd(odd: Option<Sent>) -> impl Fn(&Envelope) -> Option<Sent> {
    move |it| if it.topic == "odd" { odd.clone() } else { Some(Sent::Done) }
}

/// Commits one message of this topic for each of these subjects.
async fn commit(post: &Post, topic: &str, subjects: std::ops::Range<usize>) {
    let (workflows, _) = post.desk.machine();
    let outbox = workflows.outbox();
    let message = |number: usize| {
        let told = NewMessage::new(topic, &number).subject(format!("{topic}/{number}"));
        outbox.message(told).unwrap()
    };
    let puts: Vec<_> = subjects.map(message).collect();
    for some in puts.chunks(100) {
        post.commit(some.to_vec()).await;
    }
}

async fn in_state(workflows: &Workflows, state: MessageState) -> Vec<Message> {
    let mut all = Vec::new();
    for summary in workflows.messages(state).fetch().await.unwrap().items {
        all.extend(workflows.message(&summary.work).await.unwrap());
    }
    all
}

fn counts(done: &RelayReport) -> [usize; 4] {
    [done.sent, done.waiting, done.dead, done.target_down]
}

#[tokio::test(start_paused = true)]
async fn one_message_that_is_always_refused_stops_no_other() {
    let no = || "WeirdCode: no".to_owned();
    for odd in [Sent::Refused(no()), denied(), Sent::Unknown(no()), Sent::Later(no())] {
        let post = Post::new().await;
        commit(&post, "odd", 0..1).await;
        commit(&post, "good", 0..500).await;
        post.desk.bench.clock.advance(MINUTE);
        let target = Ruled::by(all_but_odd(Some(odd.clone())));
        let relay = Relay::new(&post.desk.machine().0, target.router());
        let done = relay.run().await.unwrap();
        assert_eq!(counts(&done), [500, 1, 0, 0], "{odd:?}: {done:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn first_refusal_of_a_target_stops_no_other_message() {
    let post = Post::new().await;
    commit(&post, "odd", 0..1).await;
    post.desk.bench.clock.advance(Duration::from_secs(1));
    commit(&post, "good", 0..20).await;
    post.desk.bench.clock.advance(MINUTE);
    let target = Ruled::by(all_but_odd(Some(denied())));
    // The odd message is the first, and alone in its call.
    let relay = Relay::new(&post.desk.machine().0, target.router()).concurrency(1);
    let done = relay.run().await.unwrap();
    assert_eq!(counts(&done), [20, 1, 0, 0], "{done:?}");
}

#[tokio::test(start_paused = true)]
async fn many_unlisted_refusals_stop_no_other() {
    let post = Post::new().await;
    commit(&post, "odd", 0..40).await;
    commit(&post, "good", 0..20).await;
    post.desk.bench.clock.advance(MINUTE);
    let target = Ruled::by(all_but_odd(Some(Sent::Refused("WeirdCode: no".to_owned()))));
    let relay = Relay::new(&post.desk.machine().0, target.router()).concurrency(1);
    let done = relay.run().await.unwrap();
    assert_eq!(counts(&done), [20, 40, 0, 0], "{done:?}");
}

#[tokio::test(start_paused = true)]
async fn wrong_permission_for_an_hour_kills_nothing_and_costs_a_probe_a_minute() {
    const SUBJECTS: usize = 500;
    let recorded = Recorded::start();
    let post = Post::new().await;
    commit(&post, "told", 0..SUBJECTS).await;
    let target = Ruled::by(|_| Some(denied()));
    let (workflows, wire) = post.desk.machine();
    let relay = Relay::new(&workflows, target.router());
    for minute in 0..60 {
        post.desk.bench.clock.advance(MINUTE);
        wire.take();
        let done = relay.run().await.unwrap();
        assert_eq!((done.sent, done.dead, done.failed), (0, 0, 0), "{minute}: {done:?}");
        let calls = target.take();
        let is_of_a_message =
            |it: &&Exchange| it.operation == "PutItem" && it.request.to_string().contains("told/");
        let writes = wire.take().iter().filter(is_of_a_message).count();
        // What was under way when the second message was refused.
        let (most_calls, most_writes) = if minute == 0 { (8, 100) } else { (1, 2) };
        assert!(calls.len() <= most_calls && writes <= most_writes, "{minute}: {calls:?}, {writes} writes");
        assert!(!calls.is_empty(), "{minute}: no probe was sent");
    }
    let refusals = recorded.take().count("targetRefusals");
    assert!(refusals >= 60, "{refusals}");

    target.follow(|_| Some(Sent::Done));
    let mut sent = Vec::new();
    while sent.iter().sum::<usize>() < SUBJECTS {
        assert!(sent.len() < 16, "{sent:?}");
        post.desk.bench.clock.advance(MINUTE);
        let done = relay.run().await.unwrap();
        assert_eq!((done.waiting, done.dead, done.target_down), (0, 0, 0), "{done:?}");
        sent.push(done.sent);
    }
    assert!(sent[0] > SUBJECTS - 120, "all that a probe did not postpone: {sent:?}");
    assert_eq!(post.unsent().await, 0);
}

/// The target was refused in the middle of the run before.
#[tokio::test(start_paused = true)]
async fn each_run_sends_a_probe_also_within_a_minute() {
    let post = Post::new().await;
    commit(&post, "told", 0..20).await;
    post.desk.bench.clock.advance(MINUTE);
    let target = Ruled::by(|_| Some(denied()));
    let relay = Relay::new(&post.desk.machine().0, target.router()).concurrency(2);
    assert!(relay.run().await.unwrap().target_down > 0);
    target.follow(|_| Some(Sent::Done));
    post.desk.bench.clock.advance(Duration::from_secs(30));
    let done = relay.run().await.unwrap();
    assert!(done.sent > 10 && done.target_down == 0, "{done:?}");
}

#[tokio::test(start_paused = true)]
async fn refused_target_is_dead_lettered_after_three_days() {
    let post = Post::new().await;
    commit(&post, "told", 0..1).await;
    let target = Ruled::by(|_| Some(denied()));
    let relay = Relay::new(&post.desk.machine().0, target.router());
    let mut hours = 0;
    while relay.run().await.unwrap().dead == 0 {
        assert!(hours < 80, "it is never dead");
        hours += 1;
        post.desk.bench.clock.advance(MINUTE * 60);
    }
    assert_eq!(hours, 73);
    let dead = in_state(&post.desk.machine().0, MessageState::Dead).await.remove(0);
    assert_eq!((dead.cause(), dead.class()), (Some("AccessDenied: no"), None));
}

#[tokio::test(start_paused = true)]
async fn refused_message_changes_no_count_of_failures() {
    let post = Post::new().await;
    for number in 0..20 {
        commit(&post, if number % 2 == 0 { "odd" } else { "told" }, number..number + 1).await;
        post.desk.bench.clock.advance(Duration::from_millis(10));
    }
    post.desk.bench.clock.advance(MINUTE);
    let target = Ruled::by(|it| {
        let why = "no".to_owned();
        Some(if it.topic == "odd" { Sent::MessageRefused(why) } else { Sent::Later(why) })
    });
    let relay = Relay::new(&post.desk.machine().0, target.router()).concurrency(1);
    let done = relay.run().await.unwrap();
    assert_eq!(counts(&done), [0, 5, 5, 10], "{done:?}");
}

#[tokio::test(start_paused = true)]
async fn message_that_hangs_delays_its_batch_by_one_run() {
    let post = Post::new().await;
    commit(&post, "odd", 0..1).await;
    commit(&post, "good", 0..9).await;
    post.desk.bench.clock.advance(MINUTE);
    let target = Ruled::by(all_but_odd(None));
    let (workflows, _) = post.desk.machine();
    let done = Relay::new(&workflows, target.router()).run().await.unwrap();
    assert_eq!((counts(&done), target.take().len()), ([0, 10, 0, 0], 1), "one batch: {done:?}");
    post.desk.bench.clock.advance(MINUTE);
    // Another process sends the messages that came meanwhile.
    commit(&post, "later", 0..9).await;
    post.desk.bench.clock.advance(MINUTE);
    let done = Relay::new(&workflows, target.router()).run().await.unwrap();
    assert_eq!(counts(&done), [18, 1, 0, 0], "{done:?}");
    let calls = target.take();
    let were_in_doubt = |topics: &[String]| topics.iter().any(|it| it == "good" || it == "odd");
    let alone: Vec<_> = calls.iter().filter(|(_, topics)| were_in_doubt(topics)).collect();
    assert!(alone.len() == 10 && alone.iter().all(|(_, topics)| topics.len() == 1), "{calls:?}");
    let stuck = in_state(&workflows, MessageState::Unsent).await.remove(0);
    assert_eq!(stuck.class(), Some(locker::Class::InDoubt), "the target may have it");
}

#[tokio::test(start_paused = true)]
async fn messages_that_hang_do_not_delay_the_first_try_of_others() {
    let post = Post::new().await;
    commit(&post, "odd", 0..12).await;
    post.desk.bench.clock.advance(MINUTE);
    let target = Ruled::by(all_but_odd(None));
    let relay = Relay::new(&post.desk.machine().0, target.router());
    assert_eq!(counts(&relay.run().await.unwrap()), [0, 12, 0, 0]);
    commit(&post, "good", 0..30).await;
    post.desk.bench.clock.advance(MINUTE);
    target.take();
    let began = Instant::now();
    let done = relay.run().await.unwrap();
    assert_eq!(counts(&done), [30, 12, 0, 0], "{done:?}");
    let last = target.take().into_iter().filter(|(_, topics)| topics[0] == "good").map(|(at, _)| at).max();
    assert!(last.unwrap() - began < Duration::from_secs(1), "{:?}", last.unwrap() - began);
}

#[tokio::test(start_paused = true)]
async fn probe_that_hangs_does_not_delay_another_target() {
    let post = Post::new().await;
    commit(&post, "down", 0..30).await;
    post.desk.bench.clock.advance(MINUTE);
    let (down, up) = (Ruled::by(|_| Some(denied())), Ruled::by(|_| Some(Sent::Done)));
    let router = Router::new().route("down", down.clone()).route("*", up.clone());
    let relay = Relay::new(&post.desk.machine().0, router).concurrency(2);
    let done = relay.run().await.unwrap();
    assert!(done.waiting <= 4 && done.waiting + done.target_down == 30, "{done:?}");
    down.take();
    down.follow(|_| None);
    commit(&post, "up", 0..5).await;
    post.desk.bench.clock.advance(MINUTE);
    let began = Instant::now();
    let done = relay.run().await.unwrap();
    assert_eq!((counts(&done)[..3].to_vec(), down.take().len()), (vec![5, 1, 0], 1), "{done:?}");
    let last = up.take().into_iter().map(|(at, _)| at).max().unwrap();
    assert!(last - began < Duration::from_secs(2), "{:?}", last - began);
}

#[tokio::test(start_paused = true)]
async fn commits_do_not_call_a_target_that_refuses_and_kill_nothing() {
    let post = Post::new().await;
    let target = Ruled::by(|_| Some(denied()));
    let workflows = Workflows::builder(&post.desk.bench.client, &post.desk.table)
        .with_clock(Arc::new(post.desk.bench.clock.clone()))
        .source("/letters")
        .sending(target.router())
        .build()
        .unwrap();
    let send = async |number: usize| {
        let message = NewMessage::new("told", &number).subject(format!("told/{number}"));
        let message = workflows.outbox().message(message).unwrap();
        post.commit([message.clone()]).await;
        workflows.outbox().send([message]).await;
        target.take().len()
    };
    let mut calls = Vec::new();
    for number in 0..4 {
        calls.push(send(number).await);
    }
    assert_eq!(calls, [1, 1, 0, 0], "the second message confirms the refusal");
    post.desk.bench.clock.advance(MINUTE);
    calls = vec![send(4).await, send(5).await];
    assert_eq!(calls, [1, 0], "a probe a minute");
    target.follow(|_| Some(Sent::Done));
    post.desk.bench.clock.advance(MINUTE);
    calls = vec![send(6).await, send(7).await];
    assert_eq!(calls, [1, 1]);
    let left = in_state(&workflows, MessageState::Unsent).await;
    assert_eq!((left.len(), post.unsent().await), (6, 6), "none is dead");
}
