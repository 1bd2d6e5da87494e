//! What was set aside and is delivered again: what becomes of it is decided in the table, and
//! nowhere else.

use std::sync::Mutex;

use locker::inbox::{Delivery, Received};
use locker::message::MessageState;
use locker::workflow::SentReport;
use locker::{Class, Failure, Intervened};

use super::{Warehouse, ada, consumer, delivery, hear, in_state, run, the_dead};
use crate::post::{MINUTE, Post};

/// In a queue that keeps the order, and in one that keeps none.
fn both() -> [Delivery; 2] {
    let event = r#"{"specversion":"1.0","id":"7","source":"/orders","type":"paid","data":1}"#;
    [Delivery::new("1", event).group("order/7"), Delivery::new("1", event)]
}

#[tokio::test(start_paused = true)]
async fn an_effect_in_doubt_is_not_made_again_by_the_next_delivery() {
    for delivery in both() {
        let post = Post::new().await;
        let (consumer, workflows, _) = consumer(&post);
        let charges = Mutex::new(0);
        let charge = async |_: Delivery| {
            *charges.lock().unwrap() += 1;
            Err(Failure::in_doubt("the bank did not answer".to_owned()))
        };
        for (receives, came_to) in
            [(1, Received::DeadLettered), (1, Received::Duplicate), (2, Received::Duplicate)]
        {
            let delivery = delivery.clone().receives(receives);
            assert_eq!(consumer.receive(&delivery, charge).await.unwrap(), came_to);
        }
        assert_eq!((the_dead(&workflows).await.len(), *charges.lock().unwrap()), (1, 1));
    }
}

