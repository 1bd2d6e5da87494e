//! Messages that a topic or a bus passes on to a queue with default settings reach a consumer that
//! polls the queue.

use std::sync::Mutex;
use std::time::Duration;

use locker::Failure;
use locker::aws::{EventBus, Sqs, Topic};
use locker::inbox::{Delivery, Incoming, Taken};
use tokio::sync::Notify;

use crate::account::Account;
use crate::post::{Letters, Post};
use crate::sending::relayed;

/// Polls the queue until this many messages were taken. Returns their subjects and types.
async fn consumed(account: &Account, post: &Post, queue: &str, count: usize) -> Vec<(String, String)> {
    let (workflows, _) = post.desk.machine();
    let inbox = workflows.inbox("packer").unwrap();
    let sqs = Sqs::queue(&account.sqs, queue);
    let consumer = inbox.consumer().concurrency(2).hiding(sqs.clone());
    let (taken, all) = (Mutex::new(Vec::new()), Notify::new());
    let handle = async |delivery: Delivery| {
        let message = Incoming::parse(&delivery.body)?;
        assert_eq!(message.source, "/letters");
        let came_to = inbox.atomic(&message).commit().await?;
        assert_eq!(came_to, Taken::Now);
        let mut taken = taken.lock().unwrap();
        taken.push((message.subject.unwrap_or_default(), message.kind));
        if taken.len() == count {
            all.notify_one();
        }
        Ok::<_, Failure>(())
    };
    sqs.poll(&consumer, Duration::from_secs(5), handle, all.notified()).await;
    assert_eq!(account.receive(queue).await.len(), 0, "each was deleted");
    taken.into_inner().unwrap()
}

#[tokio::test]
#[ignore = "needs Moto: run by tests/moto"]
async fn consumer_takes_notifications_of_a_topic_without_raw_delivery() {
    let (account, post) = (Account::new("wrapped-sns"), Post::new().await);
    let queue = account.queue("packing.fifo").await;
    let topic = account.topic_with("told.fifo", &queue, None, false).await;
    let done = relayed(&post, Topic::new(&account.sns, topic), &Letters::in_order(3), 1).await;
    assert_eq!((done.sent, done.dead), (3, 0), "{done:?}");
    let told = |n: usize| ("letters/0".to_owned(), format!("told.{n}"));
    assert_eq!(consumed(&account, &post, &queue, 3).await, [told(0), told(1), told(2)]);
}

#[tokio::test]
#[ignore = "needs Moto: run by tests/moto"]
async fn consumer_takes_events_of_a_rule_without_input_path() {
    let (account, post) = (Account::new("wrapped-bus"), Post::new().await);
    let queue = account.queue("packing").await;
    let bus = account.bus(r#"{"source":["/letters"]}"#, &queue).await;
    let done = relayed(&post, EventBus::new(&account.events, bus), &Letters::in_order(3), 1).await;
    assert_eq!((done.sent, done.dead), (3, 0), "{done:?}");
    let mut taken = consumed(&account, &post, &queue, 3).await;
    taken.sort();
    let told = |n: usize| ("letters/0".to_owned(), format!("told.{n}"));
    assert_eq!(taken, [told(0), told(1), told(2)]);
}
