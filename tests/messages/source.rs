//! The commit stores the source with the message, and no process sends it under another source.

use std::sync::Arc;

use lock_token_testing::CallFate;
use locker::Intervened;
use locker::inbox::{Incoming, Taken};
use locker::message::{MessageState, NewMessage};
use locker::relay::Relay;
use locker::workflow::{Builder, Workflows};
use locker_tests::{Wire, ada};

use crate::consumer::the_dead;
use crate::post::{Letters, MINUTE, Post};

/// Workflows on a machine of their own, which set their own source or none.
fn builder(post: &Post) -> (Builder, Wire) {
    let wire = Wire::default();
    let builder = Workflows::builder(&post.desk.bench.engine.client_over(&wire), &post.desk.table);
    (builder.with_clock(Arc::new(post.desk.bench.clock.clone())), wire)
}

/// The sources under which the broker received messages.
fn sources(post: &Post) -> Vec<String> {
    post.broker.took().into_iter().map(|envelope| envelope.source).collect()
}

fn told() -> NewMessage {
    NewMessage::new("told", &7).subject("order/7")
}

#[tokio::test(start_paused = true)]
async fn message_sent_again_by_another_relay_is_taken_once() {
    let post = Post::new().await;
    let (workflows, _) = post.sender();
    post.calls.next([CallFate::ReplyLost]);
    workflows.start(&Letters::in_order(1), "letters/1", &()).run().await.unwrap();
    post.desk.bench.clock.advance(MINUTE);
    let renamed = builder(&post).0.source("/letter").build().unwrap();
    assert_eq!(Relay::new(&renamed, post.router()).run().await.unwrap().sent, 1);
    assert_eq!(sources(&post), ["/letters", "/letters"]);
    let inbox = workflows.inbox("packer").unwrap();
    let mut taken = Vec::new();
    for envelope in post.broker.took() {
        let message = Incoming::parse(&envelope.to_json().unwrap()).unwrap();
        taken.push(inbox.atomic(&message).commit().await.unwrap());
    }
    assert_eq!(taken, [Taken::Now, Taken::Before]);
}

/// A relay needs no source of its own, and neither does an operator.
#[tokio::test(start_paused = true)]
async fn each_way_to_commit_stores_the_source_of_its_sender() {
    let post = Post::new().await;
    let sender = builder(&post).0.source("/shop").build().unwrap();
    post.commit([sender.outbox().message(told()).unwrap()]).await;
    let received = Incoming::new("/legacy", "1", "order.placed", "7");
    let inbox = sender.inbox("packer").unwrap();
    inbox.atomic(&received).send(told()).commit().await.unwrap().done().unwrap();
    sender.start(&Letters::in_order(1), "letters/1", &()).run().await.unwrap();
    post.desk.bench.clock.advance(MINUTE);
    let plain = builder(&post).0.build().unwrap();
    for listed in plain.messages(MessageState::Unsent).fetch().await.unwrap().items {
        assert_eq!(plain.message(&listed.work).await.unwrap().unwrap().source(), "/shop");
    }
    post.calls.next([CallFate::Declined]);
    let relay = Relay::new(&plain, post.router());
    assert_eq!(relay.run().await.unwrap().dead, 1);
    let redriven = plain.redrive(&the_dead(&plain).await.remove(0), &ada()).await.unwrap();
    assert_eq!(redriven, Intervened::Done);
    post.settle().await;
    assert_eq!(sources(&post), ["/shop"; 3]);
}

#[tokio::test(start_paused = true)]
async fn message_of_a_sender_without_a_source_is_refused_before_anything_is_written() {
    let post = Post::new().await;
    let (without, wire) = builder(&post);
    let workflows = without.build().unwrap();
    let is_told = |error: &dyn std::error::Error| {
        let error = error.to_string();
        assert!(
            error.contains("the message has no source, ") && error.contains("Builder::source"),
            "{error}"
        );
    };
    is_told(&workflows.outbox().message(told()).unwrap_err());
    let received = Incoming::new("/legacy", "1", "order.placed", "7");
    let inbox = workflows.inbox("packer").unwrap();
    is_told(&inbox.atomic(&received).send(told()).commit().await.unwrap_err());
    assert_eq!(wire.count(), 0);
    let ended = workflows.start(&Letters::in_order(1), "letters/1", &()).run().await;
    assert!(ended.is_ok());
    let view = post.desk.view("letters/1").await;
    assert!(view.messages().is_empty() && view.steps().is_empty(), "{view:?}");
    // Whoever sends at once commits messages.
    is_told(&builder(&post).0.sending(post.router()).build().unwrap_err());
    for source in ["", "/or ders", "/orders\n"] {
        let error = builder(&post).0.source(source).build().unwrap_err().to_string();
        assert!(error.starts_with("a source has 1 to 256 "), "{error}");
    }
}
