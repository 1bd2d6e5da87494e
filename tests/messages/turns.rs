//! What is offered for a message is what happens, also if others of its group are before it.

use lock_token_testing::CallFate;
use locker::message::{MessageState, NewMessage};
use locker::operator::Verb;
use locker::workflow::{Message, SentReport, Workflows};
use locker::{Class, Intervened};
use locker_tests::ada;

use crate::consumer::{Warehouse, consumer, delivery, in_state, the_dead};
use crate::post::{MINUTE, Post};

/// One of those that are dead.
async fn dead(workflows: &Workflows, body: &str) -> Message {
    the_dead(workflows).await.into_iter().find(|it| it.body() == body).unwrap()
}

#[tokio::test(start_paused = true)]
async fn one_behind_a_dead_one_is_handled_in_its_turn_as_was_said() {
    let post = Post::new().await;
    let (consumer, workflows, _) = consumer(&post);
    let warehouse = Warehouse::default();
    // As an import of a FIFO dead-letter queue makes them.
    for body in ["a/1", "a/2", "a/3"] {
        consumer.dead_letter(&delivery(body), Class::InDoubt, "without a word").await.unwrap();
        post.desk.bench.clock.advance(MINUTE);
    }
    let run = async || {
        post.desk.bench.clock.advance(MINUTE);
        consumer.run(async |it| warehouse.pack(it).await).await.unwrap().handled
    };
    let offered = |message: &Message, verb| {
        message.choices(post.desk.now()).into_iter().find(|(offered, _)| *offered == verb).unwrap().1
    };
    let second = dead(&workflows, "a/2").await;
    let said = "packer handles it again (its handler may have done it, or a part) after the earlier messages of its \
                group, and later messages wait for it";
    assert_eq!(offered(&second, Verb::Redrive), said);
    assert_eq!(workflows.redrive(&second, &ada()).await.unwrap(), Intervened::Done);
    assert_eq!(run().await, 0);

    let first = dead(&workflows, "a/1").await;
    for verb in [Verb::Archive, Verb::Discard] {
        let said = offered(&first, verb);
        assert!(said.ends_with("; it blocks no message"), "{said}");
    }
    assert_eq!(workflows.archive(&first, &ada()).await.unwrap(), Intervened::Done);
    assert_eq!((run().await, warehouse.packed()), (1, vec!["a/2".to_owned()]));
    // The last one is dead still, and nobody said that it follows.
    assert_eq!(the_dead(&workflows).await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_report_that_it_was_sent_says_what_became_of_the_message() {
    let post = Post::new().await;
    let (workflows, _) = post.desk.machine();
    let told = NewMessage::new("told/0", &0).subject("order/0");
    post.commit([workflows.outbox().message(told).unwrap()]).await;
    let seen = in_state(&workflows, MessageState::Unsent).await.remove(0);
    // A relay takes it meanwhile, and hears nothing.
    post.desk.bench.clock.advance(MINUTE);
    post.calls.next([CallFate::Lost]);
    post.relay().0.run().await.unwrap();
    assert_eq!(workflows.sent(&seen).await.unwrap(), SentReport::Changed);
    assert_eq!(post.unsent().await, 1);
    let now = in_state(&workflows, MessageState::Unsent).await.remove(0);
    assert_eq!(workflows.sent(&now).await.unwrap(), SentReport::Deleted);
    assert_eq!(post.unsent().await, 0);
    for again in [seen, now] {
        assert_eq!(workflows.sent(&again).await.unwrap(), SentReport::Gone);
    }
}
