//! Steps with a key of their own that several workflows and an operator act on.

use std::time::Duration;

use locker::workflow::{Compensated, Completer, Outcome, ProbeOutcome, Reaper, State, Stop};
use locker::{Failure, Intervened, Retention};
use locker_tests::{Fate, ada};

use super::{Script, forever, input};
use crate::bench::{Desk, LATER};

#[tokio::test]
async fn a_late_outcome_of_a_shared_step_that_was_taken_over_is_compensated() {
    let desk = Desk::new().await;
    let script = Script::new(|flow, script| async move {
        flow.once("charge")
            .key("card/1")
            .probe(|_| async { Ok(ProbeOutcome::NotDone) })
            .compensate(&"refund")
            .run(|_| async {
                if script.call() == 0 {
                    return forever().await;
                }
                let _told = script.gate.acquire().await.unwrap();
                script.books.enter("charged");
                Ok("paid".to_owned())
            })
            .await
    });
    let script = Script { compensated: Compensated::Nothing, ..script };
    let dies = tokio::spawn({
        let (workflows, script) = (desk.machine().0, script.clone());
        async move { workflows.start(&script, "a", &input()).run().await.map(drop) }
    });
    script.until(1).await;
    dies.abort();
    desk.bench.clock.advance(LATER);
    let b = tokio::spawn({
        let (workflows, script) = (desk.machine().0, script.clone());
        let long = Duration::from_secs(100 * 3600);
        async move { workflows.start(&script, "b", &input()).expect_within(long).run().await.map(drop) }
    });
    script.until(2).await;
    assert_eq!(desk.machine().0.cancel("a", 1, &ada()).await.unwrap(), Intervened::Done);
    desk.settle(&script).await;
    assert_eq!(desk.view("a").await.state(), State::Cancelled);
    script.gate.add_permits(10);
    b.await.unwrap().unwrap();
    desk.settle(&script).await;
    let (charged, refunded) = (script.books.count("charged"), script.books.count("undo charge"));
    let state = desk.view("b").await.state();
    assert!(
        charged == refunded || state == State::Completed,
        "b is {state:?}; charged {charged}, refunded {refunded}"
    );
}

#[tokio::test]
async fn pivot_and_compensated_step_may_not_expire() {
    for is_pivot in [false, true] {
        let desk = Desk::new().await;
        let script = Script::new(move |flow, script| async move {
            let charge = flow.once("charge").key("card/1").retention(Retention::For(Duration::from_secs(60)));
            let charge = if is_pivot { charge.pivot() } else { charge.compensate(&"refund") };
            charge
                .run(|_| async {
                    script.books.enter("charged");
                    Ok("paid".to_owned())
                })
                .await
        });
        let outcome = desk.machine().0.start(&script, "s/1", &input()).run().await.unwrap();
        let Outcome::Quarantined(reason) = outcome else { panic!("{outcome:?}") };
        assert!(reason.contains("or of a step with a compensation, cannot expire"), "{reason}");
        assert!(script.books.entries().is_empty());
    }
}

#[tokio::test]
async fn a_pivot_with_a_key_that_failed_is_no_pivot() {
    let desk = Desk::new().await;
    let script = Script::new(|flow, _| async move {
        flow.once("a").compensate(&"undo").run(|_| async { Ok(()) }).await?;
        let fails = |_| async { Err::<(), _>(Failure::permanent("no".to_owned())) };
        flow.once("pivot").key("pivot/1").pivot().run(fails).await?;
        Ok("done".to_owned())
    });
    let outcome = desk.machine().0.start(&script, "s/1", &input()).run().await.unwrap();
    assert!(matches!(outcome, Outcome::Failed(_)), "{outcome:?}");
    assert_eq!(script.books.entries(), ["undo a"]);
}

#[tokio::test]
async fn an_operator_resolves_a_shared_step_that_has_only_its_pointer() {
    let desk = Desk::new().await;
    let script = Script::new(|flow, script| async move {
        flow.once("charge")
            .key("card/1")
            .run(|_| async {
                script.books.enter("charged");
                Ok("paid".to_owned())
            })
            .await
    });
    let (workflows, wire) = desk.machine();
    // Start, pointer, start of the step.
    wire.next([Fate::Ok, Fate::Ok, Fate::Stalls]);
    let dies = tokio::spawn({
        let script = script.clone();
        async move { workflows.start(&script, "s/1", &input()).run().await.map(drop) }
    });
    while wire.count() < 3 {
        tokio::task::yield_now().await;
    }
    dies.abort();
    let (workflows, _) = desk.machine();
    let seen = desk.view("s/1").await;
    let name = seen.steps()[0].name();
    let said = workflows.resolve_step(&seen, &name, &"paid by hand".into(), &ada()).await.unwrap();
    desk.settle(&script).await;
    let charged = script.books.count("charged");
    assert!(
        name == "charge" && (said != Intervened::Done || charged == 0),
        "step {name}: {said:?}, charged {charged}"
    );
}

