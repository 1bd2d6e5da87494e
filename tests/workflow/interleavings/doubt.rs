//! A step in doubt, and attempts that come too late or too soon.

use std::sync::atomic::Ordering;
use std::time::Duration;

use locker::Failure;
use locker::Intervened;
use locker::workflow::{Completer, Outcome, ProbeOutcome, RetryPolicy, State};
use locker_tests::{Fate, ada};

use super::{Script, input, transient};
use crate::bench::{Desk, LATER};

#[tokio::test]
async fn a_step_in_doubt_stays_in_doubt_though_a_later_attempt_did_not_happen() {
    let desk = Desk::new().await;
    let script = Script::new(|flow, script| async move {
        flow.once("charge")
            .recognised_for(Duration::from_secs(24 * 3600))
            .compensate(&"refund")
            .retry(RetryPolicy::never())
            .run(|_| async {
                if script.call() == 0 {
                    script.books.enter("charged");
                    return Err(Failure::in_doubt("no reply".to_owned()));
                }
                Err(transient())
            })
            .await
    });
    let (workflows, _) = desk.machine();
    workflows.start(&script, "s/1", &input()).run().await.unwrap();
    desk.bench.clock.advance(LATER);
    Completer::new(&workflows).register(script.clone()).run().await.unwrap();
    assert_eq!(script.calls.load(Ordering::SeqCst), 2);
    assert_eq!(workflows.cancel("s/1", 1, &ada()).await.unwrap(), Intervened::Done);
    desk.settle(&script).await;
    assert_eq!(desk.view("s/1").await.state(), State::Cancelled);
    assert_eq!(script.books.entries(), ["charged", "undo charge"]);
}

#[tokio::test]
async fn no_attempt_is_made_once_another_driver_may_have_taken_the_step_over() {
    let desk = Desk::new().await;
    let script = Script::new(|flow, script| async move {
        flow.once("charge")
            .probe(|_| async { Ok(ProbeOutcome::NotDone) })
            .retry(RetryPolicy::default().total(Duration::from_secs(600)))
            .run(|_| async {
                if script.call() == 0 {
                    return Err(transient().after(Duration::from_secs(2)));
                }
                script.books.enter("charge");
                Ok("paid".to_owned())
            })
            .await
    });
    let first = tokio::spawn({
        let (workflows, script) = (desk.machine().0, script.clone());
        async move { workflows.start(&script, "s/1", &input()).run().await.map(drop) }
    });
    script.until(1).await;
    // It waits for the pause that the provider asks for, and its machine is suspended meanwhile.
    desk.bench.clock.advance(LATER);
    let outcome = desk.machine().0.start(&script, "s/1", &input()).run().await.unwrap();
    assert!(matches!(outcome, Outcome::Completed(_)), "{outcome:?}");
    first.await.unwrap().unwrap();
    assert_eq!(script.books.count("charge"), 1);
}

#[tokio::test]
async fn a_failed_step_that_an_operator_frees_runs_again() {
    let desk = Desk::new().await;
    let script = Script::new(|flow, script| async move {
        let done = flow.step("s").outcome(|_| async {
            if script.call() == 0 { Err(Failure::permanent("no".to_owned())) } else { Ok("done".to_owned()) }
        });
        Ok(done.await?.map_err(|failure| Failure::needs_operator(failure.error))?)
    });
    let (workflows, _) = desk.machine();
    workflows.start(&script, "s/1", &input()).run().await.unwrap();
    let seen = desk.view("s/1").await;
    assert_eq!(workflows.retry_step(&seen, "s", &ada()).await.unwrap(), Intervened::Done);
    desk.settle(&script).await;
    let view = desk.view("s/1").await;
    assert_eq!(view.state(), State::Completed, "{:?}", view.reason());
}

