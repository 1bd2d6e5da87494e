//! How messages are heard: whose they are, how often and until when.

use std::time::Duration;

use aws_sdk_dynamodb::types::{AttributeValue, Put};
use locker::inbox::{Delivery, Incoming, ReceiveError, Received, Taken};
use locker::message::NewMessage;
use locker::{Class, Classify as _, Clock as _, Failure, Intervened};
use locker_tests::{DAY, Fate};

use crate::consumer::{Warehouse, consumer, delivery, the_dead};
use crate::post::{MINUTE, Post};

use super::ada;

// ---- the inbox

#[tokio::test(start_paused = true)]
async fn message_without_order_or_of_excess_size_is_permanently_invalid() {
    let post = Post::new().await;
    let (workflows, _) = post.desk.machine();
    let inbox = workflows.inbox("packer").unwrap();
    let mut message = Incoming::new("/orders", "1", "order.placed", "7");
    let failed = |error: ReceiveError| Failure::from(error).class();
    message.sequence = Some("1".to_owned());
    let said = inbox.atomic(&message).latest().commit().await.unwrap_err();
    assert!(said.to_string().contains("has no subject"), "{said}");
    assert_eq!(failed(said), Class::Permanent);
    message.subject = Some("order/7".to_owned());
    let said = inbox.atomic(&message).gapless(0).commit().await.unwrap_err();
    assert!(said.to_string().contains("the first one is 1"), "{said}");
    message.sequence = Some(String::new());
    let said = inbox.atomic(&message).latest().commit().await.unwrap_err();
    assert!(said.to_string().contains("is no number that its sender assigned"), "{said}");
    let many = (0..100).fold(inbox.atomic(&message), |it, n| {
        let put = Put::builder().table_name(&post.desk.rows).item("id", AttributeValue::S(n.to_string()));
        it.put(put.build().unwrap())
    });
    let said = many.commit().await.unwrap_err();
    assert!(matches!(said, ReceiveError::Invalid(_)), "{said:?}");
    assert_eq!(failed(said), Class::Permanent);
}

#[tokio::test(start_paused = true)]
async fn a_table_that_is_out_of_reach_makes_no_message_dead() {
    let post = Post::new().await;
    let (workflows, wire) = post.desk.machine();
    let inbox = workflows.inbox("packer").unwrap();
    let message = Incoming::new("/orders", "1", "order.placed", "7");
    wire.matching(|it| it.operation == "TransactWriteItems", Fate::Denied);
    let failed = Failure::from(inbox.atomic(&message).commit().await.unwrap_err());
    assert_eq!(failed.class(), Class::Transient);
}

#[tokio::test(start_paused = true)]
async fn messages_of_each_subject_are_sent_at_once_with_what_is_taken() {
    let post = Post::new().await;
    let (workflows, _) = post.sender();
    let inbox = workflows.inbox("packer").unwrap();
    let message = Incoming::new("/orders", "1", "order.placed", "7");
    let told = |subject: &str| NewMessage::new("told", &1).subject(subject);
    let taken = inbox.atomic(&message).send(told("order/7")).send(told("customer/1")).commit().await.unwrap();
    assert_eq!((taken, post.topics().len(), post.unsent().await), (Taken::Now, 2, 0));
}

#[test]
fn an_empty_subject_is_none() {
    let event = r#"{"specversion":"1.0","id":"a","source":"/o","type":"t","subject":"","data":1}"#;
    assert_eq!(Incoming::parse(event).unwrap().subject, None);
}

// ---- consumers

#[tokio::test(start_paused = true)]
async fn a_consumer_says_how_often_and_not_for_how_long_a_message_is_tried() {
    let post = Post::new().await;
    let (consumer, workflows, _) = consumer(&post);
    consumer.dead_letter(&delivery("a/1"), Class::Permanent, "no").await.unwrap();
    let dead = the_dead(&workflows).await.remove(0);
    assert_eq!(workflows.redrive(&dead, &ada()).await.unwrap(), Intervened::Done);
    let closed = async |_: Delivery| Err(Failure::transient("closed".to_owned()).after(DAY));
    for day in 0..6 {
        post.desk.bench.clock.advance(DAY + MINUTE);
        let done = consumer.run(closed).await.unwrap();
        assert_eq!((done.waiting, done.dead), (1, 0), "day {day}: {done:?}");
    }
}

