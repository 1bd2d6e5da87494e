//! What a relay sends arrives, is read by others, and keeps its order where the service keeps it.

use cloudevents::AttributesReader as _;
use locker::RunReport;
use locker::aws::{EventBus, Sqs, Topic};
use locker::message::{Router, Target};
use locker::relay::{Relay, RelayReport};
use serde_json::Value;

use crate::account::{Account, Received};
use crate::post::{Letters, MINUTE, Post};

/// Commit letters of these workflows and relay them to this target.
pub(crate) async fn relayed(
    post: &Post,
    target: impl Target,
    code: &Letters,
    workflows: u32,
) -> RunReport<RelayReport> {
    let (machine, _) = post.desk.machine();
    for number in 0..workflows {
        machine.start(code, ("letters", number), &()).run().await.unwrap();
    }
    post.desk.bench.clock.advance(MINUTE);
    Relay::new(&machine, Router::new().route("*", target)).run().await.unwrap()
}

fn topics_about(received: &[Received], subject: &str) -> Vec<String> {
    let events = received.iter().map(Received::event);
    events.filter(|it| it.subject() == Some(subject)).map(|it| it.ty().to_owned()).collect()
}

const IN_ORDER: [&str; 4] = ["told.0", "told.1", "told.2", "told.3"];

#[tokio::test]
#[ignore = "needs Moto: run by tests/moto"]
async fn a_fifo_queue_gets_every_message_in_the_order_of_its_subject() {
    let (account, post) = (Account::new("fifo"), Post::new().await);
    let url = account.queue("packing.fifo").await;
    let done = relayed(&post, Sqs::queue(&account.sqs, &url), &Letters::in_order(4), 5).await;
    assert_eq!((done.sent, done.dead, done.waiting, done.finished), (20, 0, 0, true), "{done:?}");
    let received = account.receive(&url).await;
    assert_eq!(received.len(), 20);
    for number in 0..5 {
        assert_eq!(topics_about(&received, &format!("letters/{number}")), IN_ORDER);
    }
    for it in &received {
        assert_eq!(it.group.as_deref(), it.event().subject());
    }
    assert_eq!(post.unsent().await, 0);
}

#[tokio::test]
#[ignore = "needs Moto: run by tests/moto"]
async fn a_reader_of_cloudevents_reads_what_a_standard_queue_got() {
    let (account, post) = (Account::new("standard"), Post::new().await);
    let url = account.queue("packing").await;
    let done = relayed(&post, Sqs::queue(&account.sqs, &url), &Letters::in_order(4), 1).await;
    assert_eq!(done.sent, 4, "{done:?}");
    let received = account.receive(&url).await;
    assert_eq!(received.len(), 4);
    for it in received {
        let (event, json) = (it.event(), serde_json::from_str::<Value>(&it.body).unwrap());
        assert_eq!(event.specversion().as_str(), "1.0");
        assert_eq!(event.source().to_string(), "/letters");
        assert_eq!(event.id(), json["id"]);
        assert_eq!(event.datacontenttype(), Some("application/json"));
        assert_eq!(event.time().unwrap().timestamp_millis(), (post.desk.now() - MINUTE).timestamp_millis());
        assert_eq!(event.extension("sequence").unwrap().to_string(), json["sequence"].as_str().unwrap());
        let number: u32 = event.ty().strip_prefix("told.").unwrap().parse().unwrap();
        assert_eq!(event.data(), Some(&cloudevents::Data::Json(number.into())));
    }
}

/// A FIFO queue drops what it got in the last minutes: a message that is sent again after a lost
/// confirmation arrives once, and one that an operator has sent again arrives again.
#[tokio::test]
#[ignore = "needs Moto: run by tests/moto"]
async fn a_fifo_queue_drops_what_is_sent_twice_and_takes_what_an_operator_sends_again() {
    let (account, post) = (Account::new("twice"), Post::new().await);
    let url = account.queue("packing.fifo").await;
    let queue = Sqs::queue(&account.sqs, &url);
    let (machine, _) = post.desk.machine();
    machine.start(&Letters::in_order(1), ("letters", 1), &()).run().await.unwrap();
    post.desk.bench.clock.advance(MINUTE);
    assert_eq!(post.relay().0.run().await.unwrap().sent, 1);
    let envelope = post.broker.took().remove(0);
    for _ in 0..3 {
        queue.send(std::slice::from_ref(&envelope)).await;
    }
    assert_eq!(account.receive(&url).await.len(), 1);
    let mut again = envelope.clone();
    again.redrives = 1;
    queue.send(std::slice::from_ref(&again)).await;
    let received = account.receive(&url).await;
    assert_eq!(received.len(), 1);
    assert_eq!(received[0].event().id(), envelope.id, "receivers know it by its id");
}

