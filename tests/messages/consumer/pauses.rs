//! Pauses and wrong clocks: nothing waits for longer than anybody looks.

use std::sync::Arc;
use std::time::Duration;

use chrono::TimeDelta;
use lock_token_testing::TestClock;
use locker::inbox::{Delivery, Received};
use locker::workflow::Workflows;
use locker::{Class, Clock as _, Failure, Intervened};
use locker_tests::HOUR;

use super::{Told, Warehouse, ada, consumer, delivery, the_dead};
use crate::post::{MINUTE, Post};

const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);

#[tokio::test(start_paused = true)]
async fn pause_of_a_handler_is_at_most_eleven_hours() {
    for pause in [HOUR * 13, YEAR * 10, YEAR * 9000, Duration::MAX] {
        let post = Post::new().await;
        let (consumer, workflows, _) = consumer(&post);
        let asks = async |_: Delivery| Err(Failure::transient("too many requests".to_owned()).after(pause));
        let told = Told::default();
        let hiding = consumer.clone().hiding(told.clone());
        let not_now = hiding.receive(&delivery("b/1"), asks).await.unwrap_err();
        assert_eq!(not_now.pause(), Some(HOUR * 11));
        assert_eq!(*told.0.lock().unwrap(), [("sqs b/1".to_owned(), HOUR * 11)]);

        consumer.dead_letter(&delivery("a/1"), Class::Permanent, "no").await.unwrap();
        let dead = the_dead(&workflows).await.remove(0);
        assert_eq!(workflows.redrive(&dead, &ada()).await.unwrap(), Intervened::Done);
        post.desk.bench.clock.advance(MINUTE);
        assert_eq!(consumer.run(asks).await.unwrap().waiting, 1);
        let well = async |_: Delivery| Ok::<_, Failure>(());
        assert_eq!(consumer.receive(&delivery("a/2"), well).await.unwrap(), Received::Queued);
        post.desk.bench.clock.advance(HOUR * 11 - MINUTE);
        assert_eq!(consumer.run(well).await.unwrap().handled, 0);
        post.desk.bench.clock.advance(MINUTE * 2);
        assert_eq!(consumer.run(well).await.unwrap().handled, 2);
    }
}

/// A queue that does not answer.
struct Hangs;

impl locker::inbox::Visibility for Hangs {
    async fn hide(&self, _: &Delivery, _: Duration) {
        std::future::pending().await
    }
}

#[tokio::test(start_paused = true)]
async fn queue_that_does_not_answer_keeps_a_batch_waiting_for_two_seconds_only() {
    let post = Post::new().await;
    let (consumer, ..) = consumer(&post);
    let hiding = consumer.hiding(Hangs);
    let began = tokio::time::Instant::now();
    let fails = async |_: Delivery| Err(Failure::transient("busy".to_owned()));
    let received = tokio::time::timeout(MINUTE, hiding.receive(&delivery("b/1"), fails)).await;
    let pause = received.expect("it ends").unwrap_err().pause();
    assert!(pause.is_some_and(|pause| pause >= Duration::from_millis(2500)), "{pause:?}");
    assert!(began.elapsed() <= Duration::from_secs(3), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn later_messages_do_not_wait_for_a_fast_clock() {
    let post = Post::new().await;
    let (right, workflows, _) = consumer(&post);
    let ahead = TestClock::at(post.desk.bench.clock.now() + TimeDelta::hours(12));
    let (_, wire) = post.desk.machine();
    let client = post.desk.bench.engine.client_over(&wire);
    let other = Workflows::builder(&client, &post.desk.table).with_clock(Arc::new(ahead)).build().unwrap();
    let wrong = other.inbox("packer").unwrap().consumer();
    let refuse = async |_: Delivery| Err(Failure::permanent("no".to_owned()));
    assert_eq!(wrong.receive(&delivery("a/1"), refuse).await.unwrap(), Received::DeadLettered);
    let warehouse = Warehouse::default();
    for body in ["a/2", "a/3"] {
        let came_to = right.receive(&delivery(body), async |it| warehouse.pack(it).await).await;
        assert_eq!(came_to.unwrap(), Received::Queued);
    }
    let dead = the_dead(&workflows).await.remove(0);
    assert_eq!(workflows.redrive(&dead, &ada()).await.unwrap(), Intervened::Done);
    post.desk.bench.clock.advance(MINUTE);
    right.run(async |it| warehouse.pack(it).await).await.unwrap();
    assert_eq!(warehouse.packed(), ["a/1", "a/2", "a/3"]);
}
