//! A workflow ends by its records and by the stops that its run issued, for every value that its
//! code returns.

use std::time::Duration;

use locker::workflow::{
    Compensated, Compensation, Completer, Exhausted, Flow, List, Outcome, Reaper, Reported, RetryPolicy,
    State, StepState, Stop, Workflow,
};
use locker::{Failure, Intervened, Retention};
use locker_tests::{DAY, Exchange, Fate, ada};

use crate::bench::{Desk, LATER};
use crate::interleavings::{Script, forever, input};

/// The outcome, the steps, and the items in quarantine, after every due run.
async fn settled(desk: &Desk, script: &Script) -> (State, Vec<(String, StepState)>, Vec<String>) {
    desk.settle(script).await;
    let view = desk.view("s/1").await;
    let steps = view.steps().iter().map(|step| (step.name().to_owned(), step.state())).collect();
    (view.state(), steps, desk.quarantine().await)
}

async fn run(desk: &Desk, script: &Script) -> Outcome<String> {
    desk.machine().0.start(script, "s/1", &input()).run().await.unwrap()
}

async fn reason(desk: &Desk) -> String {
    desk.view("s/1").await.reason().unwrap_or_default().to_owned()
}

fn paid() -> Result<String, Failure> {
    Ok("paid".to_owned())
}

fn in_doubt() -> Result<String, Failure> {
    Err(Failure::in_doubt("no reply".to_owned()))
}

/// Polls the step until its work has begun, and drops it.
macro_rules! dropped {
    ($script:expr, $step:expr) => {{
        let before = $script.calls.load(std::sync::atomic::Ordering::SeqCst);
        tokio::select! {
            biased;
            _ = $step => {}
            () = $script.until(before + 1) => {}
        }
    }};
}

#[tokio::test]
async fn dropped_charge_keeps_the_workflow_open_and_is_shown() {
    let desk = Desk::new().await;
    let script = Script::new(|flow, script| async move {
        dropped!(
            script,
            flow.once("charge").run(async |_| {
                script.call();
                script.books.enter("charge");
                forever::<Result<String, Failure>>().await
            })
        );
        Ok("other way".to_owned())
    });
    let outcome = run(&desk, &script).await;
    let Outcome::InProgress(waiting) = outcome else { panic!("{outcome:?}") };
    // Its driver may be at work for 30 seconds.
    assert!(waiting.due() >= desk.now() + Duration::from_secs(30), "{waiting:?}");
    assert!(reason(&desk).await.contains("step charge may still be running"));
    let (state, steps, quarantine) = settled(&desk, &script).await;
    assert_eq!((state, quarantine), (State::Running, vec!["s/1".to_owned()]));
    assert_eq!(steps, [("charge".to_owned(), StepState::Started)]);
    assert!(reason(&desk).await.contains("step charge is in doubt"), "{}", reason(&desk).await);
    assert_eq!(script.books.entries(), ["charge"]);
    let seen = desk.view("s/1").await;
    let done = desk.machine().0.resolve_step(&seen, "charge", &"paid".into(), &ada()).await.unwrap();
    assert_eq!(done, Intervened::Done);
    assert_eq!(settled(&desk, &script).await.0, State::Completed);
}

#[tokio::test]
async fn loser_of_a_select_keeps_the_workflow_open() {
    let desk = Desk::new().await;
    let script = Script::new(|flow, script| async move {
        let ups = flow.once("ups").run(async |_| {
            script.books.enter("ups");
            script.call();
            forever::<Result<String, Failure>>().await
        });
        let dhl = async {
            script.until(1).await;
            flow.once("dhl").run(async |_| paid()).await
        };
        tokio::select! {
            biased;
            booked = dhl => booked,
            booked = ups => booked,
        }
    });
    let outcome = run(&desk, &script).await;
    assert!(matches!(outcome, Outcome::InProgress(_)), "{outcome:?}");
    let (state, steps, quarantine) = settled(&desk, &script).await;
    assert_eq!((state, quarantine), (State::Running, vec!["s/1".to_owned()]));
    assert!(steps.contains(&("ups".to_owned(), StepState::Started)), "{steps:?}");
    assert!(reason(&desk).await.contains("step ups is in doubt"), "{}", reason(&desk).await);
}

