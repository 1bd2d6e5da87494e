//! Names, keys and time that a driver, an operator or a compensation must not share.

use std::time::Duration;

use locker::workflow::{Compensated, Compensation, Completer, Flow, Outcome, RetryPolicy, Stop, Workflow};
use locker::{Clock as _, Failure, Intervened};
use locker_tests::{Fate, ada};

use super::{Script, input};
use crate::bench::{Desk, LATER};

#[derive(Clone)]
struct Tells;

impl Workflow for Tells {
    const NAME: &'static str = "tells-each";
    type Input = ();
    type Output = ();

    async fn run(&self, flow: &Flow, (): ()) -> Result<(), Stop> {
        for name in ["a", "b"] {
            flow.once(name).compensate(&"undo").run(|_| async { Ok(()) }).await?;
        }
        Err(Stop::fail("no"))
    }

    async fn compensate(&self, flow: &Flow, compensation: Compensation) -> Result<Compensated, Failure> {
        let told = flow.atomic("tell").message("undone", &compensation.step()).commit(&()).await;
        told.map_err(|stop| Failure::permanent(stop.to_string()))?;
        Ok(Compensated::Done)
    }
}

#[tokio::test]
async fn each_compensation_commits_its_own_message() {
    let desk = Desk::new().await;
    let outcome = desk.machine().0.start(&Tells, "tells/1", &()).run().await.unwrap();
    assert!(matches!(outcome, Outcome::Failed(_)), "{outcome:?}");
    let view = desk.view("tells/1").await;
    let told: Vec<_> =
        view.messages().iter().map(|message| (message.id(), message.body().to_owned())).collect();
    assert_eq!(told.len(), 2, "{told:?}");
}

#[tokio::test]
async fn a_step_is_not_freed_under_a_driver_whose_workflow_another_quarantined() {
    let desk = Desk::new().await;
    let script = Script::new(|flow, script| async move {
        flow.once("charge")
            .expect_within(Duration::from_secs(24 * 3600))
            .run(|_| async {
                if script.call() == 0 {
                    let _told = script.gate.acquire().await.unwrap();
                }
                script.books.enter("charged");
                Ok("paid".to_owned())
            })
            .await
    });
    let at_work = tokio::spawn({
        let (workflows, script) = (desk.machine().0, script.clone());
        async move { workflows.start(&script, "s/1", &input()).run().await.map(drop) }
    });
    script.until(1).await;
    desk.bench.clock.advance(LATER);
    let (other, _) = desk.machine_with(|_, limits| limits.attempts = 1);
    Completer::new(&other).register(script.clone()).run().await.unwrap();
    assert_eq!(desk.quarantine().await, ["s/1"]);
    let seen = desk.view("s/1").await;
    let said = desk.machine().0.retry_step(&seen, "charge", &ada()).await.unwrap();
    if said == Intervened::Done {
        desk.bench.clock.advance(Duration::from_secs(120));
        Completer::new(&desk.machine().0).register(script.clone()).run().await.unwrap();
    }
    script.gate.add_permits(10);
    at_work.await.unwrap().unwrap();
    assert!(script.books.count("charged") == 1, "{said:?}: {:?}", script.books.entries());
}

#[tokio::test]
async fn a_run_that_is_short_each_time_is_counted() {
    let desk = Desk::new().await;
    let clock = desk.bench.clock.clone();
    let script = Script::new(move |flow, script| {
        let clock = clock.clone();
        async move {
            script.call();
            clock.advance(Duration::from_secs(40));
            flow.once("charge").run(|_| async { Ok("paid".to_owned()) }).await
        }
    });
    let (workflows, _) = desk.machine();
    workflows.start(&script, "s/1", &input()).enqueue().await.unwrap();
    for _ in 0..25 {
        desk.bench.clock.advance(LATER);
        Completer::new(&workflows).register(script.clone()).run().await.unwrap();
    }
    let view = desk.view("s/1").await;
    assert!(
        view.steps().len() == 1 || view.listed() != Some(locker::workflow::List::Unfinished),
        "{} drives, {} attempts, {:?}",
        script.call(),
        view.attempts(),
        view.reason()
    );
}

#[tokio::test]
async fn a_key_that_was_sent_does_not_count_as_new() {
    let desk = Desk::new().await;
    let clock = desk.bench.clock.clone();
    let first = desk.now();
    let script = Script::new(move |flow, script| {
        let clock = clock.clone();
        async move {
            flow.once("charge")
                .recognised_for(Duration::from_secs(24 * 3600))
                .retry(RetryPolicy::never())
                .run(|attempt| {
                    let hours = (clock.now() - first).num_hours();
                    script.books.enter(format!("{} after {hours} h", attempt.idempotency_key()));
                    let call = script.call();
                    async move {
                        match call {
                            0 => Err(Failure::transient("503".to_owned())),
                            1 => Err(Failure::in_doubt("no reply".to_owned())),
                            _ => Ok("paid".to_owned()),
                        }
                    }
                })
                .await
        }
    });
    let (workflows, _) = desk.machine();
    workflows.start(&script, "s/1", &input()).run().await.unwrap();
    for _ in 0..2 {
        desk.bench.clock.advance(Duration::from_secs(20 * 3600));
        Completer::new(&workflows).register(script.clone()).run().await.unwrap();
    }
    assert_eq!(script.books.entries().len(), 2, "{:?}", script.books.entries());
}

#[tokio::test]
async fn a_step_that_no_driver_ran_is_not_in_doubt() {
    let desk = Desk::new().await;
    let script = Script::new(|flow, script| async move {
        flow.once("charge")
            .run(|_| async {
                script.books.enter("charged");
                Ok("paid".to_owned())
            })
            .await
    });
    let (workflows, wire) = desk.machine();
    // The header, the start of the step, and then its look at the header is refused.
    wire.next([Fate::Ok, Fate::Ok, Fate::Denied]);
    let _ = workflows.start(&script, "s/1", &input()).run().await;
    desk.settle(&script).await;
    let view = desk.view("s/1").await;
    assert_eq!(view.result(), Some("\"paid\""), "{:?}, {:?}", script.books.entries(), view.reason());
}
