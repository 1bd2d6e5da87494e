//! Which receives of a message are attempts.

use std::sync::Mutex;
use std::time::Duration;

use locker::inbox::{Delivery, Received};
use locker::{Class, Failure};
use locker_tests::Fate;

use super::{consumer, delivery, the_dead};
use crate::post::Post;

async fn is_down(_: Delivery) -> Result<(), Failure> {
    Err(Failure::transient("the warehouse is down".to_owned()))
}

#[tokio::test(start_paused = true)]
async fn receive_without_a_begun_handler_is_no_attempt() {
    let post = Post::new().await;
    let (consumer, workflows, _) = consumer(&post);
    // Nine receives began nothing, such as behind another message of its group.
    for receives in 10..19 {
        let later = consumer.receive(&delivery("a/1").receives(receives), is_down).await.unwrap_err();
        assert!(later.pause().is_some(), "{receives}: {later}");
    }
    assert_eq!(the_dead(&workflows).await.len(), 0);
    let last = consumer.receive(&delivery("a/1").receives(30), is_down).await.unwrap();
    assert_eq!(last, Received::DeadLettered);
    let [dead] = &the_dead(&workflows).await[..] else { panic!("one is dead") };
    assert_eq!((dead.attempts(), dead.class()), (10, Some(Class::Transient)));
}

#[tokio::test(start_paused = true)]
async fn attempts_of_a_message_that_fails_for_good_are_those_of_its_handler() {
    let post = Post::new().await;
    let (consumer, workflows, _) = consumer(&post);
    let outcomes = Mutex::new(vec![Err(Failure::permanent("no".to_owned())), is_down(delivery("a/1")).await]);
    let handle = async |_: Delivery| outcomes.lock().unwrap().pop().unwrap();
    consumer.receive(&delivery("a/1").receives(4), handle).await.unwrap_err();
    consumer.receive(&delivery("a/1").receives(7), handle).await.unwrap();
    assert_eq!(the_dead(&workflows).await[0].attempts(), 2);
}

#[tokio::test(start_paused = true)]
async fn failure_is_counted_once_if_the_reply_to_its_count_is_lost() {
    let post = Post::new().await;
    let (consumer, workflows, wire) = consumer(&post);
    let consumer = consumer.attempts(3);
    wire.matching(|it| it.operation == "PutItem", Fate::ReplyLost);
    consumer.receive(&delivery("a/1"), is_down).await.unwrap_err();
    consumer.receive(&delivery("a/1").receives(2), is_down).await.unwrap_err();
    assert_eq!(the_dead(&workflows).await.len(), 0);
    consumer.receive(&delivery("a/1").receives(3), is_down).await.unwrap();
    assert_eq!(the_dead(&workflows).await[0].attempts(), 3);
}

#[tokio::test(start_paused = true)]
async fn effect_in_doubt_is_not_repeated_if_its_failures_cannot_be_read() {
    let post = Post::new().await;
    let (consumer, workflows, wire) = consumer(&post);
    wire.matching(|it| it.operation == "GetItem", Fate::Denied);
    let doubt = async |_: Delivery| Err(Failure::in_doubt("the bank did not answer".to_owned()));
    let received = consumer.receive(&delivery("a/1").receives(2), doubt).await.unwrap();
    assert_eq!((received, the_dead(&workflows).await.len()), (Received::DeadLettered, 1));
}

/// Such as a broker that does not count its deliveries.
#[tokio::test(start_paused = true)]
async fn failures_are_counted_if_each_receive_is_the_first() {
    let post = Post::new().await;
    let (consumer, workflows, _) = consumer(&post);
    let consumer = consumer.attempts(3);
    for _ in 0..2 {
        consumer.receive(&delivery("a/1"), is_down).await.unwrap_err();
    }
    assert_eq!(consumer.receive(&delivery("a/1"), is_down).await.unwrap(), Received::DeadLettered);
    assert_eq!(the_dead(&workflows).await[0].attempts(), 3);
}

#[tokio::test(start_paused = true)]
async fn failures_of_two_weeks_ago_are_not_counted() {
    let post = Post::new().await;
    let (consumer, ..) = consumer(&post);
    let consumer = consumer.attempts(2);
    consumer.receive(&delivery("a/1"), is_down).await.unwrap_err();
    post.desk.bench.clock.advance(Duration::from_secs(15 * 24 * 60 * 60));
    consumer.receive(&delivery("a/1").receives(2), is_down).await.unwrap_err();
    assert_eq!(
        consumer.receive(&delivery("a/1").receives(3), is_down).await.unwrap(),
        Received::DeadLettered
    );
}
