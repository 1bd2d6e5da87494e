//! Messages that are too large for the table.

use std::sync::Mutex;
use std::time::Duration;

use locker::inbox::{Consumer, Delivery, ReceiveError, Received};
use locker::message::{ClaimCheck, MessageState};
use locker::operator::{Act, Console, Part};
use locker::workflow::{Message, Workflows};
use locker::{Class, Failure, Intervened};
use locker_tests::ada;
use serde_json::json;

use super::{Told, consumer, delivery, in_state, run, the_dead};
use crate::claim::Store;
use crate::consumer::Warehouse;
use crate::post::Post;

const HOUR: Duration = Duration::from_secs(60 * 60);
/// The most that Amazon SQS takes.
const MIB: usize = 1024 * 1024;

/// The message `NAME` of the group `a`, with a body of this size.
fn large(name: &str, bytes: usize) -> Delivery {
    let body = format!("{name}{}", "x".repeat(bytes - name.len()));
    let mut delivery = Delivery::new(format!("sqs {name}"), body).group("a");
    delivery.attributes = json!({ "tenant": "t7" });
    delivery
}

async fn refuse(_: Delivery) -> Result<(), Failure> {
    Err(Failure::permanent("no box is that large".to_owned()))
}

async fn is_down(_: Delivery) -> Result<(), Failure> {
    Err(Failure::transient("the warehouse is down".to_owned()))
}

async fn unasked(_: Delivery) -> Result<(), Failure> {
    panic!("its handler is called");
}

fn stays(received: Result<Received, ReceiveError>, pause: Duration) -> String {
    let not_now = received.expect_err("its queue must not delete it");
    assert_eq!(not_now.pause(), Some(pause), "{not_now}");
    not_now.to_string()
}

async fn redrive(workflows: &Workflows) {
    let dead = the_dead(workflows).await.remove(0);
    assert_eq!(workflows.redrive(&dead, &ada()).await.unwrap(), Intervened::Done);
}

async fn only_dead(workflows: &Workflows) -> Message {
    let [dead] = the_dead(workflows).await.try_into().expect("one is dead");
    dead
}

/// A consumer whose only message is dead, and its body in the queue.
async fn dead_in_queue() -> (Post, Consumer, Workflows) {
    let post = Post::new().await;
    let (consumer, workflows, _) = consumer(&post);
    stays(consumer.receive(&large("a/1", MIB), refuse).await, HOUR);
    (post, consumer, workflows)
}

#[tokio::test(start_paused = true)]
async fn message_of_any_size_is_handled() {
    let post = Post::new().await;
    let (consumer, ..) = consumer(&post);
    for bytes in [340 * 1024, 351 * 1024, 400 * 1024, MIB] {
        let came = Mutex::new(0);
        let handle = async |it: Delivery| {
            *came.lock().unwrap() = it.body.len();
            Ok::<_, Failure>(())
        };
        let received = consumer.receive(&large("a/1", bytes), handle).await;
        assert_eq!((received.unwrap(), *came.lock().unwrap()), (Received::Done, bytes));
    }
    assert_eq!(post.unsent().await, 0);
}

#[tokio::test(start_paused = true)]
async fn failed_message_is_kept_by_its_size() {
    for (bytes, has_store, place) in [
        (340 * 1024, true, None),
        (351 * 1024, true, Some("claim")),
        (MIB, true, Some("claim")),
        (340 * 1024, false, None),
        (351 * 1024, false, Some("queue")),
        (MIB, false, Some("queue")),
    ] {
        let post = Post::new().await;
        let (mut consumer, workflows, _) = consumer(&post);
        let store = Store::default();
        if has_store {
            consumer = consumer.claim_check(ClaimCheck::new(store.clone()));
        }
        let received = consumer.receive(&large("a/1", bytes), refuse).await;
        assert_eq!(received.is_ok(), place != Some("queue"), "{bytes}: {received:?}");
        assert_eq!(only_dead(&workflows).await.body_at(), place, "{bytes}");
        assert_eq!(store.bodies.lock().unwrap().len(), usize::from(place == Some("claim")));
    }
}

