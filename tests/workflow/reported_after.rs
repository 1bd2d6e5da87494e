//! Outcomes from outside that come when the step has passed through other hands.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use chrono::{DateTime, Utc};
use locker::workflow::{
    Compensated, Compensation, Completer, Flow, List, Outcome, Reaper, Reported, RetryPolicy, State,
    StepState, Stop, Workflow, Workflows,
};
use locker::{Clock, Failure, Intervened, Retention};
use locker_tests::{DAY, TestClock, ada};

use crate::bench::{Books, Desk, LATER};
use crate::reported::{Order, Reply, report, stored};

#[tokio::test]
async fn after_a_takeover_it_counts_and_the_first_driver_brings_nothing_new() {
    let desk = Desk::new().await;
    let code = Order { recognised: DAY, ..Order::new(&[Reply::Slow, Reply::Silent]) };
    let first = code.spawned(&desk, "o/1");
    code.until(1).await;
    desk.bench.clock.advance(LATER);
    let completer = Completer::new(&desk.machine().0).register(code.clone());
    assert_eq!(completer.run().await.unwrap().waiting, 1);
    assert_eq!(report(&desk, "o/1", "paid 0").await, Reported::Recorded);
    code.gate.add_permits(1);
    first.await.unwrap();
    desk.settle(&code).await;
    let view = desk.view("o/1").await;
    assert_eq!((view.state(), view.result()), (State::Completed, Some("\"paid 0\"")));
    assert_eq!(code.books.entries(), ["seat", "charge", "charge", "confirm paid 0"]);
}

#[tokio::test]
async fn report_of_a_shared_step_resumes_the_workflow_that_it_names() {
    for reported in ["a", "b"] {
        let desk = Desk::new().await;
        let code = Order { key: Some("card/1"), ..Order::new(&[Reply::Silent]) };
        code.run_to_quarantine(&desk, "a").await;
        code.run_to_quarantine(&desk, "b").await;
        assert_eq!(report(&desk, reported, "ch-1").await, Reported::Recorded);
        desk.settle(&code).await;
        let view = desk.view(reported).await;
        assert_eq!(
            (view.listed(), view.result()),
            (Some(List::Finished), Some("\"ch-1\"")),
            "reported to {reported}"
        );
        assert_eq!(code.books.count("charge"), 1);
    }
}

#[tokio::test]
async fn after_its_workflow_was_deleted_it_is_unknown() {
    for key in [None, Some("card/1")] {
        let desk = Desk::new().await;
        let code = Order { key, ..Order::new(&[Reply::Paid]) };
        let kept = Retention::For(Duration::from_secs(60));
        let (workflows, _) = desk.machine();
        let outcome = workflows.start(&code, "o/1", &()).retention(kept).run().await.unwrap();
        assert!(matches!(outcome, Outcome::Completed(_)), "{outcome:?}");
        desk.bench.clock.advance(LATER);
        let reaper = Reaper::new(&Completer::new(&workflows).register(code));
        assert_eq!(reaper.run().await.unwrap().deleted, 1);
        let before = stored(&desk).await;
        assert_eq!(report(&desk, "o/1", "ch-2").await, Reported::Unknown);
        assert_eq!(stored(&desk).await, before);
    }
}

#[tokio::test]
async fn a_workflow_in_quarantine_for_something_else_stays_there() {
    let desk = Desk::new().await;
    let code = Order::new(&[Reply::Slow]);
    let first = code.spawned(&desk, "o/1");
    code.until(1).await;
    // Its runs are exhausted while the step is in doubt.
    desk.bench.clock.advance(LATER);
    let (strict, _) = desk.machine_with(|_, limits| limits.crashes = 1);
    assert_eq!(Completer::new(&strict).register(code.clone()).run().await.unwrap().quarantined, 1);
    first.abort();
    assert_eq!(report(&desk, "o/1", "paid 0").await, Reported::Recorded);
    let view = desk.view("o/1").await;
    assert_eq!((view.listed(), view.steps()[1].state()), (Some(List::Quarantine), StepState::Completed));
    assert_eq!(view.reason(), Some("1 runs killed or hung their driver since an operator or the start"));
}

/// Goes on without a step that is in doubt.
#[derive(Clone)]
struct Careless;

impl Workflow for Careless {
    const NAME: &'static str = "careless";
    type Input = ();
    type Output = ();