#[tokio::test]
async fn a_shared_step_cancelled_in_doubt_can_be_repaired_for_others() {
    let desk = Desk::new().await;
    let script = Script::new(|flow, script| async move {
        flow.once("charge")
            .key("card/1")
            .compensate(&"refund")
            .run(|_| async {
                if script.call() == 0 {
                    return forever().await;
                }
                Ok("paid".to_owned())
            })
            .await
    });
    let script = Script { compensated: Compensated::Nothing, ..script };
    let dies = tokio::spawn({
        let (workflows, script) = (desk.machine().0, script.clone());
        async move { workflows.start(&script, "a", &input()).run().await.map(drop) }
    });
    script.until(1).await;
    dies.abort();
    let (workflows, _) = desk.machine();
    assert_eq!(workflows.cancel("a", 1, &ada()).await.unwrap(), Intervened::Done);
    desk.settle(&script).await;
    let outcome = workflows.start(&script, "b", &input()).run().await.unwrap();
    assert!(!matches!(outcome, Outcome::Failed(_)), "b was not cancelled: {outcome:?}");
}

#[tokio::test]
async fn a_new_run_does_not_compensate_what_the_former_one_did() {
    let desk = Desk::new().await;
    let script = Script::new(|flow, script| async move {
        let charge = flow.once("charge").key("card/1").compensate(&"refund").run(|_| async {
            script.books.enter("charged");
            Ok("paid".to_owned())
        });
        let paid = charge.await?;
        if script.call() == 0 { Ok(paid) } else { Err(Stop::fail("no")) }
    });
    let (workflows, _) = desk.machine();
    workflows.start(&script, "s/1", &input()).run().await.unwrap();
    desk.bench.clock.advance(Duration::from_secs(366 * 24 * 3600));
    Reaper::new(&Completer::new(&workflows).register(script.clone())).run().await.unwrap();
    let outcome = workflows.start(&script, "s/1", &input()).run().await.unwrap();
    assert!(matches!(outcome, Outcome::Failed(_)), "{outcome:?}");
    assert_eq!(script.books.entries(), ["charged"]);
}

#[tokio::test]
async fn an_operator_resolves_a_shared_step_that_was_never_recorded() {
    let desk = Desk::new().await;
    let script = Script::new(|flow, script| async move {
        flow.once("charge")
            .key("card/1")
            .run(|_| async {
                script.books.enter("charged");
                Ok("paid".to_owned())
            })
            .await
    });
    let (workflows, _) = desk.machine();
    workflows.start(&script, "s/1", &input()).enqueue().await.unwrap();
    let seen = desk.view("s/1").await;
    let said = workflows.resolve_step(&seen, "charge", &"paid by hand".into(), &ada()).await.unwrap();
    assert_eq!(said, Intervened::Done);
    desk.settle(&script).await;
    let view = desk.view("s/1").await;
    assert_eq!(view.state(), State::Completed, "{:?}", view.reason());
    assert!(script.books.entries().is_empty());
}

#[tokio::test]
async fn closed_workflow_with_a_shared_step_in_doubt_is_kept() {
    let desk = Desk::new().await;
    let script = Script::new(|flow, _| async move {
        let lost = |_| async { Err::<(), _>(Failure::in_doubt("no reply".to_owned())) };
        drop(flow.once("charge").key("card/1").compensate(&"refund").run(lost).await);
        Ok("done".to_owned())
    });
    let (workflows, _) = desk.machine();
    let outcome = workflows.start(&script, "s/1", &input()).run().await.unwrap();
    assert!(matches!(outcome, Outcome::Quarantined(_)), "{outcome:?}");
    let seen = desk.view("s/1").await;
    assert_eq!(workflows.close(&seen, &ada()).await.unwrap(), Intervened::Done);
    desk.bench.clock.advance(Duration::from_secs(366 * 24 * 3600));
    let reaped = Reaper::new(&Completer::new(&workflows).register(script.clone())).run().await.unwrap();
    assert_eq!((reaped.kept, reaped.deleted), (1, 0));
}
