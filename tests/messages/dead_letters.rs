//! Code that decides about dead messages: each decision once, on what is dead when it is decided,
//! and as far as the time allows.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use chrono::TimeDelta;
use lock_token_testing::{CallFate, Fate, TestClock};
use locker::dead_letters::{DeadLetters, Decision};
use locker::message::{MessageState, NewMessage};
use locker::workflow::{Message, Workflows};
use locker::{Class, Clock as _, Intervened, Operator};
use locker_tests::Wire;

use crate::consumer::{consumer, delivery, in_state, the_dead};
use crate::post::{MINUTE, Post};

/// This many dead messages, each of a subject of its own.
async fn dead(count: usize) -> (Post, Workflows, Wire) {
    let post = Post::new().await;
    let (workflows, wire) = post.desk.machine();
    for number in 0..count {
        let told = NewMessage::new(format!("told/{number}"), &number).subject(format!("order/{number}"));
        post.commit([workflows.outbox().message(told).unwrap()]).await;
        post.desk.bench.clock.advance(MINUTE);
        post.calls.next([CallFate::Declined]);
        assert_eq!(post.relay().0.run().await.unwrap().dead, 1);
    }
    wire.take();
    (post, workflows, wire)
}

fn letters(workflows: &Workflows) -> DeadLetters {
    DeadLetters::new(workflows, Operator::new("orders", "no such customer").unwrap())
}

