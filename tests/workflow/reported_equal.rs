//! Reports of outcomes that are recorded already, and of steps that accept none.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use aws_sdk_dynamodb::types::{AttributeValue, Put};
use locker::Failure;
use locker::workflow::{
    Compensated, Compensation, Flow, List, Outcome, Reported, RetryPolicy, State, StepState, Stop, Workflow,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::bench::{Books, Desk, LATER};
use crate::reported::stored;

/// A receipt as the code writes it: `json!` sorts the members in another order.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Receipt {
    id: String,
    amount: u32,
}

fn receipt() -> Receipt {
    Receipt { id: "ch-1".to_owned(), amount: 10 }
}

fn event() -> Value {
    json!({ "amount": 10, "id": "ch-1" })
}

/// Charges, and counts the calls. The first call waits for the gate.
#[derive(Clone)]
struct Charge {
    key: Option<&'static str>,
    calls: Arc<AtomicUsize>,
    gate: Arc<Semaphore>,
}

impl Charge {
    fn new(key: Option<&'static str>, permits: usize) -> Self {
        Self { key, calls: Arc::default(), gate: Arc::new(Semaphore::new(permits)) }
    }
}

impl Workflow for Charge {
    const NAME: &'static str = "charge";
    type Input = ();
    type Output = String;

    async fn run(&self, flow: &Flow, (): ()) -> Result<String, Stop> {
        let charge = flow.once("charge").retry(RetryPolicy::never()).compensate(&"refund");
        let charge = if let Some(key) = self.key { charge.key(key) } else { charge };
        let call = |_| async {
            if self.calls.fetch_add(1, Ordering::SeqCst) > 0 {
                return Err(Failure::in_doubt("no reply".to_owned()));
            }
            drop(self.gate.acquire().await.unwrap());
            Ok(receipt())
        };
        Ok(charge.run(call).await?.id)
    }
}

const KEYS: [Option<&str>; 2] = [None, Some("card/1")];

async fn report(desk: &Desk, step: &str, result: &impl Serialize) -> Reported {
    desk.machine().0.report("o/1", step).completed(result).await.unwrap()
}

#[tokio::test]
async fn equal_json_in_another_order_leaves_a_completed_workflow() {
    for key in KEYS {
        let desk = Desk::new().await;
        let outcome = desk.machine().0.start(&Charge::new(key, 1), "o/1", &()).run().await.unwrap();
        assert!(matches!(outcome, Outcome::Completed(_)), "{outcome:?}");
        let before = stored(&desk).await;
        assert_eq!(report(&desk, "charge", &event()).await, Reported::Known, "{key:?}");
        assert_eq!(stored(&desk).await, before, "{key:?}");
        assert_eq!(desk.view("o/1").await.state(), State::Completed);
    }
}

#[tokio::test]
async fn slow_driver_with_equal_json_finds_the_report() {
    for key in KEYS {
        let desk = Desk::new().await;
        let code = Charge::new(key, 0);
        let (workflows, first) = (desk.machine().0, code.clone());
        let drives = tokio::spawn(async move { workflows.start(&first, "o/1", &()).run().await.unwrap() });
        while code.calls.load(Ordering::SeqCst) == 0 {
            tokio::task::yield_now().await;
        }
        desk.bench.clock.advance(LATER);
        assert_eq!(report(&desk, "charge", &event()).await, Reported::Recorded, "{key:?}");
        code.gate.add_permits(1);
        drives.await.unwrap();
        assert_eq!(desk.quarantine().await, Vec::<String>::new(), "{key:?}");
        desk.settle(&code).await;
        let view = desk.view("o/1").await;
        assert_eq!((view.state(), view.result()), (State::Completed, Some("\"ch-1\"")), "{key:?}");
        assert_eq!(code.calls.load(Ordering::SeqCst), 1, "{key:?}");
    }
}

#[tokio::test]
async fn second_outcome_in_another_order_is_one_record() {
    let desk = Desk::new().await;
    desk.machine().0.start(&Charge::new(None, 1), "o/1", &()).run().await.unwrap();
    let second = Receipt { id: "ch-2".to_owned(), amount: 10 };
    assert_eq!(report(&desk, "charge", &second).await, Reported::Twice);
    let before = stored(&desk).await;
    assert_eq!(report(&desk, "charge", &json!({ "amount": 10, "id": "ch-2" })).await, Reported::Known);
    assert_eq!(stored(&desk).await, before);
}

#[tokio::test]
async fn number_with_another_text_is_a_second_outcome() {
    let desk = Desk::new().await;
    desk.machine().0.start(&Charge::new(None, 1), "o/1", &()).run().await.unwrap();
    assert_eq!(report(&desk, "charge", &json!({ "amount": 10.0, "id": "ch-1" })).await, Reported::Twice);
    assert_eq!(desk.quarantine().await, ["o/1"]);
}

/// A `step` and an `atomic`, which accept no outcome from outside.
#[derive(Clone)]
struct Recorded(String);

