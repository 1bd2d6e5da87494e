//! An outcome that arrives after its step was cancelled, whoever had the step in between.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use locker::workflow::{
    Compensated, Compensation, Completer, Flow, Outcome, RetryPolicy, State, StepState, Stop, Workflow,
};
use locker::{Failure, Intervened};
use locker_tests::ada;

use super::{Script, input};
use crate::bench::{Desk, LATER};

/// The first call charges slowly; every other hears that a request with its key is in progress.
fn slow_charge(key: Option<&'static str>) -> Script {
    let mut script = Script::new(move |flow, script| async move {
        let charge = flow.once("charge");
        let charge = if let Some(key) = key { charge.key(key) } else { charge };
        charge
            .recognised_for(Duration::from_secs(24 * 3600))
            .retry(RetryPolicy::never())
            .compensate(&"refund")
            .run(|_| async {
                if script.call() > 0 {
                    return Err(Failure::in_doubt("409: in progress".to_owned()));
                }
                script.books.enter("charged");
                let _told = script.gate.acquire().await.unwrap();
                Ok("paid".to_owned())
            })
            .await
    });
    script.compensated = Compensated::Nothing;
    script
}

#[tokio::test]
async fn a_step_that_another_driver_had_taken_over_is_compensated_as_well() {
    for taken_over in [false, true] {
        let desk = Desk::new().await;
        let script = slow_charge(None);
        let first = tokio::spawn({
            let (workflows, script) = (desk.machine().0, script.clone());
            async move { workflows.start(&script, "s/1", &input()).run().await.unwrap() }
        });
        script.until(1).await;
        desk.bench.clock.advance(LATER);
        if taken_over {
            let completer = Completer::new(&desk.machine().0).register(script.clone());
            assert_eq!(completer.run().await.unwrap().waiting, 1);
            assert_eq!(script.calls.load(Ordering::SeqCst), 2);
        }
        assert_eq!(desk.machine().0.cancel("s/1", 1, &ada()).await.unwrap(), Intervened::Done);
        desk.settle(&script).await;
        assert_eq!(script.books.entries(), ["charged"], "the compensation found nothing");
        assert_eq!(desk.view("s/1").await.state(), State::Cancelled);

        script.gate.add_permits(1);
        let outcome = first.await.unwrap();
        assert!(!matches!(outcome, Outcome::Completed(_)), "{outcome:?}");
        for _ in 0..2 {
            desk.settle(&script).await;
        }
        assert_eq!(script.books.entries(), ["charged", "undo charge"], "taken over: {taken_over}");
        let view = desk.view("s/1").await;
        assert_eq!(view.steps()[0].state(), StepState::Compensated);
        assert_eq!(view.state(), State::Cancelled);
    }
}

#[tokio::test]
async fn a_shared_step_that_another_workflow_had_taken_over_is_compensated_by_that_one() {
    let desk = Desk::new().await;
    let script = slow_charge(Some("card/1"));
    let first = tokio::spawn({
        let (workflows, script) = (desk.machine().0, script.clone());
        let long = Duration::from_secs(100 * 3600);
        async move { workflows.start(&script, "a", &input()).expect_within(long).run().await.unwrap() }
    });
    script.until(1).await;
    desk.bench.clock.advance(LATER);
    desk.machine().0.start(&script, "b", &input()).run().await.unwrap();
    assert_eq!(desk.machine().0.cancel("b", 1, &ada()).await.unwrap(), Intervened::Done);
    desk.settle(&script).await;
    assert_eq!(desk.view("b").await.state(), State::Cancelled);

    script.gate.add_permits(1);
    first.await.unwrap();
    assert_eq!(desk.view("b").await.state(), State::Compensating, "it has to compensate");
    assert_eq!(desk.view("a").await.state(), State::Running, "it does not");
    desk.settle(&script).await;
    assert_eq!(script.books.count("undo charge"), 1);
    assert_eq!(desk.view("b").await.state(), State::Cancelled);
}

#[tokio::test]
async fn a_closed_workflow_shows_what_happens_after_all() {
    let desk = Desk::new().await;
    let script = Script::new(|flow, script| async move {
        flow.once("charge")
            .retry(RetryPolicy::never())
            .compensate(&"refund")
            .run(|_| async {
                script.call();
                let _told = script.gate.acquire().await.unwrap();
                script.books.enter("charged");
                Ok("paid".to_owned())
            })
            .await
    });
    let first = tokio::spawn({
        let (workflows, script) = (desk.machine().0, script.clone());
        async move { workflows.start(&script, "s/1", &input()).run().await.unwrap() }
    });
    script.until(1).await;
    desk.settle(&script).await;
    assert_eq!(desk.quarantine().await, ["s/1"], "it is in doubt");
    let seen = desk.view("s/1").await;
    assert_eq!(desk.machine().0.close(&seen, &ada()).await.unwrap(), Intervened::Done);
    assert!(desk.quarantine().await.is_empty());
    script.gate.add_permits(1);
    first.await.unwrap();
    assert_eq!(desk.quarantine().await, ["s/1"], "it charged after the close");
    assert_eq!(script.books.entries(), ["charged"], "the operator decides");
}

/// Until it is calm, its compensations find no charge, and fail at the booking.
#[derive(Clone)]
struct Moody(Script, Arc<AtomicBool>);

impl Workflow for Moody {
    const NAME: &'static str = "script";
    type Input = String;
    type Output = String;

    async fn run(&self, flow: &Flow, input: String) -> Result<String, Stop> {
        Workflow::run(&self.0, flow, input).await
    }

    async fn compensate(&self, _: &Flow, compensation: Compensation) -> Result<Compensated, Failure> {
        if !self.1.load(Ordering::SeqCst) {
            return match compensation.step() {
                "charge" => Ok(Compensated::Nothing),
                _ => Err(Failure::needs_operator("the hotel does not answer".to_owned())),
            };
        }
        self.0.books.enter(format!("undo {}", compensation.step()));
        Ok(Compensated::Done)
    }
}

#[tokio::test]
async fn after_a_close_only_what_came_after_it_is_compensated() {
    let desk = Desk::new().await;
    let script = Script::new(|flow, script| async move {
        flow.once("book").compensate(&"cancel").run(|_| async { Ok(1) }).await?;
        flow.once("charge")
            .compensate(&"refund")
            .run(|_| async {
                script.call();
                let _told = script.gate.acquire().await.unwrap();
                Ok("paid".to_owned())
            })
            .await
    });
    let code = Moody(script.clone(), Arc::default());
    let first = tokio::spawn({
        let (workflows, code) = (desk.machine().0, code.clone());
        async move { workflows.start(&code, "s/1", &input()).run().await.unwrap() }
    });
    script.until(1).await;
    assert_eq!(desk.machine().0.cancel("s/1", 1, &ada()).await.unwrap(), Intervened::Done);
    desk.settle(&code).await;
    let seen = desk.view("s/1").await;
    assert_eq!(desk.machine().0.close(&seen, &ada()).await.unwrap(), Intervened::Done);
    script.gate.add_permits(1);
    first.await.unwrap();
    assert_eq!(desk.quarantine().await, ["s/1"]);

    code.1.store(true, Ordering::SeqCst);
    let seen = desk.view("s/1").await;
    assert_eq!(desk.machine().0.retry(&seen, &ada()).await.unwrap(), Intervened::Done);
    desk.settle(&code).await;
    assert_eq!(script.books.entries(), ["undo charge"], "the operator repaired the rest by hand");
    assert_eq!(desk.view("s/1").await.state(), State::Cancelled);
}