    async fn run(&self, flow: &Flow, (): ()) -> Result<(), Stop> {
        let lost = |_| async { Err::<(), _>(Failure::in_doubt("no reply".to_owned())) };
        let charge = flow.once("charge").retry(RetryPolicy::never()).run(lost).await;
        assert!(charge.is_err());
        Ok(())
    }
}

#[tokio::test]
async fn after_the_end_that_a_step_in_doubt_never_happened_is_recorded() {
    let desk = Desk::new().await;
    let kept = Retention::For(Duration::from_secs(60));
    let (workflows, _) = desk.machine();
    let outcome = workflows.start(&Careless, "c/1", &()).retention(kept).run().await.unwrap();
    assert!(matches!(outcome, Outcome::Quarantined(_)), "{outcome:?}");
    let seen = desk.view("c/1").await;
    assert_eq!(workflows.close(&seen, &ada()).await.unwrap(), Intervened::Done);
    desk.bench.clock.advance(LATER);
    let reaper = Reaper::new(&Completer::new(&workflows).register(Careless));
    assert_eq!(reaper.run().await.unwrap().kept, 1, "it is evidence");
    assert_eq!(workflows.report("c/1", "charge").failed(&"declined").await.unwrap(), Reported::Recorded);
    assert_eq!(workflows.report("c/1", "charge").failed(&"declined").await.unwrap(), Reported::Known);
    let view = desk.view("c/1").await;
    assert_eq!((view.state(), view.steps()[0].state()), (State::Cancelled, StepState::Failed));
    desk.bench.clock.advance(LATER * 25);
    assert_eq!(reaper.run().await.unwrap().deleted, 1);
}

/// The same order, whose seat is freed slowly.
#[derive(Clone)]
struct SlowlyFreed(Order, Arc<AtomicBool>);

impl Workflow for SlowlyFreed {
    const NAME: &'static str = "order";
    type Input = ();
    type Output = String;

    async fn run(&self, flow: &Flow, (): ()) -> Result<String, Stop> {
        Workflow::run(&self.0, flow, ()).await
    }

    async fn compensate(&self, flow: &Flow, compensation: Compensation) -> Result<Compensated, Failure> {
        if compensation.name() == "free" {
            self.1.store(true, Ordering::SeqCst);
            drop(self.0.gate.acquire().await.unwrap());
        }
        Workflow::compensate(&self.0, flow, compensation).await
    }
}

#[tokio::test]
async fn outcome_during_a_compensation_is_compensated_before_the_end() {
    for key in [None, Some("card/1")] {
        let desk = Desk::new().await;
        let code = SlowlyFreed(Order { key, ..Order::new(&[Reply::Silent]) }, Arc::default());
        code.0.run_to_quarantine(&desk, "o/1").await;
        assert_eq!(desk.machine().0.cancel("o/1", 1, &ada()).await.unwrap(), Intervened::Done);
        desk.bench.clock.advance(Duration::from_secs(1));
        let compensates = tokio::spawn({
            let completer = Completer::new(&desk.machine().0).register(code.clone());
            async move { completer.run().await.unwrap() }
        });
        // The charge was not found.
        while !code.1.load(Ordering::SeqCst) {
            tokio::task::yield_now().await;
        }
        assert_eq!(report(&desk, "o/1", "ch-1").await, Reported::Compensates);
        code.0.gate.add_permits(1);
        compensates.await.unwrap();
        assert_eq!(desk.view("o/1").await.state(), State::Compensating, "{key:?}: not yet the end");
        desk.settle(&code).await;
        let provider_key = key.unwrap_or("o/1 charge");
        let undone = ["free 1 of o/1 seat".to_owned(), format!("refund \"ch-1\" of {provider_key}")];
        assert_eq!(code.0.books.entries()[2..], undone, "{key:?}");
        assert_eq!(desk.view("o/1").await.state(), State::Cancelled, "{key:?}");
    }
}

#[tokio::test]
async fn a_run_that_finds_another_driver_at_work_is_not_counted() {
    let desk = Desk::new().await;
    let code = Order { key: Some("card/1"), ..Order::new(&[Reply::Slow]) };
    let first = code.spawned(&desk, "a");
    code.until(1).await;
    let outcome = desk.machine().0.start(&code, "b", &()).run().await.unwrap();
    assert!(matches!(outcome, Outcome::InProgress(_)), "{outcome:?}");
    let view = desk.view("b").await;
    assert!(view.reason().unwrap().ends_with("may still be running"), "{:?}", view.reason());
    // Its seat is progress, which begins a new count.
    assert_eq!(view.attempts(), 0);
    code.gate.add_permits(1);
    first.await.unwrap();
    desk.settle(&code).await;
    assert_eq!(desk.view("b").await.result(), Some("\"paid 0\""));
}