#[tokio::test]
async fn ignored_doubt_quarantines_the_workflow() {
    for key in [None, Some("card/1")] {
        let desk = Desk::new().await;
        let script = Script::new(move |flow, _| async move {
            let mut bonus = flow.once("bonus");
            if let Some(key) = key {
                bonus = bonus.key(key);
            }
            drop(bonus.run(async |_| in_doubt()).await);
            Ok("done".to_owned())
        });
        let outcome = run(&desk, &script).await;
        let Outcome::Quarantined(reason) = outcome else { panic!("{outcome:?}") };
        assert!(reason.contains("step bonus is in doubt"), "{reason}");
        assert_eq!(desk.quarantine().await, ["s/1"]);
    }
}

#[tokio::test]
async fn charge_of_a_branch_that_is_not_reached_again_is_shown() {
    for key in [None, Some("card/1")] {
        let desk = Desk::new().await;
        let script = Script::new(move |flow, script| async move {
            let first = script.call() == 0;
            let name = if first { "charge-a" } else { "charge-b" };
            let mut charge = flow.once(name).retry(RetryPolicy::never());
            if let (Some(key), true) = (key, first) {
                charge = charge.key(key);
            }
            charge
                .run(async |_| {
                    script.books.enter(name);
                    // The first driver crashes.
                    if first { forever().await } else { paid() }
                })
                .await
        });
        let first = tokio::spawn({
            let (workflows, script) = (desk.machine().0, script.clone());
            async move { workflows.start(&script, "s/1", &input()).run().await.map(drop) }
        });
        while script.books.entries().is_empty() {
            tokio::task::yield_now().await;
        }
        first.abort();
        desk.bench.clock.advance(LATER);
        let (state, steps, quarantine) = settled(&desk, &script).await;
        assert_eq!((state, quarantine), (State::Running, vec!["s/1".to_owned()]), "{key:?} {steps:?}");
        let reason = reason(&desk).await;
        assert!(reason.contains("step charge-a is in doubt"), "{reason}");
        assert_eq!(script.books.entries(), ["charge-a", "charge-b"]);
    }
}

/// The first driver is killed in a charge with a key of its own. The second run takes another
/// branch, and cannot read the charge at its end.
#[tokio::test]
async fn charge_that_cannot_be_read_keeps_the_workflow_open() {
    let desk = Desk::new().await;
    let script = Script::new(|flow, script| async move {
        if script.call() > 0 {
            return Ok("done".to_owned());
        }
        let charge = async |_| {
            script.books.enter("charge");
            forever::<Result<String, Failure>>().await
        };
        flow.once("charge").key("card/1").run(charge).await
    });
    let first = tokio::spawn({
        let (workflows, script) = (desk.machine().0, script.clone());
        async move { workflows.start(&script, "s/1", &input()).run().await.map(drop) }
    });
    while script.books.entries().is_empty() {
        tokio::task::yield_now().await;
    }
    first.abort();
    desk.bench.clock.advance(LATER);
    let (workflows, wire) = desk.machine();
    let reads = |it: &Exchange| it.operation == "GetItem" && it.request.to_string().contains("card/1");
    // The claim reads the charge, too.
    wire.matching(reads, Fate::Ok);
    wire.matching(reads, Fate::Denied);
    let outcome = workflows.start(&script, "s/1", &input()).run().await.unwrap();
    assert!(matches!(outcome, Outcome::InProgress(_)), "{outcome:?}");
    let (_, _, quarantine) = settled(&desk, &script).await;
    assert_eq!(quarantine, ["s/1"], "the next run reads it");
}

