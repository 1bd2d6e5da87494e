//! Whose a shared step is: each effect is compensated by the workflow that answers for it, and
//! once.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use locker::workflow::{
    Compensated, Compensation, Completer, Flow, Outcome, Reported, RetryPolicy, State, StepState, Stop,
    Workflow,
};
use locker::{Failure, Intervened, Retention};
use locker_tests::{DAY, Fate, ada};
use tokio::sync::Semaphore;

use super::{Script, forever, input};
use crate::bench::{Books, Desk, LATER};

/// Charges a shared card; the first call goes on for ever.
fn first_call_hangs() -> Script {
    Script::new(|flow, script| async move {
        flow.once("charge")
            .key("card/1")
            .recognised_for(DAY)
            .compensate(&"refund")
            .run(|_| async {
                if script.call() == 0 {
                    return forever().await;
                }
                script.books.enter("charged");
                Ok("paid".to_owned())
            })
            .await
    })
}

/// Workflow `a` dies in its call, and its step is in doubt.
async fn a_dies(desk: &Desk, script: &Script) {
    let dies = tokio::spawn({
        let (workflows, script) = (desk.machine().0, script.clone());
        async move { workflows.start(&script, "a", &input()).run().await.map(drop) }
    });
    script.until(1).await;
    dies.abort();
    desk.bench.clock.advance(LATER);
}

