//! A plan whose records change between its list, its read and its acts.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use aws_sdk_dynamodb::types::{
    AttributeDefinition, AttributeValue, BillingMode, GlobalSecondaryIndex, KeySchemaElement, KeyType,
    Projection, ProjectionType, ScalarAttributeType,
};
use locker::Record;
use locker::operator::{Act, Console, Filter, Need, Plan};
use locker::workflow::{Completer, Flow, Stop, Workflow};
use locker_tests::{Fate, MINUTE, ada, held_by};

use crate::bench::{Desk, LATER};
use crate::plan::{fast, goes_on, hold, in_turn};
use crate::rule::{Trip, part, workflow};

/// A plan for one cause of doubt. After its list and before its read, the token is taken over and
/// left in doubt for another cause.
async fn plan_during_a_takeover(desk: &Desk, other_cause: &str) -> Plan {
    let (locker, _) = desk.bench.machine();
    let (asking, wire) = desk.bench.machine();
    let doubt = async |cause: &str| {
        let token = locker.token("pay/1").expect_within(MINUTE).take_over_after(MINUTE);
        held_by(token).await.leave_in_doubt(cause).await;
        desk.bench.clock.advance(MINUTE * 10);
    };
    doubt("the mail relay refused").await;
    wire.matching(|exchange| exchange.operation == "GetItem", Fate::HeldBefore);
    let console = Console::new().tokens(&asking);
    let filter = Filter::new().cause("mail relay");
    let operator = ada();
    let planning = console.plan(filter, Act::release(), &operator);
    let changing = async {
        while wire.held() == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        doubt(other_cause).await;
        wire.let_through();
    };
    tokio::join!(planning, changing).0.unwrap()
}

/// The card may have been charged.
const CHARGED: &str = "the card was sent to the provider, no reply";

#[tokio::test(start_paused = true)]
async fn record_that_changes_between_list_and_reading_is_left_out() {
    for other_cause in [CHARGED, "the mail relay closed the connection"] {
        let plan = plan_during_a_takeover(&Desk::new().await, other_cause).await;
        assert!(plan.items.is_empty(), "{plan:?}");
        assert_eq!(plan.left_out[0].because, "it has changed since it was listed; plan again");
        assert_eq!(plan.left_out[0].work.key(), "pay/1");
    }
}

/// A table whose index has no attempts, so that its entries have no revision.
async fn with_an_older_index(desk: &mut Desk) {
    let (client, table) = (&desk.bench.client, format!("{}-older", desk.bench.table));
    let text =
        |name| AttributeDefinition::builder().attribute_name(name).attribute_type(ScalarAttributeType::S);
    let key = |name, kind| KeySchemaElement::builder().attribute_name(name).key_type(kind).build().unwrap();
    let projection = Projection::builder().projection_type(ProjectionType::Include);
    let projection = ["created", "lockedBy", "class", "cause"]
        .into_iter()
        .fold(projection, |projection, name| projection.non_key_attributes(name));
    let index = GlobalSecondaryIndex::builder()
        .index_name("byStatus")
        .key_schema(key("status", KeyType::Hash))
        .key_schema(key("expectedCompletion", KeyType::Range))
        .projection(projection.build());
    let names = ["lockToken", "status", "expectedCompletion"];
    let created = client
        .create_table()
        .table_name(&table)
        .billing_mode(BillingMode::PayPerRequest)
        .set_attribute_definitions(Some(names.map(|name| text(name).build().unwrap()).to_vec()))
        .key_schema(key("lockToken", KeyType::Hash))
        .global_secondary_indexes(index.build().unwrap());
    created.send().await.unwrap();
    desk.bench.table = table;
}

#[tokio::test(start_paused = true)]
async fn record_of_an_older_index_that_no_longer_fits_is_left_out() {
    let mut desk = Desk::new().await;
    with_an_older_index(&mut desk).await;
    let plan = plan_during_a_takeover(&desk, CHARGED).await;
    assert!(plan.items.is_empty(), "{plan:?}");
    assert_eq!(plan.left_out[0].because, "it has changed since it was listed; plan again");
}

