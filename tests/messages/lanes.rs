//! A busy subject, a dead one and a quiet one: the quiet one has its turn in the first round of a
//! run.

use std::io::Write;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use chrono::TimeDelta;
use lock_token_testing::CallFate;
use locker::dead_letters::{DeadLetters, Decision};
use locker::inbox::Delivery;
use locker::message::{Envelope, NewMessage, Router, Sent, Target};
use locker::relay::Relay;
use locker::workflow::{Message, Workflows};
use locker::{Class, Clock as _, Failure, Intervened};
use locker_tests::{Fate, TestClock, ada};

use crate::consumer::{consumer, delivery, the_dead};
use crate::post::{MINUTE, Post};

/// The clock of the machines goes on with that of the test.
fn ticking(post: &Post) {
    let clock = post.desk.bench.clock.clone();
    tokio::spawn(async move {
        loop {
            tokio::time::sleep(Duration::from_millis(100)).await;
            clock.advance(Duration::from_millis(100));
        }
    });
}

/// Replies after a second, and not at all about what is dead.
struct Slow(TestClock, Mutex<Vec<(String, TimeDelta)>>);

#[derive(Clone)]
struct To(std::sync::Arc<Slow>, chrono::DateTime<chrono::Utc>);

impl Target for To {
    async fn send(&self, batch: &[Envelope]) -> Vec<Sent> {
        let now = self.0.0.now() - self.1;
        self.0.1.lock().unwrap().extend(batch.iter().map(|it| (it.topic.clone(), now)));
        if batch.iter().any(|it| it.topic == "dead") {
            return std::future::pending().await;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
        vec![Sent::Done; batch.len()]
    }

    fn most_messages(&self) -> usize {
        1
    }
}

#[tokio::test(start_paused = true)]
async fn behind_a_busy_and_a_dead_subject_a_message_is_sent_in_the_first_round() {
    let post = Post::new().await;
    let (workflows, _) = post.desk.machine();
    let commit = async |topic: &str, count: usize| {
        let message = |_| workflows.outbox().message(NewMessage::new(topic, &1).subject(topic)).unwrap();
        for some in (0..count).map(message).collect::<Vec<_>>().chunks(50) {
            post.commit(some.to_vec()).await;
        }
        post.desk.bench.clock.advance(Duration::from_secs(1));
    };
    commit("busy", 300).await;
    commit("dead", 120).await;
    commit("quiet", 1).await;
    post.desk.bench.clock.advance(MINUTE);
    ticking(&post);
    let begun = post.desk.bench.clock.now();
    let to = To(std::sync::Arc::new(Slow(post.desk.bench.clock.clone(), Mutex::default())), begun);
    let relay = Relay::new(&post.desk.machine().0, Router::new().route("*", to.clone()));
    let done = relay.deadline(begun + TimeDelta::seconds(55)).run().await.unwrap();
    let sent = to.0.1.lock().unwrap().clone();
    let quiet: Vec<_> = sent.iter().filter(|(topic, _)| topic == "quiet").collect();
    assert_eq!(quiet.len(), 1, "{done:?}");
    assert!(quiet[0].1 < TimeDelta::seconds(2), "{quiet:?}");
    assert_eq!(sent.iter().filter(|(topic, _)| topic == "dead").count(), 1, "{done:?}");
    assert!(!done.finished && done.sent > 40, "{done:?}");
    assert!(post.desk.bench.clock.now() <= begun + TimeDelta::seconds(56), "{done:?}");
}

#[tokio::test(start_paused = true)]
async fn a_shard_that_cannot_be_listed_holds_up_no_message_of_another() {
    let post = Post::new().await;
    let (workflows, wire) = post.desk.machine_with(|settings, _| settings.shards = 3);
    for number in 0..12 {
        let told = NewMessage::new("told", &number).subject(format!("order/{number}"));
        post.commit([workflows.outbox().message(told).unwrap()]).await;
    }
    post.desk.bench.clock.advance(MINUTE);
    let is_dead = |it: &locker_tests::Exchange| {
        let request = it.request.to_string();
        // The list of what is due, not the count.
        request.contains("\"unsent_1\"") && request.contains(":dueBefore")
    };
    wire.matching(is_dead, Fate::Denied);
    let done = Relay::new(&workflows, post.router()).run().await.unwrap();
    assert!(done.sent > 0 && !done.finished && done.stopped_by.is_some(), "{done:?}");
    let rest = Relay::new(&workflows, post.router()).run().await.unwrap();
    assert!(rest.sent > 0 && rest.sent + done.sent == 12 && rest.finished, "{rest:?}");
}

/// A log in memory.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, line: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(line)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn error_that_stops_a_run_of_a_consumer_is_logged() {
    let post = Post::new().await;
    let (workflows, wire) = post.desk.machine_with(|settings, _| settings.shards = 3);
    let consumer = workflows.inbox("packer").unwrap().consumer();
    wire.matching(
        |it| it.operation == "Query" && it.request.to_string().contains("\"waiting_1\""),
        Fate::Denied,
    );
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt().with_writer(move || writer.clone()).with_ansi(false).finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let done = consumer.run(async |_: Delivery| Ok::<_, Failure>(())).await.unwrap();
    assert!(done.stopped_by.is_some() && !done.finished, "{done:?}");
    let lines = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    assert!(lines.contains("ERROR") && lines.contains("an error stopped a run"), "{lines}");
}