#[tokio::test]
async fn charge_of_another_workflow_is_not_refunded() {
    let desk = Desk::new().await;
    let script = first_call_hangs();
    a_dies(&desk, &script).await;
    assert_eq!(desk.machine().0.cancel("a", 1, &ada()).await.unwrap(), Intervened::Done);
    desk.bench.clock.advance(Duration::from_secs(1));
    let (workflows, wire) = desk.machine();
    // The completer of `a` is about to cancel the step, which it read as in doubt.
    wire.next(std::iter::repeat_n(Fate::Ok, 7).chain([Fate::HeldBefore]));
    let compensates = tokio::spawn({
        let completer = Completer::new(&workflows).register(script.clone());
        async move { completer.run().await.unwrap() }
    });
    for _ in 0..500 {
        if wire.held() > 0 || compensates.is_finished() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let outcome = desk.machine().0.start(&script, "b", &input()).run().await.unwrap();
    assert!(matches!(outcome, Outcome::Completed(_)), "{outcome:?}");
    wire.let_through();
    compensates.await.unwrap();
    let held = &wire.take()[7];
    let item = &held.request["Item"];
    assert_eq!((item["item"]["S"].as_str(), item["state"]["S"].as_str()), (Some("once"), Some("cancelled")));
    desk.settle(&script).await;
    assert_eq!(script.books.entries(), ["charged"], "`b` goes on with its charge");
    assert_eq!(desk.view("b").await.steps()[0].state(), StepState::Completed);
    assert_eq!(desk.view("a").await.state(), State::Cancelled);
}

/// The code of a script as another type of workflow, which other completers drive.
#[derive(Clone)]
struct Second(Script);

impl Workflow for Second {
    const NAME: &'static str = "second";
    type Input = String;
    type Output = String;

    async fn run(&self, flow: &Flow, input: String) -> Result<String, Stop> {
        self.0.run(flow, input).await
    }

    async fn compensate(&self, flow: &Flow, compensation: Compensation) -> Result<Compensated, Failure> {
        self.0.compensate(flow, compensation).await
    }
}

/// Workflow `a` charges and dies. Workflow `b` takes the charge over, is suspended at any of its
/// requests, and is cancelled meanwhile.
#[tokio::test]
async fn charge_is_refunded_once_if_any_takeover_request_is_late() {
    let charges_once = || {
        Script::new(|flow, script| async move {
            let charge = flow.once("charge").key("card/1").recognised_for(DAY).compensate(&"refund");
            charge
                .run(|_| async {
                    if script.call() == 0 {
                        script.books.enter("charged");
                        return forever().await;
                    }
                    // The provider recognises the key.
                    Ok("paid".to_owned())
                })
                .await
        })
    };
    let mut held = 0;
    for number in 1.. {
        let (desk, script) = (Desk::new().await, charges_once());
        a_dies(&desk, &script).await;
        let (workflows, wire) = desk.machine();
        wire.nth(number, Fate::HeldBefore);
        let mut b = tokio::spawn({
            let code = Second(script.clone());
            async move { workflows.start(&code, "b", &input()).run().await.map(drop) }
        });
        while wire.held() == 0 && !b.is_finished() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        if b.is_finished() {
            break;
        }
        held += 1;
        desk.machine().0.cancel("b", 1, &ada()).await.map(|_| ()).unwrap();
        desk.settle(&Second(script.clone())).await;
        wire.let_through();
        drop((&mut b).await.unwrap());
        desk.settle(&Second(script.clone())).await;
        desk.machine().0.cancel("a", 1, &ada()).await.map(|_| ()).unwrap();
        desk.settle(&script).await;
        let stands = desk.view("b").await.state() == State::Completed;
        let refunds = usize::from(!stands);
        assert_eq!(
            script.books.count("undo charge"),
            refunds,
            "request {number}: {:?}",
            script.books.entries()
        );
    }
    assert!(held > 4, "{held}");
}

/// Like the script, with a compensation that waits.
#[derive(Clone)]
struct Waits {
    script: Script,
    gate: Arc<Semaphore>,
    waiting: Arc<Semaphore>,
}

impl Workflow for Waits {
    const NAME: &'static str = "script";
    type Input = String;
    type Output = String;

    async fn run(&self, flow: &Flow, input: String) -> Result<String, Stop> {
        Workflow::run(&self.script, flow, input).await
    }

    async fn compensate(&self, _: &Flow, compensation: Compensation) -> Result<Compensated, Failure> {
        self.waiting.add_permits(1);
        let _told = self.gate.acquire().await.unwrap();
        self.script.books.enter(format!("undo {}", compensation.step()));
        Ok(Compensated::Done)
    }
}

#[tokio::test]
async fn a_compensation_marks_only_what_it_compensated() {
    let desk = Desk::new().await;
    let script = first_call_hangs();
    a_dies(&desk, &script).await;
    assert_eq!(desk.machine().0.cancel("a", 1, &ada()).await.unwrap(), Intervened::Done);
    desk.bench.clock.advance(Duration::from_secs(1));
    let code = Waits { script, gate: Arc::new(Semaphore::new(0)), waiting: Arc::new(Semaphore::new(0)) };
    let compensates = tokio::spawn({
        let completer = Completer::new(&desk.machine().0).register(code.clone());
        async move { completer.run().await.unwrap() }
    });
    drop(code.waiting.acquire().await.unwrap());
    let b = || async { desk.machine().0.start(&code, "b", &input()).run().await.unwrap() };
    let cancelled = b().await;
    assert!(!matches!(cancelled, Outcome::Completed(_)), "{cancelled:?}");
    let seen = desk.view("b").await;
    let same = desk.machine().0.retry_step(&seen, "charge", &ada()).await.unwrap();
    assert_eq!(same, Intervened::NotPossible, "the compensation of `a` would refund it");
    let freed = desk.machine().0.retry_step_with_new_key(&seen, "charge", &ada()).await.unwrap();
    assert_eq!(freed, Intervened::Done);
    let outcome = b().await;
    assert!(matches!(outcome, Outcome::Completed(_)), "{outcome:?}");
    code.gate.add_permits(1);
    compensates.await.unwrap();
    assert_eq!(desk.view("b").await.steps()[0].state(), StepState::Completed);
    assert_eq!(code.script.books.entries(), ["charged", "undo charge"], "of the call that hung");
    // The provider reports the first charge, with the name of the workflow that charged again.
    let report = desk.machine().0.report("b", "charge").step_version(1);
    assert_eq!(report.completed(&"paid").await.unwrap(), Reported::Known);
    desk.settle(&code).await;
    assert_eq!(code.script.books.count("undo charge"), 1, "it is refunded");
}

/// The same, and the driver of the refund dies at any request after it.
#[tokio::test]
async fn refund_whose_driver_dies_settles_the_version_in_the_next_run() {
    let mut held = 0;
    // The first request is the record of the refund.
    for number in 2.. {
        let desk = Desk::new().await;
        let script = first_call_hangs();
        a_dies(&desk, &script).await;
        desk.machine().0.cancel("a", 1, &ada()).await.map(|_| ()).unwrap();
        desk.bench.clock.advance(Duration::from_secs(1));
        let code = Waits { script, gate: Arc::new(Semaphore::new(0)), waiting: Arc::new(Semaphore::new(0)) };
        let (workflows, wire) = desk.machine();
        let compensates = tokio::spawn({
            let completer = Completer::new(&workflows).register(code.clone());
            async move { completer.run().await.map(drop) }
        });
        drop(code.waiting.acquire().await.unwrap());
        let second = Second(code.script.clone());
        let b = || async { desk.machine().0.start(&second, "b", &input()).run().await.unwrap() };
        drop(b().await);
        let seen = desk.view("b").await;
        let freed = desk.machine().0.retry_step_with_new_key(&seen, "charge", &ada()).await.unwrap();
        assert_eq!(freed, Intervened::Done);
        let outcome = b().await;
        assert!(matches!(outcome, Outcome::Completed(_)), "{outcome:?}");
        wire.nth(number, Fate::HeldBefore);
        code.gate.add_permits(100);
        while wire.held() == 0 && !compensates.is_finished() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        if compensates.is_finished() {
            break;
        }
        held += 1;
        compensates.abort();
        desk.settle(&code).await;
        let entries = code.script.books.entries();
        let refunds = code.script.books.count("undo charge");
        let report = desk.machine().0.report("b", "charge").step_version(1);
        let reported = report.completed(&"paid").await.unwrap();
        desk.settle_with(|completer| completer.register(code.clone()).register(second.clone())).await;
        assert_eq!(reported, Reported::Known, "request {number}: {entries:?}");
        assert_eq!((refunds, code.script.books.count("undo charge")), (1, 1), "request {number}");
    }
    assert!(held > 2, "{held}");
}

/// One key under two step names.
#[tokio::test]
async fn one_key_under_two_names_is_compensated_once() {
    let desk = Desk::new().await;
    let script = Script::new(|flow, script| async move {
        for name in ["charge", "pay"] {
            let books = script.books.clone();
            flow.once(name)
                .key("card/1")
                .compensate(&"refund")
                .run(|_| async {
                    books.enter("charged");
                    Ok(1)
                })
                .await?;
        }
        Err(Stop::fail("sold out"))
    });
    let outcome = desk.machine().0.start(&script, "s/1", &input()).run().await.unwrap();
    assert!(matches!(outcome, Outcome::Failed(_)), "{outcome:?}");
    let entries = script.books.entries();
    assert_eq!(entries.len(), 2, "{entries:?}");
    assert!(entries[1].starts_with("undo "), "{entries:?}");
}

#[tokio::test]
async fn a_step_with_a_key_that_was_renamed_on_the_way_is_compensated_once() {
    let desk = Desk::new().await;
    let script = Script::new(|flow, script| async move {
        let is_new = script.call() > 0;
        let books = script.books.clone();
        flow.once(if is_new { "charge" } else { "pay" })
            .key("card/1")
            .compensate(&"refund")
            .run(|_| async {
                books.enter("charged");
                Ok(1)
            })
            .await?;
        if is_new {
            return Err(Stop::fail("sold out"));
        }
        let down = |_| async { Err::<String, _>(super::transient()) };
        flow.step("down").retry(RetryPolicy::never()).run(down).await
    });
    desk.machine().0.start(&script, "s/1", &input()).run().await.unwrap();
    desk.settle(&script).await;
    assert_eq!(desk.view("s/1").await.state(), State::Failed);
    let entries = script.books.entries();
    assert_eq!((entries.len(), entries[0].as_str()), (2, "charged"), "{entries:?}");
}

/// An operator closes a workflow with two names for a charge in doubt.
#[tokio::test]
async fn workflow_with_two_names_for_one_charge_can_be_closed() {
    let desk = Desk::new().await;
    let script = Script::new(|flow, script| async move {
        let name = if script.call() == 0 { "pay" } else { "charge" };
        flow.once(name).key("card/1").compensate(&"refund").run(async |_| forever().await).await
    });
    let dies = tokio::spawn({
        let (workflows, script) = (desk.machine().0, script.clone());
        async move { workflows.start(&script, "a", &input()).run().await.map(drop) }
    });
    while desk.machine().0.get("a", 1).await.unwrap().is_none_or(|seen| seen.steps().is_empty()) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    tokio::time::sleep(Duration::from_millis(50)).await;
    dies.abort();
    desk.settle(&script).await;
    let seen = desk.view("a").await;
    let states: Vec<_> = seen.steps().iter().map(|step| (step.name(), step.state())).collect();
    assert_eq!(states.len(), 2, "{states:?}");
    assert_eq!(desk.machine().0.close(&seen, &ada()).await.unwrap(), Intervened::Done);
    assert_eq!(desk.view("a").await.steps()[0].state(), StepState::Cancelled);
}

/// Charges a shared card, with a refund only in workflow `a`.
#[derive(Clone)]
struct Mixed(Books, Arc<Semaphore>);

impl Workflow for Mixed {
    const NAME: &'static str = "mixed";
    type Input = ();
    type Output = ();

    async fn run(&self, flow: &Flow, (): ()) -> Result<(), Stop> {
        let has_refund = flow.key().as_str() == "a";
        let charge = flow.once("charge").key("card/1").recognised_for(DAY);
        let charge = match has_refund {
            true => charge.compensate(&"refund"),
            false => charge.retention(Retention::For(DAY)),
        };
        charge
            .run(|_| async {
                if has_refund {
                    self.1.add_permits(1);
                    return forever().await;
                }
                self.0.enter("charged");
                Ok(1)
            })
            .await?;
        Err(Stop::fail("sold out"))
    }

    async fn compensate(&self, _: &Flow, _: Compensation) -> Result<Compensated, Failure> {
        self.0.enter("undo");
        Ok(Compensated::Done)
    }
}

#[tokio::test]
async fn takeover_without_compensation_leaves_it_to_the_other_workflow() {
    let desk = Desk::new().await;
    let code = Mixed(Books::default(), Arc::new(Semaphore::new(0)));
    let dies = tokio::spawn({
        let (workflows, code) = (desk.machine().0, code.clone());
        async move { workflows.start(&code, "a", &()).run().await.map(drop) }
    });
    drop(code.1.acquire().await.unwrap());
    dies.abort();
    desk.bench.clock.advance(LATER);
    let outcome = desk.machine().0.start(&code, "b", &()).run().await.unwrap();
    assert!(matches!(outcome, Outcome::Failed(_)), "{outcome:?}");
    assert!(!charge_expires(&desk).await, "`a` compensates it");
    assert_eq!(desk.machine().0.cancel("a", 1, &ada()).await.unwrap(), Intervened::Done);
    desk.settle(&code).await;
    assert_eq!(code.0.entries(), ["charged", "undo"]);
}

/// Returns whether DynamoDB may delete the shared record.
async fn charge_expires(desk: &Desk) -> bool {
    let items = desk.items().await;
    let is_shared = |item: &&HashMap<_, AttributeValue>| item["item"].as_s().is_ok_and(|it| it == "once");
    items.iter().find(is_shared).expect("a shared record").contains_key("ttl")
}

/// A deployment replaces the compensation by a retention.
#[tokio::test]
async fn step_that_was_started_with_a_compensation_does_not_expire() {
    for is_resumed in [false, true] {
        let desk = Desk::new().await;
        let before = first_call_hangs();
        if is_resumed {
            a_dies(&desk, &before).await;
        }
        let after = Script::new(|flow, script| async move {
            let charge = flow.once("charge").key("card/1").recognised_for(DAY).retention(Retention::For(DAY));
            charge
                .run(|_| async {
                    script.books.enter("charged");
                    Ok("paid".to_owned())
                })
                .await
        });
        let outcome = desk.machine().0.start(&after, "a", &input()).run().await.unwrap();
        assert!(matches!(outcome, Outcome::Completed(_)), "{outcome:?}");
        assert_eq!(
            (after.books.entries(), charge_expires(&desk).await),
            (vec!["charged".to_owned()], !is_resumed)
        );
    }
}

#[tokio::test]
async fn a_step_that_needs_an_operator_may_have_happened_and_is_compensated() {
    let desk = Desk::new().await;
    let script = Script::new(|flow, script| async move {
        flow.once("charge")
            .compensate(&"refund")
            .run(|_| async {
                script.books.enter("charged");
                Err::<String, _>(Failure::needs_operator("the reply made no sense".to_owned()))
            })
            .await
    });
    let outcome = desk.machine().0.start(&script, "s/1", &input()).run().await.unwrap();
    assert!(matches!(outcome, Outcome::Quarantined(_)), "{outcome:?}");
    let seen = desk.view("s/1").await;
    assert_eq!(desk.machine().0.compensate(&seen, &ada()).await.unwrap(), Intervened::Done);
    desk.settle(&script).await;
    assert_eq!(script.books.entries(), ["charged", "undo charge"]);
    assert_eq!(desk.view("s/1").await.state(), State::Cancelled);
}