#[tokio::test(start_paused = true)]
async fn body_in_a_store_is_processed_after_a_redrive() {
    let post = Post::new().await;
    let (consumer, workflows, _) = consumer(&post);
    let consumer = consumer.claim_check(ClaimCheck::new(Store::default()));
    let mut first = large("a/1", MIB);
    // Attributes that do not fit into the item, either.
    first.attributes = json!({ "note": "y".repeat(400 * 1024) });
    assert_eq!(consumer.receive(&first, refuse).await.unwrap(), Received::DeadLettered);
    let second = large("a/2", MIB);
    assert_eq!(consumer.receive(&second, unasked).await.unwrap(), Received::Queued);
    let dead = only_dead(&workflows).await;
    assert_eq!((dead.class(), dead.cause()), (Some(Class::Permanent), Some("no box is that large")));
    assert!(dead.body().contains("sha256") && dead.body().len() < 200, "{}", dead.body());
    redrive(&workflows).await;
    let came = Mutex::new(Vec::new());
    let handle = async |it: Delivery| {
        came.lock().unwrap().push((it.body, it.attributes));
        Ok::<_, Failure>(())
    };
    post.desk.bench.clock.advance(HOUR);
    assert_eq!(consumer.run(handle).await.unwrap().handled, 2);
    let expected = [first.clone(), second].map(|it| (it.body, it.attributes));
    assert!(*came.lock().unwrap() == expected);
    assert_eq!(consumer.receive(&first, unasked).await.unwrap(), Received::Duplicate);
}

#[tokio::test(start_paused = true)]
async fn body_that_cannot_be_fetched_is_not_processed_as_another() {
    let post = Post::new().await;
    let (without, workflows, _) = consumer(&post);
    let store = Store::default();
    let consumer = without.clone().claim_check(ClaimCheck::new(store.clone()));
    consumer.receive(&large("a/1", MIB), refuse).await.unwrap();
    redrive(&workflows).await;
    post.desk.bench.clock.advance(HOUR);
    assert_eq!(without.run(unasked).await.unwrap().dead, 1, "it has no store");
    assert!(only_dead(&workflows).await.cause().unwrap().contains("has none"));
    redrive(&workflows).await;
    post.desk.bench.clock.advance(HOUR);
    *store.is_down.lock().unwrap() = true;
    assert_eq!(consumer.run(unasked).await.unwrap().waiting, 1);
    *store.is_down.lock().unwrap() = false;
    store.bodies.lock().unwrap().clear();
    post.desk.bench.clock.advance(HOUR);
    assert_eq!(consumer.run(unasked).await.unwrap().dead, 1, "it is gone");
    assert_eq!(only_dead(&workflows).await.class(), Some(Class::NeedsOperator));
}

#[tokio::test(start_paused = true)]
async fn without_a_store_it_stays_in_its_queue_until_an_operator_acts() {
    let post = Post::new().await;
    let (consumer, workflows, _) = consumer(&post);
    let told = Told::default();
    let consumer = consumer.hiding(told.clone());
    let first = large("a/1", MIB);
    assert_eq!(stays(consumer.receive(&first, refuse).await, HOUR), "no box is that large");
    let dead = only_dead(&workflows).await;
    let cause = dead.cause().unwrap();
    assert!(cause.contains("set a claim check") && cause.ends_with("no box is that large"), "{cause}");
    // It holds up its group in the table, too.
    assert_eq!(consumer.receive(&delivery("a/2"), unasked).await.unwrap(), Received::Queued);
    stays(consumer.receive(&first, unasked).await, HOUR);
    let hour = ("sqs a/1".to_owned(), HOUR);
    assert_eq!(*told.0.lock().unwrap(), [hour.clone(), hour]);
    assert_eq!(run(&post, &consumer, &Warehouse::default()).await, 0);

    redrive(&workflows).await;
    assert_eq!(run(&post, &consumer, &Warehouse::default()).await, 0, "its body is in the queue");
    let came = Mutex::new(Vec::new());
    let handle = async |it: Delivery| {
        came.lock().unwrap().push(it);
        Ok::<_, Failure>(())
    };
    assert_eq!(consumer.receive(&first, handle).await.unwrap(), Received::Done);
    assert!(*came.lock().unwrap() == [first.clone()]);
    assert_eq!(run(&post, &consumer, &Warehouse::default()).await, 1, "the next one of its group");
    assert_eq!(consumer.receive(&first, unasked).await.unwrap(), Received::Duplicate);
    assert_eq!(post.unsent().await, 0);
}

