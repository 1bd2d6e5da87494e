//! Processes that were suspended, or gave up waiting: what they wake to is another's, and nothing
//! overtakes what they may have committed.

use std::time::Duration;

use aws_sdk_dynamodb::types::{AttributeValue, ConditionCheck};
use lock_token_testing::CallFate;
use locker::inbox::Delivery;
use locker::message::NewMessage;
use locker::workflow::{Compensated, Compensation, Flow, Stop, Workflow, Workflows};
use locker::{Class, Failure, Intervened};
use locker_tests::{Fate, ada};
use serde::{Deserialize, Serialize};

use crate::consumer::{Warehouse, consumer, delivery, the_dead};
use crate::post::{Letters, MINUTE, Post};

async fn discard(workflows: &Workflows) {
    let dead = the_dead(workflows).await.remove(0);
    assert_eq!(workflows.discard(&dead, &ada()).await.unwrap(), Intervened::Done);
}

/// Others have their turn.
async fn a_while() {
    tokio::time::sleep(Duration::from_millis(50)).await;
}

#[tokio::test(start_paused = true)]
async fn a_relay_that_wakes_late_sends_nothing_that_is_not_its_own_any_more() {
    let post = Post::new().await;
    let (workflows, _) = post.desk.machine();
    workflows.start(&Letters::in_order(1), "letters/1", &()).run().await.unwrap();
    post.desk.bench.clock.advance(MINUTE);
    let (relay, wire) = post.relay();
    // It took the message, and hears of it late.
    wire.matching(|it| it.operation == "PutItem", Fate::HeldAfter);
    let late = tokio::spawn(async move { relay.run().await });
    a_while().await;
    post.desk.bench.clock.advance(MINUTE * 2);
    post.calls.next([CallFate::Declined]);
    assert_eq!(post.relay().0.run().await.unwrap().dead, 1);
    discard(&workflows).await;
    wire.let_through();
    let done = late.await.unwrap().unwrap();
    assert_eq!((done.sent, done.taken_elsewhere, post.topics().len()), (0, 1, 0), "{done:?}");
}

#[tokio::test(start_paused = true)]
async fn a_driver_that_wakes_late_sends_nothing_that_is_a_relays() {
    let post = Post::new().await;
    let (workflows, wire) = post.sender();
    wire.matching(|it| it.operation == "TransactWriteItems", Fate::HeldAfter);
    let code = Letters::in_order(1);
    let late = tokio::spawn(async move { workflows.start(&code, "letters/1", &()).run().await.map(drop) });
    a_while().await;
    assert_eq!(post.unsent().await, 1);
    post.desk.bench.clock.advance(MINUTE * 2);
    post.calls.next([CallFate::Declined]);
    assert_eq!(post.relay().0.run().await.unwrap().dead, 1);
    discard(&post.desk.machine().0).await;
    wire.let_through();
    drop(late.await.unwrap());
    assert!(post.topics().is_empty(), "it was discarded, and is sent: {:?}", post.topics());
}

#[tokio::test(start_paused = true)]
async fn a_consumer_that_wakes_late_handles_nothing_that_is_not_its_own_any_more() {
    let post = Post::new().await;
    let (prompt, workflows, _) = consumer(&post);
    prompt.dead_letter(&delivery("a/1"), Class::Permanent, "no").await.unwrap();
    let dead = the_dead(&workflows).await.remove(0);
    assert_eq!(workflows.redrive(&dead, &ada()).await.unwrap(), Intervened::Done);
    post.desk.bench.clock.advance(MINUTE);
    let (slow, _, wire) = consumer(&post);
    wire.matching(|it| it.operation == "PutItem", Fate::HeldAfter);
    let warehouse = Warehouse::default();
    let late = slow.run(async |it| warehouse.pack(it).await);
    let beside = async {
        a_while().await;
        post.desk.bench.clock.advance(MINUTE * 20);
        let refuse = async |_: Delivery| Err(Failure::permanent("no".to_owned()));
        assert_eq!(prompt.run(refuse).await.unwrap().dead, 1);
        discard(&workflows).await;
        wire.let_through();
    };
    let (done, ()) = tokio::join!(late, beside);
    let done = done.unwrap();
    assert_eq!((done.handled, done.taken_elsewhere, warehouse.packed().len()), (0, 1, 0), "{done:?}");
}

