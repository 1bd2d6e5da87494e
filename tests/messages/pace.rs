//! How fast messages leave, with 5 ms for each request, and how often each is sent.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use locker::Settings;
use locker::message::{Envelope, NewMessage, Router, Sent, Target};
use locker::relay::Relay;
use locker::workflow::Workflows;
use locker_tests::{TestClock, Wire};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::post::{MINUTE, Post};

const REQUEST: Duration = Duration::from_millis(5);

/// Takes this long for each call, and records what it took.
#[derive(Debug, Clone)]
struct Timed {
    takes: Duration,
    keeps_order: bool,
    took: Arc<Mutex<Vec<Envelope>>>,
}

impl Target for Timed {
    async fn send(&self, batch: &[Envelope]) -> Vec<Sent> {
        self.took.lock().unwrap().extend(batch.iter().cloned());
        tokio::time::sleep(self.takes).await;
        vec![Sent::Done; batch.len()]
    }

    fn keeps_order(&self) -> bool {
        self.keeps_order
    }
}

fn timed(millis: u64) -> Timed {
    Timed { takes: Duration::from_millis(millis), keeps_order: false, took: Arc::default() }
}

/// The clock goes on with the time of the test.
fn ticking(clock: &TestClock) -> tokio::task::AbortHandle {
    let clock = clock.clone();
    let ticks = tokio::spawn(async move {
        loop {
            tokio::time::sleep(Duration::from_millis(1)).await;
            clock.advance(Duration::from_millis(1));
        }
    });
    ticks.abort_handle()
}

/// A process that sends at once.
fn process(post: &Post, target: &Timed, shards: u16) -> (Workflows, Wire) {
    let wire = Wire::default();
    wire.delay(REQUEST);
    let mut settings = Settings::default();
    settings.owner = "test/process".to_owned();
    settings.shards = shards;
    let client = post.desk.bench.engine.client_over(&wire);
    let workflows = Workflows::builder(&client, &post.desk.table)
        .settings(settings)
        .with_clock(Arc::new(post.desk.bench.clock.clone()))
        .source("/letters")
        .sending(Router::new().route("*", target.clone()))
        .build()
        .unwrap();
    (workflows, wire)
}

/// h04
#[tokio::test(start_paused = true)]
async fn callers_of_one_subject_send_each_message_once_and_in_order() {
    for processes in [1, 20] {
        for apart in [0, 5, 10, 20, 30, 60] {
            let post = Post::new().await;
            let target = timed(20);
            let machines: Vec<_> = (0..processes).map(|_| process(&post, &target, 1).0).collect();
            let ticks = ticking(&post.desk.bench.clock);
            let post = Arc::new(post);
            let mut callers = JoinSet::new();
            for number in 0..20_u32 {
                let outbox = machines[number as usize % processes].outbox();
                let post = Arc::clone(&post);
                callers.spawn(async move {
                    tokio::time::sleep(Duration::from_millis(u64::from(number) * apart)).await;
                    let message = NewMessage::new(format!("told/{number:02}"), &number).subject("order/7");
                    let message = outbox.message(message).unwrap();
                    tokio::time::sleep(REQUEST).await;
                    post.commit([message.clone()]).await;
                    let began = Instant::now();
                    outbox.send([message]).await;
                    began.elapsed()
                });
            }
            let waits = callers.join_all().await;
            ticks.abort();
            let at_once = target.took.lock().unwrap().len();
            while post.unsent().await > 0 {
                post.desk.bench.clock.advance(MINUTE);
                let (workflows, _) = post.desk.machine();
                Relay::new(&workflows, Router::new().route("*", target.clone())).run().await.unwrap();
            }
            let took = target.took.lock().unwrap().clone();
            let mut late = 0;
            for (place, message) in took.iter().enumerate() {
                late += usize::from(took[..place].iter().any(|it| it.sequence > message.sequence));
            }
            println!(
                "h04: {processes} processes, {apart} ms apart: {} sendings, {at_once} at once, {late} late, longest wait {:?}",
                took.len(),
                waits.iter().max().unwrap(),
            );
            assert_eq!((took.len(), late), (20, 0), "{processes} processes, {apart} ms apart");
            assert!(processes > 1 || at_once == 20, "{at_once} at once, {apart} ms apart");
        }
    }
}

/// Messages in a second, of this many subjects with this many messages each.
async fn pace(shards: u16, subjects: usize, each: usize) -> f64 {
    let post = Post::new().await;
    let target = Timed { keeps_order: each > 1, ..timed(5) };
    let (workflows, wire) = process(&post, &target, shards);
    for place in 0..each {
        let outbox = workflows.outbox();
        let put = |subject: usize| {
            let message = NewMessage::new("told", &place).subject(format!("order/{subject}"));
            outbox.message(message).unwrap()
        };
        for puts in (0..subjects).map(put).collect::<Vec<_>>().chunks(100) {
            post.commit(puts.to_vec()).await;
        }
        post.desk.bench.clock.advance(Duration::from_millis(1));
    }
    post.desk.bench.clock.advance(MINUTE);
    wire.take();
    let began = Instant::now();
    let relay = Relay::new(&workflows, Router::new().route("*", target.clone()));
    let done = relay.run().await.unwrap();
    let took = began.elapsed().as_secs_f64();
    assert_eq!((done.sent, post.unsent().await), (subjects * each, 0), "{done:?}");
    for subject in 0..subjects {
        let of = format!("order/{subject}");
        let took = target.took.lock().unwrap();
        let sequences: Vec<_> = took.iter().filter(|it| it.subject == of).map(|it| &it.sequence).collect();
        assert!(sequences.len() == each && sequences.is_sorted(), "{of}: {sequences:?}");
    }
    #[allow(clippy::cast_precision_loss)]
    let pace = done.sent as f64 / took;
    println!(
        "h16: {shards} shards, {subjects} subjects of {each}: {pace:.0} a second, {} requests, {took:.2} s",
        wire.take().len()
    );
    pace
}

/// h16
#[tokio::test(start_paused = true)]
async fn relay_sends_2_000_messages_a_second_with_any_number_of_shards() {
    let one = pace(1, 2000, 1).await;
    let twenty = pace(20, 2000, 1).await;
    let hundred = pace(100, 2000, 1).await;
    assert!(one >= 2000.0 && twenty >= 2000.0, "{one:.0} {twenty:.0} {hundred:.0}");
}

/// h16
#[tokio::test(start_paused = true)]
async fn relay_sends_400_messages_of_a_subject_a_second() {
    let one = pace(1, 1, 500).await;
    let ten = pace(1, 10, 200).await;
    assert!(one >= 400.0 && ten >= 2000.0, "{one:.0} {ten:.0}");
}