#[tokio::test(start_paused = true)]
async fn discarded_message_is_deleted_from_its_queue() {
    let (_post, consumer, workflows) = dead_in_queue().await;
    let dead = only_dead(&workflows).await;
    assert_eq!(workflows.discard(&dead, &ada()).await.unwrap(), Intervened::Done);
    let received = consumer.receive(&large("a/1", MIB), unasked).await.unwrap();
    assert_eq!(received, Received::Duplicate);
}

#[tokio::test(start_paused = true)]
async fn redriven_message_that_fails_again_waits_and_is_dead_again() {
    let (post, consumer, workflows) = dead_in_queue().await;
    let (consumer, first) = (consumer.attempts(2), large("a/1", MIB));
    redrive(&workflows).await;
    post.desk.bench.clock.advance(Duration::from_secs(1));
    let pause = consumer.receive(&first, is_down).await.unwrap_err().pause().unwrap();
    assert!(pause < HOUR, "{pause:?}");
    // It comes too early: the rest of the pause, in whole milliseconds.
    let early = consumer.receive(&first, unasked).await.unwrap_err();
    assert!(early.pause().unwrap() <= pause && early.to_string() == "the warehouse is down", "{early}");
    post.desk.bench.clock.advance(pause);
    let cause = stays(consumer.receive(&first, is_down).await, HOUR);
    assert!(cause.contains("set a claim check") && cause.ends_with("the warehouse is down"), "{cause}");
    assert_eq!(only_dead(&workflows).await.attempts(), 2);
}

#[tokio::test(start_paused = true)]
async fn redriven_message_waits_for_an_earlier_one_of_its_group() {
    let post = Post::new().await;
    let (consumer, workflows, _) = consumer(&post);
    consumer.receive(&delivery("a/0"), refuse).await.unwrap();
    let earlier = only_dead(&workflows).await;
    assert_eq!(workflows.archive(&earlier, &ada()).await.unwrap(), Intervened::Done);
    stays(consumer.receive(&large("a/1", MIB), refuse).await, HOUR);
    redrive(&workflows).await;
    let archived = in_state(&workflows, MessageState::Archived).await.remove(0);
    assert_eq!(workflows.restore(&archived, &ada()).await.unwrap(), Intervened::Done);
    post.desk.bench.clock.advance(HOUR);
    stays(consumer.receive(&large("a/1", MIB), unasked).await, HOUR);
}

#[tokio::test(start_paused = true)]
async fn redriven_message_that_is_not_delivered_is_dead_after_a_day() {
    let (post, consumer, workflows) = dead_in_queue().await;
    redrive(&workflows).await;
    for (hours, dead) in [(23, 0), (2, 1)] {
        post.desk.bench.clock.advance(HOUR * hours);
        assert_eq!(consumer.run(unasked).await.unwrap().dead, dead, "{hours}");
    }
    let dead = only_dead(&workflows).await;
    assert!(dead.cause().unwrap().ends_with("did not deliver it for 24 hours"), "{:?}", dead.cause());
    assert_eq!(dead.attempts(), 0, "its handler was not called");
}

#[tokio::test(start_paused = true)]
async fn transient_failures_of_a_large_message_are_counted() {
    let post = Post::new().await;
    let (consumer, workflows, _) = consumer(&post);
    let (consumer, first) = (consumer.attempts(2), large("a/1", MIB));
    let pause = consumer.receive(&first, is_down).await.unwrap_err().pause().unwrap();
    assert!(pause < HOUR && the_dead(&workflows).await.is_empty(), "{pause:?}");
    stays(consumer.receive(&first.clone().receives(2), is_down).await, HOUR);
    assert_eq!(only_dead(&workflows).await.attempts(), 2);
}

#[tokio::test(start_paused = true)]
async fn body_moves_to_a_store_that_is_set_or_back() {
    let (post, consumer, workflows) = dead_in_queue().await;
    let (store, first) = (Store::default(), large("a/1", MIB));
    let consumer = consumer.claim_check(ClaimCheck::new(store.clone()));
    *store.is_down.lock().unwrap() = true;
    stays(consumer.receive(&first, unasked).await, HOUR);
    *store.is_down.lock().unwrap() = false;
    assert_eq!(consumer.receive(&first, unasked).await.unwrap(), Received::DeadLettered);
    let dead = only_dead(&workflows).await;
    assert_eq!((dead.body_at(), dead.cause()), (Some("claim"), Some("no box is that large")));
    assert_eq!(consumer.receive(&first, unasked).await.unwrap(), Received::Duplicate);
    redrive(&workflows).await;
    assert_eq!(run(&post, &consumer, &Warehouse::default()).await, 1);
}

