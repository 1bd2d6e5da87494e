//! Corrections: an operator replaces the body of a dead message, which keeps its id.

use lock_token_testing::CallFate;
use locker::inbox::{Delivery, Incoming, Received};
use locker::message::MessageState;
use locker::operator::{Act, Console, Part};
use locker::workflow::{Message, Workflows};
use locker::{AuditRecord, Error, Intervened, Resolution, Work};
use locker_tests::ada;
use serde_json::{Value, json};

use crate::consumer::{Warehouse, consumer, the_dead};
use crate::post::{Letters, MINUTE, Post};

/// A dead message that is to be sent, with the body `0`.
async fn refused_by_its_target() -> (Post, Workflows, Message) {
    let post = Post::new().await;
    let (workflows, _) = post.desk.machine();
    workflows.start(&Letters::in_order(1), "letters/1", &()).run().await.unwrap();
    post.calls.next([CallFate::Declined]);
    post.desk.bench.clock.advance(MINUTE);
    assert_eq!(post.relay().0.run().await.unwrap().dead, 1);
    let dead = the_dead(&workflows).await.remove(0);
    (post, workflows, dead)
}

fn event(id: &str, data: &Value) -> String {
    json!({ "specversion": "1.0", "id": id, "source": "/orders", "type": "paid", "data": data }).to_string()
}

/// A dead message that a consumer received: the event `7` with the data 1.
async fn refused_by_its_consumer() -> (Post, Workflows, Message, Warehouse) {
    let post = Post::new().await;
    let (consumer, workflows, _) = consumer(&post);
    let body = event("7", &json!(1));
    let warehouse = Warehouse::refusing(&[&body]);
    let delivery = Delivery::new("1", &body);
    let packs = warehouse.clone();
    let received = consumer.receive(&delivery, async |delivery| packs.pack(delivery).await).await;
    assert_eq!(received.unwrap(), Received::DeadLettered);
    let dead = the_dead(&workflows).await.remove(0);
    (post, workflows, dead, warehouse)
}

fn partition(message: &Message) -> String {
    match message.work() {
        Work::Message { of, .. } => of,
        other => panic!("{other:?} is no message"),
    }
}

/// The bodies in the audit record of the only correction.
async fn bodies(workflows: &Workflows, message: &Message) -> (AuditRecord, [Option<Value>; 2]) {
    let acts = workflows.acts(&partition(message)).await.unwrap();
    let corrected = |act: &AuditRecord| act.resolution == Some(Resolution::Corrected);
    let [act] = acts.into_iter().filter(corrected).collect::<Vec<_>>().try_into().unwrap();
    let value = |json: Option<String>| json.map(|json| serde_json::from_str(&json).unwrap());
    let replaced = value(workflows.replaced(&act).await.unwrap());
    let given = value(workflows.given(&act).await.unwrap());
    (act, [replaced, given])
}

