//! Messages in all states: to be sent, dead, archived, received.

use aws_sdk_dynamodb::types::TransactWriteItem;
use lock_token_testing::{Broker, CallFate, Calls};
use locker::inbox::{Consumer, Delivery, Inbox, Incoming, ReceiveError, Received, Taken};
use locker::message::{MessageState, NewMessage, Router};
use locker::relay::Relay;
use locker::workflow::{Flow, Message, Stop, Workflow, Workflows};
use locker::{Error, Failure, Intervened};
use locker_tests::{DAY, MINUTE, ada};
use serde_json::json;

use crate::folder::folders;
use crate::stage::{Stage, done, noise};

/// Sends one message of the topic in its input.
struct Letter;

impl Workflow for Letter {
    const NAME: &'static str = "letter";
    type Input = String;
    type Output = ();

    async fn run(&self, flow: &Flow, topic: String) -> Result<(), Stop> {
        let message = NewMessage::new(topic, &7).correlation_id("c-1").tenant("cust8").number(3);
        let expires = flow.now("expires").await? + 300 * DAY;
        let message =
            message.trace("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01").expires(expires);
        flow.atomic("tell").send(message).commit(&()).await
    }
}

async fn write(workflows: &Workflows, topic: &str) {
    workflows.start(&Letter, format!("letter/{topic}"), &topic.to_owned()).run().await.unwrap();
}

/// The message of this topic, which is not in its queue.
pub(crate) async fn message_of(workflows: &Workflows, topic: &str) -> Result<Message, Error> {
    for state in [MessageState::Unsent, MessageState::Dead, MessageState::Archived] {
        for listed in workflows.messages(state).fetch().await?.items {
            if listed.topic.as_deref() == Some(topic) {
                return Ok(workflows.message(&listed.work).await?.expect("a message"));
            }
        }
    }
    panic!("there is no message {topic}");
}

/// The event with this id, as a queue delivers it.
pub(crate) fn delivery(id: &str, group: Option<&str>) -> Delivery {
    // The table has no room for the body of this message.
    let data = if id == "m-7" { noise(360_000) } else { id.to_owned() };
    let event =
        json!({ "specversion": "1.0", "id": id, "source": "/orders", "type": "placed", "data": data });
    let delivery = Delivery::new(format!("sqs {id}"), event.to_string());
    group.into_iter().fold(delivery, Delivery::group)
}

pub(crate) fn incoming(id: &str) -> Incoming {
    let mut message = Incoming::new("/orders", id, "placed", "7");
    message.subject = Some("order/7".to_owned());
    message
}

/// The message of its subject with this number.
pub(crate) fn numbered(id: &str, number: u64) -> Incoming {
    let mut message = incoming(id);
    message.sequence = Some(format!("{number:028}"));
    message
}

pub(crate) fn packer(workflows: &Workflows) -> Consumer {
    workflows.inbox("packer").unwrap().consumer()
}

pub(crate) fn inboxes(workflows: &Workflows) -> [Inbox; 3] {
    ["each", "latest", "gapless"].map(|name| workflows.inbox(name).unwrap())
}

async fn refuses(consumer: &Consumer, delivery: &Delivery) -> Received {
    let refuse = async |_: Delivery| Err::<(), _>(Failure::permanent("the order is unknown".to_owned()));
    consumer.receive(delivery, refuse).await.unwrap()
}

pub(crate) async fn fill(stage: &Stage) {
    let workflows = stage.workflows();

    // Their target refuses four messages.
    let topics = ["dead", "archived", "corrected", "redriven"];
    for topic in topics {
        write(&workflows, topic).await;
    }
    stage.advance(MINUTE);
    let calls = Calls::default();
    calls.always(CallFate::Declined);
    let refusing = Relay::new(&workflows, Router::new().route("*", Broker::new().over(&calls)));
    assert_eq!(refusing.concurrency(1).run().await.unwrap().dead, topics.len());
    let dead = async |topic: &str| message_of(&workflows, topic).await.unwrap();
    done(workflows.archive(&dead("archived").await, &ada()).await);
    done(workflows.correct(&dead("corrected").await, "8", &ada()).await);
    done(workflows.redrive(&dead("redriven").await, &ada()).await);

    // A consumer handles a message that it had refused, and refuses others.
    let consumer = packer(&workflows);
    assert_eq!(refuses(&consumer, &delivery("m-5", None)).await, Received::DeadLettered);
    for listed in workflows.messages(MessageState::Dead).fetch().await.unwrap().items {
        if let (Some("packer"), Some(message)) =
            (listed.consumer.as_deref(), workflows.message(&listed.work).await.unwrap())
        {
            done(workflows.redrive(&message, &ada()).await);
        }
    }
    stage.advance(MINUTE);
    let handled = consumer.run(async |_| Ok::<_, Failure>(())).await.unwrap();
    assert_eq!(handled.handled, 1);
    assert_eq!(refuses(&consumer, &delivery("m-1", Some("a"))).await, Received::DeadLettered);
    assert_eq!(refuses(&consumer, &delivery("m-2", Some("a"))).await, Received::Queued);
    assert_eq!(refuses(&consumer, &delivery("m-3", None)).await, Received::DeadLettered);
    let fails = async |_: Delivery| Err::<(), _>(Failure::transient("the store is closed".to_owned()));
    assert!(consumer.receive(&delivery("m-4", None), fails).await.is_err());
    let refuse = async |_: Delivery| Err::<(), _>(Failure::permanent("the order is unknown".to_owned()));
    assert!(consumer.receive(&delivery("m-7", None), refuse).await.is_err(), "its body stays in the queue");

    // Receipts.
    let [each, latest, gapless] = inboxes(&workflows);
    assert_eq!(each.atomic(&incoming("m-1")).commit().await.unwrap(), Taken::Now);
    assert_eq!(latest.atomic(&numbered("m-2", 2)).latest().commit().await.unwrap(), Taken::Now);
    assert_eq!(gapless.atomic(&numbered("m-1", 1)).gapless(1).commit().await.unwrap(), Taken::Now);

    // No relay runs after these commits.
    write(&workflows, "unsent").await;
    let message = NewMessage::new("outbox", &7).subject("order/7");
    let put = TransactWriteItem::builder().put(workflows.outbox().message(message).unwrap().put());
    let commit = stage.desk.bench.client.transact_write_items().transact_items(put.build());
    commit.send().await.unwrap();
}

