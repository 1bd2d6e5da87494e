//! What reports, gauges and beats say of a run is what happened.

use std::sync::Mutex;

use lock_token_testing::{CallFate, Exchange};
use locker::inbox::Delivery;
use locker::message::MessageState;
use locker::operator::{Console, Machine};
use locker::{Class, Failure, Intervened};
use locker_tests::{DAY, Fate, Recorded};

use crate::consumer::{consumer, delivery, in_state, the_dead};
use crate::post::{Letters, MINUTE, Post};

use super::{ada, commit, is_next_page};

// ---- the relay

#[tokio::test(start_paused = true)]
async fn sent_and_dead_messages_are_counted_for_each_sender() {
    let recorded = Recorded::start();
    let post = Post::new().await;
    let (workflows, _) = post.sender();
    workflows.start(&Letters::in_order(2), "letters/1", &()).run().await.unwrap();
    assert_eq!(recorded.take().count("messagesSent"), 2);
    commit(&post, [("told".to_owned(), "order/1".to_owned()), ("refused".to_owned(), "order/2".to_owned())])
        .await;
    post.calls.matching(|what| what.contains("refused"), CallFate::Declined);
    post.desk.bench.clock.advance(MINUTE);
    let done = post.relay().0.run().await.unwrap();
    assert_eq!((done.sent, done.dead), (1, 1), "{done:?}");
    let metrics = recorded.take();
    assert_eq!((metrics.count("messagesSent"), metrics.count("messagesDead")), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn the_gauges_are_of_what_they_say() {
    let recorded = Recorded::start();
    let post = Post::new().await;
    let (consumer, workflows, _) = consumer(&post);
    for body in ["a/1", "b/1", "c/1"] {
        consumer.dead_letter(&delivery(body), Class::Permanent, "no").await.unwrap();
    }
    post.desk.bench.clock.advance(DAY);
    let dead = the_dead(&workflows).await.remove(0);
    assert_eq!(workflows.redrive(&dead, &ada()).await.unwrap(), Intervened::Done);
    post.desk.bench.clock.advance(MINUTE);
    assert!(post.relay().0.run().await.unwrap().finished);
    let metrics = recorded.take();
    assert_eq!(metrics.gauge("deadMessages"), Some(2.0));
    assert_eq!(metrics.gauge("oldestWaitingMessage"), Some(60.0));
    assert_eq!(metrics.gauge("relayFinished"), Some(1.0));
}

#[tokio::test(start_paused = true)]
async fn a_run_that_saw_not_all_is_written_down_so() {
    let post = Post::new().await;
    commit(&post, (0..3).map(|n| ("told".to_owned(), format!("order/{n}")))).await;
    post.desk.bench.clock.advance(MINUTE);
    assert!(!post.relay().0.limit(1).run().await.unwrap().finished);
    let (workflows, _) = post.desk.machine();
    let runs = async || {
        let status = Console::new().workflows(&workflows).status().await.unwrap();
        status.runs.into_iter().find(|run| run.machine == Machine::Relay).unwrap()
    };
    assert!(!runs().await.finished);
    assert!(post.relay().0.run().await.unwrap().finished);
    assert!(runs().await.finished);
}

#[tokio::test(start_paused = true)]
async fn failed_requests_of_relay_and_consumer_are_reported() {
    // The second page of what is due.
    let post = Post::new().await;
    commit(&post, (0..120).map(|n| ("told".to_owned(), format!("order/{n}")))).await;
    post.desk.bench.clock.advance(MINUTE);
    let (relay, wire) = post.relay();
    wire.matching(is_next_page, Fate::Denied);
    let done = relay.run().await.unwrap();
    assert!(done.stopped_by.is_some() && !done.finished, "{done:?}");
    // The messages of a subject.
    let post = Post::new().await;
    commit(&post, [("told".to_owned(), "order/1".to_owned())]).await;
    post.desk.bench.clock.advance(MINUTE);
    let (relay, wire) = post.relay();
    wire.matching(
        |it| it.operation == "Query" && it.request.to_string().contains("begins_with"),
        Fate::Denied,
    );
    let done = relay.run().await.unwrap();
    assert_eq!((done.sent, done.failed), (0, 1), "{done:?}");
    // What came of a message.
    let (relay, wire) = post.relay();
    post.calls.next([CallFate::Refused]);
    let puts = Mutex::new(0);
    let is_second = move |it: &Exchange| {
        let mut puts = puts.lock().unwrap();
        *puts += usize::from(it.operation == "PutItem");
        it.operation == "PutItem" && *puts == 2
    };
    wire.matching(is_second, Fate::Denied);
    let done = relay.run().await.unwrap();
    assert_eq!((done.waiting, done.failed), (1, 1), "{done:?}");

    // The same of a consumer.
    let post = Post::new().await;
    let (consumer, workflows, wire) = consumer(&post);
    for number in 0..120 {
        consumer.dead_letter(&Delivery::new(number.to_string(), "x"), Class::Permanent, "no").await.unwrap();
    }
    for state in [MessageState::Dead; 2] {
        for dead in in_state(&workflows, state).await {
            assert_eq!(workflows.redrive(&dead, &ada()).await.unwrap(), Intervened::Done);
        }
    }
    let waiting = in_state(&workflows, MessageState::Waiting).await.len();
    post.desk.bench.clock.advance(MINUTE);
    if waiting >= 100 {
        wire.matching(is_next_page, Fate::Denied);
        let later = async |_: Delivery| Err(Failure::transient("later".to_owned()));
        let done = consumer.run(later).await.unwrap();
        assert!(done.stopped_by.is_some() && !done.finished, "{done:?}");
    }
    post.desk.bench.clock.advance(MINUTE);
    wire.let_through();
    let (consumer, _, wire) = crate::consumer::consumer(&post);
    wire.matching(
        |it| it.operation == "Query" && it.request.to_string().contains("begins_with"),
        Fate::Denied,
    );
    let done = consumer.run(async |_: Delivery| Ok::<_, Failure>(())).await.unwrap();
    assert_eq!(done.failed, 1, "{done:?}");
}

#[tokio::test(start_paused = true)]
async fn an_outcome_that_a_consumer_cannot_write_is_said() {
    let post = Post::new().await;
    let (consumer, workflows, wire) = consumer(&post);
    consumer.dead_letter(&delivery("a/1"), Class::Permanent, "no").await.unwrap();
    let dead = the_dead(&workflows).await.remove(0);
    assert_eq!(workflows.redrive(&dead, &ada()).await.unwrap(), Intervened::Done);
    post.desk.bench.clock.advance(MINUTE);
    let puts = Mutex::new(0);
    let is_second = move |it: &Exchange| {
        let mut puts = puts.lock().unwrap();
        *puts += usize::from(it.operation == "PutItem");
        it.operation == "PutItem" && *puts == 2
    };
    wire.matching(is_second, Fate::Denied);
    let done = consumer.run(async |_: Delivery| Err(Failure::transient("later".to_owned()))).await.unwrap();
    assert_eq!((done.waiting, done.failed), (1, 1), "{done:?}");
}

#[tokio::test(start_paused = true)]
async fn a_relay_that_cannot_even_list_is_not_finished() {
    let recorded = Recorded::start();
    let post = Post::new().await;
    let (relay, wire) = post.relay();
    wire.always(Fate::Denied);
    assert!(relay.run().await.is_err());
    assert_eq!(recorded.take().gauge("relayFinished"), Some(0.0));
}