#[tokio::test(start_paused = true)]
async fn unreadable_record_is_left_out_by_name_and_the_others_are_planned() {
    let desk = Desk::new().await;
    let (locker, _) = desk.bench.machine();
    hold(&locker, 4).await;
    let mut newer = desk.bench.item("mail/3").await.unwrap();
    newer.insert("version".to_owned(), AttributeValue::N("9".to_owned()));
    desk.bench.put(newer).await;
    let console = Console::new().tokens(&locker);
    let plan = console.plan(Filter::new().need(Need::Held), Act::release(), &ada()).await.unwrap();
    assert_eq!((plan.found, plan.items.len(), plan.left_out.len()), (4, 3, 1));
    let left_out = &plan.left_out[0];
    assert_eq!(left_out.work.key(), "mail/3");
    assert!(
        left_out.because.starts_with("it cannot be read: the stored record has version 9"),
        "{left_out:?}"
    );
    assert_eq!(console.apply(&plan, &fast(), goes_on).await.unwrap().done, 3);
}

#[tokio::test(start_paused = true)]
async fn work_that_runs_by_now_is_left_by_a_plan_that_was_made_before() {
    let desk = Desk::new().await;
    let (locker, _) = desk.bench.machine();
    let _lock = held_by(locker.token("pay/1").expect_within(MINUTE)).await;
    desk.bench.clock.advance(MINUTE * 10);
    let runs = Arc::new(AtomicBool::new(false));
    let asked = Arc::clone(&runs);
    let console =
        Console::new().tokens(&locker).running(move |_: &Record| Some(asked.load(Ordering::SeqCst)));
    let overdue = Filter::new().need(Need::Overdue).prefix("pay/");
    let plan = console.plan(overdue, Act::release(), &ada()).await.unwrap();
    assert_eq!((plan.items.len(), plan.items[0].unknown.len()), (1, 0));
    runs.store(true, Ordering::SeqCst);
    let report = console.apply(&plan, &fast(), goes_on).await.unwrap();
    assert_eq!((report.done, report.not_possible), (0, 1), "{report:?}");
    runs.store(false, Ordering::SeqCst);
    assert_eq!(console.apply(&plan, &fast(), goes_on).await.unwrap().done, 1);

    // Without the fact, the plan states that it is unknown.
    let _lock = held_by(locker.token("pay/2").expect_within(MINUTE)).await;
    desk.bench.clock.advance(MINUTE * 10);
    let unknowing = Console::new().tokens(&locker);
    let plan = unknowing.plan(Filter::new().key("pay/2"), Act::release(), &ada()).await.unwrap();
    assert_eq!(plan.items[0].unknown, ["whether its work is still running is unknown here"]);
}

#[tokio::test(start_paused = true)]
async fn two_runs_of_one_plan_at_once_both_report_their_acts_as_done() {
    let desk = Desk::new().await;
    let (one, wire) = desk.bench.machine();
    let (other, _) = desk.bench.machine();
    hold(&one, 1).await;
    let (first, second) = (Console::new().tokens(&one), Console::new().tokens(&other));
    let plan = first.plan(Filter::new().need(Need::Held), Act::release(), &ada()).await.unwrap();
    // The first run has read the record, and its write waits.
    wire.matching(|exchange| exchange.operation == "TransactWriteItems", Fate::HeldBefore);
    let options = in_turn();
    let late = first.apply(&plan, &options, goes_on);
    let meanwhile = async {
        while wire.held() == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        // At another time, so that the first run cannot take this act for its own.
        desk.bench.clock.advance(MINUTE);
        let report = second.apply(&plan, &in_turn(), goes_on).await.unwrap();
        wire.let_through();
        report
    };
    let (late, report) = tokio::join!(late, meanwhile);
    assert_eq!((report.done, report.changed), (1, 0));
    let late = late.unwrap();
    assert_eq!((late.done, late.changed), (1, 0), "its own plan changed the record: {late:?}");
}

#[tokio::test(start_paused = true)]
async fn act_that_the_audit_does_not_show_yet_is_found_in_the_record() {
    let desk = Desk::new().await;
    let (locker, _) = desk.bench.machine();
    hold(&locker, 2).await;
    let console = Console::new().tokens(&locker);
    let plan = console.plan(Filter::new().need(Need::Held), Act::close(), &ada()).await.unwrap();
    assert_eq!(console.apply(&plan, &fast(), goes_on).await.unwrap().done, 2);
    // As long as the index lacks its entries, the audit is empty.
    for item in desk.bench.items().await {
        let key = item["lockToken"].as_s().unwrap();
        if key.contains(" audit ") {
            desk.bench.delete(key).await;
        }
    }
    let again = console.apply(&plan, &fast(), goes_on).await.unwrap();
    assert_eq!((again.done, again.done_before, again.changed), (2, 0, 0), "{again:?}");
}

