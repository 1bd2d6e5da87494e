//! Code that was changed while a workflow was on its way: what was started and is not reached any
//! more is not passed over.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use locker::workflow::{
    Compensated, Compensation, Flow, List, Outcome, Reported, RetryPolicy, StepState, Stop, Workflow,
};
use locker::{Failure, Intervened};
use locker_tests::ada;

use crate::bench::{Books, Desk};

/// Charges in a step whose name a deployment changes.
#[derive(Clone)]
struct Shop {
    books: Books,
    step: &'static str,
    /// Whether the first call is silent.
    silent: Arc<AtomicBool>,
}

impl Shop {
    fn new() -> Self {
        Self { books: Books::default(), step: "charge", silent: Arc::new(AtomicBool::new(true)) }
    }

    fn renamed(&self) -> Self {
        Self { step: "charge_card", ..self.clone() }
    }
}

impl Workflow for Shop {
    const NAME: &'static str = "shop";
    type Input = ();
    type Output = String;

    async fn run(&self, flow: &Flow, (): ()) -> Result<String, Stop> {
        let charge = |_| async {
            self.books.enter(self.step);
            match self.silent.swap(false, Ordering::SeqCst) {
                true => Err(Failure::in_doubt("no reply".to_owned())),
                false => Ok("paid".to_owned()),
            }
        };
        // The first run is tried again, as by a deployment in between.
        let step =
            flow.once(self.step).retry(RetryPolicy::never()).recognised_for(Duration::from_secs(24 * 3600));
        step.compensate(&"refund").run(charge).await
    }

    async fn compensate(&self, _: &Flow, compensation: Compensation) -> Result<Compensated, Failure> {
        self.books.enter(compensation.name());
        Ok(Compensated::Done)
    }
}

async fn left_in_doubt(desk: &Desk) -> Shop {
    let code = Shop::new();
    let outcome = desk.machine().0.start(&code, "s/1", &()).run().await.unwrap();
    assert!(matches!(outcome, Outcome::InProgress(_)), "{outcome:?}");
    code
}

#[tokio::test]
async fn a_step_in_doubt_that_was_renamed_is_not_passed_over() {
    let desk = Desk::new().await;
    let code = left_in_doubt(&desk).await.renamed();
    desk.settle(&code).await;
    let view = desk.view("s/1").await;
    assert_eq!(view.listed(), Some(List::Quarantine));
    let reason = view.reason().unwrap();
    assert!(reason.contains("step charge is in doubt") && reason.contains("does not reach it"), "{reason}");
    // Once it is known what became of it, the workflow ends, and shows both.
    assert_eq!(
        desk.machine().0.report("s/1", "charge").failed(&"never arrived").await.unwrap(),
        Reported::Recorded
    );
    desk.settle(&code).await;
    let view = desk.view("s/1").await;
    assert_eq!(view.result(), Some("\"paid\""));
    assert_eq!(
        view.steps().iter().map(|step| step.state()).collect::<Vec<_>>(),
        [StepState::Failed, StepState::Completed]
    );
}

#[tokio::test]
async fn an_operator_who_cancels_it_has_both_compensated() {
    let desk = Desk::new().await;
    let code = left_in_doubt(&desk).await.renamed();
    desk.settle(&code).await;
    let seen = desk.view("s/1").await;
    assert_eq!(desk.machine().0.compensate(&seen, &ada()).await.unwrap(), Intervened::Done);
    desk.settle(&code).await;
    assert_eq!(code.books.entries(), ["charge", "charge_card", "refund", "refund"]);
}

#[tokio::test]
async fn code_that_still_has_the_step_ends_as_before() {
    let desk = Desk::new().await;
    let code = left_in_doubt(&desk).await;
    desk.settle(&code).await;
    assert_eq!(desk.view("s/1").await.result(), Some("\"paid\""));
    assert_eq!(code.books.entries(), ["charge", "charge"]);
}
