//! What an operator gave is corrected by an operator, and what the code cannot read does not stay
//! so.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use locker::workflow::{
    Compensated, Compensation, Flow, List, Outcome, Reported, RetryPolicy, State, StepState, Stop, Workflow,
};
use locker::{Error, Failure, Intervened};
use locker_tests::ada;
use serde_json::json;

use crate::bench::{Books, Desk};
use crate::reported::{Order, Reply};

/// Its charge is in doubt, and what it came to is read as a number.
#[derive(Clone)]
pub(crate) struct Counts;

impl Workflow for Counts {
    const NAME: &'static str = "counts";
    type Input = ();
    type Output = u32;

    async fn run(&self, flow: &Flow, (): ()) -> Result<u32, Stop> {
        let lost = |_| async { Err::<u32, _>(Failure::in_doubt("no reply".to_owned())) };
        flow.once("charge").retry(RetryPolicy::never()).run(lost).await
    }
}

#[tokio::test]
async fn a_result_that_was_mistyped_is_corrected() {
    let desk = Desk::new().await;
    let workflows = desk.machine().0;
    for (key, skipped) in [("counts/1", false), ("counts/2", true)] {
        workflows.start(&Counts, key, &()).run().await.unwrap();
        let seen = desk.view(key).await;
        let given = if skipped {
            workflows.skip_step(&seen, "charge", &ada()).await
        } else {
            workflows.resolve_step(&seen, "charge", &json!("1000"), &ada()).await
        };
        assert_eq!(given.unwrap(), Intervened::Done);
        desk.settle(&Counts).await;
        let seen = desk.view(key).await;
        assert_eq!(seen.listed(), Some(List::Quarantine));
        let reason = seen.reason().unwrap();
        assert!(reason.starts_with("the recorded result of step charge cannot be read"), "{reason}");
        let corrected = workflows.correct_step(&seen, "charge", &json!(1000), &ada()).await.unwrap();
        assert_eq!(corrected, Intervened::Done);
        desk.settle(&Counts).await;
        let outcome = workflows.start(&Counts, key, &()).run().await.unwrap();
        assert!(matches!(&outcome, Outcome::Completed(answer) if **answer == 1000), "{outcome:?}");
    }
}

/// Deployed anew, it reads what it recorded as something else; then its second step fails.
#[derive(Clone)]
struct Deployed(Arc<AtomicBool>);

impl Workflow for Deployed {
    const NAME: &'static str = "deployed";
    type Input = ();
    type Output = String;

    async fn run(&self, flow: &Flow, (): ()) -> Result<String, Stop> {
        let is_new = self.0.load(Ordering::SeqCst);
        flow.once("paid").run(|_| async { Ok(7) }).await?;
        if is_new {
            flow.once("sent").run(|_| async { Ok("s".to_owned()) }).await
        } else {
            flow.once("sent").run(|_| async { Ok(9) }).await?;
            let down = |_| async { Err::<String, _>(Failure::transient("down".to_owned())) };
            flow.step("later").retry(RetryPolicy::never()).run(down).await
        }
    }
}

#[tokio::test]
async fn only_what_the_code_cannot_read_or_an_operator_gave_is_corrected() {
    let desk = Desk::new().await;
    let code = Deployed(Arc::default());
    let workflows = desk.machine().0;
    workflows.start(&code, "d/1", &()).run().await.unwrap();
    code.0.store(true, Ordering::SeqCst);
    desk.settle(&code).await;
    let seen = desk.view("d/1").await;
    assert_eq!(seen.listed(), Some(List::Quarantine), "{:?}", seen.reason());
    let other = workflows.correct_step(&seen, "paid", &json!(8), &ada()).await.unwrap();
    assert_eq!(other, Intervened::NotPossible, "a result of the work that the code can read");
    let unreadable = workflows.correct_step(&seen, "sent", &json!("s-9"), &ada()).await.unwrap();
    assert_eq!(unreadable, Intervened::Done);
    let running = desk.view("d/1").await;
    let again = workflows.correct_step(&running, "sent", &json!("s-8"), &ada()).await.unwrap();
    assert_eq!(again, Intervened::NotPossible, "it is on its way");
    desk.settle(&code).await;
    assert_eq!(desk.view("d/1").await.result(), Some("\"s-9\""));
}

/// Two bookings, of which the second cannot be given back.
#[derive(Clone)]
struct Trip(Books);

impl Workflow for Trip {
    const NAME: &'static str = "trip";
    type Input = ();
    type Output = ();

