//! Attributes of senders: correlation, causation, tenant and others reach receivers, and last.

use std::collections::BTreeMap;
use std::sync::Mutex;

use lock_token_testing::CallFate;
use locker::inbox::{Delivery, Incoming, Received};
use locker::message::{MAX_BODY_BYTES, NewMessage};
use locker::workflow::{Flow, Stop, Workflow};
use locker::{Failure, Intervened};
use locker_tests::ada;

use crate::consumer::{consumer, the_dead};
use crate::post::{MINUTE, Post};

fn told() -> NewMessage {
    NewMessage::new("told", &7).subject("order/7")
}

fn map<const N: usize>(pairs: [(&str, &str); N]) -> BTreeMap<String, String> {
    pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).into()
}

/// The attributes of each message that the broker took, as a receiver reads them.
fn received(post: &Post) -> Vec<BTreeMap<String, String>> {
    let read = |it: locker::message::Envelope| Incoming::parse(&it.to_json().unwrap()).unwrap().attributes;
    post.broker.took().into_iter().map(read).collect()
}

/// Sends a message with attributes in its only step.
#[derive(Debug, Clone)]
struct Correlated;

impl Workflow for Correlated {
    const NAME: &'static str = "correlated";
    type Input = ();
    type Output = ();

    async fn run(&self, flow: &Flow, (): ()) -> Result<(), Stop> {
        let message = told().correlation_id("c 7").tenant("t/7").attribute("priority", "1");
        flow.atomic("tell").send(message).commit(&()).await
    }
}

/// Sent at once, by a relay, and after a redrive.
#[tokio::test(start_paused = true)]
async fn attributes_of_a_sender_reach_receivers_on_each_way() {
    let post = Post::new().await;
    let expected = map([("correlationid", "c 7"), ("priority", "1"), ("tenantid", "t/7")]);
    post.sender().0.start(&Correlated, "a", &()).run().await.unwrap();
    let (workflows, _) = post.desk.machine();
    workflows.start(&Correlated, "b", &()).run().await.unwrap();
    let message = told().causation_id("1").tenant("8").tenant("9");
    post.commit([workflows.outbox().message(message).unwrap()]).await;
    post.desk.bench.clock.advance(MINUTE);
    post.calls.next([CallFate::Declined, CallFate::Declined]);
    assert_eq!(post.relay().0.run().await.unwrap().dead, 2);
    for dead in the_dead(&workflows).await {
        assert_eq!(workflows.redrive(&dead, &ada()).await.unwrap(), Intervened::Done);
    }
    post.settle().await;
    let mut received = received(&post);
    received.sort();
    assert_eq!(received, [map([("causationid", "1"), ("tenantid", "9")]), expected.clone(), expected]);
}

#[tokio::test(start_paused = true)]
async fn inbox_passes_on_the_correlation_and_names_the_cause() {
    let post = Post::new().await;
    let (workflows, _) = post.sender();
    let inbox = workflows.inbox("packer").unwrap();
    for (id, correlation, message, expected) in [
        ("1", Some("c"), told(), [("causationid", "1"), ("correlationid", "c")]),
        ("2", None, told(), [("causationid", "2"), ("correlationid", "2")]),
        ("3", Some("c"), told().correlation_id("d"), [("causationid", "3"), ("correlationid", "d")]),
        ("4", Some("c"), told().causation_id("e"), [("causationid", "e"), ("correlationid", "c")]),
    ] {
        let mut taken = Incoming::new("/legacy", id, "order.placed", "7");
        taken.attributes.extend(correlation.map(|it| ("correlationid".to_owned(), it.to_owned())));
        inbox.atomic(&taken).send(message).commit().await.unwrap().done().unwrap();
        assert_eq!(received(&post).pop(), Some(map(expected)), "{id}");
    }
    // Its sender cannot correct an id that no message of ours may have.
    let long = Incoming::new("/legacy", "x".repeat(1025), "order.placed", "7");
    inbox.atomic(&long).send(told()).commit().await.unwrap().done().unwrap();
    assert_eq!(received(&post).pop(), Some(BTreeMap::new()));
}

#[tokio::test(start_paused = true)]
async fn unknown_attributes_last_in_dead_letters_and_after_a_redrive() {
    let post = Post::new().await;
    let (consumer, workflows, _) = consumer(&post);
    let event =
        r#"{"specversion":"1.0","id":"1","source":"/o","type":"t","tenantid":"7","partitions":3,"data":1}"#;
    let (seen, refuses) = (Mutex::new(Vec::new()), Mutex::new(true));
    let handle = async |delivery: Delivery| {
        seen.lock().unwrap().push(Incoming::parse(&delivery.body)?.attributes);
        if *refuses.lock().unwrap() { Err(Failure::permanent("no".to_owned())) } else { Ok(()) }
    };
    assert_eq!(consumer.receive(&Delivery::new("q", event), handle).await.unwrap(), Received::DeadLettered);
    let dead = the_dead(&workflows).await.remove(0);
    assert_eq!((dead.body(), dead.source()), (event, "/o"));
    assert_eq!(workflows.redrive(&dead, &ada()).await.unwrap(), Intervened::Done);
    *refuses.lock().unwrap() = false;
    post.desk.bench.clock.advance(MINUTE);
    assert_eq!(consumer.run(handle).await.unwrap().handled, 1);
    assert_eq!(*seen.lock().unwrap(), vec![map([("partitions", "3"), ("tenantid", "7")]); 2]);
}

#[tokio::test(start_paused = true)]
async fn attribute_that_no_event_may_have_is_refused_before_anything_is_written() {
    let post = Post::new().await;
    let (workflows, wire) = post.sender();
    let received = Incoming::new("/legacy", "1", "order.placed", "7");
    let inbox = workflows.inbox("packer").unwrap();
    let many = (0..21).fold(told(), |message, number| message.attribute(format!("a{number}"), "v"));
    for (message, text) in [
        (told().attribute("tenant_id", "7"), "this one is \"tenant_id\""),
        (told().attribute("source", "/other"), "this one is \"source\""),
        (told().tenant(""), "the attribute tenantid has 1 to 1024 bytes"),
        (told().correlation_id("a\nb"), "the attribute correlationid has 1 to 1024 bytes"),
        (many, "at most 20 attributes of its sender, this one has 21"),
    ] {
        let by_outbox = workflows.outbox().message(message.clone()).unwrap_err().to_string();
        let by_inbox = inbox.atomic(&received).send(message).commit().await.unwrap_err().to_string();
        assert!(by_outbox.contains(text) && by_inbox.contains(text), "{by_outbox} {by_inbox}");
    }
    assert_eq!(wire.count(), 0);
}

/// With the longest subject and a trace, and with what an inbox adds.
#[tokio::test(start_paused = true)]
async fn largest_message_with_all_attributes_fits_into_an_item() {
    let post = Post::new().await;
    let (workflows, _) = post.sender();
    let message = NewMessage::new("told", &"x".repeat(MAX_BODY_BYTES - 2)).subject("s".repeat(1024));
    let value = "v".repeat(1024);
    let message = (0..20).fold(message, |it, number| it.attribute(format!("{number:020}"), value.as_str()));
    let received = Incoming::new("/legacy", "i".repeat(1024), "order.placed", "7");
    let receive = workflows.inbox("packer").unwrap();
    receive.atomic(&received).send(message).commit().await.unwrap().done().unwrap();
    assert_eq!(self::received(&post)[0].len(), 22);
}
