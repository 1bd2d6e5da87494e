//! The inbox: each message is taken once, with all that belongs to it, in the order that its
//! consumer asks for.

use std::collections::HashMap;

use aws_sdk_dynamodb::types::{AttributeValue, Put, Update};
use lock_token_testing::Fate;
use locker::inbox::{Inbox, Incoming, ReceiveError, Taken};
use locker::message::{Envelope, NewMessage};
use locker_tests::{DAY, Wire};

use crate::post::{Letters, MINUTE, Post};

/// An order that is to be packed, as it arrives.
fn order(id: &str, number: u64) -> Incoming {
    let mut message = Incoming::new("/orders", id, "order.placed", number.to_string());
    message.subject = Some("order/7".to_owned());
    message.sequence = Some(format!("{number:028}"));
    message
}

fn inbox(post: &Post) -> (Inbox, Wire) {
    let (workflows, wire) = post.sender();
    (workflows.inbox("packer").unwrap(), wire)
}

fn text(text: &str) -> AttributeValue {
    AttributeValue::S(text.to_owned())
}

/// Counts a row up, so that a second time shows.
pub(super) fn packed(post: &Post) -> Update {
    let update = Update::builder().table_name(&post.desk.rows).key("id", text("packed"));
    let update = update.update_expression("ADD #count :one").expression_attribute_names("#count", "count");
    update.expression_attribute_values(":one", AttributeValue::N("1".to_owned())).build().unwrap()
}

pub(super) async fn count(post: &Post) -> u32 {
    let row = post.desk.row("packed").await;
    row.map_or(0, |row| row["count"].as_n().unwrap().parse().unwrap())
}

#[tokio::test(start_paused = true)]
async fn a_message_is_taken_once_with_its_rows_and_its_messages_and_again_by_another_consumer() {
    let post = Post::new().await;
    let (inbox, _) = inbox(&post);
    let message = order("1", 1);
    for (delivery, taken) in [(1, Taken::Now), (2, Taken::Before), (3, Taken::Before)] {
        let told = NewMessage::new("order/packed", &7).subject("order/7");
        let came_to = inbox.atomic(&message).update(packed(&post)).send(told).commit().await.unwrap();
        assert_eq!(came_to, taken, "delivery {delivery}");
        assert!(came_to.done().is_ok());
    }
    assert_eq!((count(&post).await, post.topics()), (1, vec!["order/packed".to_owned()]));
    assert_eq!(post.unsent().await, 0);
    let other = post.sender().0.inbox("books").unwrap();
    assert_eq!(other.atomic(&message).update(packed(&post)).commit().await.unwrap(), Taken::Now);
    // Another source may have the same ids.
    let mut same_id = message.clone();
    same_id.source = "/returns".to_owned();
    assert_eq!(inbox.atomic(&same_id).update(packed(&post)).commit().await.unwrap(), Taken::Now);
    assert_eq!(count(&post).await, 3);
}

#[tokio::test(start_paused = true)]
async fn a_message_is_remembered_for_its_window_and_no_longer() {
    let post = Post::new().await;
    let (inbox, _) = inbox(&post);
    let message = order("1", 1);
    let take = async |inbox: &Inbox| inbox.atomic(&message).commit().await.unwrap();
    assert_eq!(take(&inbox).await, Taken::Now);
    post.desk.bench.clock.advance(DAY * 30 - MINUTE);
    assert_eq!(take(&inbox).await, Taken::Before);
    post.desk.bench.clock.advance(MINUTE * 60);
    assert_eq!(take(&inbox).await, Taken::Now);
    let short = inbox.window(DAY);
    post.desk.bench.clock.advance(DAY * 31);
    assert_eq!(take(&short).await, Taken::Now);
    post.desk.bench.clock.advance(DAY + MINUTE * 60);
    assert_eq!(take(&short).await, Taken::Now);
}

#[tokio::test(start_paused = true)]
async fn the_latest_takes_what_is_newer_than_all_before() {
    let post = Post::new().await;
    let (inbox, _) = inbox(&post);
    let take = async |message: &Incoming| {
        inbox.atomic(message).latest().update(packed(&post)).commit().await.unwrap()
    };
    for (message, taken, packed) in [
        (order("b", 2), Taken::Now, 1),
        (order("a", 1), Taken::Superseded, 1),
        (order("b", 2), Taken::Before, 1),
        (order("d", 9), Taken::Now, 2),
        (order("c", 3), Taken::Superseded, 2),
        (order("b", 2), Taken::Superseded, 2),
    ] {
        assert_eq!(take(&message).await, taken, "{message:?}");
        assert_eq!(count(&post).await, packed);
    }
    let mut other = order("e", 1);
    other.subject = Some("order/8".to_owned());
    assert_eq!(take(&other).await, Taken::Now, "each subject has its own");
    // It is remembered for good.
    post.desk.bench.clock.advance(DAY * 400);
    assert_eq!(take(&order("c", 3)).await, Taken::Superseded);
}