#[tokio::test(start_paused = true)]
async fn each_decision_is_done_once_and_is_on_record() {
    let (post, workflows, _) = dead(4).await;
    let decide = async |message: &Message| match message.topic() {
        "told/0" => Decision::Redrive,
        "told/1" => Decision::Archive,
        "told/2" => Decision::Discard,
        _ => Decision::Leave,
    };
    let done = letters(&workflows).run(decide).await.unwrap();
    let counts = (done.redriven, done.archived, done.discarded, done.left, done.changed);
    assert_eq!((counts, done.finished), ((1, 1, 1, 1, 0), true), "{done:?}");
    let topics = async |state| {
        let all = in_state(&workflows, state).await;
        all.iter().map(|it| it.topic().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(topics(MessageState::Unsent).await, ["told/0"]);
    assert_eq!(topics(MessageState::Archived).await, ["told/1"]);
    assert_eq!(topics(MessageState::Dead).await, ["told/3"]);
    let acted = in_state(&workflows, MessageState::Archived).await.remove(0);
    assert_eq!(acted.intervention().unwrap().by, "orders");
    // Only what is left is decided about again.
    let again = letters(&workflows).run(async |_: &Message| Decision::Leave).await.unwrap();
    assert_eq!((again.left, again.finished), (1, true), "{again:?}");
    post.desk.bench.clock.advance(MINUTE);
    assert_eq!(post.relay().0.run().await.unwrap().sent, 1);
}

#[tokio::test(start_paused = true)]
async fn message_that_is_no_longer_dead_is_not_decided() {
    let (_post, workflows, _) = dead(2).await;
    let (other, seen) = (workflows.clone(), Mutex::new(Vec::new()));
    let decide = async |message: &Message| {
        seen.lock().unwrap().push(message.topic().to_owned());
        // An operator is faster with the other one. This one is held.
        for dead in the_dead(&other).await {
            let ada = Operator::new("ada", "I know better").unwrap();
            let is_held = dead.topic() == "told/0";
            let expected = if is_held { Intervened::NotPossible } else { Intervened::Done };
            assert_eq!(other.archive(&dead, &ada).await.unwrap(), expected);
        }
        Decision::Discard
    };
    let done = letters(&workflows).run(decide).await.unwrap();
    assert_eq!((done.changed, done.discarded, done.finished), (1, 1, true), "{done:?}");
    assert_eq!(*seen.lock().unwrap(), ["told/0"]);
    assert_eq!(in_state(&workflows, MessageState::Archived).await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn none_is_decided_about_after_the_deadline() {
    let (post, workflows, _) = dead(3).await;
    let clock = &post.desk.bench.clock;
    let slow = async |_: &Message| {
        clock.advance(MINUTE);
        Decision::Leave
    };
    let letters = letters(&workflows).deadline(clock.now() + TimeDelta::seconds(90));
    let done = letters.run(slow).await.unwrap();
    assert_eq!((done.left, done.finished), (2, false), "{done:?}");
    assert!(done.stopped_by.is_none(), "{done:?}");
}

#[tokio::test(start_paused = true)]
async fn failed_write_is_reported_and_its_message_decided_again() {
    let (post, workflows, wire) = dead(3).await;
    wire.matching(
        |it| it.operation == "TransactWriteItems" && it.request.to_string().contains("told/1"),
        Fate::Denied,
    );
    let discard = async |_: &Message| Decision::Discard;
    let done = letters(&workflows).run(discard).await.unwrap();
    assert_eq!((done.discarded, done.finished), (1, false), "{done:?}");
    assert!(done.stopped_by.is_some(), "{done:?}");
    // What the code did for it is done: it is held until then.
    post.desk.bench.clock.advance(MINUTE * 16);
    let done = letters(&workflows).run(discard).await.unwrap();
    assert_eq!((done.discarded, done.finished), (2, true), "{done:?}");
    assert!(the_dead(&workflows).await.is_empty());
    wire.matching(|it| it.operation == "Query", Fate::Denied);
    assert!(letters(&workflows).run(discard).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn while_code_decides_nobody_else_does_and_a_process_that_dies_holds_it_for_a_while() {
    let (post, workflows, _) = dead(1).await;
    let ada = Operator::new("ada", "the target is back").unwrap();
    let compensated = Mutex::new(0);
    let decide = async |message: &Message| {
        *compensated.lock().unwrap() += 1;
        let held = the_dead(&workflows).await.remove(0);
        for seen in [message, &held] {
            assert_eq!(workflows.redrive(seen, &ada).await.unwrap(), Intervened::NotPossible);
            assert_eq!(workflows.archive(seen, &ada).await.unwrap(), Intervened::NotPossible);
            assert_eq!(workflows.discard(seen, &ada).await.unwrap(), Intervened::NotPossible);
            assert_eq!(workflows.annotate(seen, &ada).await.unwrap(), Intervened::NotPossible);
        }
        let beside = letters(&workflows).run(async |_: &Message| Decision::Discard).await.unwrap();
        assert_eq!((beside.taken_elsewhere, beside.discarded, beside.finished), (1, 0, true), "{beside:?}");
        std::future::pending().await
    };
    let dies = tokio::time::timeout(MINUTE, letters(&workflows).run(decide)).await;
    assert!(dies.is_err());
    let seen = the_dead(&workflows).await.remove(0);
    assert!(seen.held_until().is_some_and(|until| until > post.desk.bench.clock.now()));
    post.desk.bench.clock.advance(MINUTE * 14);
    assert_eq!(workflows.redrive(&seen, &ada).await.unwrap(), Intervened::NotPossible);
    assert_eq!(seen.choices(post.desk.bench.clock.now()), [], "code decides about it");
    post.desk.bench.clock.advance(MINUTE * 2);
    let offered = seen.choices(post.desk.bench.clock.now());
    assert!(offered.iter().any(|(_, effect)| effect.contains("may have compensated it")), "{offered:?}");
    let left = letters(&workflows).run(async |_: &Message| Decision::Leave).await.unwrap();
    assert_eq!(left.left, 1, "{left:?}");
    // What is left is nobody's.
    let seen = the_dead(&workflows).await.remove(0);
    assert_eq!((seen.held_until(), *compensated.lock().unwrap()), (None, 1));
    assert_eq!(workflows.redrive(&seen, &ada).await.unwrap(), Intervened::Done);
    post.desk.bench.clock.advance(MINUTE);
    assert_eq!(post.relay().0.run().await.unwrap().sent, 1);
}

#[tokio::test(start_paused = true)]
async fn messages_outside_the_filter_are_not_changed() {
    let (_post, workflows, wire) = dead(3).await;
    let one = letters(&workflows).only(|message| message.topic() == "told/1");
    let done = one.run(async |_: &Message| Decision::Discard).await.unwrap();
    assert_eq!((done.discarded, done.left, done.finished), (1, 2, true), "{done:?}");
    let writes = wire.take().into_iter().filter(|it| !["Query", "GetItem"].contains(&it.operation.as_str()));
    assert_eq!(writes.count(), 2, "it is held, and discarded");
}

#[tokio::test(start_paused = true)]
async fn message_left_by_code_keeps_its_shown_state() {
    let (_post, workflows, _) = dead(1).await;
    let shown = the_dead(&workflows).await.remove(0);
    let left = letters(&workflows).run(async |_: &Message| Decision::Leave).await.unwrap();
    assert_eq!(left.left, 1, "{left:?}");
    let ada = Operator::new("ada", "the target is back").unwrap();
    let again = the_dead(&workflows).await.remove(0);
    assert_eq!(again.revision(), shown.revision());
    assert_eq!(workflows.redrive(&shown, &ada).await.unwrap(), Intervened::Changed, "it was held since");
    assert_eq!(workflows.redrive(&again, &ada).await.unwrap(), Intervened::Done);
}

/// Removes an attribute from the first item about a message that fits.
async fn damage(
    post: &Post,
    message: &Message,
    attribute: &str,
    fits: impl Fn(&HashMap<String, AttributeValue>) -> bool,
) {
    let items = post.desk.items().await;
    let is_about = |it: &HashMap<String, AttributeValue>| {
        it.get("messageId").is_some_and(|id| id.as_s().unwrap() == message.id())
    };
    let item = items.iter().find(|it| is_about(it) && fits(it)).unwrap();
    let update = post.desk.bench.client.update_item().table_name(&post.desk.table);
    let update = update.key("workflow", item["workflow"].clone()).key("item", item["item"].clone());
    let update = update.expression_attribute_names("#removed", attribute);
    update.update_expression("REMOVE #removed").send().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn one_that_is_damaged_stops_no_decision_about_others() {
    let (post, workflows, _) = dead(3).await;
    let damaged = the_dead(&workflows).await.remove(0);
    damage(&post, &damaged, "subject", |_| true).await;
    let done = letters(&workflows).run(async |_: &Message| Decision::Discard).await.unwrap();
    assert_eq!((done.discarded, done.failed, done.finished), (2, 1, true), "{done:?}");
}

#[tokio::test(start_paused = true)]
async fn damaged_receipt_stops_no_decision_about_others() {
    let post = Post::new().await;
    let (consumer, workflows, _) = consumer(&post);
    for body in ["a/1", "b/1", "c/1"] {
        consumer.dead_letter(&delivery(body), Class::Permanent, "no").await.unwrap();
        post.desk.bench.clock.advance(MINUTE);
    }
    let damaged = the_dead(&workflows).await.remove(0);
    damage(&post, &damaged, "revision", |it| !it.contains_key("body")).await;
    let done = letters(&workflows).run(async |_: &Message| Decision::Discard).await.unwrap();
    assert_eq!((done.discarded, done.failed, done.finished), (2, 1, true), "{done:?}");
    assert_eq!(the_dead(&workflows).await[0].id(), damaged.id());
}

#[tokio::test(start_paused = true)]
async fn code_that_wakes_late_decides_about_nothing_that_is_not_its_own_any_more() {
    let (post, workflows, _) = dead(1).await;
    let (slow, wire) = post.desk.machine();
    wire.matching(|it| it.operation == "PutItem", Fate::HeldAfter);
    let compensated = Mutex::new(0);
    let decide = async |_: &Message| {
        *compensated.lock().unwrap() += 1;
        Decision::Discard
    };
    let late = letters(&slow);
    let beside = async {
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        post.desk.bench.clock.advance(MINUTE * 20);
        let dead = the_dead(&workflows).await.remove(0);
        let ada = Operator::new("ada", "the warehouse is back").unwrap();
        assert_eq!(workflows.redrive(&dead, &ada).await.unwrap(), Intervened::Done);
        post.desk.bench.clock.advance(std::time::Duration::from_secs(1));
        assert_eq!(post.relay().0.run().await.unwrap().sent, 1);
        wire.let_through();
    };
    let (done, ()) = tokio::join!(late.run(decide), beside);
    let done = done.unwrap();
    assert_eq!((post.topics().len(), *compensated.lock().unwrap()), (1, 0), "it was sent: {done:?}");
    assert_eq!((done.taken_elsewhere, done.discarded), (1, 0), "{done:?}");
}

/// The clocks of two machines differ by less than `max_clock_skew`.
#[tokio::test(start_paused = true)]
async fn operator_with_a_fast_clock_does_not_redrive_what_code_decides_about() {
    let (post, workflows, _) = dead(1).await;
    let decide = async |message: &Message| {
        post.desk.bench.clock.advance(Duration::from_secs(15 * 60 - 3));
        let ahead = TestClock::at(post.desk.bench.clock.now() + TimeDelta::seconds(4));
        let (_, wire) = post.desk.machine();
        let client = post.desk.bench.engine.client_over(&wire);
        let other =
            Workflows::builder(&client, &post.desk.table).with_clock(Arc::new(ahead)).build().unwrap();
        let held = other.message(&message.work()).await.unwrap().unwrap();
        let ada = Operator::new("ada", "the warehouse is back").unwrap();
        assert_eq!(other.redrive(&held, &ada).await.unwrap(), Intervened::NotPossible);
        Decision::Discard
    };
    let done = letters(&workflows).run(decide).await.unwrap();
    assert_eq!((done.discarded, post.topics().len()), (1, 0), "{done:?}");
}

#[tokio::test(start_paused = true)]
async fn code_that_panics_about_one_decides_about_the_others_and_nobody_acts_on_that_one_meanwhile() {
    let (post, workflows, _) = dead(3).await;
    let decide = async |message: &Message| {
        assert_ne!(message.topic(), "told/0", "no such customer");
        Decision::Archive
    };
    let done = letters(&workflows).run(decide).await.unwrap();
    assert_eq!((done.archived, done.failed, done.finished), (2, 1, true), "{done:?}");
    // It may have compensated before it panicked.
    let left = the_dead(&workflows).await.remove(0);
    let ada = Operator::new("ada", "the warehouse is back").unwrap();
    assert_eq!(workflows.redrive(&left, &ada).await.unwrap(), Intervened::NotPossible);
    post.desk.bench.clock.advance(MINUTE * 16);
    assert_eq!(workflows.redrive(&left, &ada).await.unwrap(), Intervened::Done);
}

#[tokio::test(start_paused = true)]
async fn a_hold_that_comes_late_holds_nothing_that_was_left() {
    let (post, workflows, _) = dead(1).await;
    let plan = async || {
        let console = locker::operator::Console::new().workflows(&workflows);
        let ada = Operator::new("ada", "the warehouse is back").unwrap();
        console.plan(locker::operator::Filter::new(), locker::operator::Act::redrive(), &ada).await.unwrap()
    };
    let shown = plan().await.items;
    let (slow, wire) = post.desk.machine();
    wire.matching(|it| it.operation == "PutItem", Fate::Late);
    let left = letters(&slow).run(async |_: &Message| Decision::Leave).await.unwrap();
    assert_eq!((left.left, left.finished), (1, true), "{left:?}");
    let is_held = the_dead(&workflows).await.remove(0).held_until();
    assert_eq!((is_held, wire.deliver_late().await), (None, 1));
    assert_eq!(plan().await.items, shown, "what an operator was shown holds");
    let dead = the_dead(&workflows).await.remove(0);
    let ada = Operator::new("ada", "the warehouse is back").unwrap();
    let acted = workflows.redrive(&dead, &ada).await.unwrap();
    assert_eq!((dead.held_until(), acted), (None, Intervened::Done));
}