    async fn run(&self, flow: &Flow, (): ()) -> Result<(), Stop> {
        for name in ["hotel", "seat"] {
            flow.once(name).compensate(&"cancel").run(|_| async { Ok(1) }).await?;
        }
        Err(Stop::fail("no taxi"))
    }

    async fn compensate(&self, _: &Flow, compensation: Compensation) -> Result<Compensated, Failure> {
        if compensation.step() == "seat" {
            return Err(Failure::permanent("it has taken off".to_owned()));
        }
        self.0.enter(format!("cancelled {}", compensation.step()));
        Ok(Compensated::Done)
    }
}

#[tokio::test]
async fn a_compensation_that_is_skipped_or_resolved_lets_the_others_go_on() {
    for resolved in [false, true] {
        let desk = Desk::new().await;
        let trip = Trip(Books::default());
        let workflows = desk.machine().0;
        workflows.start(&trip, "trip/1", &()).run().await.unwrap();
        let seen = desk.view("trip/1").await;
        assert_eq!(seen.listed(), Some(List::Quarantine));
        let step = "compensation:seat";
        let done = if resolved {
            for wrong in [json!(null), json!("refunded"), json!({"id": 7})] {
                let refused = workflows.resolve_step(&seen, step, &wrong, &ada()).await;
                assert!(matches!(refused, Err(Error::Form { .. })), "{wrong}: {refused:?}");
            }
            workflows.resolve_step(&seen, step, &json!("done"), &ada()).await
        } else {
            workflows.skip_step(&seen, step, &ada()).await
        };
        assert_eq!(done.unwrap(), Intervened::Done);
        desk.settle(&trip).await;
        let view = desk.view("trip/1").await;
        assert_eq!((view.state(), trip.0.entries()), (State::Failed, vec!["cancelled hotel".to_owned()]));
        let seat = view.steps().iter().find(|step| step.name() == "seat").expect("the step");
        assert_eq!(seat.state(), StepState::Compensated);
    }
}

#[tokio::test]
async fn skipped_step_of_a_compensating_workflow_left_nothing() {
    for key in [None, Some("card/1")] {
        let desk = Desk::new().await;
        let code = Order { key, ..Order::new(&[Reply::Silent]) };
        let workflows = desk.machine().0;
        code.run_to_quarantine(&desk, "o/1").await;
        assert_eq!(workflows.cancel("o/1", 1, &ada()).await.unwrap(), Intervened::Done);
        let seen = desk.view("o/1").await;
        assert_eq!((seen.state(), seen.steps()[1].state()), (State::Compensating, StepState::Started));
        assert_eq!(workflows.skip_step(&seen, "charge", &ada()).await.unwrap(), Intervened::Done);
        desk.settle(&code).await;
        let view = desk.view("o/1").await;
        assert_eq!((view.state(), view.steps()[1].state()), (State::Cancelled, StepState::Cancelled));
        assert_eq!(code.books.entries(), ["seat", "charge", "free 1 of o/1 seat"], "{key:?}");
        // It comes after all.
        assert_eq!(
            workflows.report("o/1", "charge").completed(&"ch-1").await.unwrap(),
            Reported::Compensates
        );
        desk.settle(&code).await;
        let undone = format!("refund \"ch-1\" of {}", key.unwrap_or("o/1 charge"));
        assert_eq!(code.books.entries()[3..], [undone], "{key:?}");
        assert_eq!(desk.view("o/1").await.state(), State::Cancelled);
    }
}

#[tokio::test]
async fn a_step_that_failed_is_not_skipped_and_then_compensated() {
    for key in [None, Some("card/1")] {
        let desk = Desk::new().await;
        let code = Order { key, ..Order::new(&[Reply::Silent]) };
        let workflows = desk.machine().0;
        code.run_to_quarantine(&desk, "o/1").await;
        let failed = workflows.report("o/1", "charge").failed(&"declined").await.unwrap();
        assert_eq!(failed, Reported::Recorded);
        assert_eq!(workflows.cancel("o/1", 1, &ada()).await.unwrap(), Intervened::Done);
        let seen = desk.view("o/1").await;
        assert_eq!((seen.state(), seen.steps()[1].state()), (State::Compensating, StepState::Failed));
        assert_eq!(workflows.skip_step(&seen, "charge", &ada()).await.unwrap(), Intervened::NotPossible);
        desk.settle(&code).await;
        assert_eq!(code.books.entries(), ["seat", "charge", "free 1 of o/1 seat"], "{key:?}");
    }
}