#[tokio::test(start_paused = true)]
async fn without_gaps_each_number_is_taken_in_its_turn() {
    let post = Post::new().await;
    let (inbox, _) = inbox(&post);
    for (id, number, taken) in [
        ("b", 2, Taken::Early { expects: 1 }),
        ("a", 1, Taken::Now),
        ("c", 3, Taken::Early { expects: 2 }),
        ("b", 2, Taken::Now),
        ("b", 2, Taken::Before),
        ("a", 1, Taken::Superseded),
        ("c", 3, Taken::Now),
    ] {
        let message = order(id, number);
        let came_to = inbox.atomic(&message).gapless(number).update(packed(&post)).commit().await.unwrap();
        assert_eq!(came_to.done().is_ok(), !matches!(taken, Taken::Early { .. }));
        assert_eq!(came_to, taken, "{id}");
    }
    assert_eq!(count(&post).await, 3);
    // The fourth one was discarded: one of our own takes its place, for those behind it.
    let fifth = order("e", 5);
    let early = inbox.atomic(&fifth).gapless(5).commit().await.unwrap();
    assert_eq!(early, Taken::Early { expects: 4 });
    let mut instead = Incoming::new(fifth.source.clone(), "discarded 4", "order.discarded", "null");
    instead.subject = fifth.subject.clone();
    assert_eq!(inbox.atomic(&instead).gapless(4).commit().await.unwrap(), Taken::Now);
    assert_eq!(inbox.atomic(&fifth).gapless(5).commit().await.unwrap(), Taken::Now);
}

#[tokio::test(start_paused = true)]
async fn invalid_message_is_refused_with_its_cause_before_any_write() {
    let post = Post::new().await;
    let (inbox, wire) = inbox(&post);
    let (mut without_subject, mut without_sequence) = (order("1", 1), order("1", 1));
    without_subject.subject = None;
    without_sequence.sequence = None;
    let many = (0..100).fold(inbox.atomic(&without_subject), |it, n| {
        it.put(Put::builder().table_name("t").item("id", text(&n.to_string())).build().unwrap())
    });
    for (receive, says) in [
        (inbox.atomic(&without_subject).latest(), "it has no subject"),
        (inbox.atomic(&without_subject).gapless(1), "it has no subject"),
        (inbox.atomic(&without_sequence).latest(), "its sequence \"\" is no number"),
        (inbox.atomic(&without_sequence).gapless(0), "the first one is 1"),
        (inbox.atomic(&without_sequence).send(NewMessage::new("a b", &1)), "a topic has"),
        (many, "a transaction takes 100 actions"),
    ] {
        let error = receive.commit().await.unwrap_err();
        assert!(error.to_string().contains(says), "{says}: {error}");
        assert!(!matches!(error, ReceiveError::Locker(_)));
    }
    assert_eq!(wire.count(), 0);
    assert!(post.sender().0.inbox("a packer").unwrap_err().to_string().contains("printable ASCII"));
}

/// One refused condition leaves nothing behind, and the message can be taken afterwards.
#[tokio::test(start_paused = true)]
async fn conditions_that_fail_are_named_and_the_message_is_not_taken() {
    let post = Post::new().await;
    let (inbox, _) = inbox(&post);
    let message = order("1", 1);
    let new = || {
        let put = Put::builder().table_name(&post.desk.rows).item("id", text("row"));
        put.condition_expression("attribute_not_exists(id)").build().unwrap()
    };
    post.desk
        .bench
        .client
        .put_item()
        .table_name(&post.desk.rows)
        .item("id", text("row"))
        .send()
        .await
        .unwrap();
    let told = NewMessage::new("order/packed", &7);
    let take = async || {
        inbox.atomic(&message).update(packed(&post)).put(new()).send(told.clone()).commit().await.unwrap()
    };
    assert_eq!(take().await, Taken::Refused { writes: vec![1] });
    assert!(take().await.done().is_err());
    assert_eq!((count(&post).await, post.unsent().await, post.topics().len()), (0, 0, 0));
    post.desk
        .bench
        .client
        .delete_item()
        .table_name(&post.desk.rows)
        .key("id", text("row"))
        .send()
        .await
        .unwrap();
    assert_eq!(take().await, Taken::Now);
    // Taken before counts more than what its writes find.
    assert_eq!(take().await, Taken::Before);
    assert_eq!((count(&post).await, post.topics().len()), (1, 1));
}