#[tokio::test(start_paused = true)]
async fn cancel_is_for_the_planned_workflow_and_not_for_another_with_its_key() {
    let desk = Desk::new().await;
    let (workflows, _) = desk.machine_with(|_, limits| limits.retry_for = LATER * 72);
    workflow(&desk, &workflows, "failing", "trip/1").await;
    let console = Console::new().workflows(&workflows);
    let plan = console.plan(Filter::new().key("trip/1"), Act::cancel(), &ada()).await.unwrap();
    assert_eq!(plan.items.len(), 1);
    let of_another = |plan: &locker::operator::Plan| {
        let mut other = plan.clone();
        other.items[0].started = other.items[0].started.map(|at| at - Duration::from_secs(1));
        other.items[0].revision = "0123456789".to_owned();
        other
    };
    let report = console.apply(&of_another(&plan), &fast(), goes_on).await.unwrap();
    assert_eq!((report.done, report.changed), (0, 1), "another workflow had the key: {report:?}");
    desk.bench.clock.advance(LATER);
    Completer::new(&workflows).register(Trip("failing")).run().await.unwrap();
    let report = console.apply(&plan, &fast(), goes_on).await.unwrap();
    assert_eq!((report.done, report.changed), (1, 0), "{report:?}");
}

async fn header(desk: &Desk, workflow: &str) -> Option<HashMap<String, AttributeValue>> {
    let key = |text: &str| AttributeValue::S(text.to_owned());
    let got = desk.bench.client.get_item().table_name(&desk.table).consistent_read(true);
    let got = got.key("workflow", key(workflow)).key("item", key("#"));
    got.send().await.unwrap().item
}

/// Its charge says that it has begun, and waits for its provider.
#[derive(Clone)]
struct Charged {
    begun: Arc<tokio::sync::Semaphore>,
    replies: Arc<tokio::sync::Semaphore>,
}

impl Workflow for Charged {
    const NAME: &'static str = "charged";
    type Input = ();
    type Output = String;

    async fn run(&self, flow: &Flow, (): ()) -> Result<String, Stop> {
        let charge = |_| async {
            self.begun.add_permits(1);
            drop(self.replies.acquire().await);
            Ok("ch_1".to_owned())
        };
        flow.once("charge").compensate(&"refund").run(charge).await
    }
}

#[tokio::test]
async fn late_outcome_of_a_step_changes_what_an_operator_saw() {
    let desk = Desk::new().await;
    let (workflows, _) = desk.machine();
    let console = Console::new().workflows(&workflows);
    let none = || Arc::new(tokio::sync::Semaphore::new(0));
    let code = Charged { begun: none(), replies: none() };
    let (sleeper, wire) = desk.machine();
    let late = tokio::spawn({
        let code = code.clone();
        async move { sleeper.start(&code, "order/1", &()).run().await.map(drop) }
    });
    drop(code.begun.acquire().await);
    desk.settle(&code).await;
    assert_eq!(desk.quarantine().await, ["order/1"]);
    let seen = part(&console, "order/1").await;
    let (skip, stored) = (Act::skip().step("charge"), header(&desk, "order/1").await);
    let plan = console.plan(Filter::new().key("order/1"), skip.clone(), &ada()).await.unwrap();
    assert_eq!(plan.items.len(), 1, "{plan:?}");

    // The provider replies. The first driver records the outcome of its step, and crashes before it
    // writes the workflow.
    wire.matching(|exchange| exchange.request["Item"]["item"]["S"] == "#", Fate::HeldBefore);
    code.replies.add_permits(1);
    while wire.held() == 0 {
        assert!(!late.is_finished(), "it ended without a write of the workflow");
        tokio::task::yield_now().await;
    }
    late.abort();
    assert_eq!(header(&desk, "order/1").await, stored, "only the step is written");
    let now = part(&console, "order/1").await;
    assert_ne!(skip.id(&now.revision(), &ada()), skip.id(&seen.revision(), &ada()));
    let report = console.apply(&plan, &fast(), goes_on).await.unwrap();
    assert_eq!((report.done, report.changed, report.not_possible), (0, 1, 0), "{report:?}");
}