#[tokio::test]
async fn held_step_decides_whatever_the_other_branch_returns() {
    for way in ["ignored", "failed", "waiting"] {
        let desk = Desk::new().await;
        let script = Script::new(move |flow, _| async move {
            let held = async |_| Err::<String, _>(Failure::needs_operator("call us".to_owned()));
            drop(flow.once("pay-out").run(held).await);
            match way {
                "failed" => return Err(Stop::fail("no stock")),
                "waiting" => flow.sleep("pause", DAY).await?,
                _ => {}
            }
            Ok("done".to_owned())
        });
        let outcome = run(&desk, &script).await;
        let Outcome::Quarantined(reason) = outcome else { panic!("{way}: {outcome:?}") };
        assert!(reason.contains("pay-out"), "{way}: {reason}");
        assert_eq!(desk.quarantine().await, ["s/1"], "{way}");
        // It is closed as it was, and its evidence stays.
        let seen = desk.view("s/1").await;
        assert_eq!(desk.machine().0.close(&seen, &ada()).await.unwrap(), Intervened::Done);
        desk.bench.clock.advance(Duration::from_secs(366 * 24 * 3600));
        let reaper = Reaper::new(&Completer::new(&desk.machine().0).register(script.clone()));
        let reaped = reaper.run().await.unwrap();
        assert_eq!((reaped.deleted, reaped.kept), (0, 1), "{way}");
    }
}

#[tokio::test]
async fn held_step_with_its_own_key_never_expires() {
    let desk = Desk::new().await;
    let script = Script::new(|flow, script| async move {
        let charge = flow.once("charge").key("card/1").retention(Retention::For(DAY));
        charge
            .run(async |attempt| {
                script.books.enter(attempt.idempotency_key());
                Err::<String, _>(Failure::needs_operator("maybe charged, call us".to_owned()))
            })
            .await
    });
    assert!(matches!(run(&desk, &script).await, Outcome::Quarantined(_)));
    desk.bench.clock.advance(DAY * 3);
    let (workflows, _) = desk.machine();
    let second = workflows.start(&script, "s/2", &input()).run().await.unwrap();
    assert!(matches!(second, Outcome::Quarantined(_)), "{second:?}");
    assert_eq!(script.books.entries().len(), 1, "{:?}", script.books.entries());
    let items = desk.items().await;
    let held = items.iter().find(|item| item["item"].as_s().is_ok_and(|item| item == "once")).unwrap();
    assert!(!held.contains_key("ttl"), "DynamoDB would delete it");
}

#[tokio::test]
async fn earliest_wait_of_all_branches_wakes_the_workflow() {
    let desk = Desk::new().await;
    let start = desk.now();
    let script = Script::new(move |flow, _| async move {
        let (long, short) = (start + DAY * 10, start + DAY);
        let (one, other) = tokio::join!(flow.sleep_until("long", long), flow.sleep_until("short", short));
        one?;
        other?;
        Ok("done".to_owned())
    });
    let outcome = run(&desk, &script).await;
    let Outcome::InProgress(waiting) = outcome else { panic!("{outcome:?}") };
    assert_eq!(waiting.due(), start + DAY);
}

#[tokio::test]
async fn chosen_wait_does_not_delay_the_retry_of_another_branch() {
    let desk = Desk::new().await;
    let start = desk.now();
    let script = Script::new(move |flow, _| async move {
        let down = async |_| Err::<String, _>(Failure::transient("503".to_owned()));
        let mail = flow.step("mail").retry(RetryPolicy::never()).run(down);
        let (wait, mail) = tokio::join!(flow.sleep_until("pause", start + DAY), mail);
        wait?;
        mail
    });
    let outcome = run(&desk, &script).await;
    let Outcome::InProgress(waiting) = outcome else { panic!("{outcome:?}") };
    assert!(waiting.due() < start + Duration::from_secs(60), "{waiting:?}");
    // The failing branch uses up its attempts while the other branch waits.
    for _ in 0..400 {
        desk.bench.clock.advance(Duration::from_secs(15 * 60));
        desk.settle(&script).await;
    }
    assert_eq!(desk.quarantine().await, ["s/1"]);
}

