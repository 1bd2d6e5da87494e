//! The relay: what was left is sent, in order, by one relay at a time, and what cannot be sent is
//! said.

use std::time::Duration;

use lock_token_testing::{Broker, CallFate, Exchange};
use locker::message::{MessageState, NewMessage, Router};
use locker::relay::Relay;
use locker::workflow::SentReport;
use locker::{Intervened, Operator};
use locker_tests::Fate;

use crate::post::{Letters, MINUTE, Post};

/// Workflows that leave all their messages for the relay.
async fn commit(post: &Post, keys: std::ops::Range<u32>, code: &Letters) {
    let (workflows, _) = post.desk.machine();
    for key in keys {
        workflows.start(code, ("letters", key), &()).run().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn due_messages_are_sent_in_the_order_of_their_commits() {
    let post = Post::new().await;
    commit(&post, 0..3, &Letters::in_order(6)).await;
    let early = post.relay().0.run().await.unwrap();
    assert_eq!((early.sent, early.finished), (0, true), "its process may be sending it");
    post.desk.bench.clock.advance(MINUTE);
    let done = post.relay().0.run().await.unwrap();
    assert_eq!((done.sent, done.waiting, done.dead, done.finished), (18, 0, 0, true), "{done:?}");
    for key in 0..3 {
        let of = |it: &locker::message::Envelope| it.subject == format!("letters/{key}");
        let topics: Vec<_> = post.broker.took().into_iter().filter(of).map(|it| it.topic).collect();
        assert_eq!(topics, ["told/0", "told/1", "told/2", "told/3", "told/4", "told/5"]);
    }
    assert_eq!(post.unsent().await, 0);
    let again = post.relay().0.run().await.unwrap();
    assert_eq!((again.sent, again.taken_elsewhere), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn message_that_is_not_accepted_blocks_its_subject_only() {
    for fate in [CallFate::Refused, CallFate::Lost, CallFate::ReplyLost] {
        let post = Post::new().await;
        let code = Letters(vec![
            ("a/1", None),
            ("a/2", None),
            ("b/1", Some("b")),
            ("a/3", None),
            ("b/2", Some("b")),
        ]);
        commit(&post, 0..1, &code).await;
        post.calls.matching(|what| what.contains("a/2"), fate);
        post.desk.bench.clock.advance(MINUTE);
        let done = post.relay().0.run().await.unwrap();
        assert_eq!((done.sent, done.waiting), (3, 1), "{fate:?}: {done:?}");
        let of = |letter: &str| {
            post.topics_once().into_iter().filter(|it| it.starts_with(letter)).collect::<Vec<_>>()
        };
        assert_eq!(of("b"), ["b/1", "b/2"]);
        assert_eq!(of("a").len(), if fate == CallFate::ReplyLost { 2 } else { 1 });
        post.settle().await;
        assert_eq!(of("a"), ["a/1", "a/2", "a/3"]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_message_that_is_refused_is_dead_and_those_behind_it_wait() {
    let post = Post::new().await;
    commit(&post, 0..1, &Letters::in_order(3)).await;
    post.calls.matching(|what| what.contains("told/1"), CallFate::Declined);
    post.desk.bench.clock.advance(MINUTE);
    let done = post.relay().0.run().await.unwrap();
    assert_eq!((done.sent, done.dead), (1, 1), "{done:?}");
    post.desk.bench.clock.advance(MINUTE * 600);
    let done = post.relay().0.run().await.unwrap();
    assert_eq!((done.sent, done.dead, done.finished), (0, 0, true), "{done:?}");
    let view = post.desk.view("letters/0").await;
    let states: Vec<_> = view.messages().iter().map(|it| (it.topic(), it.state())).collect();
    assert_eq!(states, [("told/1", MessageState::Dead), ("told/2", MessageState::Unsent)]);
    assert!(view.messages()[0].cause().unwrap().contains("declined"));
}

#[tokio::test(start_paused = true)]
async fn after_three_days_of_trying_a_message_is_dead() {
    let post = Post::new().await;
    commit(&post, 0..1, &Letters::in_order(1)).await;
    post.calls.always(CallFate::Refused);
    let (mut hours, mut dead, mut tries) = (0, 0, 0);
    while dead == 0 {
        assert!(hours < 80, "it is never dead");
        post.desk.bench.clock.advance(MINUTE * 60);
        let done = post.relay().0.run().await.unwrap();
        (hours, dead, tries) = (hours + 1, dead + done.dead, tries + done.waiting + done.dead);
    }
    assert_eq!(
        (hours, tries),
        (73, 73),
        "since the first try, and a pause never grows beyond a quarter of an hour"
    );
    let view = post.desk.view("letters/0").await;
    assert_eq!((view.messages()[0].state(), view.messages()[0].attempts()), (MessageState::Dead, 73));
    // An operator gives it as long again.
    let (workflows, _) = post.desk.machine();
    let ada = Operator::new("ada", "the queue is back").unwrap();
    assert_eq!(workflows.redrive(&view.messages()[0], &ada).await.unwrap(), Intervened::Done);
    post.desk.bench.clock.advance(MINUTE);
    let done = post.relay().0.run().await.unwrap();
    assert_eq!((done.waiting, done.dead), (1, 0), "{done:?}");
}

#[tokio::test(start_paused = true)]
async fn two_relays_send_no_message_of_a_subject_side_by_side() {
    let post = Post::new().await;
    commit(&post, 0..1, &Letters::in_order(3)).await;
    post.desk.bench.clock.advance(MINUTE);
    // The first is suspended in the middle of its first message.
    post.calls.next([CallFate::DiesBefore]);
    let (stopped, _) = post.relay();
    let stopped = tokio::spawn(async move { stopped.run().await.map(drop) });
    while post.calls.take().is_empty() {
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
    let second = post.relay().0.run().await.unwrap();
    assert_eq!((second.sent, second.finished), (0, true), "{second:?}");
    stopped.abort();
    post.desk.bench.clock.advance(MINUTE);
    assert_eq!(post.relay().0.run().await.unwrap().sent, 3, "its lease has ended");
    assert_eq!(post.topics(), ["told/0", "told/1", "told/2"]);
}

#[tokio::test(start_paused = true)]
async fn a_topic_without_a_route_is_said_and_left() {
    let post = Post::new().await;
    commit(&post, 0..2, &Letters(vec![("known/1", None), ("odd/1", Some("odd"))])).await;
    post.desk.bench.clock.advance(MINUTE);
    let (workflows, _) = post.desk.machine();
    let router = Router::new().route("known/*", post.broker.clone());
    let done = Relay::new(&workflows, router).run().await.unwrap();
    assert_eq!((done.sent, done.unknown.get("odd/1")), (2, Some(&2)), "{done:?}");
    post.settle().await;
    assert_eq!(post.topics(), ["known/1", "known/1", "odd/1", "odd/1"]);
}

#[tokio::test(start_paused = true)]
async fn a_late_report_of_a_former_message_deletes_no_other() {
    let post = Post::new().await;
    commit(&post, 0..1, &Letters::in_order(1)).await;
    let (workflows, _) = post.desk.machine();
    let former = post.desk.view("letters/0").await;
    assert_eq!(workflows.sent(&former.messages()[0]).await.unwrap(), SentReport::Deleted);
    post.desk.bench.clock.advance(MINUTE * 60 * 24 * 31);
    let completer = locker::workflow::Completer::new(&workflows);
    assert_eq!(locker::workflow::Reaper::new(&completer).run().await.unwrap().deleted, 1);
    commit(&post, 0..1, &Letters::in_order(1)).await;
    // The same place, the same topic, and another message.
    assert_eq!(workflows.sent(&former.messages()[0]).await.unwrap(), SentReport::Gone);
    let now = post.desk.view("letters/0").await;
    assert_eq!(now.messages().len(), 1);
    assert_ne!(now.messages()[0].id(), former.messages()[0].id());
}

#[tokio::test(start_paused = true)]
async fn all_due_messages_without_a_route_are_counted() {
    let post = Post::new().await;
    let (workflows, _) = post.desk.machine();
    for number in 0..3 {
        let told = NewMessage::new("told/0", &number).subject("order/0");
        post.commit([workflows.outbox().message(told).unwrap()]).await;
    }
    post.desk.bench.clock.advance(MINUTE);
    let done = Relay::new(&workflows, Router::new()).run().await.unwrap();
    assert_eq!(done.unknown["told/0"], 3, "{done:?}");
}

#[tokio::test(start_paused = true)]
async fn message_that_is_not_due_is_not_counted_as_skipped() {
    let post = Post::new().await;
    let (workflows, _) = post.desk.machine();
    let commit = async |subject: &str| {
        let told = NewMessage::new("told/0", &0).subject(subject);
        post.commit([workflows.outbox().message(told).unwrap()]).await;
    };
    for number in 0..6 {
        commit(&format!("order/{number}")).await;
        post.desk.bench.clock.advance(Duration::from_secs(1));
    }
    post.desk.bench.clock.advance(MINUTE);
    // Three more of the last one, a moment ago: not due.
    for _ in 0..3 {
        commit("order/5").await;
    }
    post.calls.always(CallFate::Lost);
    let relay = post.relay().0.concurrency(1);
    let done = relay.run().await.unwrap();
    assert_eq!((done.waiting, done.target_down), (5, 1), "{done:?}");
}

/// A subject has messages of two targets. The index shows the messages of the target that is down,
/// and a read of the subject shows them again.
#[tokio::test(start_paused = true)]
async fn message_whose_target_is_down_is_counted_once() {
    let post = Post::new().await;
    let (workflows, wire) = post.desk.machine();
    let commit = async |topic: &str, subject: &str| {
        let message = NewMessage::new(topic, &0).subject(subject);
        post.commit([workflows.outbox().message(message).unwrap()]).await;
    };
    // A page of the index.
    for number in 0..100 {
        commit("down", &format!("order/{number}")).await;
    }
    post.desk.bench.clock.advance(Duration::from_secs(1));
    for topic in ["down", "down", "down", "sent"] {
        commit(topic, "mixed").await;
    }
    post.desk.bench.clock.advance(MINUTE);
    post.calls.always(CallFate::Refused);
    let router = Router::new().route("down", post.broker.clone()).route("sent", Broker::new());
    let relay = Relay::new(&workflows, router).concurrency(1);
    // The target is down before the second page is read.
    let is_later_page = |it: &Exchange| it.operation == "Query" && !it.request["ExclusiveStartKey"].is_null();
    wire.matching(is_later_page, Fate::HeldBefore);
    let run = tokio::spawn(async move { relay.run().await });
    tokio::time::sleep(Duration::from_millis(50)).await;
    wire.let_through();
    let done = run.await.unwrap().unwrap();
    assert_eq!((done.sent, done.waiting, done.target_down), (0, 5, 99), "{done:?}");
}