/// A message of a folder: its topic, its consumer, its state, its body, and the attempts to send it.
type Row = (&'static str, Option<&'static str>, MessageState, &'static str, u32);

const EVENT: &str = "an event";

#[rustfmt::skip]
const MESSAGES: [Row; 10] = [
    ("archived", None, MessageState::Archived, "7", 1),
    ("corrected", None, MessageState::Dead, "8", 1),
    ("dead", None, MessageState::Dead, "7", 1),
    ("outbox", None, MessageState::Unsent, "7", 0),
    ("placed", Some("packer"), MessageState::Dead, "", 1),
    ("placed", Some("packer"), MessageState::Dead, EVENT, 1),
    ("placed", Some("packer"), MessageState::Dead, EVENT, 1),
    ("placed", Some("packer"), MessageState::Waiting, EVENT, 0),
    ("redriven", None, MessageState::Unsent, "7", 0),
    ("unsent", None, MessageState::Unsent, "7", 0),
];

async fn all_messages(workflows: &Workflows) -> Vec<Message> {
    let mut messages = Vec::new();
    for state in [MessageState::Unsent, MessageState::Waiting, MessageState::Dead, MessageState::Archived] {
        let page = workflows.messages(state).fetch().await.unwrap();
        assert!(page.is_complete());
        for listed in page.items {
            messages.push(workflows.message(&listed.work).await.unwrap().expect("a message"));
        }
    }
    messages
}

#[tokio::test]
async fn each_message_is_listed_in_its_state() {
    for folder in folders().await {
        let stage = folder.tables.load().await;
        let mut found = Vec::new();
        for message in all_messages(&stage.workflows()).await {
            let body = if message.body().contains("specversion") { EVENT } else { message.body() };
            let (consumer, state) = (message.consumer().map(str::to_owned), message.state());
            found.push((message.topic().to_owned(), consumer, state, body.to_owned(), message.attempts()));
        }
        found.sort_by_key(|(topic, _, state, body, _)| (topic.clone(), state.as_str(), body.clone()));
        let expected = MESSAGES.map(|(topic, consumer, state, body, attempts)| {
            (topic.to_owned(), consumer.map(str::to_owned), state, body.to_owned(), attempts)
        });
        folder.contains(&found, &expected);
    }
}

pub(crate) fn relay(stage: &Stage, broker: &Broker) -> Relay {
    Relay::new(&stage.workflows(), Router::new().route("*", broker.clone())).concurrency(1)
}

fn topics(broker: &Broker) -> Vec<String> {
    let mut topics: Vec<_> = broker.took().into_iter().map(|envelope| envelope.topic).collect();
    topics.sort();
    topics
}

#[tokio::test]
async fn unsent_message_is_sent_once_with_its_attributes() {
    for folder in folders().await {
        let (stage, broker) = (folder.tables.load().await, Broker::new());
        for _ in 0..3 {
            relay(&stage, &broker).run().await.unwrap();
            stage.advance(MINUTE);
        }
        assert_eq!(topics(&broker), ["outbox", "redriven", "unsent"], "{}", folder.version);
        let sent = broker.took().into_iter().find(|envelope| envelope.topic == "unsent").unwrap();
        assert_eq!((sent.source.as_str(), sent.subject.as_str()), ("/trips", "letter/unsent"));
        assert_eq!((sent.data.as_str(), sent.sequence.as_str()), ("7", "00000000000000000003"));
        let attribute = |name: &str| sent.attributes.get(name).map(String::as_str);
        assert_eq!((attribute("correlationid"), attribute("tenantid")), (Some("c-1"), Some("cust8")));
        assert!(sent.trace.is_some_and(|trace| trace.starts_with("00-0af7651916cd43dd8448eb211c80319c")));
    }
}

#[tokio::test]
async fn dead_message_is_redriven_and_sent_once() {
    for folder in folders().await {
        let (stage, broker) = (folder.tables.load().await, Broker::new());
        let workflows = stage.workflows();
        let archived = message_of(&workflows, "archived").await.unwrap();
        assert_eq!(workflows.restore(&archived, &ada()).await.unwrap(), Intervened::Done);
        for topic in ["archived", "corrected", "dead"] {
            let message = message_of(&workflows, topic).await.unwrap();
            assert_eq!(message.cause(), Some(&*format!("send {topic} about letter/{topic} was declined")));
            assert_eq!(workflows.redrive(&message, &ada()).await.unwrap(), Intervened::Done);
        }
        for _ in 0..3 {
            stage.advance(MINUTE);
            relay(&stage, &broker).run().await.unwrap();
        }
        let expected = ["archived", "corrected", "dead", "outbox", "redriven", "unsent"];
        assert_eq!(topics(&broker), expected, "{}", folder.version);
        let corrected = broker.took().into_iter().find(|envelope| envelope.topic == "corrected").unwrap();
        assert_eq!(corrected.data, "8");
        assert!(workflows.messages(MessageState::Dead).fetch().await.unwrap().items.len() == 3);
    }
}

#[tokio::test]
async fn received_message_is_refused_as_a_duplicate() {
    for folder in folders().await {
        let stage = folder.tables.load().await;
        let workflows = stage.workflows();
        let consumer = packer(&workflows);
        for (id, group, expected) in [
            ("m-1", Some("a"), Received::Duplicate),
            ("m-2", Some("a"), Received::Duplicate),
            ("m-3", None, Received::Duplicate),
            ("m-5", None, Received::Duplicate),
            ("m-6", Some("a"), Received::Queued),
        ] {
            let handle = async |_: Delivery| -> Result<(), Failure> { panic!("{id} was handled") };
            let received = consumer.receive(&delivery(id, group), handle).await.unwrap();
            assert_eq!(received, expected, "{id} of {}", folder.version);
        }
        let handle = async |_: Delivery| -> Result<(), Failure> { panic!("it waits in its queue") };
        let received = consumer.receive(&delivery("m-7", None), handle).await;
        assert!(matches!(received, Err(ReceiveError::Later { .. })), "{received:?}");
        // The failure of its first delivery counts.
        let fails = async |_: Delivery| Err::<(), _>(Failure::transient("the store is closed".to_owned()));
        let again = delivery("m-4", None).receives(2);
        let received = packer(&workflows).attempts(2).receive(&again, fails).await.unwrap();
        assert_eq!(received, Received::DeadLettered);

        let [each, latest, gapless] = inboxes(&workflows);
        assert_eq!(each.atomic(&incoming("m-1")).commit().await.unwrap(), Taken::Before);
        assert_eq!(each.atomic(&incoming("m-2")).commit().await.unwrap(), Taken::Now);
        for (id, number, expected) in
            [("m-2", 2, Taken::Before), ("m-1", 1, Taken::Superseded), ("m-3", 3, Taken::Now)]
        {
            let message = numbered(id, number);
            assert_eq!(latest.atomic(&message).latest().commit().await.unwrap(), expected, "{id}");
        }
        for (id, number, expected) in [
            ("m-1", 1, Taken::Before),
            ("m-9", 1, Taken::SameNumber),
            ("m-3", 3, Taken::Early { expects: 2 }),
            ("m-2", 2, Taken::Now),
        ] {
            let message = numbered(id, number);
            assert_eq!(gapless.atomic(&message).gapless(number).commit().await.unwrap(), expected, "{id}");
        }
    }
}

#[tokio::test]
async fn consumer_handles_a_redriven_message_once_and_in_order() {
    for folder in folders().await {
        let stage = folder.tables.load().await;
        let workflows = stage.workflows();
        for message in all_messages(&workflows).await {
            if (message.consumer(), message.state()) == (Some("packer"), MessageState::Dead) {
                assert!(message.cause().is_some_and(|cause| cause.ends_with("the order is unknown")));
                assert_eq!(workflows.redrive(&message, &ada()).await.unwrap(), Intervened::Done);
            }
        }
        let handled = std::sync::Mutex::new(Vec::new());
        for _ in 0..3 {
            stage.advance(MINUTE);
            let handle = async |delivery: Delivery| {
                handled.lock().unwrap().push(delivery.id);
                Ok::<_, Failure>(())
            };
            packer(&workflows).concurrency(1).run(handle).await.unwrap();
        }
        let mut handled = handled.into_inner().unwrap();
        let of_group: Vec<_> = handled.iter().filter(|id| *id != "sqs m-3").cloned().collect();
        assert_eq!(of_group, ["sqs m-1", "sqs m-2"], "{}", folder.version);
        handled.sort();
        assert_eq!(handled, ["sqs m-1", "sqs m-2", "sqs m-3"], "{}", folder.version);
    }
}