#[tokio::test(start_paused = true)]
async fn operators_decision_holds_for_a_later_copy() {
    for delivery in both() {
        for (decision, handled, archived) in [("discard", 0, 0), ("archive", 0, 1), ("redrive", 1, 0)] {
            let post = Post::new().await;
            let (consumer, workflows, _) = consumer(&post);
            let warehouse = Warehouse::refusing(&[&delivery.body]);
            let receive = async || {
                consumer.receive(&delivery, async |delivery| warehouse.pack(delivery).await).await.unwrap()
            };
            assert_eq!(receive().await, Received::DeadLettered);
            warehouse.refuse(&[]);
            let dead = the_dead(&workflows).await.remove(0);
            let decided = match decision {
                "discard" => workflows.discard(&dead, &ada()).await,
                "archive" => workflows.archive(&dead, &ada()).await,
                _ => workflows.redrive(&dead, &ada()).await,
            };
            assert_eq!(decided.unwrap(), Intervened::Done);
            assert_eq!(run(&post, &consumer, &warehouse).await, handled, "{decision}");
            assert_eq!(receive().await, Received::Duplicate, "{decision}");
            let imported = consumer.dead_letter(&delivery, Class::InDoubt, "it ended without a word").await;
            assert_eq!(imported.unwrap(), Received::Duplicate, "{decision}");
            assert_eq!(run(&post, &consumer, &warehouse).await, 0, "{decision}");
            assert_eq!(warehouse.packed().len(), handled, "{decision}");
            let kept = in_state(&workflows, MessageState::Archived).await;
            assert_eq!((kept.len(), post.unsent().await), (archived, archived), "{decision}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn one_is_kept_once_however_many_of_its_group_were_kept_since() {
    let post = Post::new().await;
    let (consumer, workflows, _) = consumer(&post);
    let warehouse = Warehouse::refusing(&["a/1"]);
    let bodies: Vec<_> = (1..30).map(|number| format!("a/{number}")).collect();
    for body in &bodies {
        hear(&consumer, &warehouse, body).await.unwrap();
    }
    // Its sender sends some again, after the queue has forgotten that it had them.
    for body in &bodies[..10] {
        assert_eq!(hear(&consumer, &warehouse, body).await.unwrap(), Received::Duplicate);
    }
    warehouse.refuse(&[]);
    let dead = the_dead(&workflows).await.remove(0);
    assert_eq!(workflows.redrive(&dead, &ada()).await.unwrap(), Intervened::Done);
    assert_eq!(run(&post, &consumer, &warehouse).await, 29);
    assert_eq!(warehouse.packed(), bodies);
}

#[tokio::test(start_paused = true)]
async fn discarded_dead_letter_is_remembered_for_the_window() {
    let post = Post::new().await;
    let (workflows, _) = post.desk.machine();
    let consumer = workflows.inbox("packer").unwrap().window(MINUTE * 60).consumer();
    let warehouse = Warehouse::refusing(&["a/1"]);
    assert_eq!(hear(&consumer, &warehouse, "a/1").await.unwrap(), Received::DeadLettered);
    let dead = the_dead(&workflows).await.remove(0);
    assert_eq!(workflows.discard(&dead, &ada()).await.unwrap(), Intervened::Done);
    warehouse.refuse(&[]);
    post.desk.bench.clock.advance(MINUTE * 59);
    assert_eq!(hear(&consumer, &warehouse, "a/1").await.unwrap(), Received::Duplicate);
    // Others of its group are not held up by what is remembered.
    assert_eq!(hear(&consumer, &warehouse, "a/2").await.unwrap(), Received::Done);
    post.desk.bench.clock.advance(MINUTE * 3);
    let again = consumer.receive(&delivery("a/1"), async |it| warehouse.pack(it).await).await;
    assert_eq!(again.unwrap(), Received::Done);
}

#[tokio::test(start_paused = true)]
async fn names_too_large_to_be_kept_are_not_handled() {
    let post = Post::new().await;
    let (consumer, ..) = consumer(&post);
    let begun = Mutex::new(0);
    let charge = async |_: Delivery| {
        *begun.lock().unwrap() += 1;
        Err(Failure::in_doubt("the bank did not answer".to_owned()))
    };
    let event = |kind: &str, trace: &str| {
        let event = r#"{"specversion":"1.0","id":"7","source":"/o","data":1,"type":""#;
        Delivery::new("1", format!(r#"{event}{kind}","traceparent":"{trace}"}}"#)).group("a")
    };
    let long = "t".repeat(360_000);
    for huge in [event(&long, "0"), event("t", &long), Delivery::new(&long, "1").group("a")] {
        let said = consumer.receive(&huge, charge).await.unwrap_err().to_string();
        assert!(said.contains("its names are too large to be kept, so it is not handled: "), "{said}");
        assert_eq!((post.unsent().await, *begun.lock().unwrap()), (0, 0));
    }
    let fits = Delivery::new("1", "x".repeat(340_000)).group("a");
    assert_eq!(consumer.receive(&fits, charge).await.unwrap(), Received::DeadLettered);
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_panics_makes_its_own_message_dead_and_no_other() {
    let post = Post::new().await;
    let (consumer, workflows, _) = consumer(&post);
    let handled = Mutex::new(Vec::new());
    let handle = async |delivery: Delivery| {
        tokio::time::sleep(std::time::Duration::from_millis(if delivery.body == "a/1" { 20 } else { 200 }))
            .await;
        assert_ne!(delivery.body, "a/1", "a bug");
        handled.lock().unwrap().push(delivery.body.clone());
        Ok::<_, Failure>(())
    };
    // As its queue delivers it, and as it waits in the table beside others.
    assert_eq!(consumer.receive(&delivery("a/1"), handle).await.unwrap(), Received::DeadLettered);
    for body in ["b/1", "c/1"] {
        consumer.dead_letter(&delivery(body), Class::Permanent, "no").await.unwrap();
    }
    for dead in the_dead(&workflows).await {
        assert_eq!(workflows.redrive(&dead, &ada()).await.unwrap(), Intervened::Done);
    }
    post.desk.bench.clock.advance(MINUTE);
    let done = consumer.run(handle).await.unwrap();
    assert_eq!((done.handled, done.dead, done.finished), (2, 1, true), "{done:?}");
    let dead = the_dead(&workflows).await.remove(0);
    assert_eq!((dead.body(), dead.class()), ("a/1", Some(Class::InDoubt)));
    assert!(dead.cause().is_some_and(|cause| cause.starts_with("its handler panicked: ")), "{dead:?}");
}

#[tokio::test(start_paused = true)]
async fn dead_letter_is_remembered_beyond_the_window() {
    for delivery in both() {
        let post = Post::new().await;
        let (workflows, _) = post.desk.machine();
        let consumer = workflows.inbox("packer").unwrap().window(MINUTE).consumer();
        let warehouse = Warehouse::refusing(&[&delivery.body]);
        let receive =
            async || consumer.receive(&delivery, async |it| warehouse.pack(it).await).await.unwrap();
        assert_eq!(receive().await, Received::DeadLettered);
        post.desk.bench.clock.advance(MINUTE * 60);
        warehouse.refuse(&[]);
        assert_eq!((receive().await, warehouse.packed().len()), (Received::Duplicate, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn one_is_behind_a_dead_one_however_many_were_archived_since() {
    let post = Post::new().await;
    let (consumer, workflows, _) = consumer(&post);
    let warehouse = Warehouse::refusing(&["a/0"]);
    for number in 0..40 {
        hear(&consumer, &warehouse, &format!("a/{number}")).await.unwrap();
        if number > 0 {
            consumer
                .dead_letter(&delivery(&format!("a/dead {number}")), Class::Permanent, "no")
                .await
                .unwrap();
        }
    }
    for dead in the_dead(&workflows).await.into_iter().filter(|it| it.body() != "a/0") {
        assert_eq!(workflows.archive(&dead, &ada()).await.unwrap(), Intervened::Done);
    }
    // What waits is handled by then, but for the one that is dead; the newest ones are archived.
    for waiting in in_state(&workflows, MessageState::Waiting).await {
        assert_eq!(workflows.sent(&waiting).await.unwrap(), SentReport::Deleted);
    }
    assert_eq!(hear(&consumer, &warehouse, "a/40").await.unwrap(), Received::Queued);
}

/// h05
#[tokio::test(start_paused = true)]
async fn archived_messages_of_a_group_add_no_cost_to_later_ones() {
    let post = Post::new().await;
    let (consumer, workflows, wire) = consumer(&post);
    let warehouse = Warehouse::default();
    let large = |number: usize| Delivery::new(format!("sqs {number}"), "x".repeat(100_000)).group("a");
    let mut costs = Vec::new();
    for archived in [0, 1, 30] {
        let have = in_state(&workflows, MessageState::Archived).await.len();
        for number in have..archived {
            consumer.dead_letter(&large(number), Class::Permanent, "no").await.unwrap();
            let dead = the_dead(&workflows).await.remove(0);
            assert_eq!(workflows.archive(&dead, &ada()).await.unwrap(), Intervened::Done);
        }
        wire.take();
        let delivery = Delivery::new(format!("next {archived}"), "next").group("a");
        let received = consumer.receive(&delivery, async |it| warehouse.pack(it).await).await;
        assert_eq!(received.unwrap(), Received::Done);
        costs.push(wire.count());
    }
    // The second request asks whether the message was received before.
    assert_eq!(costs, [1, 2, 2]);
}

/// The place of an archived message in its group does not change.
#[tokio::test(start_paused = true)]
async fn restored_message_holds_up_those_behind_it_again() {
    let post = Post::new().await;
    let (consumer, workflows, _) = consumer(&post);
    let warehouse = Warehouse::refusing(&["a/1", "a/2"]);
    hear(&consumer, &warehouse, "a/1").await.unwrap();
    let dead = the_dead(&workflows).await.remove(0);
    assert_eq!(workflows.archive(&dead, &ada()).await.unwrap(), Intervened::Done);
    let archived = in_state(&workflows, MessageState::Archived).await.remove(0);
    assert_eq!((archived.work(), archived.body()), (dead.work(), "a/1"));
    assert_eq!(workflows.archive(&dead, &ada()).await.unwrap(), Intervened::Changed);
    post.desk.bench.clock.advance(MINUTE);
    assert_eq!(hear(&consumer, &warehouse, "a/2").await.unwrap(), Received::DeadLettered);
    assert_eq!(workflows.restore(&archived, &ada()).await.unwrap(), Intervened::Done);
    let bodies: Vec<_> = the_dead(&workflows).await.iter().map(|it| it.body().to_owned()).collect();
    assert_eq!(bodies, ["a/1", "a/2"]);
    // The first one waits for an operator, so the second one is not processed.
    warehouse.refuse(&[]);
    let second = the_dead(&workflows).await.remove(1);
    assert_eq!(workflows.redrive(&second, &ada()).await.unwrap(), Intervened::Done);
    assert_eq!(run(&post, &consumer, &warehouse).await, 0);
    let first = the_dead(&workflows).await.remove(0);
    assert_eq!(workflows.redrive(&first, &ada()).await.unwrap(), Intervened::Done);
    assert_eq!(run(&post, &consumer, &warehouse).await, 2);
    assert_eq!(warehouse.packed(), ["a/1", "a/2"]);
}