/// Two deliveries of one message, of which one has looked, and writes after the other.
#[tokio::test(start_paused = true)]
async fn two_deliveries_at_once_are_kept_once() {
    let post = Post::new().await;
    let (prompt, workflows, _) = consumer(&post);
    let warehouse = Warehouse::refusing(&["a/1"]);
    prompt.receive(&delivery("a/1"), async |it| warehouse.pack(it).await).await.unwrap();
    warehouse.refuse(&[]);
    let (slow, _, wire) = consumer(&post);
    wire.matching(|it| it.operation == "TransactWriteItems", Fate::HeldBefore);
    let behind = delivery("a/2");
    let one = slow.receive(&behind, async |it| warehouse.pack(it).await);
    let other = async {
        a_while().await;
        post.desk.bench.clock.advance(Duration::from_millis(5));
        let came_to = prompt.receive(&behind, async |it| warehouse.pack(it).await).await;
        wire.let_through();
        came_to
    };
    let (one, other) = tokio::join!(one, other);
    use locker::inbox::Received::{Duplicate, Queued};
    assert_eq!((one.unwrap(), other.unwrap(), post.unsent().await), (Duplicate, Queued, 2));
    let dead = the_dead(&workflows).await.remove(0);
    assert_eq!(workflows.redrive(&dead, &ada()).await.unwrap(), Intervened::Done);
    post.desk.bench.clock.advance(MINUTE);
    prompt.run(async |it| warehouse.pack(it).await).await.unwrap();
    assert_eq!(warehouse.packed(), ["a/1", "a/2"]);
}

/// Goes on without waiting for what it commits: by itself, or to its compensation.
#[derive(Debug, Clone)]
struct Impatient {
    compensates: bool,
    waits: bool,
}

impl Workflow for Impatient {
    const NAME: &'static str = "impatient";
    type Input = ();
    type Output = ();

    async fn run(&self, flow: &Flow, (): ()) -> Result<(), Stop> {
        let place = flow.atomic("place").message("told/placed", &1);
        if self.compensates {
            let place = place.compensate(&"withdraw");
            let decline = async {
                tokio::time::sleep(Duration::from_secs(1)).await;
                Err::<(), _>(Stop::fail("declined"))
            };
            return tokio::try_join!(place.commit(&()), decline).map(drop);
        }
        if self.waits {
            drop(place.commit(&()).await);
        } else {
            drop(tokio::time::timeout(Duration::from_secs(1), place.commit(&())).await);
        }
        flow.atomic("late").message("told/late", &2).commit(&()).await
    }