#[tokio::test]
async fn a_step_with_a_driver_at_work_is_not_freed() {
    let desk = Desk::new().await;
    let script = Script::new(|flow, script| async move {
        flow.once("charge")
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
    let seen = desk.view("s/1").await;
    let said = desk.machine().0.retry_step(&seen, "charge", &ada()).await.unwrap();
    desk.settle(&script).await;
    script.gate.add_permits(10);
    at_work.await.unwrap().unwrap();
    assert!(
        said != Intervened::Done && script.books.count("charged") == 1,
        "{said:?}: {:?}",
        script.books.entries()
    );
}

#[tokio::test]
async fn no_two_effects_share_an_idempotency_key() {
    let desk = Desk::new().await;
    let script = Script::new(|flow, script| async move {
        let enter = |attempt: locker::workflow::StepAttempt| {
            script.books.enter(attempt.idempotency_key());
            async { Ok(()) }
        };
        flow.once("charge").run(enter).await?;
        flow.once("shared").key("order/7/charge").run(enter).await?;
        flow.once("posing").key("card~v2").run(enter).await?;
        flow.once("version").key("card").version(2).run(enter).await?;
        Ok("done".to_owned())
    });
    desk.machine().0.start(&script, ("order", 7), &input()).run().await.unwrap();
    let keys = script.books.entries();
    let distinct: std::collections::BTreeSet<_> = keys.iter().collect();
    assert_eq!(distinct.len(), keys.len(), "{keys:?}");
}

#[tokio::test]
async fn a_permanent_failure_after_one_in_doubt_proves_nothing() {
    let desk = Desk::new().await;
    let script = Script::new(|flow, script| async move {
        flow.once("charge")
            .recognised_for(Duration::from_secs(24 * 3600))
            .compensate(&"refund")
            .run(|_| async {
                if script.call() == 0 {
                    script.books.enter("charged");
                    return Err(Failure::in_doubt("no reply".to_owned()));
                }
                Err::<String, _>(Failure::permanent("401: the token has expired".to_owned()))
            })
            .await
    });
    desk.machine().0.start(&script, "s/1", &input()).run().await.unwrap();
    desk.settle(&script).await;
    let compensated = script.books.count("undo charge") == 1;
    assert!(compensated || !desk.quarantine().await.is_empty(), "{:?}", script.books.entries());
}

#[tokio::test]
async fn a_step_that_became_atomic_is_a_clear_error() {
    let desk = Desk::new().await;
    let script = Script::new(|flow, script| async move {
        if script.call() == 0 {
            return flow.once("x").run(|_| async { Err(Failure::needs_operator("look".to_owned())) }).await;
        }
        flow.atomic("x").commit(&"done".to_owned()).await
    });
    let (workflows, _) = desk.machine();
    workflows.start(&script, "s/1", &input()).run().await.unwrap();
    let seen = desk.view("s/1").await;
    assert_eq!(workflows.retry(&seen, &ada()).await.unwrap(), Intervened::Done);
    desk.settle(&script).await;
    let view = desk.view("s/1").await;
    assert_eq!(view.state(), State::Running, "{:?}", view.result());
    assert!(view.reason().unwrap().contains("another kind"), "{:?}", view.reason());
}

#[tokio::test]
async fn a_completer_near_its_deadline_puts_nothing_in_doubt() {
    let desk = Desk::new().await;
    let script = Script::new(|flow, _| async move {
        let slow = |_| async {
            tokio::time::sleep(Duration::from_secs(2)).await;
            Ok("paid".to_owned())
        };
        flow.once("charge").run(slow).await
    });
    let (workflows, _) = desk.machine();
    workflows.start(&script, "s/1", &input()).enqueue().await.unwrap();
    desk.bench.clock.advance(LATER);
    let soon = desk.now() + Duration::from_millis(700);
    Completer::new(&workflows).register(script.clone()).deadline(soon).run().await.unwrap();
    desk.settle(&script).await;
    let view = desk.view("s/1").await;
    assert_eq!(view.state(), State::Completed, "{:?}", view.reason());
}

#[tokio::test]
async fn key_forgotten_during_a_pause_is_not_sent_again() {
    let desk = Desk::new().await;
    let script = Script::new(|flow, script| async move {
        flow.once("charge")
            .recognised_for(Duration::from_secs(2 * 3600))
            .run(|_| async {
                script.books.enter("charge");
                if script.call() == 0 {
                    // A pause that is never 0, so the step is extended before it.
                    let pause = Duration::from_millis(5);
                    return Err(Failure::in_doubt("no reply".to_owned()).after(pause));
                }
                Ok("paid".to_owned())
            })
            .await
    });
    let (workflows, wire) = desk.machine();
    // Start, start of the step, fence, and the extension for the pause.
    wire.next([Fate::Ok, Fate::Ok, Fate::Ok, Fate::HeldAfter]);
    let suspended = tokio::spawn({
        let script = script.clone();
        async move { workflows.start(&script, "s/1", &input()).run().await.unwrap() }
    });
    while wire.held() == 0 && !suspended.is_finished() {
        tokio::task::yield_now().await;
    }
    desk.bench.clock.advance(2 * LATER);
    wire.let_through();
    let outcome = suspended.await.unwrap();
    assert!(matches!(outcome, Outcome::InProgress(_)), "{outcome:?}");
    desk.settle(&script).await;
    assert_eq!(desk.quarantine().await, ["s/1"]);
    assert_eq!(script.books.entries(), ["charge"]);
}