/// A clock that goes on between two looks at it.
#[derive(Debug)]
struct Ticking(TestClock);

impl Clock for Ticking {
    fn now(&self) -> DateTime<Utc> {
        self.0.advance(Duration::from_millis(1));
        self.0.now()
    }
}

#[tokio::test]
async fn outcome_after_close_is_listed_and_not_compensated() {
    let desk = Desk::new().await;
    let code = Order::new(&[Reply::Silent]);
    code.run_to_quarantine(&desk, "o/1").await;
    let clock = Arc::new(Ticking(desk.bench.clock.clone()));
    let workflows = Workflows::builder(&desk.bench.client, &desk.table).with_clock(clock).build().unwrap();
    let seen = desk.view("o/1").await;
    assert_eq!(workflows.close(&seen, &ada()).await.unwrap(), Intervened::Done);
    assert_eq!(report(&desk, "o/1", "ch-1").await, Reported::Compensates);
    desk.settle(&code).await;
    assert_eq!(desk.view("o/1").await.listed(), Some(List::Quarantine));
    assert_eq!(code.books.entries(), ["seat", "charge"], "the operator decides");
}

/// Sends an invoice where the card is declined, as soon as the post is open.
#[derive(Clone)]
struct Invoice(Books, Arc<AtomicBool>);

impl Workflow for Invoice {
    const NAME: &'static str = "invoice";
    type Input = ();
    type Output = String;

    async fn run(&self, flow: &Flow, (): ()) -> Result<String, Stop> {
        let declined = |_| async { Err::<String, _>(Failure::permanent("declined".to_owned())) };
        if let Ok(receipt) = flow.once("charge").compensate(&"refund").outcome(declined).await? {
            return Ok(receipt);
        }
        let send = |_| async {
            let is_open = self.1.load(Ordering::SeqCst);
            if is_open { Ok("invoiced".to_owned()) } else { Err(Failure::transient("closed".to_owned())) }
        };
        flow.step("send").retry(RetryPolicy::never()).run(send).await
    }

    async fn compensate(&self, _: &Flow, compensation: Compensation) -> Result<Compensated, Failure> {
        self.0.enter(compensation.name());
        Ok(Compensated::Done)
    }
}

#[tokio::test]
async fn a_charge_after_all_is_refunded_if_the_code_has_gone_another_way() {
    let desk = Desk::new().await;
    let code = Invoice(Books::default(), Arc::default());
    let outcome = desk.machine().0.start(&code, "i/1", &()).run().await.unwrap();
    assert!(matches!(outcome, Outcome::InProgress(_)), "{outcome:?}");
    assert_eq!(report(&desk, "i/1", "ch-1").await, Reported::Compensates);
    code.1.store(true, Ordering::SeqCst);
    desk.settle(&code).await;
    let view = desk.view("i/1").await;
    assert_eq!((view.state(), view.result()), (State::Completed, Some("\"invoiced\"")));
    assert_eq!((code.0.entries(), view.steps()[0].state()), (vec!["refund".to_owned()], StepState::Failed));
}

#[tokio::test]
async fn a_step_that_an_operator_blocked_is_not_completed_from_outside() {
    let desk = Desk::new().await;
    let code = Order::new(&[Reply::Paid]);
    let (workflows, _) = desk.machine();
    workflows.start(&code, "o/1", &()).enqueue().await.unwrap();
    let seen = desk.view("o/1").await;
    assert_eq!(workflows.cancel_step(&seen, "charge", &ada()).await.unwrap(), Intervened::Done);
    assert_eq!(report(&desk, "o/1", "ch-1").await, Reported::Compensates);
    assert_eq!(desk.view("o/1").await.steps()[0].state(), StepState::Late);
    desk.settle(&code).await;
    // A charge without a compensation, since its code never ran: an operator refunds it.
    assert_eq!(desk.quarantine().await, ["o/1"]);
    let seen = desk.view("o/1").await;
    assert_eq!(workflows.skip_step(&seen, "charge", &ada()).await.unwrap(), Intervened::Done);
    desk.settle(&code).await;
    assert_eq!(code.books.entries(), ["seat", "free 1 of o/1 seat"]);
    assert_eq!(desk.view("o/1").await.state(), State::Failed);
}