/// Every fault at every request; then the queue delivers it again, as it does until it is
/// acknowledged.
#[tokio::test(start_paused = true)]
async fn message_is_processed_once_and_answered_under_every_fault() {
    const FATES: [Fate; 8] = [
        Fate::Lost,
        Fate::ReplyLost,
        Fate::ErrorBefore,
        Fate::ErrorAfter,
        Fate::Throttled,
        Fate::Conflict,
        Fate::Garbled,
        Fate::Stalls,
    ];
    let mut requests = 0;
    for n in 1..=3 {
        for fate in FATES {
            let post = Post::new().await;
            let (inbox, wire) = inbox(&post);
            wire.nth(n, fate);
            let message = order("1", 1);
            for _ in 0..20 {
                let told = NewMessage::new("order/packed", &7).subject("order/7");
                let take = inbox.atomic(&message).update(packed(&post)).send(told).commit();
                let came_to = tokio::time::timeout(MINUTE * 10, take).await;
                requests = requests.max(wire.count());
                match came_to {
                    Ok(Ok(taken)) if taken.done().is_ok() => break,
                    Ok(Ok(taken)) => panic!("{n} {fate:?}: {taken:?}"),
                    Ok(Err(ReceiveError::Locker(_))) | Err(_) => {}
                    Ok(Err(error)) => panic!("{n} {fate:?}: {error}"),
                }
            }
            post.settle().await;
            assert_eq!((count(&post).await, post.topics_once().len()), (1, 1), "{n} {fate:?}");
        }
    }
    assert!(requests >= 3, "a transaction, a query, a deletion");
}

/// What one side sends, the other reads and takes: the whole way over a broker.
#[tokio::test(start_paused = true)]
async fn inbox_processes_a_repeated_message_of_a_workflow_once() {
    let post = Post::new().await;
    let (workflows, _) = post.sender();
    workflows.start(&Letters::in_order(3), "letters/1", &()).run().await.unwrap();
    let (inbox, _) = inbox(&post);
    let arrive = async |envelope: &Envelope| {
        let mut message = Incoming::parse(&envelope.to_json().unwrap()).unwrap();
        message.sequence = Some(message.data::<u64>().unwrap().to_string());
        assert_eq!(
            (&message.id, message.subject.as_deref()),
            (&envelope.id, Some(envelope.subject.as_str()))
        );
        inbox.atomic(&message).latest().update(packed(&post)).commit().await.unwrap()
    };
    let sent = post.broker.took();
    assert_eq!(sent.len(), 3);
    // Out of order, and twice.
    let came_to = [&sent[0], &sent[2], &sent[1], &sent[2], &sent[0]];
    let mut taken = Vec::new();
    for envelope in came_to {
        taken.push(arrive(envelope).await);
    }
    assert_eq!(taken, [Taken::Now, Taken::Now, Taken::Superseded, Taken::Before, Taken::Superseded]);
    assert_eq!(count(&post).await, 2);
}

#[tokio::test(start_paused = true)]
async fn two_consumers_at_once_take_it_once() {
    let post = Post::new().await;
    let message = order("1", 1);
    let take = async || {
        let (inbox, _) = inbox(&post);
        inbox.atomic(&message).update(packed(&post)).commit().await.unwrap()
    };
    let (one, other, third) = tokio::join!(take(), take(), take());
    let mut taken = [one, other, third].map(|taken| format!("{taken:?}"));
    taken.sort();
    assert_eq!(taken, ["Before", "Before", "Now"]);
    assert_eq!(count(&post).await, 1);
}

#[test]
fn the_key_of_a_message_names_its_consumer_and_is_no_other_message() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let post = runtime.block_on(Post::new());
    let (inbox, _) = inbox(&post);
    let key =
        |source: &str, id: &str| inbox.key(&Incoming::new(source, id, "t", "1")).unwrap().as_str().to_owned();
    assert_eq!(key("/orders", "17.0"), "inbox/packer/%2Forders/17.0");
    let long = "x".repeat(2000);
    let mut keys: HashMap<String, usize> = HashMap::new();
    let pairs =
        [("a", "b/c"), ("a/b", "c"), ("a", "b%2Fc"), ("a b", "c"), ("a", "b c"), (&long, "c"), ("c", &long)];
    for (place, (source, id)) in pairs.into_iter().enumerate() {
        assert_eq!(keys.insert(key(source, id), place), None, "{source} {id}");
    }
    assert!(keys.keys().all(|key| key.len() <= 1024));
}

/// A request that was lost may still arrive, and find its condition met.
#[tokio::test(start_paused = true)]
async fn a_refusal_after_a_lost_request_is_no_refusal_yet() {
    let post = Post::new().await;
    let (inbox, wire) = inbox(&post);
    let message = order("1", 1);
    let paid = || {
        let update = Update::builder().table_name(&post.desk.rows).key("id", text("order 7"));
        let update = update.update_expression("SET #state = :packed").condition_expression("#state = :paid");
        let update = update.expression_attribute_names("#state", "state");
        let update = update.expression_attribute_values(":packed", text("packed"));
        update.expression_attribute_values(":paid", text("paid")).build().unwrap()
    };
    let refused = inbox.atomic(&message).update(paid()).commit().await.unwrap();
    assert_eq!(refused, Taken::Refused { writes: vec![0] });
    wire.nth(1, Fate::Lost);
    let unknown = inbox.atomic(&message).update(paid()).commit().await.unwrap_err();
    assert!(matches!(unknown, ReceiveError::Locker(locker::Error::Unknown { .. })), "{unknown:?}");
}