#[tokio::test]
async fn retry_of_a_branch_does_not_delay_a_chosen_wait() {
    let desk = Desk::new().await;
    // Earlier than the least pause between two attempts.
    let until = desk.now() + Duration::from_millis(100);
    let script = Script::new(move |flow, _| async move {
        let down = async |_| Err::<String, _>(Failure::transient("503".to_owned()));
        let mail = flow.step("mail").retry(RetryPolicy::never()).run(down);
        let (wait, mail) = tokio::join!(flow.sleep_until("pause", until), mail);
        wait?;
        mail
    });
    let outcome = run(&desk, &script).await;
    let Outcome::InProgress(waiting) = outcome else { panic!("{outcome:?}") };
    assert_eq!(waiting.due(), until);
}

#[tokio::test]
async fn charge_dropped_by_try_join_is_not_compensated_while_unknown() {
    let desk = Desk::new().await;
    let script = Script::new(|flow, script| async move {
        let charge = flow.once("charge").compensate(&"refund").run(async |_| {
            script.books.enter("charge");
            script.call();
            forever::<Result<String, Failure>>().await
        });
        let stock = flow.once("stock").run(async |_| {
            script.until(1).await;
            Err::<String, _>(Failure::permanent("none left".to_owned()))
        });
        tokio::try_join!(charge, stock).map(|_| "done".to_owned())
    });
    let outcome = run(&desk, &script).await;
    assert!(matches!(outcome, Outcome::InProgress(_)), "{outcome:?}");
    let (state, _, quarantine) = settled(&desk, &script).await;
    assert_eq!((state, quarantine), (State::Running, vec!["s/1".to_owned()]));
    assert_eq!(script.books.entries(), ["charge"], "no compensation decides about an unknown charge");
    assert!(reason(&desk).await.contains("step charge is in doubt"), "{}", reason(&desk).await);
    // The operator finds that it happened.
    let seen = desk.view("s/1").await;
    let done = desk.machine().0.resolve_step(&seen, "charge", &"paid".into(), &ada()).await.unwrap();
    assert_eq!(done, Intervened::Done);
    assert_eq!(settled(&desk, &script).await.0, State::Failed);
    assert_eq!(script.books.entries(), ["charge", "undo charge"]);
}

#[tokio::test]
async fn cancel_in_doubt_without_compensation_is_shown_until_decided() {
    for skipped in [true, false] {
        let desk = Desk::new().await;
        let script = Script::new(|flow, _| async move { flow.once("pack").run(async |_| in_doubt()).await });
        assert!(matches!(run(&desk, &script).await, Outcome::Quarantined(_)));
        assert_eq!(desk.machine().0.cancel("s/1", 1, &ada()).await.unwrap(), Intervened::Done);
        let (state, steps, quarantine) = settled(&desk, &script).await;
        assert_eq!((state, quarantine), (State::Compensating, vec!["s/1".to_owned()]));
        assert_eq!(steps, [("pack".to_owned(), StepState::Started)]);
        assert!(reason(&desk).await.contains("step pack is in doubt"), "{}", reason(&desk).await);
        let (seen, workflows) = (desk.view("s/1").await, desk.machine().0);
        let done = match skipped {
            true => workflows.skip_step(&seen, "pack", &ada()).await.unwrap(),
            false => workflows.close(&seen, &ada()).await.unwrap(),
        };
        assert_eq!(done, Intervened::Done);
        assert_eq!(settled(&desk, &script).await.0, State::Cancelled);
    }
}

#[tokio::test]
async fn failure_with_a_doubt_of_an_earlier_run_is_shown() {
    let desk = Desk::new().await;
    let script = Script::new(|flow, script| async move {
        if script.call() > 0 {
            return Err(Stop::fail("too late"));
        }
        flow.once("pay-out").recognised_for(DAY).retry(RetryPolicy::never()).run(async |_| in_doubt()).await
    });
    assert!(matches!(run(&desk, &script).await, Outcome::InProgress(_)));
    let (state, _, quarantine) = settled(&desk, &script).await;
    assert_eq!((state, quarantine), (State::Running, vec!["s/1".to_owned()]));
}

