//! What messages cost, in requests and write units. Only the embedded engine has the published rule
//! for transactions.

use locker::inbox::{Delivery, Incoming};
use locker::message::{MessageState, NewMessage};
use locker::relay::Relay;
use locker::{Failure, Intervened, Operator};
use locker_tests::{Exchange, Wire};

use crate::bench::price_of;
use crate::consumer::{Warehouse, consumer, delivery, the_dead};
use crate::post::{Letters, MINUTE, Post};

/// Requests, write units and read units.
fn bill(wire: &Wire) -> (usize, f64, f64) {
    let exchanges = wire.take();
    let is_read = |it: &&Exchange| ["GetItem", "Query"].contains(&it.operation.as_str());
    let (reads, writes): (Vec<_>, Vec<_>) = exchanges.iter().partition(is_read);
    let sum = |of: Vec<&Exchange>| of.into_iter().map(price_of).sum::<f64>();
    (exchanges.len(), sum(writes), sum(reads))
}

/// One that was left: found, taken, sent, deleted; and what a relay costs that finds nothing.
#[tokio::test(start_paused = true)]
async fn the_price_of_a_message_that_a_relay_sends() {
    let post = Post::new().await;
    if !post.desk.bench.engine.is_embedded() {
        return;
    }
    let idle = {
        let (relay, wire) = post.relay();
        relay.run().await.unwrap();
        bill(&wire)
    };
    // Two lists of due messages, four lists for the gauges, and its run.
    assert_eq!(idle, (7, 1.0, 3.0));
    let (workflows, _) = post.desk.machine();
    workflows.start(&Letters::in_order(1), "letters/1", &()).run().await.unwrap();
    post.desk.bench.clock.advance(MINUTE);
    let (relay, wire) = post.relay();
    assert_eq!(relay.run().await.unwrap().sent, 1);
    // Taken: 1, and 2 for its entry that moves. Deleted: 1 and 1. The query of its workflow.
    assert_eq!(bill(&wire), (idle.0 + 3, idle.1 + 5.0, idle.2 + 1.0));
    // Ten of one subject are taken by one write.
    let post = Post::new().await;
    let (workflows, _) = post.desk.machine();
    workflows.start(&Letters::in_order(6), "letters/1", &()).run().await.unwrap();
    post.desk.bench.clock.advance(MINUTE);
    let (workflows, wire) = post.desk.machine();
    assert_eq!(Relay::new(&workflows, post.router()).run().await.unwrap().sent, 6);
    assert_eq!(bill(&wire), (idle.0 + 2 + 6, idle.1 + 3.0 + 6.0 * 2.0, idle.2 + 1.0));
}

/// Besides what its step costs.
#[tokio::test(start_paused = true)]
async fn the_price_of_a_message_that_is_sent_at_once() {
    let post = Post::new().await;
    if !post.desk.bench.engine.is_embedded() {
        return;
    }
    let mut bills = [post.desk.machine(), post.sender()].into_iter().zip(["letters/1", "letters/2"]);
    let mut next = async || {
        let ((workflows, wire), key) = bills.next().unwrap();
        workflows.start(&Letters::in_order(1), key, &()).run().await.unwrap();
        bill(&wire)
    };
    let (left, sent) = (next().await, next().await);
    assert_eq!(sent, (left.0 + 1, left.1 + 2.0, left.2));
}

#[tokio::test(start_paused = true)]
async fn the_price_of_a_message_that_is_taken() {
    let post = Post::new().await;
    if !post.desk.bench.engine.is_embedded() {
        return;
    }
    let (workflows, wire) = post.desk.machine();
    let inbox = workflows.inbox("packer").unwrap();
    let mut message = Incoming::new("/orders", "17.0", "order.placed", "7");
    message.subject = Some("order/7".to_owned());
    message.sequence = Some("1".to_owned());
    inbox.atomic(&message).commit().await.unwrap().done().unwrap();
    assert_eq!(bill(&wire), (1, 2.0, 0.0), "two units for what it remembers, and no index");
    inbox.atomic(&message).commit().await.unwrap().done().unwrap();
    assert_eq!(wire.take().len(), 1, "a duplicate is a refused transaction");
    inbox.atomic(&message).latest().commit().await.unwrap().done().unwrap();
    assert_eq!(bill(&wire), (1, 2.0, 0.0));
    inbox
        .atomic(&message)
        .gapless(1)
        .send(NewMessage::new("packed", &7))
        .commit()
        .await
        .unwrap()
        .done()
        .unwrap();
    assert_eq!(bill(&wire), (1, 5.0, 0.0), "and two for the message, one for its index entry");
}

#[tokio::test(start_paused = true)]
async fn the_price_of_a_message_of_the_outbox() {
    let post = Post::new().await;
    if !post.desk.bench.engine.is_embedded() {
        return;
    }
    let (workflows, wire) = post.sender();
    let put = workflows.outbox().message(NewMessage::new("placed", &7).subject("order/7")).unwrap();
    assert_eq!(wire.count(), 0);
    post.commit([put.clone()]).await;
    workflows.outbox().send([put]).await;
    // Whether an earlier one is stored, and the deletion: 1, and 1 for its index entry.
    assert_eq!(bill(&wire), (2, 2.0, 1.0));
    assert_eq!(post.topics(), ["placed"]);
}