/// A pause of nothing would be a loop.
#[tokio::test(start_paused = true)]
async fn no_pause_is_shorter_than_its_own_and_they_grow() {
    let post = Post::new().await;
    let (consumer, workflows, _) = consumer(&post);
    let at_once = async |_: Delivery| Err(Failure::transient("no".to_owned()).after(Duration::ZERO));
    let mut pause = Duration::ZERO;
    for receives in 1..6 {
        let not_now = consumer.receive(&delivery("b/1").receives(receives), at_once).await.unwrap_err();
        pause = not_now.pause().unwrap();
    }
    assert!(pause >= Duration::from_secs(40), "{pause:?}");
    consumer.dead_letter(&delivery("a/1"), Class::Permanent, "no").await.unwrap();
    let dead = the_dead(&workflows).await.remove(0);
    assert_eq!(workflows.redrive(&dead, &ada()).await.unwrap(), Intervened::Done);
    let mut tries = 0;
    for _ in 0..30 {
        post.desk.bench.clock.advance(Duration::from_secs(10));
        tries += consumer.run(at_once).await.unwrap().waiting;
    }
    assert!((4..=7).contains(&tries), "{tries} tries in five minutes");
}

#[tokio::test(start_paused = true)]
async fn a_consumer_handles_its_own_messages_only() {
    let post = Post::new().await;
    let (_, workflows, _) = consumer(&post);
    let [pack, packer] = ["pack", "packer"].map(|name| workflows.inbox(name).unwrap().consumer());
    packer.dead_letter(&delivery("a/1"), Class::Permanent, "no").await.unwrap();
    let dead = the_dead(&workflows).await.remove(0);
    assert_eq!(workflows.redrive(&dead, &ada()).await.unwrap(), Intervened::Done);
    post.desk.bench.clock.advance(MINUTE);
    let handle = async |_: Delivery| Ok::<_, Failure>(());
    assert_eq!(pack.run(handle).await.unwrap().handled, 0);
    assert_eq!(packer.run(handle).await.unwrap().handled, 1);
}

#[tokio::test(start_paused = true)]
async fn imported_message_is_queued_after_stored_messages_despite_clocks() {
    let post = Post::new().await;
    let (consumer, workflows, _) = consumer(&post);
    let warehouse = Warehouse::default();
    for number in 1..6 {
        consumer.dead_letter(&delivery(&format!("a/{number}")), Class::Permanent, "no").await.unwrap();
    }
    for dead in the_dead(&workflows).await {
        assert_eq!(workflows.redrive(&dead, &ada()).await.unwrap(), Intervened::Done);
    }
    post.desk.bench.clock.advance(MINUTE);
    consumer.run(async |it| warehouse.pack(it).await).await.unwrap();
    assert_eq!(warehouse.packed(), ["a/1", "a/2", "a/3", "a/4", "a/5"]);
}

#[tokio::test(start_paused = true)]
async fn attributes_count_for_the_size_of_a_message() {
    let post = Post::new().await;
    let (consumer, workflows, _) = consumer(&post);
    let mut huge = Delivery::new("1", "x".repeat(340_000));
    huge.attributes = serde_json::json!({ "note": "y".repeat(100_000) });
    let charge = async |_: Delivery| Err(Failure::in_doubt("the bank did not answer".to_owned()));
    consumer.receive(&huge, charge).await.unwrap_err();
    let dead = the_dead(&workflows).await.remove(0);
    assert_eq!(dead.body_at(), Some("queue"));
    assert!(!dead.delivery().unwrap().contains("note"), "they would not fit beside a corrected body");
}

/// It was suspended for ten of its fifteen minutes: its handler would end after them.
#[tokio::test(start_paused = true)]
async fn a_consumer_that_wakes_late_begins_nothing_that_it_may_not_have_to_the_end() {
    let post = Post::new().await;
    let (prompt, workflows, _) = consumer(&post);
    prompt.dead_letter(&delivery("a/1"), Class::Permanent, "no").await.unwrap();
    let dead = the_dead(&workflows).await.remove(0);
    assert_eq!(workflows.redrive(&dead, &ada()).await.unwrap(), Intervened::Done);
    post.desk.bench.clock.advance(MINUTE);
    let (slow, _, wire) = consumer(&post);
    wire.matching(|it| it.operation == "PutItem", Fate::HeldAfter);
    let warehouse = Warehouse::default();
    let late = slow.run(async |it| warehouse.pack(it).await);
    let beside = async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        post.desk.bench.clock.advance(MINUTE * 10);
        wire.let_through();
    };
    let (done, ()) = tokio::join!(late, beside);
    let done = done.unwrap();
    assert_eq!((done.handled, done.taken_elsewhere), (0, 1), "{done:?}");
}