#[tokio::test(start_paused = true)]
async fn corrected_message_is_sent_under_its_id() {
    let (post, workflows, dead) = refused_by_its_target().await;
    assert_eq!(workflows.correct(&dead, r#"{"n":1}"#, &ada()).await.unwrap(), Intervened::Done);
    let now = the_dead(&workflows).await.remove(0);
    assert_eq!((now.body(), now.id()), (r#"{"n":1}"#, dead.id()), "it stays dead");
    assert_eq!(workflows.redrive(&now, &ada()).await.unwrap(), Intervened::Done);
    post.desk.bench.clock.advance(MINUTE);
    assert_eq!(post.relay().0.run().await.unwrap().sent, 1);
    let took = post.broker.took();
    assert_eq!((took[0].id.as_str(), took[0].data.as_str()), (dead.id(), r#"{"n":1}"#));
    let (act, bodies) = bodies(&workflows, &dead).await;
    assert_eq!((act.by.as_deref(), act.work()), (Some("ada"), dead.work()));
    assert_eq!(bodies, [Some(json!("0")), Some(json!(r#"{"n":1}"#))]);
}

#[tokio::test(start_paused = true)]
async fn corrected_event_is_processed_under_its_identity() {
    let (post, workflows, dead, warehouse) = refused_by_its_consumer().await;
    let right = event("7", &json!(2));
    assert_eq!(workflows.correct(&dead, &right, &ada()).await.unwrap(), Intervened::Done);
    let now = the_dead(&workflows).await.remove(0);
    assert_eq!(workflows.redrive(&now, &ada()).await.unwrap(), Intervened::Done);
    let (consumer, ..) = consumer(&post);
    post.desk.bench.clock.advance(MINUTE);
    let packs = warehouse.clone();
    let done = consumer.run(async |delivery| packs.pack(delivery).await).await.unwrap();
    assert_eq!((done.handled, warehouse.packed()), (1, vec![right.clone()]));
    assert_eq!(Incoming::parse(&warehouse.packed()[0]).unwrap().id, "7");
    // A copy of the wrong event arrives later.
    let copy = Delivery::new("2", event("7", &json!(1)));
    let packs = warehouse.clone();
    let received = consumer.receive(&copy, async |delivery| packs.pack(delivery).await).await;
    assert_eq!(received.unwrap(), Received::Duplicate);
    let (_, bodies) = bodies(&workflows, &dead).await;
    assert_eq!(bodies, [Some(json!(event("7", &json!(1)))), Some(json!(right))]);
}

#[tokio::test(start_paused = true)]
async fn body_that_is_not_allowed_is_refused_before_anything_is_written() {
    let (_post, workflows, dead) = refused_by_its_target().await;
    let (_other, others, received, _) = refused_by_its_consumer().await;
    let large = format!("\"{}\"", "x".repeat(256 * 1024));
    for (workflows, dead, body, cause) in [
        (&workflows, &dead, "{", "the body cannot be sent: "),
        (&workflows, &dead, large.as_str(), "a body has at most 262144 bytes of JSON, this one has 262146"),
        (
            &others,
            &received,
            &event("8", &json!(2)),
            "must be an event with the source \"/orders\" and the id \"7\"",
        ),
        (&others, &received, "2", "must be an event with the source"),
        (
            &others,
            &received,
            &event("7", &json!("x".repeat(256 * 1024))),
            "a corrected body has at most 262144 bytes",
        ),
    ] {
        let error = workflows.correct(dead, body, &ada()).await.unwrap_err();
        assert!(matches!(error, Error::Invalid(_)) && error.to_string().contains(cause), "{error}");
        let console = Console::new().workflows(workflows);
        let part = Part::Message(Box::new(dead.clone()));
        let refusal = console.check(&part, &Act::correct(json!(body))).unwrap_err();
        assert!(refusal.because.contains(cause), "{}", refusal.because);
        assert_eq!(the_dead(workflows).await[0].revision(), dead.revision(), "nothing was written");
    }
}

/// Text that cannot be compressed.
fn noise(bytes: usize) -> String {
    let mut state = 7_u64;
    let next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        char::from(b'#' + u8::try_from((state >> 33) % 88).unwrap())
    };
    std::iter::repeat_with(next).filter(|c| *c != '\\').take(bytes).collect()
}

#[tokio::test(start_paused = true)]
async fn audit_record_contains_both_bodies_however_large() {
    let (post, workflows, dead) = refused_by_its_target().await;
    let first = format!("\"{}\"", noise(262_142));
    let second = format!("\"{}\"", noise(262_141));
    assert_eq!(workflows.correct(&dead, &first, &ada()).await.unwrap(), Intervened::Done);
    let now = the_dead(&workflows).await.remove(0);
    // Acts of one millisecond are in no order.
    post.desk.bench.clock.advance(std::time::Duration::from_millis(1));
    assert_eq!(workflows.correct(&now, &second, &ada()).await.unwrap(), Intervened::Done);
    let acts = workflows.acts(&partition(&dead)).await.unwrap();
    let replaced = workflows.replaced(&acts[1]).await.unwrap().unwrap();
    assert_eq!(serde_json::from_str::<String>(&replaced).unwrap(), first);
    let given = workflows.given(&acts[1]).await.unwrap().unwrap();
    assert_eq!(serde_json::from_str::<String>(&given).unwrap(), second);
}

#[tokio::test(start_paused = true)]
async fn only_a_dead_message_as_it_was_shown_is_corrected() {
    let (_post, workflows, dead) = refused_by_its_target().await;
    assert_eq!(workflows.annotate(&dead, &ada()).await.unwrap(), Intervened::Done);
    assert_eq!(workflows.correct(&dead, "1", &ada()).await.unwrap(), Intervened::Changed);
    let now = the_dead(&workflows).await.remove(0);
    assert_eq!(workflows.archive(&now, &ada()).await.unwrap(), Intervened::Done);
    let now = crate::consumer::in_state(&workflows, MessageState::Archived).await.remove(0);
    assert_eq!(workflows.correct(&now, "1", &ada()).await.unwrap(), Intervened::NotPossible);
}