#[tokio::test(start_paused = true)]
async fn store_that_hangs_leaves_the_body_in_its_queue() {
    let post = Post::new().await;
    let (consumer, workflows, _) = consumer(&post);
    let store = Store::default();
    *store.hangs.lock().unwrap() = true;
    let consumer = consumer.claim_check(ClaimCheck::new(store));
    stays(consumer.receive(&large("a/1", MIB), refuse).await, HOUR);
    assert_eq!(only_dead(&workflows).await.body_at(), Some("queue"));
}

#[tokio::test(start_paused = true)]
async fn second_delivery_at_the_same_time_is_not_deleted() {
    let post = Post::new().await;
    let (consumer, workflows, _) = consumer(&post);
    let first = large("a/1", MIB);
    let with_store = consumer.clone().claim_check(ClaimCheck::new(Store::default()));
    for slow in [consumer.clone(), with_store] {
        let handle = async |it: Delivery| {
            stays(consumer.receive(&first, refuse).await, HOUR);
            refuse(it).await
        };
        let received = slow.receive(&first, handle).await;
        assert!(received.is_err(), "{received:?}");
        let dead = only_dead(&workflows).await;
        assert_eq!(dead.body_at(), Some("queue"));
        assert_eq!(workflows.discard(&dead, &ada()).await.unwrap(), Intervened::Done);
        post.desk.bench.clock.advance(HOUR * 24 * 31);
    }
}

#[tokio::test(start_paused = true)]
async fn large_message_after_a_dead_one_waits_in_its_queue() {
    let post = Post::new().await;
    let (consumer, workflows, _) = consumer(&post);
    consumer.receive(&delivery("a/0"), refuse).await.unwrap();
    stays(consumer.receive(&large("a/1", MIB), unasked).await, HOUR);
    assert_eq!(post.unsent().await, 1);
    redrive(&workflows).await;
    assert_eq!(run(&post, &consumer, &Warehouse::default()).await, 1);
    let handle = async |_: Delivery| Ok::<_, Failure>(());
    assert_eq!(consumer.receive(&large("a/1", MIB), handle).await.unwrap(), Received::Done);
}

#[tokio::test(start_paused = true)]
async fn body_in_a_queue_is_neither_corrected_nor_archived() {
    let (_post, consumer, workflows) = dead_in_queue().await;
    let dead = only_dead(&workflows).await;
    let console = Console::new().workflows(&workflows);
    for act in [Act::correct(json!("a/1")), Act::archive()] {
        let refusal = console.check(&Part::Message(Box::new(dead.clone())), &act).unwrap_err();
        assert!(refusal.because.contains("left to its queue"), "{}", refusal.because);
    }
    assert_eq!(workflows.correct(&dead, "a/1", &ada()).await.unwrap(), Intervened::NotPossible);
    assert_eq!(workflows.archive(&dead, &ada()).await.unwrap(), Intervened::NotPossible);

    let consumer = consumer.claim_check(ClaimCheck::new(Store::default()));
    consumer.receive(&large("a/1", MIB), unasked).await.unwrap();
    let dead = only_dead(&workflows).await;
    assert_eq!(workflows.correct(&dead, "a/1 repaired", &ada()).await.unwrap(), Intervened::Done);
    let now = only_dead(&workflows).await;
    assert_eq!((now.body(), now.body_at()), ("a/1 repaired", None));
}

#[tokio::test(start_paused = true)]
async fn import_leaves_a_body_that_the_table_cannot_store() {
    let (_post, consumer, workflows) = dead_in_queue().await;
    let import = async |consumer: &Consumer, delivery: &Delivery| {
        consumer.dead_letter(delivery, Class::InDoubt, "its queue gave it up").await
    };
    for name in ["a/1", "b/1"] {
        let left = import(&consumer, &large(name, MIB)).await.unwrap_err();
        assert!(left.to_string().contains("move it back to the queue of its consumer"), "{left}");
    }
    let consumer = consumer.claim_check(ClaimCheck::new(Store::default()));
    for name in ["a/1", "b/1"] {
        assert_eq!(import(&consumer, &large(name, MIB)).await.unwrap(), Received::DeadLettered);
    }
    let places: Vec<_> = the_dead(&workflows).await.iter().map(Message::body_at).collect();
    assert_eq!(places, [Some("claim"), Some("claim")]);
}