#[tokio::test(start_paused = true)]
async fn a_consumer_stops_at_what_it_cannot_delete() {
    let post = Post::new().await;
    let (consumer, workflows, wire) = consumer(&post);
    let warehouse = Warehouse::refusing(&["a/1"]);
    for body in ["a/1", "a/2"] {
        consumer.receive(&delivery(body), async |it| warehouse.pack(it).await).await.unwrap();
    }
    warehouse.refuse(&[]);
    let dead = the_dead(&workflows).await.remove(0);
    assert_eq!(workflows.redrive(&dead, &ada()).await.unwrap(), Intervened::Done);
    post.desk.bench.clock.advance(MINUTE);
    wire.matching(|it| it.operation == "DeleteItem", Fate::Denied);
    let done = consumer.run(async |it| warehouse.pack(it).await).await.unwrap();
    assert_eq!((done.handled, done.failed, warehouse.packed().len()), (1, 1, 1), "{done:?}");
}

/// Two imports of one message at once.
#[tokio::test(start_paused = true)]
async fn one_of_two_imports_at_once_says_that_it_is_known() {
    let post = Post::new().await;
    let (prompt, ..) = consumer(&post);
    let (slow, _, wire) = consumer(&post);
    wire.matching(|it| it.operation == "TransactWriteItems", Fate::HeldBefore);
    let one_delivery = delivery("a/1");
    let one = slow.dead_letter(&one_delivery, Class::InDoubt, "x");
    let other = async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        post.desk.bench.clock.advance(Duration::from_millis(5));
        let came_to = prompt.dead_letter(&one_delivery, Class::InDoubt, "x").await;
        wire.let_through();
        came_to
    };
    let (one, other) = tokio::join!(one, other);
    assert_eq!((one.unwrap(), other.unwrap()), (Received::Duplicate, Received::DeadLettered));
    let _ = post.desk.bench.clock.now();
}

#[tokio::test(start_paused = true)]
async fn message_is_too_old_from_the_end_of_the_window() {
    let post = Post::new().await;
    let (workflows, _) = post.desk.machine();
    let inbox = workflows.inbox("packer").unwrap();
    let hour = chrono::TimeDelta::hours(1);
    for (age, is_taken) in
        [(chrono::TimeDelta::days(30) - hour, true), (chrono::TimeDelta::days(30) + hour, false)]
    {
        let mut message = Incoming::new("/orders", age.to_string(), "order.placed", "7");
        message.time = Some(post.desk.bench.clock.now() - age);
        assert_eq!(inbox.key(&message).is_ok(), is_taken, "{age}");
        assert_eq!(inbox.atomic(&message).commit().await.is_ok(), is_taken, "{age}");
    }
}

/// The clock of the one who remembers may be behind by as much.
#[tokio::test(start_paused = true)]
async fn dead_letter_is_remembered_for_the_window_plus_clock_skew() {
    let post = Post::new().await;
    let (workflows, _) = post.desk.machine();
    let consumer = workflows.inbox("packer").unwrap().window(MINUTE * 60).consumer();
    consumer.dead_letter(&delivery("a/1"), Class::InDoubt, "x").await.unwrap();
    let dead = the_dead(&workflows).await.remove(0);
    assert_eq!(workflows.discard(&dead, &ada()).await.unwrap(), Intervened::Done);
    post.desk.bench.clock.advance(MINUTE * 60 + Duration::from_secs(3));
    let charge = async |_: Delivery| Ok::<_, Failure>(());
    assert_eq!(consumer.receive(&delivery("a/1"), charge).await.unwrap(), Received::Duplicate);
}

#[tokio::test(start_paused = true)]
async fn a_kept_message_that_is_damaged_is_not_handled_and_waits_for_an_operator() {
    let post = Post::new().await;
    let (consumer, workflows, _) = consumer(&post);
    consumer.dead_letter(&delivery("a/1"), Class::Permanent, "no").await.unwrap();
    let dead = the_dead(&workflows).await.remove(0);
    assert_eq!(workflows.redrive(&dead, &ada()).await.unwrap(), Intervened::Done);
    let items = post.desk.items().await;
    let item = items.iter().find(|it| it.contains_key("delivery")).unwrap();
    let update = post.desk.bench.client.update_item().table_name(&post.desk.table);
    let update = update.key("workflow", item["workflow"].clone()).key("item", item["item"].clone());
    let update = update.update_expression("SET delivery = :odd");
    update.expression_attribute_values(":odd", AttributeValue::S("odd".to_owned())).send().await.unwrap();
    post.desk.bench.clock.advance(MINUTE);
    let handle = async |_: Delivery| -> Result<(), Failure> { panic!("it is handled") };
    let done = consumer.run(handle).await.unwrap();
    assert_eq!((done.dead, done.waiting), (1, 0), "{done:?}");
    let dead = the_dead(&workflows).await.remove(0);
    assert_eq!(dead.class(), Some(Class::NeedsOperator));
    assert!(dead.cause().unwrap().starts_with("it cannot be read"), "{:?}", dead.cause());
}