#[tokio::test(start_paused = true)]
async fn beside_a_busy_and_a_dead_group_a_message_is_handled_in_the_first_round() {
    let post = Post::new().await;
    let (consumer, workflows, _) = consumer(&post);
    let busy = (0..60).map(|number| format!("busy/{number:02}"));
    for body in busy.chain(["dead/0".to_owned(), "quiet/0".to_owned()]) {
        consumer.dead_letter(&delivery(&body), Class::Permanent, "no").await.unwrap();
        post.desk.bench.clock.advance(Duration::from_secs(1));
    }
    for dead in the_dead(&workflows).await {
        assert_eq!(workflows.redrive(&dead, &ada()).await.unwrap(), Intervened::Done);
    }
    post.desk.bench.clock.advance(MINUTE);
    ticking(&post);
    let (clock, handled) = (&post.desk.bench.clock, Mutex::new(Vec::new()));
    let begun = clock.now();
    let handle = async |delivery: Delivery| {
        handled.lock().unwrap().push((delivery.body.clone(), clock.now() - begun));
        if delivery.body.starts_with("dead") {
            return std::future::pending().await;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
        Ok::<_, Failure>(())
    };
    let consumer = consumer.concurrency(3).deadline(begun + TimeDelta::seconds(20));
    let done = consumer.run(handle).await.unwrap();
    let handled = handled.lock().unwrap().clone();
    let quiet = handled.iter().find(|(body, _)| body == "quiet/0").expect("it is handled");
    assert!(quiet.1 < TimeDelta::seconds(2), "{quiet:?}");
    assert!(handled.iter().all(|(_, at)| *at <= TimeDelta::seconds(20)), "{handled:?}");
    assert!((15..=22).contains(&done.handled), "{done:?}");
    // The handler that hangs is dropped 15 minutes after the deadline.
    assert_eq!((done.taken_elsewhere, done.finished), (1, false), "{done:?}");
    assert!(clock.now() - begun <= TimeDelta::seconds(15 * 60 + 20), "{}", clock.now() - begun);
}

#[tokio::test(start_paused = true)]
async fn beside_a_decision_that_hangs_a_quiet_subject_has_its_turn() {
    let post = Post::new().await;
    let (workflows, _) = post.desk.machine();
    for (subject, count) in [("busy", 20), ("dead", 2), ("quiet", 1)] {
        for number in 0..count {
            let told = NewMessage::new(subject, &number).subject(format!("{subject}/{number}"));
            post.commit([workflows.outbox().message(told).unwrap()]).await;
        }
    }
    post.desk.bench.clock.advance(MINUTE);
    post.calls.always(CallFate::Declined);
    assert_eq!(post.relay().0.run().await.unwrap().dead, 23);
    ticking(&post);
    let clock = &post.desk.bench.clock;
    let begun = clock.now();
    let decide = async |message: &Message| {
        if message.topic() == "dead" {
            return std::future::pending().await;
        }
        Decision::Discard
    };
    let letters = DeadLetters::new(&workflows, ada()).concurrency(3);
    let done = letters.deadline(begun + TimeDelta::seconds(20)).run(decide).await.unwrap();
    assert_eq!((done.discarded, done.taken_elsewhere, done.finished), (21, 2, false), "{done:?}");
    assert!(clock.now() - begun <= TimeDelta::seconds(15 * 60 + 1), "{}", clock.now() - begun);
    // The dead ones are held no longer.
    assert_eq!(the_dead(&workflows).await.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_handler_of_16_minutes_has_its_effect_once() {
    let post = Post::new().await;
    let (consumer, workflows, _) = consumer(&post);
    consumer.dead_letter(&delivery("slow/0"), Class::Permanent, "no").await.unwrap();
    for dead in the_dead(&workflows).await {
        assert_eq!(workflows.redrive(&dead, &ada()).await.unwrap(), Intervened::Done);
    }
    post.desk.bench.clock.advance(MINUTE);
    ticking(&post);
    let effects = Mutex::new(0);
    let handle = async |_: Delivery| {
        *effects.lock().unwrap() += 1;
        tokio::time::sleep(MINUTE * 16).await;
        Ok::<_, Failure>(())
    };
    let mut reports = Vec::new();
    for _ in 0..3 {
        let done = consumer.run(handle).await.unwrap();
        reports.push((done.handled, done.taken_elsewhere, done.finished));
        tokio::time::sleep(MINUTE).await;
    }
    assert_eq!(*effects.lock().unwrap(), 1, "{reports:?}");
}

/// Commits a message that dies. After that, time passes.
async fn one_dead_message(post: &Post, workflows: &Workflows) {
    let told = NewMessage::new("dead", &1).subject("dead/1".to_owned());
    post.commit([workflows.outbox().message(told).unwrap()]).await;
    post.desk.bench.clock.advance(MINUTE);
    post.calls.always(CallFate::Declined);
    assert_eq!(post.relay().0.run().await.unwrap().dead, 1);
    ticking(post);
}

#[tokio::test(start_paused = true)]
async fn a_decision_that_is_not_written_is_reported() {
    let post = Post::new().await;
    let (workflows, wire) = post.desk.machine();
    one_dead_message(&post, &workflows).await;
    let begun = post.desk.bench.clock.now();
    let decide = async |_: &Message| {
        // The code ends 10 seconds after the deadline. Then the table is down.
        tokio::time::sleep(Duration::from_secs(30)).await;
        wire.always(Fate::Throttled);
        Decision::Discard
    };
    let letters = DeadLetters::new(&workflows, ada()).deadline(begun + TimeDelta::seconds(20));
    let run = letters.run(decide).await;
    let is_told =
        run.as_ref().map_or(true, |done| done.stopped_by.is_some() || done.failed + done.changed > 0);
    assert!(is_told, "{run:?}");
}

#[tokio::test(start_paused = true)]
async fn a_decision_at_the_end_of_its_lease_is_counted() {
    let post = Post::new().await;
    let (workflows, wire) = post.desk.machine();
    one_dead_message(&post, &workflows).await;
    let decide = async |_: &Message| {
        tokio::time::sleep(MINUTE * 15 - Duration::from_secs(2)).await;
        wire.always(Fate::ReplyLost);
        Decision::Discard
    };
    let done = DeadLetters::new(&workflows, ada()).run(decide).await.unwrap();
    wire.always(Fate::Ok);
    assert!(done.taken_elsewhere == 0 || the_dead(&workflows).await.len() == 1, "{done:?}");
}
