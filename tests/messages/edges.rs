//! Orders of events in which a message could be lost, kept back, or told of untruly.

use std::time::Duration;

use aws_sdk_dynamodb::types::{AttributeValue, Update};
use lock_token_testing::CallFate;
use locker::inbox::{Delivery, Incoming, ReceiveError, Taken};
use locker::message::{MessageState, NewMessage};
use locker::{Class, Failure, Intervened};
use locker_tests::{DAY, Fate, Recorded, ada};

use crate::consumer::{Warehouse, consumer, delivery, in_state, the_dead};
use crate::post::{Letters, MINUTE, Post};

/// Two states of one order, told in one transaction: the receiver has the second one at the end.
#[tokio::test(start_paused = true)]
async fn of_messages_of_one_millisecond_the_last_one_has_the_greatest_sequence() {
    for _ in 0..8 {
        let post = Post::new().await;
        let (workflows, _) = post.desk.machine();
        let outbox = workflows.outbox();
        let told: Vec<_> = ["order/placed", "order/paid", "order/packed"]
            .map(|topic| outbox.message(NewMessage::new(topic, &7).subject("order/7")).unwrap())
            .into();
        post.commit(told).await;
        post.settle().await;
        assert_eq!(post.topics(), ["order/placed", "order/paid", "order/packed"]);
        let sequences: Vec<_> = post.broker.took().into_iter().map(|it| it.sequence).collect();
        assert!(sequences.windows(2).all(|pair| pair[0] < pair[1]), "{sequences:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn invalid_expression_of_the_caller_is_reported_as_one() {
    let post = Post::new().await;
    let inbox = post.desk.machine().0.inbox("books").unwrap();
    let message = Incoming::new("/orders", "17.0", "order.placed", "7");
    let row = || Update::builder().table_name(&post.desk.rows).key("id", AttributeValue::S("row".to_owned()));
    for (expression, update) in [
        ("UpdateExpression", row().update_expression("SET balance = = :by")),
        ("ConditionExpression", row().update_expression("REMOVE balance").condition_expression("balance >")),
    ] {
        let invalid = inbox.atomic(&message).update(update.build().unwrap()).commit().await.unwrap_err();
        let said = invalid.to_string();
        assert!(said.contains("correct the expressions of your own writes"), "{said}");
        assert!(said.contains(&format!("Invalid {expression}")) && !said.contains("check"), "{said}");
    }
    assert!(post.desk.items().await.is_empty());
}

/// A message may be among the dead for longer than its inbox remembers. If it was taken before, it
/// is not taken again.
#[tokio::test(start_paused = true)]
async fn message_older_than_the_window_is_not_processed_twice() {
    let post = Post::new().await;
    let (consumer, workflows, _) = consumer(&post);
    let outbox = workflows.outbox();
    let paid = NewMessage::new("order/paid", &7).subject("order/7").number(1);
    post.commit([outbox.message(paid).unwrap()]).await;
    post.settle().await;
    let json = post.broker.took()[0].to_json().unwrap();
    let inbox = workflows.inbox("packer").unwrap();
    // It is taken, and what follows fails.
    let pack = async |delivery: Delivery| -> Result<(), Failure> {
        let message = Incoming::parse(&delivery.body).unwrap();
        inbox.atomic(&message).commit().await?.done()?;
        Err(Failure::permanent("nobody could be told".to_owned()))
    };
    consumer.receive(&Delivery::new("1", json.clone()), pack).await.unwrap();
    post.desk.bench.clock.advance(DAY * 40);
    let dead = the_dead(&workflows).await.remove(0);
    assert_eq!(workflows.redrive(&dead, &ada()).await.unwrap(), Intervened::Done);
    let again = async |delivery: Delivery| -> Result<(), Failure> {
        let message = Incoming::parse(&delivery.body).unwrap();
        assert!(matches!(inbox.key(&message), Err(ReceiveError::TooOld { .. })));
        let taken = inbox.atomic(&message).commit().await?;
        panic!("it was {taken:?} once more");
    };
    post.desk.bench.clock.advance(MINUTE);
    assert_eq!(consumer.run(again).await.unwrap().dead, 1);
    let dead = the_dead(&workflows).await.remove(0);
    assert_eq!(dead.class(), Some(Class::NeedsOperator));
    let cause = dead.cause().unwrap().to_owned();
    assert!(cause.contains("[inbox.tooOld]") && cause.contains("remembers 30 days"), "{cause}");
    // Who knows that it was not taken may say so.
    let mut message = Incoming::parse(&json).unwrap();
    message.time = None;
    assert_eq!(inbox.atomic(&message).commit().await.unwrap(), Taken::Now);
    // An order by numbers is remembered for ever.
    assert_eq!(inbox.atomic(&Incoming::parse(&json).unwrap()).latest().commit().await.unwrap(), Taken::Now);
}

/// What a broker refuses in a body, it refuses in every other part of the event.
#[tokio::test(start_paused = true)]
async fn no_part_of_an_event_has_a_noncharacter() {
    let post = Post::new().await;
    let (workflows, _) = post.sender();
    let outbox = workflows.outbox();
    let subject = "order/\u{ffff}";
    let told = NewMessage::new("order/placed", &"\u{fffe}").subject(subject).trace("\u{fffe}");
    let told = outbox.message(told).unwrap();
    post.commit([told.clone()]).await;
    outbox.send([told]).await;
    let json = post.broker.took()[0].to_json().unwrap();
    assert!(!json.contains(['\u{fffe}', '\u{ffff}']), "{json:?}");
    let read = Incoming::parse(&json).unwrap();
    assert_eq!(
        (read.subject.as_deref(), read.data::<String>().unwrap().as_str()),
        (Some(subject), "\u{fffe}")
    );
}

/// A body that is taken fits into an item, also as it is stored.
#[test]
fn a_body_is_as_large_as_it_is_stored() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let post = runtime.block_on(Post::new());
    let (workflows, _) = post.sender();
    let outbox = workflows.outbox();
    let told = |count: usize| outbox.message(NewMessage::new("a", &"\u{ffff}".repeat(count)));
    let _ = told(43_000).unwrap();
    assert!(told(80_000).unwrap_err().to_string().contains("Amazon S3"));
}

/// A message with many messages to others is taken as fast as one with one, while their broker
/// hangs.
#[tokio::test(start_paused = true)]
async fn a_broker_that_hangs_delays_a_message_that_is_taken_by_two_seconds_at_most() {
    let post = Post::new().await;
    post.calls.always(CallFate::DiesBefore);
    let (workflows, _) = post.sender();
    let inbox = workflows.inbox("packer").unwrap();
    let message = Incoming::new("/orders", "1", "order.placed", "7");
    let receive = (0..20).fold(inbox.atomic(&message), |it, n| it.send(NewMessage::new("told", &n)));
    let began = tokio::time::Instant::now();
    assert_eq!(receive.commit().await.unwrap(), Taken::Now);
    assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
}

/// A message that waited for days behind a dead one has been tried for no time at all.
#[tokio::test(start_paused = true)]
async fn message_after_a_dead_message_survives_its_first_failure() {
    let post = Post::new().await;
    let (workflows, _) = post.desk.machine();
    workflows.start(&Letters::in_order(2), "letters/1", &()).run().await.unwrap();
    post.calls.matching(|what| what.contains("told/0"), CallFate::Declined);
    post.desk.bench.clock.advance(MINUTE);
    assert_eq!(post.relay().0.run().await.unwrap().dead, 1);
    post.desk.bench.clock.advance(DAY * 4);
    let dead = the_dead(&workflows).await.remove(0);
    assert_eq!(workflows.redrive(&dead, &ada()).await.unwrap(), Intervened::Done);
    post.calls.matching(|what| what.contains("told/1"), CallFate::Refused);
    let done = post.relay().0.run().await.unwrap();
    assert_eq!((done.sent, done.waiting, done.dead), (1, 1, 0), "{done:?}");
    post.settle().await;
    assert_eq!(post.topics(), ["told/0", "told/1"]);
}

/// The same on the other side, where a consumer says how often a message is tried.
#[tokio::test(start_paused = true)]
async fn delivery_after_a_dead_delivery_has_all_attempts() {
    let post = Post::new().await;
    let (consumer, workflows, _) = consumer(&post);
    let warehouse = Warehouse::refusing(&["a/1"]);
    for body in ["a/1", "a/2"] {
        consumer.receive(&delivery(body), async |delivery| warehouse.pack(delivery).await).await.unwrap();
    }
    warehouse.refuse(&[]);
    post.desk.bench.clock.advance(DAY * 4);
    let dead = the_dead(&workflows).await.remove(0);
    assert_eq!(workflows.redrive(&dead, &ada()).await.unwrap(), Intervened::Done);
    let mut tries = 0;
    let once_later = async |delivery: Delivery| {
        if delivery.body == "a/2" {
            return Err(Failure::transient("later".to_owned()));
        }
        warehouse.pack(delivery).await
    };
    let first = consumer.run(once_later).await.unwrap();
    assert_eq!((first.handled, first.waiting, first.dead), (1, 1, 0), "{first:?}");
    // Ten, as of the queue.
    while the_dead(&workflows).await.is_empty() {
        tries += 1;
        assert!(tries < 20);
        post.desk.bench.clock.advance(MINUTE * 20);
        consumer.run(once_later).await.unwrap();
    }
    let dead = the_dead(&workflows).await.remove(0);
    assert_eq!((tries, dead.attempts(), dead.class()), (9, 10, Some(Class::Transient)));
}

/// What ends its process each time is dead in the end, as it would be in a queue, and not tried for
/// ever in silence.
#[tokio::test(start_paused = true)]
async fn a_message_whose_handler_ends_without_a_word_is_dead_in_the_end() {
    let post = Post::new().await;
    let (consumer, workflows, _) = consumer(&post);
    let first = Delivery::new("1", "it needs too much memory");
    consumer.dead_letter(&first, Class::InDoubt, "its handler ended without a word").await.unwrap();
    let dead = the_dead(&workflows).await.remove(0);
    assert_eq!(workflows.redrive(&dead, &ada()).await.unwrap(), Intervened::Done);
    let mut killed = 0;
    while the_dead(&workflows).await.is_empty() {
        post.desk.bench.clock.advance(MINUTE * 16);
        // The process dies in its handler.
        let run = consumer.run(async |_| std::future::pending::<Result<(), Failure>>().await);
        let ended = tokio::time::timeout(Duration::from_secs(1), run).await;
        killed += usize::from(ended.is_err());
        assert!(killed <= 10, "it is tried for ever");
    }
    assert_eq!(killed, 10);
    let dead = the_dead(&workflows).await.remove(0);
    assert_eq!(dead.class(), Some(Class::InDoubt));
    let cause = "given up after attempt 10, whose outcome is not known";
    assert_eq!(dead.cause(), Some(cause));
}

/// A relay that cannot write says so, and not that another relay is at work.
#[tokio::test(start_paused = true)]
async fn a_relay_that_may_not_write_says_that_it_failed() {
    let post = Post::new().await;
    let (workflows, _) = post.desk.machine();
    workflows.start(&Letters::in_order(1), "letters/1", &()).run().await.unwrap();
    post.desk.bench.clock.advance(MINUTE);
    let (relay, wire) = post.relay();
    wire.matching(|it| it.operation == "PutItem", Fate::Denied);
    let done = relay.run().await.unwrap();
    assert_eq!((done.taken_elsewhere, done.failed), (0, 1), "{done:?}");
}

/// One that may not delete sends the same message each minute, and says that something is wrong.
#[tokio::test(start_paused = true)]
async fn a_relay_that_may_not_delete_says_that_it_failed() {
    let post = Post::new().await;
    let (workflows, _) = post.desk.machine();
    workflows.start(&Letters::in_order(1), "letters/1", &()).run().await.unwrap();
    post.desk.bench.clock.advance(MINUTE);
    let (relay, wire) = post.relay();
    wire.matching(|it| it.operation == "DeleteItem", Fate::Denied);
    let done = relay.run().await.unwrap();
    assert_eq!((done.sent, done.failed), (1, 1), "{done:?}");
}

/// Workflows that wait for an operator do not use up the limit of a run: those behind them are
/// sent.
#[tokio::test(start_paused = true)]
async fn blocked_messages_do_not_count_towards_the_limit() {
    let post = Post::new().await;
    let (workflows, _) = post.desk.machine();
    for key in 0..3 {
        workflows.start(&Letters::in_order(2), ("letters", key), &()).run().await.unwrap();
    }
    post.desk.bench.clock.advance(MINUTE);
    post.calls.always(CallFate::Declined);
    assert_eq!(post.relay().0.run().await.unwrap().dead, 3);
    post.calls.next([]);
    workflows.start(&Letters::in_order(1), ("letters", 9), &()).run().await.unwrap();
    for _ in 0..5 {
        post.desk.bench.clock.advance(MINUTE);
        post.relay().0.limit(1).run().await.unwrap();
    }
    assert_eq!(post.topics(), ["told/0"], "it waits behind what only an operator can change");
}

/// Dimensions of metrics are paid for each: none comes from what others write into a queue.
#[tokio::test(start_paused = true)]
async fn no_label_of_a_metric_comes_from_a_received_event() {
    let recorded = Recorded::start();
    let post = Post::new().await;
    let (consumer, workflows, _) = consumer(&post);
    for number in 0..20 {
        let body = format!(
            r#"{{"specversion":"1.0","id":"{number}","source":"/o","type":"type.{number}","data":1}}"#
        );
        let refuse = async |_: Delivery| Err(Failure::permanent("no".to_owned()));
        consumer.receive(&Delivery::new(number.to_string(), body), refuse).await.unwrap();
    }
    // Nor does one that is dead again.
    for dead in the_dead(&workflows).await {
        assert_eq!(workflows.redrive(&dead, &ada()).await.unwrap(), Intervened::Done);
    }
    post.desk.bench.clock.advance(MINUTE);
    let refuse = async |_: Delivery| Err(Failure::permanent("no".to_owned()));
    assert_eq!(consumer.run(refuse).await.unwrap().dead, 20);
    let metrics = recorded.take();
    let dead: Vec<_> = metrics.keys().filter(|key| key.name() == "messagesDead").collect();
    assert_eq!(dead.len(), 1, "{dead:?}");
}

#[tokio::test(start_paused = true)]
async fn the_class_is_that_of_the_cause() {
    let post = Post::new().await;
    let (consumer, workflows, _) = consumer(&post);
    consumer.dead_letter(&delivery("a/1"), Class::Permanent, "no").await.unwrap();
    let dead = the_dead(&workflows).await.remove(0);
    assert_eq!(workflows.redrive(&dead, &ada()).await.unwrap(), Intervened::Done);
    post.desk.bench.clock.advance(MINUTE);
    let down = async |_: Delivery| Err(Failure::transient("the warehouse is down".to_owned()));
    assert_eq!(consumer.run(down).await.unwrap().waiting, 1);
    let waiting = in_state(&workflows, MessageState::Waiting).await.remove(0);
    assert_eq!((waiting.cause(), waiting.class()), (Some("the warehouse is down"), Some(Class::Transient)));
}