#[tokio::test]
#[ignore = "needs Moto: run by tests/moto"]
async fn a_topic_passes_messages_on_by_their_topics_and_in_order() {
    let (account, post) = (Account::new("sns"), Post::new().await);
    let (packing, books) = (account.queue("packing.fifo").await, account.queue("books").await);
    let fifo = account.topic("told.fifo", &packing, None).await;
    let filter = r#"{"topic":[{"prefix":"told/2"}]}"#;
    let standard = account.topic("told", &books, Some(filter)).await;
    let done = relayed(&post, Topic::new(&account.sns, fifo), &Letters::in_order(4), 2).await;
    assert_eq!((done.sent, done.dead), (8, 0), "{done:?}");
    let received = account.receive(&packing).await;
    for number in 0..2 {
        assert_eq!(topics_about(&received, &format!("letters/{number}")), IN_ORDER);
    }
    let other = Post::new().await;
    let done = relayed(&other, Topic::new(&account.sns, standard), &Letters::in_order(4), 1).await;
    assert_eq!(done.sent, 4, "{done:?}");
    assert_eq!(topics_about(&account.receive(&books).await, "letters/0"), ["told.2"]);
}

#[tokio::test]
#[ignore = "needs Moto: run by tests/moto"]
async fn a_bus_routes_events_by_their_type_and_passes_the_whole_event_on() {
    let (account, post) = (Account::new("bus"), Post::new().await);
    let queue = account.queue("packing").await;
    let bus = account.bus(r#"{"source":["/letters"],"detail-type":["told.1","told.3"]}"#, &queue).await;
    let done = relayed(&post, EventBus::new(&account.events, bus), &Letters::in_order(4), 1).await;
    assert_eq!((done.sent, done.dead), (4, 0), "{done:?}");
    let received = account.receive(&queue).await;
    let mut types = Vec::new();
    for it in received {
        let event: Value = serde_json::from_str(&it.body).unwrap();
        let detail: cloudevents::Event = serde_json::from_value(event["detail"].clone()).unwrap();
        assert_eq!(event["detail-type"], detail.ty());
        assert_eq!(detail.subject(), Some("letters/0"));
        types.push(detail.ty().to_owned());
    }
    types.sort();
    assert_eq!(types, ["told.1", "told.3"]);
}

#[tokio::test]
#[ignore = "needs Moto: run by tests/moto"]
async fn messages_wait_for_a_queue_topic_or_bus_that_does_not_exist() {
    let account = Account::new("gone");
    let real = account.queue("packing").await;
    let post = Post::new().await;
    let gone = Sqs::queue(&account.sqs, real.replace("packing", "nowhere"));
    let done = relayed(&post, gone, &Letters::in_order(2), 1).await;
    assert_eq!((done.sent, done.waiting, done.dead), (0, 1, 0), "{done:?}");
    let (machine, _) = post.desk.machine();
    let view = post.desk.view("letters/0").await;
    let message = &view.messages()[0];
    let cause = message.cause().unwrap_or_default().to_owned();
    assert!(cause.contains("NonExistentQueue") || cause.contains("QueueDoesNotExist"), "{cause}");
    post.desk.bench.clock.advance(MINUTE);
    let router = Router::new().route("*", Sqs::queue(&account.sqs, &real));
    assert_eq!(Relay::new(&machine, router).run().await.unwrap().sent, 2);
    let mut types = topics_about(&account.receive(&real).await, "letters/0");
    types.sort();
    assert_eq!(types, IN_ORDER[..2]);

    let (topic, bus) = ("arn:aws:sns:eu-west-1:123456789012:nowhere", "nowhere");
    let post = Post::new().await;
    let done = relayed(&post, Topic::new(&account.sns, topic), &Letters::in_order(1), 1).await;
    assert_eq!((done.sent, done.waiting, done.dead), (0, 1, 0), "{done:?}");
    let post = Post::new().await;
    let done = relayed(&post, EventBus::new(&account.events, bus), &Letters::in_order(1), 1).await;
    // Moto takes what has no bus; AWS answers the same, since events without a rule are dropped.
    assert_eq!(done.sent + done.waiting, 1, "{done:?}");
}

/// Ten bodies of 200 KB are more than one request takes.
#[tokio::test]
#[ignore = "needs Moto: run by tests/moto"]
async fn large_messages_are_sent_in_as_many_requests_as_they_need() {
    let (account, post) = (Account::new("large"), Post::new().await);
    let url = account.queue("packing").await;
    let (machine, _) = post.desk.machine();
    for number in 0..10 {
        machine.start(&Large, ("large", number), &()).run().await.unwrap();
    }
    post.desk.bench.clock.advance(MINUTE);
    let router = Router::new().route("*", Sqs::queue(&account.sqs, &url));
    let done = Relay::new(&machine, router).run().await.unwrap();
    assert_eq!((done.sent, done.dead, done.waiting), (10, 0, 0), "{done:?}");
    let received = account.receive(&url).await;
    assert_eq!(received.iter().filter(|it| it.body.len() > 200_000).count(), 10);
}

struct Large;

impl locker::workflow::Workflow for Large {
    const NAME: &'static str = "large";
    type Input = ();
    type Output = ();

    async fn run(&self, flow: &locker::workflow::Flow, (): ()) -> Result<(), locker::workflow::Stop> {
        let letter = locker::message::NewMessage::new("large", &"x".repeat(200_000));
        flow.atomic("tell").send(letter).commit(&()).await
    }
}
