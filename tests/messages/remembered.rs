//! For how long a message is known: from its sender's time on, while it is in the table, and for a
//! window after it left.

use std::time::Duration;

use chrono::TimeDelta;
use locker::inbox::{Incoming, Received, Taken};
use locker::message::MessageState;
use locker::{Class, Clock as _, Intervened};
use locker_tests::{DAY, Fate, ada};

use crate::consumer::{Warehouse, consumer, delivery, in_state, the_dead};
use crate::inbox::{count, packed};
use crate::post::{MINUTE, Post};

#[tokio::test(start_paused = true)]
async fn a_message_of_a_sender_whose_clock_is_ahead_is_taken_once() {
    for ahead in [Duration::from_secs(3600), DAY * 2, DAY * 800] {
        let post = Post::new().await;
        let inbox = post.sender().0.inbox("packer").unwrap();
        let mut message = Incoming::new("/orders", "1", "order.placed", "1");
        message.time = Some(post.desk.bench.clock.now() + TimeDelta::from_std(ahead).unwrap());
        let take = async || inbox.atomic(&message).update(packed(&post)).commit().await;
        assert_eq!(take().await.unwrap(), Taken::Now);
        post.desk.bench.clock.advance(DAY * 30 + ahead - MINUTE);
        assert_eq!(take().await.unwrap(), Taken::Before, "{ahead:?}");
        post.desk.bench.clock.advance(MINUTE * 2);
        assert!(
            take().await.unwrap_err().to_string().contains("it is unknown whether the message was taken")
        );
        assert_eq!(count(&post).await, 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_copy_is_known_for_the_window_after_its_message_was_handled_or_discarded() {
    for (state, redrives) in
        [(MessageState::Dead, true), (MessageState::Dead, false), (MessageState::Archived, false)]
    {
        let post = Post::new().await;
        let (consumer, workflows, _) = consumer(&post);
        let warehouse = Warehouse::refusing(&["a/1"]);
        let hear =
            async || consumer.receive(&delivery("a/1"), async |it| warehouse.pack(it).await).await.unwrap();
        assert_eq!(hear().await, Received::DeadLettered);
        warehouse.refuse(&[]);
        if state == MessageState::Archived {
            let dead = the_dead(&workflows).await.remove(0);
            assert_eq!(workflows.archive(&dead, &ada()).await.unwrap(), Intervened::Done);
        }
        post.desk.bench.clock.advance(DAY * 31);
        assert_eq!(hear().await, Received::Duplicate);
        let kept = in_state(&workflows, state).await.remove(0);
        let done = if redrives {
            workflows.redrive(&kept, &ada()).await
        } else {
            workflows.discard(&kept, &ada()).await
        };
        assert_eq!(done.unwrap(), Intervened::Done);
        post.desk.bench.clock.advance(MINUTE);
        consumer.run(async |it| warehouse.pack(it).await).await.unwrap();
        let said = format!("{state:?}, redrives: {redrives}");
        for pause in [MINUTE, DAY * 30 - MINUTE * 4] {
            post.desk.bench.clock.advance(pause);
            assert_eq!(hear().await, Received::Duplicate, "{said}");
        }
        assert_eq!(warehouse.packed().len(), usize::from(redrives), "{said}");
        post.desk.bench.clock.advance(MINUTE * 4);
        assert_eq!(hear().await, Received::Done, "{said}");
    }
}

#[tokio::test(start_paused = true)]
async fn dead_letter_with_a_later_message_is_remembered() {
    let post = Post::new().await;
    let (workflows, _) = post.desk.machine();
    let consumer = workflows.inbox("packer").unwrap().window(MINUTE).consumer();
    let warehouse = Warehouse::refusing(&["a/1"]);
    let hear = async |body: &str| {
        consumer.receive(&delivery(body), async |it| warehouse.pack(it).await).await.unwrap()
    };
    assert_eq!((hear("a/1").await, hear("a/2").await), (Received::DeadLettered, Received::Queued));
    post.desk.bench.clock.advance(MINUTE * 60);
    warehouse.refuse(&[]);
    // Such as by an import of the queue's dead-letter queue.
    let imported = consumer.dead_letter(&delivery("a/1"), Class::InDoubt, "it ended without a word").await;
    assert_eq!((imported.unwrap(), hear("a/2").await), (Received::Duplicate, Received::Duplicate));
    for dead in the_dead(&workflows).await {
        assert_eq!(workflows.redrive(&dead, &ada()).await.unwrap(), Intervened::Done);
    }
    post.desk.bench.clock.advance(MINUTE);
    consumer.run(async |it| warehouse.pack(it).await).await.unwrap();
    assert_eq!(warehouse.packed(), ["a/1", "a/2"]);
}

/// What is remembered has no end until it is written that its message is gone.
#[tokio::test(start_paused = true)]
async fn a_copy_is_known_also_if_it_could_not_be_written_that_its_message_is_gone() {
    let post = Post::new().await;
    let (consumer, workflows, wire) = consumer(&post);
    let warehouse = Warehouse::refusing(&["a/1"]);
    let hear =
        async || consumer.receive(&delivery("a/1"), async |it| warehouse.pack(it).await).await.unwrap();
    assert_eq!(hear().await, Received::DeadLettered);
    warehouse.refuse(&[]);
    let dead = the_dead(&workflows).await.remove(0);
    assert_eq!(workflows.redrive(&dead, &ada()).await.unwrap(), Intervened::Done);
    post.desk.bench.clock.advance(MINUTE);
    wire.matching(|it| it.operation == "PutItem" && it.request.to_string().contains("heard/"), Fate::Denied);
    let done = consumer.run(async |it| warehouse.pack(it).await).await.unwrap();
    assert_eq!((done.handled, done.failed, post.unsent().await), (1, 0, 0), "{done:?}");
    post.desk.bench.clock.advance(DAY * 400);
    assert_eq!((hear().await, warehouse.packed().len()), (Received::Duplicate, 1));
}

/// A machine with a wrong clock had it forgotten.
#[tokio::test(start_paused = true)]
async fn a_discarded_message_is_known_also_if_nothing_was_remembered_of_it() {
    let post = Post::new().await;
    let (consumer, workflows, _) = consumer(&post);
    let warehouse = Warehouse::refusing(&["a/1"]);
    let hear =
        async || consumer.receive(&delivery("a/1"), async |it| warehouse.pack(it).await).await.unwrap();
    assert_eq!(hear().await, Received::DeadLettered);
    warehouse.refuse(&[]);
    for item in post.desk.items().await {
        if item["item"].as_s().unwrap().starts_with("heard/") {
            let delete = post.desk.bench.client.delete_item().table_name(&post.desk.table);
            let delete = delete.key("workflow", item["workflow"].clone()).key("item", item["item"].clone());
            delete.send().await.unwrap();
        }
    }
    let dead = the_dead(&workflows).await.remove(0);
    assert_eq!(workflows.discard(&dead, &ada()).await.unwrap(), Intervened::Done);
    post.desk.bench.clock.advance(DAY * 29);
    assert_eq!((hear().await, warehouse.packed().len()), (Received::Duplicate, 0));
    post.desk.bench.clock.advance(DAY * 2);
    assert_eq!(hear().await, Received::Done);
}