impl Workflow for Recorded {
    const NAME: &'static str = "recorded";
    type Input = ();
    type Output = ();

    async fn run(&self, flow: &Flow, (): ()) -> Result<(), Stop> {
        flow.step("quote").run(|_| async { Ok(7) }).await?;
        let row = Put::builder().table_name(&self.0).item("id", AttributeValue::S("row".into()));
        flow.atomic("book").put(row.build().unwrap()).commit(&7).await?;
        Ok(())
    }
}

#[tokio::test]
async fn steps_that_are_no_effects_refuse_reports() {
    let desk = Desk::new().await;
    let code = Recorded(desk.rows.clone());
    let outcome = desk.machine().0.start(&code, "o/1", &()).run().await.unwrap();
    assert!(matches!(outcome, Outcome::Completed(_)), "{outcome:?}");
    let before = stored(&desk).await;
    for step in ["quote", "book"] {
        for result in [7, 99] {
            assert_eq!(report(&desk, step, &result).await, Reported::NotAnEffect, "{step} {result}");
        }
        let failed = desk.machine().0.report("o/1", step).failed(&"never").await.unwrap();
        assert_eq!(failed, Reported::NotAnEffect, "{step}");
    }
    assert_eq!(stored(&desk).await, before);
}

/// Charges and fails. A step of its refund is in doubt, or the refund itself.
#[derive(Clone)]
struct Refunds {
    books: Books,
    by_step: bool,
}

impl Workflow for Refunds {
    const NAME: &'static str = "refunds";
    type Input = ();
    type Output = ();

    async fn run(&self, flow: &Flow, (): ()) -> Result<(), Stop> {
        let charge = |_| async { Ok("ch-1".to_owned()) };
        flow.once("charge").compensate(&"refund").run(charge).await?;
        Err(Stop::fail("no seat"))
    }

    async fn compensate(&self, flow: &Flow, _: Compensation) -> Result<Compensated, Failure> {
        let no_reply = || Failure::in_doubt("no reply".to_owned());
        if !self.by_step {
            self.books.enter("refund");
            return Err(no_reply());
        }
        let Ok(paid) = flow.once("pay-back").run(async |_| Err::<String, _>(no_reply())).await else {
            return Err(Failure::transient("it is not known whether it is paid back".to_owned()));
        };
        self.books.enter(format!("paid back by {paid}"));
        Ok(Compensated::Done)
    }
}

#[tokio::test]
async fn report_completes_a_step_of_a_compensation() {
    let desk = Desk::new().await;
    let code = Refunds { books: Books::default(), by_step: true };
    desk.machine().0.start(&code, "o/1", &()).run().await.unwrap();
    let name = "pay-back~in~compensation:charge";
    assert_eq!(step_state(&desk, name).await, Some(StepState::Started));
    desk.bench.clock.advance(LATER);
    assert_eq!(report(&desk, name, &"re-1").await, Reported::Recorded);
    desk.settle(&code).await;
    assert_eq!(report(&desk, name, &"re-1").await, Reported::Known);
    assert_eq!(code.books.entries(), ["paid back by re-1"]);
    let view = desk.view("o/1").await;
    assert_eq!((view.state(), view.listed()), (State::Failed, Some(List::Finished)));
}

async fn step_state(desk: &Desk, name: &str) -> Option<StepState> {
    let view = desk.view("o/1").await;
    view.steps().iter().find(|step| step.name() == name).map(|step| step.state())
}

#[tokio::test]
async fn report_completes_a_compensation_in_doubt() {
    let desk = Desk::new().await;
    let code = Refunds { books: Books::default(), by_step: false };
    desk.machine().0.start(&code, "o/1", &()).run().await.unwrap();
    assert_eq!(step_state(&desk, "compensation:charge").await, Some(StepState::Started));
    desk.bench.clock.advance(LATER);
    let before = stored(&desk).await;
    let wrong = desk.machine().0.report("o/1", "compensation:charge").completed(&"re-1").await.unwrap_err();
    assert!(wrong.to_string().contains(r#""done" or "nothing""#), "{wrong}");
    assert_eq!(stored(&desk).await, before);
    assert_eq!(report(&desk, "compensation:charge", &Compensated::Done).await, Reported::Recorded);
    desk.settle(&code).await;
    assert_eq!(report(&desk, "compensation:charge", &"done").await, Reported::Known);
    assert_eq!(code.books.entries(), ["refund"]);
    assert_eq!(desk.view("o/1").await.state(), State::Failed);
}

#[tokio::test]
async fn names_that_no_step_has_are_refused() {
    let desk = Desk::new().await;
    for name in ["", "a b", "charge v1", "a~b", "compensation:", "a~in~charge", "compensation:charge v2 v1"] {
        let refused = desk.machine().0.report("o/1", name).completed(&1).await;
        assert!(matches!(refused, Err(locker::Error::Invalid(_))), "{name:?}: {refused:?}");
    }
}
