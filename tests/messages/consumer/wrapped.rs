//! Events that a topic of SNS or a bus of EventBridge passes on to the queue of a consumer.

use std::sync::Mutex;

use locker::inbox::{Delivery, Incoming, Received};
use locker::{Class, Failure};
use serde_json::{Value, json};

use super::{consumer, the_dead};
use crate::post::Post;

fn of_sns(inner: &str, message_id: &str) -> String {
    json!({
        "Type": "Notification", "MessageId": message_id, "TopicArn": "arn:aws:sns:eu-west-1:111122223333:orders",
        "Message": inner, "Timestamp": "2026-11-23T08:00:00.000Z",
    })
    .to_string()
}

fn of_bus(inner: &Value, id: &str) -> String {
    json!({
        "version": "0", "id": id, "detail-type": "order.placed", "source": "/orders", "resources": [],
        "account": "111122223333", "time": "2026-11-23T08:00:00Z", "region": "eu-west-1", "detail": inner,
    })
    .to_string()
}

#[tokio::test(start_paused = true)]
async fn event_through_a_topic_or_a_bus_has_its_own_identity() {
    let post = Post::new().await;
    let (consumer, workflows, _) = consumer(&post);
    let event =
        json!({ "specversion": "1.0", "id": "7.0", "source": "/orders", "type": "order.placed", "data": 7 });
    let seen = Mutex::new(Vec::new());
    let handle = async |it: Delivery| {
        let message = Incoming::parse(&it.body)?;
        seen.lock().unwrap().push((message.id.clone(), message.data::<u32>()?));
        Err(Failure::permanent("no box".to_owned()))
    };
    // The same event, sent again through each way.
    for (number, (body, received)) in [
        (of_sns(&event.to_string(), "of the topic"), Received::DeadLettered),
        (of_sns(&event.to_string(), "of the topic, again"), Received::Duplicate),
        (of_bus(&event, "of the bus"), Received::Duplicate),
        (event.to_string(), Received::Duplicate),
    ]
    .into_iter()
    .enumerate()
    {
        let delivery = Delivery::new(format!("sqs {number}"), body);
        assert_eq!(consumer.receive(&delivery, handle).await.unwrap(), received, "{number}");
    }
    assert_eq!(*seen.lock().unwrap(), [("7.0".to_owned(), 7)]);
    let [dead] = &the_dead(&workflows).await[..] else { panic!("one is dead") };
    assert_eq!((dead.id(), dead.topic()), ("7.0", "order.placed"));
}

#[tokio::test(start_paused = true)]
async fn message_without_an_event_is_dead_and_its_cause_names_the_setting() {
    for (body, setting) in
        [(of_sns("an order", "1"), "RawMessageDelivery"), (of_bus(&json!({ "order": 7 }), "1"), "InputPath")]
    {
        let post = Post::new().await;
        let (consumer, workflows, _) = consumer(&post);
        let handle = async |it: Delivery| Incoming::parse(&it.body).map(drop).map_err(Failure::from);
        let received = consumer.receive(&Delivery::new("1", body), handle).await.unwrap();
        assert_eq!(received, Received::DeadLettered);
        let [dead] = &the_dead(&workflows).await[..] else { panic!("one is dead") };
        assert_eq!((dead.class(), dead.topic()), (Some(Class::Permanent), "unreadable"));
        let cause = dead.cause().unwrap_or_default();
        assert!(cause.starts_with("[inbox.unreadable]") && cause.contains(setting), "{cause}");
    }
}