#[tokio::test]
async fn answer_that_cannot_be_read_back_quarantines_the_workflow() {
    #[derive(Clone)]
    struct Odd;
    impl Workflow for Odd {
        const NAME: &'static str = "odd";
        type Input = ();
        type Output = f64;

        async fn run(&self, flow: &Flow, (): ()) -> Result<f64, Stop> {
            flow.once("charge").run(async |_| paid()).await?;
            Ok(f64::NAN)
        }
    }
    let desk = Desk::new().await;
    let outcome = desk.machine().0.start(&Odd, "s/1", &()).run().await.unwrap();
    assert!(matches!(outcome, Outcome::Quarantined(_)), "{outcome:?}");
}

#[tokio::test]
async fn task_left_behind_begins_no_step_after_the_code_returned() {
    let desk = Desk::new().await;
    let script = Script::new(|flow, script| async move {
        tokio::spawn(async move {
            let _returned = script.gate.acquire().await.unwrap();
            let late = flow.once("late").run(async |_| paid()).await;
            let atomic = flow.atomic("row").commit(&1).await;
            let step = flow.step("mail").run(async |_| paid()).await;
            script.books.enter(format!("{:?}", [late.is_ok(), atomic.is_ok(), step.is_ok()]));
            script.call();
        });
        Ok("done".to_owned())
    });
    let before = desk.items().await.len();
    assert!(matches!(run(&desk, &script).await, Outcome::Completed(_)));
    let ended = desk.items().await.len();
    script.gate.add_permits(1);
    script.until(1).await;
    assert_eq!(script.books.entries(), ["[false, false, false]"]);
    assert_eq!(desk.items().await.len(), ended, "nothing is written");
    assert!(ended > before);
}

#[tokio::test]
async fn step_that_stopped_can_be_repeated_in_the_same_run() {
    let desk = Desk::new().await;
    let script = Script::new(|flow, script| async move {
        for _ in 0..2 {
            let tried = flow.step("mail").retry(RetryPolicy::never()).run(async |_| match script.call() {
                0 => Err(Failure::transient("503".to_owned())),
                _ => paid(),
            });
            if let Ok(receipt) = tried.await {
                return Ok(receipt);
            }
        }
        Err(Stop::fail("the step returned no outcome"))
    });
    assert!(matches!(run(&desk, &script).await, Outcome::Completed(_)));
}

#[tokio::test]
async fn ignored_retry_of_a_step_is_still_retried() {
    let desk = Desk::new().await;
    let script = Script::new(|flow, script| async move {
        let mail = flow.step("mail").retry(RetryPolicy::never()).run(async |_| match script.call() {
            0 => Err(Failure::transient("503".to_owned())),
            _ => paid(),
        });
        drop(mail.await);
        Ok("done".to_owned())
    });
    assert!(matches!(run(&desk, &script).await, Outcome::InProgress(_)));
    let (state, steps, _) = settled(&desk, &script).await;
    assert_eq!((state, steps), (State::Completed, vec![("mail".to_owned(), StepState::Completed)]));
    assert_eq!(desk.view("s/1").await.listed(), Some(List::Finished));
}

#[tokio::test]
async fn start_without_a_reply_counts_as_started() {
    let desk = Desk::new().await;
    let (workflows, wire) = desk.machine();
    // The start of the step is applied, and its reply does not arrive before the code continues.
    wire.next([Fate::Ok, Fate::HeldAfter]);
    let script = {
        let wire = wire.clone();
        Script::new(move |flow, script| {
            let wire = wire.clone();
            async move {
                let charge = flow.once("charge").run(async |_| {
                    script.books.enter("charge");
                    paid()
                });
                let held = async {
                    while wire.held() == 0 {
                        tokio::task::yield_now().await;
                    }
                };
                tokio::select! {
                    biased;
                    () = held => Ok("other way".to_owned()),
                    done = charge => done,
                }
            }
        })
    };
    let outcome = workflows.start(&script, "s/1", &input()).run().await.unwrap();
    assert!(matches!(outcome, Outcome::InProgress(_)), "{outcome:?}");
    wire.let_through();
    let view = desk.view("s/1").await;
    assert_eq!(view.steps()[0].state(), StepState::Started);
    assert!(view.reason().unwrap().contains("step charge may still be running"));
}