    async fn compensate(&self, flow: &Flow, _: Compensation) -> Result<Compensated, Failure> {
        let told = flow.atomic("tell").message("told/late", &1).commit(&()).await;
        told.map_err(|stop| Failure::permanent(stop.to_string()))?;
        Ok(Compensated::Done)
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_overtakes_what_may_have_been_committed() {
    for (compensates, waits) in [(false, false), (false, true), (true, false)] {
        for fate in [Fate::Hangs, Fate::ReplyLost, Fate::HeldAfter] {
            let post = Post::new().await;
            let (workflows, wire) = post.sender();
            let is_first = |it: &lock_token_testing::Exchange| {
                it.operation == "TransactWriteItems" && it.request.to_string().contains("told/placed")
            };
            wire.matching(is_first, fate);
            let code = Impatient { compensates, waits };
            let run = async { workflows.start(&code, "letters/1", &()).run().await.map(drop) };
            let ran = tokio::time::timeout(MINUTE, run).await;
            wire.let_through();
            post.settle().await;
            drop(ran);
            let told = post.topics_once();
            let said = format!("compensates: {compensates}, waits: {waits}, {fate:?}");
            assert!(told.is_sorted_by_key(|topic| topic == "told/late"), "{said}: {told:?}");
            assert!(told.contains(&"told/placed".to_owned()), "{said}: {told:?}");
        }
    }
}

/// Steps beside each other that tell of one workflow.
#[derive(Debug, Clone)]
struct Beside;

impl Workflow for Beside {
    const NAME: &'static str = "beside";
    type Input = ();
    type Output = ();

    async fn run(&self, flow: &Flow, (): ()) -> Result<(), Stop> {
        let one = flow.atomic("one").message("told/1", &1);
        let two = flow.atomic("two").message("told/2", &2);
        tokio::try_join!(one.commit(&()), two.commit(&()))?;
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn steps_beside_each_other_are_told_at_once_and_in_order_whichever_is_done_first() {
    for slow in ["none", "told/1", "told/2"] {
        let post = Post::new().await;
        let (workflows, wire) = post.sender();
        let is_slow = move |it: &lock_token_testing::Exchange| {
            it.operation == "TransactWriteItems" && it.request.to_string().contains(slow)
        };
        wire.matching(is_slow, Fate::HeldAfter);
        let beside = async {
            tokio::time::sleep(Duration::from_millis(500)).await;
            wire.let_through();
        };
        let run = async { workflows.start(&Beside, "letters/1", &()).run().await.map(drop) };
        let (ran, ()) = tokio::join!(run, beside);
        ran.unwrap();
        assert_eq!(
            (post.topics(), post.unsent().await),
            (vec!["told/1".into(), "told/2".into()], 0),
            "{slow}"
        );
    }
}

/// Takes seats beside each other, and gives up on all of them while their commits are under way.
#[derive(Debug, Clone)]
struct Seats;

#[derive(Serialize, Deserialize)]
enum Undo {
    GiveBack(u32),
}

impl Workflow for Seats {
    const NAME: &'static str = "seats";
    type Input = ();
    type Output = ();

    async fn run(&self, flow: &Flow, (): ()) -> Result<(), Stop> {
        let take = |seat: u32| {
            let told = NewMessage::new(format!("told/taken/{seat}"), &seat).subject(format!("seat/{seat}"));
            flow.atomic(format!("take#{seat}")).compensate(&Undo::GiveBack(seat)).send(told).commit(&())
        };
        let decline = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            Err::<(), _>(Stop::fail("declined"))
        };
        tokio::try_join!(take(1), take(2), take(3), decline).map(drop)
    }

    async fn compensate(&self, flow: &Flow, compensation: Compensation) -> Result<Compensated, Failure> {
        let Undo::GiveBack(seat) = compensation.undo()?;
        let told = NewMessage::new(format!("told/free/{seat}"), &seat).subject(format!("seat/{seat}"));
        let told = flow.atomic("tell").send(told).commit(&()).await;
        told.map_err(|stop| Failure::permanent(stop.to_string()))?;
        Ok(Compensated::Done)
    }
}

#[tokio::test(start_paused = true)]
async fn a_compensation_is_told_after_what_its_step_told_also_if_its_run_never_saw_the_commit() {
    let post = Post::new().await;
    let (workflows, wire) = post.sender();
    for seat in 1..=3 {
        let is_taken = format!("told/taken/{seat}");
        wire.matching(
            move |it| it.operation == "TransactWriteItems" && it.request.to_string().contains(&is_taken),
            Fate::Hangs,
        );
    }
    drop(workflows.start(&Seats, "letters/1", &()).run().await);
    wire.let_through();
    post.settle().await;
    let told = post.topics_once();
    for seat in 1..=3 {
        let at = |what: &str| told.iter().position(|topic| *topic == format!("told/{what}/{seat}"));
        assert!(at("taken").is_some() && at("taken") < at("free"), "{seat}: {told:?}");
    }
}

/// Tells twice; in between, one run of it ends.
#[derive(Debug, Clone)]
struct Twice {
    goes_on: bool,
}

impl Workflow for Twice {
    const NAME: &'static str = "twice";
    type Input = ();
    type Output = ();

    async fn run(&self, flow: &Flow, (): ()) -> Result<(), Stop> {
        flow.atomic("one").message("told/1", &1).commit(&()).await?;
        let gate = async || if self.goes_on { Ok(()) } else { Err(Failure::transient("not yet".to_owned())) };
        flow.step("gate").run(|_| gate()).await?;
        flow.atomic("two").message("told/2", &2).commit(&()).await
    }
}

#[tokio::test(start_paused = true)]
async fn archived_message_blocks_no_later_message() {
    for archives in [true, false] {
        let post = Post::new().await;
        post.calls.next([CallFate::Declined]);
        let (workflows, _) = post.sender();
        drop(workflows.start(&Twice { goes_on: false }, "letters/1", &()).run().await);
        let dead = the_dead(&workflows).await.remove(0);
        if archives {
            assert_eq!(workflows.archive(&dead, &ada()).await.unwrap(), Intervened::Done);
        }
        post.desk.bench.clock.advance(MINUTE * 10);
        drop(workflows.start(&Twice { goes_on: true }, "letters/1", &()).run().await.unwrap());
        assert_eq!(post.topics().len(), usize::from(archives));
    }
}

/// Tells what it did, or what it did instead.
#[derive(Debug, Clone)]
struct Instead(String);

impl Workflow for Instead {
    const NAME: &'static str = "instead";
    type Input = ();
    type Output = ();

    async fn run(&self, flow: &Flow, (): ()) -> Result<(), Stop> {
        let row = ConditionCheck::builder().table_name(&self.0).key("id", AttributeValue::S("none".into()));
        let row = row.condition_expression("attribute_exists(id)").build().unwrap();
        match flow.atomic("take").check(row).message("told/taken", &1).outcome(&()).await? {
            Ok(()) => Ok(()),
            Err(_) => flow.atomic("refuse").message("told/none", &1).commit(&()).await,
        }
    }
}

#[tokio::test(start_paused = true)]
async fn refused_transaction_blocks_no_message() {
    let post = Post::new().await;
    let (workflows, _) = post.sender();
    workflows.start(&Instead(post.desk.rows.clone()), "letters/1", &()).run().await.unwrap();
    assert_eq!((post.topics(), post.unsent().await), (vec!["told/none".to_owned()], 0));
}