/// A message of a group that is handled; one that is set aside; and one that is handled from the
/// table.
#[tokio::test(start_paused = true)]
async fn the_price_of_a_message_that_a_consumer_handles_or_sets_aside() {
    let post = Post::new().await;
    if !post.desk.bench.engine.is_embedded() {
        return;
    }
    let (consumer, workflows, wire) = consumer(&post);
    let warehouse = Warehouse::refusing(&["a/2"]);
    let hear = async |body: &str| {
        consumer.receive(&delivery(body), async |it| warehouse.pack(it).await).await.unwrap();
        bill(&wire)
    };
    // Is there one before it in its group?
    assert_eq!(hear("a/1").await, (1, 0.0, 1.0));
    // And the item with its entry in the index, and what is remembered; the next one asks whether
    // it is that one.
    assert_eq!(hear("a/2").await, (2, 5.0, 1.0));
    assert_eq!(hear("a/3").await, (3, 5.0, 2.0));
    assert_eq!(hear("a/3").await, (2, 0.0, 2.0));
    let alone = Delivery::new("1", "x");
    consumer.receive(&alone, async |it| warehouse.pack(it).await).await.unwrap();
    assert_eq!(bill(&wire), (1, 0.0, 1.0));
    // The count of failures, which is read from the second delivery on.
    let down = async |_: Delivery| Err(Failure::transient("the warehouse is down".to_owned()));
    for (receives, requests, read) in [(1, 2, 1.0), (2, 3, 2.0)] {
        consumer.receive(&Delivery::new("2", "y").receives(receives), down).await.unwrap_err();
        assert_eq!(bill(&wire), (requests, 1.0, read));
    }

    consumer.run(async |it| warehouse.pack(it).await).await.unwrap();
    let idle = bill(&wire);
    assert_eq!(idle, (1, 0.0, 0.5));
    warehouse.refuse(&[]);
    let dead = the_dead(&workflows).await.remove(0);
    let ada = Operator::new("ada", "go").unwrap();
    assert_eq!(workflows.redrive(&dead, &ada).await.unwrap(), Intervened::Done);
    wire.take();
    post.desk.bench.clock.advance(MINUTE);
    assert_eq!(consumer.run(async |it| warehouse.pack(it).await).await.unwrap().handled, 2);
    // The query of the group; each is taken by 1 and 2 for its entry that moves, deleted by 1 and
    // 1, and remembered by 1.
    assert_eq!(bill(&wire), (idle.0 + 1 + 6, 12.0, idle.2 + 1.0));
    hear("a/2").await;
    warehouse.refuse(&["a/4"]);
    hear("a/4").await;
    let dead = the_dead(&workflows).await.remove(0);
    wire.take();
    assert_eq!(workflows.discard(&dead, &ada).await.unwrap(), Intervened::Done);
    // The message and the audit record, each with its entry, and what is remembered, which is read.
    assert_eq!(bill(&wire), (2, 8.0, 1.0));
}

#[tokio::test(start_paused = true)]
async fn the_price_of_what_operators_do() {
    let post = Post::new().await;
    if !post.desk.bench.engine.is_embedded() {
        return;
    }
    let (workflows, wire) = post.desk.machine();
    let put = workflows.outbox().message(NewMessage::new("placed", &7).subject("order/7")).unwrap();
    post.commit([put]).await;
    post.desk.bench.clock.advance(MINUTE);
    post.calls.next([lock_token_testing::CallFate::Declined]);
    assert_eq!(post.relay().0.run().await.unwrap().dead, 1);
    let ada = Operator::new("ada", "go").unwrap();
    let shown = async |state| {
        let shown = crate::consumer::in_state(&workflows, state).await.remove(0);
        wire.take();
        shown
    };
    // Two units each for the message and the audit record, one for the entry of the record, and one
    // or two for that of the message, which moves. An archive deletes the message at one sort key
    // and writes it at another.
    let dead = shown(MessageState::Dead).await;
    assert_eq!(workflows.annotate(&dead, &ada).await.unwrap(), Intervened::Done);
    assert_eq!(bill(&wire), (1, 6.0, 0.0));
    let dead = shown(MessageState::Dead).await;
    assert_eq!(workflows.archive(&dead, &ada).await.unwrap(), Intervened::Done);
    assert_eq!(bill(&wire), (1, 9.0, 0.0));
    let archived = shown(MessageState::Archived).await;
    assert_eq!(workflows.restore(&archived, &ada).await.unwrap(), Intervened::Done);
    assert_eq!(bill(&wire), (1, 9.0, 0.0));
    let dead = shown(MessageState::Dead).await;
    assert_eq!(workflows.redrive(&dead, &ada).await.unwrap(), Intervened::Done);
    assert_eq!(bill(&wire), (1, 7.0, 0.0));
    post.desk.bench.clock.advance(MINUTE);
    post.calls.next([lock_token_testing::CallFate::Declined]);
    assert_eq!(post.relay().0.run().await.unwrap().dead, 1);
    let dead = shown(MessageState::Dead).await;
    assert_eq!(workflows.discard(&dead, &ada).await.unwrap(), Intervened::Done);
    assert_eq!(bill(&wire), (1, 6.0, 0.0));
}