/// A workflow of another type under the same key.
#[derive(Clone)]
struct Other(Script);

impl Workflow for Other {
    const NAME: &'static str = "other";
    type Input = String;
    type Output = String;

    async fn run(&self, flow: &Flow, _: String) -> Result<String, Stop> {
        flow.once("pay-out")
            .run(async |_| {
                self.0.books.enter("the other type pays");
                paid()
            })
            .await
    }
}

#[tokio::test]
async fn completer_runs_no_code_of_another_type() {
    let desk = Desk::new().await;
    let script = Script::new(|flow, script| async move {
        let pays = async |_| {
            script.books.enter("the first type pays");
            paid()
        };
        flow.once("pay-out").run(pays).await
    });
    let kept = Retention::For(Duration::from_secs(60));
    let (workflows, wire) = desk.machine();
    let completer = Completer::new(&workflows).register(script.clone());
    workflows.start(&script, "s/1", &input()).retention(kept).enqueue().await.unwrap();
    desk.bench.clock.advance(Duration::from_secs(1));
    // The completer has read the index, and is about to read the header.
    wire.matching(|it| it.operation == "GetItem", Fate::HeldBefore);
    let held = tokio::spawn(async move { completer.run().await.unwrap() });
    for _ in 0..10_000 {
        if wire.held() > 0 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(wire.held(), 1);
    // Now it ends and is deleted, and another type uses its key.
    desk.settle(&script).await;
    desk.bench.clock.advance(LATER);
    let reaper = Reaper::new(&Completer::new(&desk.machine().0).register(script.clone()));
    assert_eq!(reaper.run().await.unwrap().deleted, 1);
    let other = Other(script.clone());
    desk.machine().0.start(&other, "s/1", &input()).enqueue().await.unwrap();
    desk.bench.clock.advance(Duration::from_secs(1));
    wire.let_through();
    let report = held.await.unwrap();
    assert_eq!((report.taken_elsewhere, report.failed), (1, 0), "{report:?}");
    assert_eq!(script.books.count("the first type pays"), 1);
    desk.settle(&other).await;
    assert_eq!(desk.view("s/1").await.state(), State::Completed);
    assert_eq!(script.books.count("the other type pays"), 1);
}

/// Its refund waits for ten days.
#[derive(Clone)]
struct SlowRefund(Script);

impl Workflow for SlowRefund {
    const NAME: &'static str = "slow-refund";
    type Input = ();
    type Output = String;

    async fn run(&self, flow: &Flow, (): ()) -> Result<String, Stop> {
        flow.once("charge").compensate(&"refund").run(async |_| paid()).await?;
        Err(Stop::fail("no stock"))
    }

    async fn compensate(&self, flow: &Flow, _: Compensation) -> Result<Compensated, Failure> {
        self.0.call();
        flow.sleep("pause", DAY * 3650).await?;
        Ok(Compensated::Done)
    }
}

#[tokio::test]
async fn compensation_that_waits_uses_up_no_attempts() {
    let desk = Desk::new().await;
    let code = SlowRefund(Script::new(|_, _| async move { paid().map_err(Stop::fail) }));
    let (workflows, _) = desk.machine();
    let outcome = workflows.start(&code, "s/1", &()).run().await.unwrap();
    let Outcome::InProgress(waiting) = outcome else { panic!("{outcome:?}") };
    assert!(waiting.due() > desk.now() + DAY * 1000, "{waiting:?}");
    let view = desk.view("s/1").await;
    assert_eq!((view.listed(), view.attempts()), (Some(List::Unfinished), 0));
}

/// Its refund runs a step whose reply is lost.
#[derive(Clone)]
struct NestedRefund;

impl Workflow for NestedRefund {
    const NAME: &'static str = "nested-refund";
    type Input = ();
    type Output = ();

    async fn run(&self, flow: &Flow, (): ()) -> Result<(), Stop> {
        flow.once("charge").compensate(&"refund").run(async |_| paid()).await?;
        Err(Stop::fail("no stock"))
    }

    async fn compensate(&self, flow: &Flow, _: Compensation) -> Result<Compensated, Failure> {
        flow.once("pay-back").run(async |_| in_doubt()).await?;
        Ok(Compensated::Done)
    }
}

#[tokio::test]
async fn step_of_a_compensation_in_doubt_is_shown_until_it_is_decided() {
    let desk = Desk::new().await;
    let (workflows, _) = desk.machine();
    let outcome = workflows.start(&NestedRefund, "s/1", &()).run().await.unwrap();
    assert!(matches!(outcome, Outcome::Quarantined(_)), "{outcome:?}");
    // The operator decides about the compensation. Its own step is still in doubt.
    let seen = desk.view("s/1").await;
    let resolved =
        workflows.resolve_step(&seen, "compensation:charge", &"done".into(), &ada()).await.unwrap();
    assert_eq!(resolved, Intervened::Done);
    desk.settle(&NestedRefund).await;
    let seen = desk.view("s/1").await;
    assert_eq!((seen.state(), seen.listed()), (State::Compensating, Some(List::Quarantine)));
    let name = seen.steps().iter().map(|step| step.name()).find(|name| name.starts_with("pay-back")).unwrap();
    assert!(seen.reason().unwrap().contains(&name), "{:?}", seen.reason());
    let resolved = workflows.resolve_step(&seen, &name, &"paid".into(), &ada()).await.unwrap();
    assert_eq!(resolved, Intervened::Done);
    desk.settle(&NestedRefund).await;
    assert_eq!(desk.view("s/1").await.state(), State::Failed);
    // Nothing keeps it from being deleted.
    desk.bench.clock.advance(Duration::from_secs(366 * 24 * 3600));
    let reaper = Reaper::new(&Completer::new(&workflows).register(NestedRefund));
    assert_eq!(reaper.run().await.unwrap().deleted, 1);
}

#[tokio::test]
async fn report_during_a_failing_attempt_makes_the_workflow_due() {
    let desk = Desk::new().await;
    let script = Script::new(|flow, script| async move {
        let charge = flow.once("charge").run(async |_| {
            script.call();
            let _reported = script.gate.acquire().await.unwrap();
            Err::<String, _>(Failure::permanent("declined".to_owned()))
        });
        charge.await
    });
    let first = tokio::spawn({
        let (workflows, script) = (desk.machine().0, script.clone());
        async move { workflows.start(&script, "s/1", &input()).run().await.unwrap() }
    });
    script.until(1).await;
    desk.bench.clock.advance(Duration::from_secs(40));
    let reported = desk.machine().0.report("s/1", "charge").completed(&"paid").await.unwrap();
    assert_eq!(reported, Reported::Recorded);
    script.gate.add_permits(1);
    let outcome = first.await.unwrap();
    assert!(matches!(outcome, Outcome::InProgress(_)), "{outcome:?}");
    assert_eq!(desk.view("s/1").await.locked_by(), None, "it is released");
    assert_eq!(settled(&desk, &script).await.0, State::Completed);
}

#[tokio::test]
async fn failure_after_a_start_without_a_reply_waits() {
    let desk = Desk::new().await;
    let (workflows, wire) = desk.machine_with(|settings, _| settings.give_up_after = Duration::from_secs(2));
    // The start of the step is applied, and its reply never arrives.
    wire.next([Fate::Ok, Fate::Hangs]);
    let script = Script::new(|flow, _| async move {
        flow.once("pay-out").run(async |_| paid()).await.map_err(|_| Stop::fail("DynamoDB is down"))
    });
    let outcome = workflows.start(&script, "s/1", &input()).run().await.unwrap();
    assert!(matches!(outcome, Outcome::InProgress(_)), "{outcome:?}");
    let view = desk.view("s/1").await;
    assert_eq!((view.state(), view.steps()[0].state()), (State::Running, StepState::Started));
}

#[tokio::test]
async fn start_after_the_code_returned_is_refused() {
    let desk = Desk::new().await;
    let (workflows, wire) = desk.machine();
    // The step has its pointer, and its reply does not arrive before the code returns.
    wire.next([Fate::Ok, Fate::HeldAfter]);
    let script = {
        let wire = wire.clone();
        Script::new(move |flow, script| {
            let wire = wire.clone();
            async move {
                tokio::spawn(async move {
                    let charge = flow.once("charge").key("card/1").run(async |_| {
                        script.books.enter("charge");
                        paid()
                    });
                    let stop = charge.await.map_or_else(|stop| stop.to_string(), |_| "no stop".to_owned());
                    script.books.enter(stop);
                    script.call();
                });
                while wire.held() == 0 {
                    tokio::task::yield_now().await;
                }
                Ok("done".to_owned())
            }
        })
    };
    let outcome = workflows.start(&script, "s/1", &input()).run().await.unwrap();
    assert!(matches!(outcome, Outcome::Completed(_)), "{outcome:?}");
    let ended = desk.items().await.len();
    wire.let_through();
    script.until(1).await;
    let stops = script.books.entries();
    assert!(stops.len() == 1 && stops[0].ends_with("the code of this workflow has returned"), "{stops:?}");
    assert_eq!(desk.items().await.len(), ended, "nothing is written");
}

/// A script that is compensated once its attempts are exhausted.
#[derive(Clone)]
struct GivesUp(Script);

impl Workflow for GivesUp {
    const NAME: &'static str = "gives-up";
    type Input = String;
    type Output = String;

    async fn run(&self, flow: &Flow, input: String) -> Result<String, Stop> {
        self.0.run(flow, input).await
    }

    async fn compensate(&self, flow: &Flow, compensation: Compensation) -> Result<Compensated, Failure> {
        self.0.compensate(flow, compensation).await
    }

    fn exhausted(&self) -> Exhausted {
        Exhausted::Compensate
    }
}

#[tokio::test]
async fn exhausted_workflow_waits_for_a_charge_at_work() {
    let desk = Desk::new().await;
    let code = GivesUp(Script::new(|flow, script| async move {
        let charge = flow.once("charge").compensate(&"refund").run(async |_| {
            script.call();
            forever::<Result<String, Failure>>().await
        });
        dropped!(script, charge);
        let down = async |_| Err(Failure::transient("503".to_owned()));
        flow.step("mail").retry(RetryPolicy::never()).run(down).await
    }));
    let (workflows, _) = desk.machine_with(|_, limits| limits.attempts = 1);
    let outcome = workflows.start(&code, "s/1", &input()).run().await.unwrap();
    assert!(matches!(outcome, Outcome::InProgress(_)), "{outcome:?}");
    assert_eq!(desk.view("s/1").await.state(), State::Running, "the charge may still come");
    desk.settle(&code).await;
    assert_eq!(desk.quarantine().await, ["s/1"]);
    assert_eq!(code.0.books.entries(), Vec::<String>::new(), "nothing is compensated");
}

#[tokio::test]
async fn exhausted_doubt_without_compensation_is_shown() {
    let desk = Desk::new().await;
    let code = GivesUp(Script::new(|flow, _| async move {
        flow.once("pay-out").recognised_for(DAY).retry(RetryPolicy::never()).run(async |_| in_doubt()).await
    }));
    let (workflows, _) = desk.machine_with(|_, limits| limits.attempts = 1);
    let outcome = workflows.start(&code, "s/1", &input()).run().await.unwrap();
    let Outcome::Quarantined(reason) = outcome else { panic!("{outcome:?}") };
    assert!(reason.contains("step pay-out is in doubt"), "{reason}");
}
