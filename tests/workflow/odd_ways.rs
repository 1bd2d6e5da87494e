//! Outcomes that come by ways which nobody plans for, and what an operator says of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use locker::workflow::{
    Compensated, Compensation, Completer, Flow, Limits, List, Outcome, Reaper, Reported, RetryPolicy, State,
    StepState, Stop, Workflow, Workflows,
};
use locker::{Failure, Intervened};
use locker_tests::{DAY, ada};
use tokio::sync::Semaphore;

use crate::bench::{Books, Desk, LATER};
use crate::interleavings::{Script, input};
use crate::reported::{Order, Reply, report};

const YEAR: Duration = Duration::from_secs(366 * 24 * 3600);

fn order(key: Option<&'static str>, replies: &[Reply]) -> Order {
    Order { key, ..Order::new(replies) }
}

fn refunds(books: &Books) -> Vec<String> {
    books.entries().into_iter().filter(|entry| entry.starts_with("refund")).collect()
}

/// "Repeating a report is harmless": a webhook that is delivered again, for a charge that was
/// refunded, and whose key another workflow has used since under its next version, is known.
#[tokio::test]
async fn repeated_report_is_not_compensated_twice() {
    let desk = Desk::new().await;
    let code = order(Some("card/1"), &[Reply::Silent, Reply::Paid]);
    code.run_to_quarantine(&desk, "o/1").await;
    assert_eq!(report(&desk, "o/1", "ch-1").await, Reported::Recorded);
    assert_eq!(desk.machine().0.cancel("o/1", 1, &ada()).await.unwrap(), Intervened::Done);
    desk.settle(&code).await;
    assert_eq!(refunds(&code.books), ["refund \"ch-1\" of card/1"]);
    // Another workflow charges again, under the next version of the key.
    let second = code.spawned(&desk, "o/2").await.unwrap();
    assert!(matches!(second, Outcome::Completed(_)), "{second:?}");
    // The provider delivers its first message once more. The key that it shows is of version 1.
    let reported = desk.machine().0.report("o/1", "charge").step_version(1).completed(&"ch-1").await.unwrap();
    desk.settle(&code).await;
    assert_eq!(
        (reported, refunds(&code.books)),
        (Reported::Known, vec!["refund \"ch-1\" of card/1".to_owned()]),
        "{:?}",
        desk.view("o/1").await.steps()
    );
}

/// The same without a message from outside: the slow driver whose charge was answered to another
/// one, completed and refunded, comes back after the next version was begun.
#[tokio::test]
async fn slow_driver_after_a_compensation_is_not_compensated_twice() {
    let desk = Desk::new().await;
    let code = Order { recognised: DAY, ..order(Some("card/1"), &[Reply::Slow, Reply::Silent, Reply::Paid]) };
    let first = code.spawned(&desk, "o/1");
    code.until(1).await;
    desk.bench.clock.advance(LATER);
    // It takes the charge over under the same key, and hears nothing.
    code.spawned(&desk, "o/1").await.unwrap();
    desk.bench.clock.advance(LATER);
    assert_eq!(report(&desk, "o/1", "paid 0").await, Reported::Recorded);
    assert_eq!(desk.machine().0.cancel("o/1", 1, &ada()).await.unwrap(), Intervened::Done);
    desk.settle(&code).await;
    assert_eq!(refunds(&code.books), ["refund \"paid 0\" of card/1"]);
    let second = code.spawned(&desk, "o/2").await.unwrap();
    assert!(matches!(second, Outcome::Completed(_)), "{second:?}");
    code.gate.add_permits(1);
    first.await.unwrap();
    desk.settle(&code).await;
    assert_eq!(refunds(&code.books), ["refund \"paid 0\" of card/1"], "{:?}", desk.view("o/1").await.steps());
}

/// "A keyed step is compensated once whoever points to it": one effect, reported under both
/// workflows that asked for it.
#[tokio::test]
async fn a_shared_effect_that_is_told_under_two_workflows_is_compensated_once() {
    let desk = Desk::new().await;
    let code = order(Some("card/1"), &[Reply::Silent]);
    code.run_to_quarantine(&desk, "o/1").await;
    code.run_to_quarantine(&desk, "o/2").await;
    let failed = desk.machine().0.report("o/1", "charge").failed(&"declined").await.unwrap();
    assert_eq!(failed, Reported::Recorded);
    // The second was in quarantine for it as well.
    let seen = desk.view("o/2").await;
    let _ = desk.machine().0.retry(&seen, &ada()).await.unwrap();
    desk.settle(&code).await;
    for key in ["o/1", "o/2"] {
        assert_eq!(desk.view(key).await.state(), State::Failed);
    }
    // The provider was wrong, and says so to whoever asked.
    assert_eq!(report(&desk, "o/1", "ch-1").await, Reported::Compensates);
    desk.settle(&code).await;
    let reported = report(&desk, "o/2", "ch-1").await;
    desk.settle(&code).await;
    assert_eq!(refunds(&code.books), ["refund \"ch-1\" of card/1"], "{reported:?}");
}

/// What an operator says has happened, for a workflow that goes on with it, is compensated when
/// that workflow is cancelled: the workflow for which it was started has ended, and will never do
/// it.
#[tokio::test]
async fn step_resolved_for_another_workflow_is_compensated() {
    let desk = Desk::new().await;
    let code = order(Some("card/1"), &[Reply::Silent]);
    code.run_to_quarantine(&desk, "o/1").await;
    let _ = desk.machine().0.cancel("o/1", 1, &ada()).await.unwrap();
    desk.settle(&code).await;
    assert_eq!(desk.view("o/1").await.state(), State::Cancelled);
    // Another order asks for the same charge, and is set aside for it.
    drop(code.spawned(&desk, "o/2").await.unwrap());
    desk.settle(&code).await;
    let seen = desk.view("o/2").await;
    assert_eq!(seen.listed(), Some(List::Quarantine));
    let resolved = desk.machine().0.resolve_step(&seen, "charge", &"ch-1".into(), &ada()).await.unwrap();
    assert_eq!(resolved, Intervened::Done);
    let _ = desk.machine().0.cancel("o/2", 1, &ada()).await.unwrap();
    desk.settle(&code).await;
    let states: Vec<_> = [desk.view("o/1").await, desk.view("o/2").await]
        .iter()
        .map(|view| (view.state(), view.listed()))
        .collect();
    assert_eq!(refunds(&code.books), ["refund \"ch-1\" of card/1"], "{states:?}");
}

/// An operator who skips a charge in doubt, since nothing was to be seen of it, learns of it when
/// it comes: it is compensated, or the workflow is set aside; it is not dropped as known.
#[tokio::test]
async fn outcome_after_a_skip_in_doubt_is_not_lost() {
    let desk = Desk::new().await;
    let code = order(None, &[Reply::Silent]);
    code.run_to_quarantine(&desk, "o/1").await;
    let _ = desk.machine().0.cancel("o/1", 1, &ada()).await.unwrap();
    let seen = desk.view("o/1").await;
    assert_eq!(desk.machine().0.skip_step(&seen, "charge", &ada()).await.unwrap(), Intervened::Done);
    desk.settle(&code).await;
    let reported = report(&desk, "o/1", "ch-1").await;
    assert_ne!(
        reported,
        Reported::Known,
        "nobody has ever heard of ch-1: {:?}",
        desk.view("o/1").await.steps()
    );
}

/// The compensation found nothing, and then the operator finds the charge.
#[tokio::test]
async fn charge_that_happened_after_a_skip_in_doubt_is_refunded() {
    for key in [None, Some("card/1")] {
        let desk = Desk::new().await;
        let code = order(key, &[Reply::Silent]);
        code.run_to_quarantine(&desk, "o/1").await;
        let workflows = desk.machine().0;
        assert_eq!(workflows.cancel("o/1", 1, &ada()).await.unwrap(), Intervened::Done);
        let skipped = workflows.skip_step(&desk.view("o/1").await, "charge", &ada()).await.unwrap();
        assert_eq!(skipped, Intervened::Done);
        let seen = desk.view("o/1").await;
        let resolved = workflows.resolve_step(&seen, "charge", &"ch-1".into(), &ada()).await.unwrap();
        assert_eq!(resolved, Intervened::Done, "{key:?}");
        desk.settle(&code).await;
        let provider_key = key.unwrap_or("o/1 charge");
        assert_eq!(refunds(&code.books), [format!("refund \"ch-1\" of {provider_key}")]);
        assert_eq!(desk.view("o/1").await.state(), State::Cancelled);
    }
}

/// The workflow that started the charge was closed, and compensates nothing more.
#[tokio::test]
async fn held_step_that_is_resolved_for_another_workflow_is_compensated() {
    let desk = Desk::new().await;
    let code = Script::new(|flow, _| async move {
        let charge = flow.once("charge").key("card/1").compensate(&"refund");
        let odd = async |_| Err::<String, _>(Failure::needs_operator("the reply made no sense".to_owned()));
        charge.run(odd).await
    });
    let workflows = desk.machine().0;
    let quarantined = async |key| {
        let outcome = workflows.start(&code, key, &input()).run().await.unwrap();
        assert!(matches!(outcome, Outcome::Quarantined(_)), "{outcome:?}");
        desk.bench.clock.advance(LATER);
        desk.view(key).await
    };
    let seen = quarantined("o/1").await;
    assert_eq!(workflows.close(&seen, &ada()).await.unwrap(), Intervened::Done);
    let seen = quarantined("o/2").await;
    let resolved = workflows.resolve_step(&seen, "charge", &"ch-1".into(), &ada()).await.unwrap();
    assert_eq!(resolved, Intervened::Done);
    assert_eq!(workflows.cancel("o/2", 1, &ada()).await.unwrap(), Intervened::Done);
    desk.settle(&code).await;
    assert_eq!(code.books.entries(), ["undo charge"]);
}

/// Charges a card that workflows share. Only `o/1` declares a refund.
#[derive(Clone)]
struct OneRefund(Order);

impl Workflow for OneRefund {
    const NAME: &'static str = "one-refund";
    type Input = ();
    type Output = String;

    async fn run(&self, flow: &Flow, (): ()) -> Result<String, Stop> {
        let charge = flow.once("charge").key("card/1").retry(RetryPolicy::never());
        let charge = if flow.key().as_str() == "o/1" { charge.compensate(&"refund") } else { charge };
        charge
            .run(|_| async {
                let call = self.0.calls.fetch_add(1, Ordering::SeqCst);
                match self.0.replies.get(call) {
                    Some(Reply::Paid) => Ok(format!("paid {call}")),
                    _ => Err(Failure::in_doubt("no reply".to_owned())),
                }
            })
            .await
    }

    async fn compensate(&self, flow: &Flow, compensation: Compensation) -> Result<Compensated, Failure> {
        Workflow::compensate(&self.0, flow, compensation).await
    }
}

/// The workflow `o/1` may have made the first charge, but not the charge under the next key.
#[tokio::test]
async fn charge_under_a_new_key_is_not_refunded_by_a_former_workflow() {
    for reply in [Reply::Silent, Reply::Paid] {
        let desk = Desk::new().await;
        let code = OneRefund(order(None, &[Reply::Silent, reply]));
        let workflows = desk.machine().0;
        let run = async |key| {
            let outcome = workflows.start(&code, key, &()).run().await.unwrap();
            desk.bench.clock.advance(LATER);
            outcome
        };
        drop(run("o/1").await);
        assert_eq!(workflows.cancel("o/1", 1, &ada()).await.unwrap(), Intervened::Done);
        let skipped = workflows.skip_step(&desk.view("o/1").await, "charge", &ada()).await.unwrap();
        assert_eq!(skipped, Intervened::Done);
        drop(run("o/2").await);
        let seen = desk.view("o/2").await;
        let freed = workflows.retry_step_with_new_key(&seen, "charge", &ada()).await.unwrap();
        assert_eq!(freed, Intervened::Done);
        drop(run("o/2").await);
        assert_eq!(code.0.calls.load(Ordering::SeqCst), 2, "it charges under the next key");
        if reply == Reply::Silent {
            let report = workflows.report("o/2", "charge").step_version(2);
            assert_eq!(report.completed(&"paid 1").await.unwrap(), Reported::Recorded);
        }
        desk.settle(&code).await;
        assert_eq!(refunds(&code.0.books), [""; 0], "{reply:?}");
        let states = [desk.view("o/1").await.state(), desk.view("o/2").await.state()];
        assert_eq!(states, [State::Cancelled, State::Completed], "{reply:?}");
    }
}

/// A charge that is in doubt, and whose compensation can do nothing without knowing more.
#[derive(Clone)]
struct Blind;

impl Workflow for Blind {
    const NAME: &'static str = "blind";
    type Input = ();
    type Output = String;

    async fn run(&self, flow: &Flow, (): ()) -> Result<String, Stop> {
        let doubt = |_| async { Err::<String, _>(Failure::in_doubt("no reply".to_owned())) };
        flow.once("charge").compensate(&"refund").retry(RetryPolicy::never()).run(doubt).await
    }

    async fn compensate(&self, _: &Flow, compensation: Compensation) -> Result<Compensated, Failure> {
        match compensation.result::<String>().unwrap() {
            Some(_) => Ok(Compensated::Done),
            None => Err(Failure::needs_operator("is it charged?".to_owned())),
        }
    }
}

/// That the charge never happened is what the operator waits for: it is not "known already", and is
/// not dropped.
#[tokio::test]
async fn that_a_cancelled_step_never_happened_is_news() {
    let desk = Desk::new().await;
    desk.machine().0.start(&Blind, "b/1", &()).run().await.unwrap();
    let _ = desk.machine().0.cancel("b/1", 1, &ada()).await.unwrap();
    desk.settle(&Blind).await;
    assert_eq!(desk.quarantine().await, ["b/1"]);
    let before = crate::reported::stored(&desk).await;
    let reported = desk.machine().0.report("b/1", "charge").failed(&"never").await.unwrap();
    let written = crate::reported::stored(&desk).await != before;
    assert!(reported != Reported::Known || written, "{reported:?}, and nothing is written");
}

/// `Workflows::close`: "A workflow that is closed with a step in doubt is never deleted."
#[tokio::test]
async fn a_workflow_that_was_closed_with_a_step_in_doubt_is_never_deleted() {
    let desk = Desk::new().await;
    let code = order(None, &[Reply::Silent]);
    code.run_to_quarantine(&desk, "o/1").await;
    let seen = desk.view("o/1").await;
    assert_eq!(desk.machine().0.close(&seen, &ada()).await.unwrap(), Intervened::Done);
    desk.bench.clock.advance(YEAR);
    let reaper = Reaper::new(&Completer::new(&desk.machine().0).register(code.clone()));
    let reaped = reaper.run().await.unwrap();
    assert_eq!((reaped.deleted, reaped.kept), (0, 1), "then: {:?}", report(&desk, "o/1", "ch-1").await);
}

/// Two steps with keys of their own; the second is in doubt.
#[derive(Clone)]
struct Two;

impl Workflow for Two {
    const NAME: &'static str = "two";
    type Input = ();
    type Output = String;

    async fn run(&self, flow: &Flow, (): ()) -> Result<String, Stop> {
        let paid = flow.once("one").key("k/1").run(|_| async { Ok("paid".to_owned()) }).await?;
        let doubt = |_| async { Err::<String, _>(Failure::in_doubt("no reply".to_owned())) };
        flow.once("two").key("k/2").retry(RetryPolicy::never()).run(doubt).await?;
        Ok(paid)
    }
}

/// "A result of the work that the code can read never changes."
#[tokio::test]
async fn no_operator_changes_what_the_work_came_to() {
    let desk = Desk::new().await;
    let outcome = desk.machine().0.start(&Two, "t/1", &()).run().await.unwrap();
    assert!(matches!(outcome, Outcome::Quarantined(_)), "{outcome:?}");
    let seen = desk.view("t/1").await;
    let corrected = desk.machine().0.correct_step(&seen, "one", &"another".into(), &ada()).await.unwrap();
    let one = desk.view("t/1").await.steps()[0].result();
    assert_eq!((corrected, one.as_deref()), (Intervened::NotPossible, Some("\"paid\"")));
}

/// A charge whose receipt cannot be read back.
#[derive(Clone)]
struct Odd {
    books: Books,
    calls: Arc<AtomicUsize>,
    gate: Arc<Semaphore>,
    waits: bool,
    /// Whether the code takes another version of the key after a step that needs an operator.
    goes_on: bool,
}

impl Odd {
    fn new() -> Self {
        Self {
            books: Books::default(),
            calls: Arc::default(),
            gate: Arc::new(Semaphore::new(0)),
            waits: false,
            goes_on: false,
        }
    }
}

impl Workflow for Odd {
    const NAME: &'static str = "odd";
    type Input = ();
    type Output = f64;

    async fn run(&self, flow: &Flow, (): ()) -> Result<f64, Stop> {
        let charge = |attempt: locker::workflow::StepAttempt| async move {
            let call = self.calls.fetch_add(1, Ordering::SeqCst);
            self.books.enter(attempt.idempotency_key());
            if self.waits {
                self.gate.acquire().await.unwrap().forget();
            }
            Ok(if self.goes_on && call > 0 { 1.0 } else { f64::NAN })
        };
        let once = |version| {
            flow.once("charge").version(version).recognised_for(DAY).compensate(&"refund").run(charge)
        };
        match once(1).await {
            Err(_) if self.goes_on => {
                once(2).await?;
                Err(Stop::fail("sold out"))
            }
            other => other,
        }
    }

    async fn compensate(&self, _: &Flow, compensation: Compensation) -> Result<Compensated, Failure> {
        let result: Option<serde_json::Value> = compensation.result().unwrap();
        self.books.enter(format!("refund of {} with {result:?}", compensation.tried_under()));
        Ok(Compensated::Done)
    }
}

/// "If its result cannot be stored, or the code could not read it later, the step is held for an
/// operator: it did happen." That holds as well for a driver whose step was taken over.
#[tokio::test]
async fn a_result_that_cannot_be_recorded_and_comes_late_is_held_too() {
    let desk = Desk::new().await;
    let code = Odd { waits: true, ..Odd::new() };
    let spawned = || {
        let (workflows, code): (Workflows, _) = (desk.machine().0, code.clone());
        tokio::spawn(async move { workflows.start(&code, "odd/1", &()).run().await })
    };
    let first = spawned();
    while code.calls.load(Ordering::SeqCst) < 1 {
        tokio::task::yield_now().await;
    }
    desk.bench.clock.advance(LATER);
    let second = spawned();
    while code.calls.load(Ordering::SeqCst) < 2 {
        tokio::task::yield_now().await;
    }
    code.gate.add_permits(1);
    let first = first.await.unwrap();
    let step = desk.view("odd/1").await.steps()[0].clone();
    code.gate.add_permits(1);
    let second = second.await.unwrap();
    desk.settle(&code).await;
    let view = desk.view("odd/1").await;
    assert_eq!(
        (step.state(), view.listed()),
        (StepState::Held, Some(List::Quarantine)),
        "{:?}; first {first:?}, second {second:?}, {:?}, books {:?}",
        step.result(),
        view.state(),
        code.books.entries()
    );
}

/// "A recorded success always counts": a step that is recorded as having happened is not started
/// again under the next version of its key, and in any case not without being compensated.
#[tokio::test]
async fn unrecorded_effect_is_not_overwritten_by_the_next_version() {
    let desk = Desk::new().await;
    let code = Odd { goes_on: true, ..Odd::new() };
    drop(desk.machine().0.start(&code, "odd/1", &()).run().await);
    desk.settle(&code).await;
    assert_eq!(code.books.entries(), ["odd/1 charge"], "and an operator decides");
    let view = desk.view("odd/1").await;
    assert_eq!((view.listed(), view.steps()[0].state()), (Some(List::Quarantine), StepState::Held));
}

/// A charge, and a refund that is a step with a key of its own within the compensation.
#[derive(Clone)]
struct Back {
    books: Books,
    calls: Arc<AtomicUsize>,
    gate: Arc<Semaphore>,
}

impl Workflow for Back {
    const NAME: &'static str = "back";
    type Input = ();
    type Output = ();

    async fn run(&self, flow: &Flow, (): ()) -> Result<(), Stop> {
        let charge = |_| async { Ok(1) };
        flow.once("charge").compensate_within(&"refund", DAY).run(charge).await?;
        Err(Stop::fail("sold out"))
    }

    async fn compensate(&self, flow: &Flow, _: Compensation) -> Result<Compensated, Failure> {
        let pay_back = |_| async {
            self.calls.fetch_add(1, Ordering::SeqCst);
            self.books.enter("paid back");
            self.gate.acquire().await.unwrap().forget();
            Ok("refund-1".to_owned())
        };
        let refund = flow.once("refund").key("card/refund").recognised_for(DAY).retry(RetryPolicy::never());
        let refund = refund.run(pay_back).await;
        refund.map_err(|stop| Failure::transient(stop.to_string()))?;
        Ok(Compensated::Done)
    }
}

/// "The outcome of a compensation always stands", also that of a step with a key of its own which
/// it makes.
#[tokio::test]
async fn a_shared_step_of_a_compensation_stands_also_if_its_first_driver_tells_it() {
    let desk = Desk::new().await;
    let code = Back { books: Books::default(), calls: Arc::default(), gate: Arc::new(Semaphore::new(0)) };
    let spawned = || {
        let (workflows, code) = (desk.machine().0, code.clone());
        tokio::spawn(async move { workflows.start(&code, "b/1", &()).run().await.map(drop) })
    };
    let first = spawned();
    while code.calls.load(Ordering::SeqCst) < 1 {
        tokio::task::yield_now().await;
    }
    desk.bench.clock.advance(LATER);
    let second = spawned();
    while code.calls.load(Ordering::SeqCst) < 2 {
        tokio::task::yield_now().await;
    }
    code.gate.add_permits(1);
    let _ = first.await.unwrap();
    code.gate.add_permits(100);
    let _ = second.await.unwrap();
    for _ in 0..30 {
        desk.bench.clock.advance(LATER);
        let (workflows, _) = desk.machine();
        Completer::new(&workflows).register(code.clone()).run().await.unwrap();
    }
    let view = desk.view("b/1").await;
    let steps: Vec<_> = view.steps().iter().map(|step| (step.name(), step.state())).collect();
    assert_eq!(view.state(), State::Failed, "{:?}: {:?}, {steps:?}", view.listed(), view.reason());
}

/// The provider is away for a long time, and the type says that it waits for it.
#[derive(Clone)]
struct Patient;

impl Workflow for Patient {
    const NAME: &'static str = "patient";
    type Input = ();
    type Output = ();

    fn limits(&self, mut limits: Limits) -> Limits {
        limits.retry_for = 30 * DAY;
        limits.last_chance_after = 60 * DAY;
        limits
    }

    async fn run(&self, flow: &Flow, (): ()) -> Result<(), Stop> {
        let away = |_| async { Err::<(), _>(Failure::transient("away".to_owned())) };
        flow.step("ask").retry(RetryPolicy::never()).run(away).await
    }
}

/// "`Workflow::limits` sets the limits for a type", the reaper's as well.
#[tokio::test]
async fn the_reaper_abides_by_the_limits_of_a_type() {
    let desk = Desk::new().await;
    let (workflows, _) = desk.machine_with(|_, limits| *limits = Limits::default());
    workflows.start(&Patient, "p/1", &()).run().await.unwrap();
    let completer = Completer::new(&workflows).register(Patient);
    for _ in 0..5 {
        desk.bench.clock.advance(DAY);
        completer.run().await.unwrap();
    }
    assert!(desk.quarantine().await.is_empty());
    desk.bench.clock.advance(LATER);
    Reaper::new(&completer).run().await.unwrap();
    assert!(desk.quarantine().await.is_empty(), "{:?}", desk.view("p/1").await.reason());
}

/// `ReportBuilder::completed`: 4 reads of 1 unit, and 1 transaction.
#[tokio::test]
async fn report_costs_four_reads_and_one_transaction() {
    for key in [None, Some("card/1")] {
        let desk = Desk::new().await;
        let code = order(key, &[Reply::Silent]);
        code.run_to_quarantine(&desk, "o/1").await;
        let (workflows, wire) = desk.machine();
        assert_eq!(workflows.report("o/1", "charge").completed(&"ch-1").await.unwrap(), Reported::Recorded);
        let operations: Vec<_> = wire.take().into_iter().map(|exchange| exchange.operation).collect();
        let expected = ["GetItem", "GetItem", "GetItem", "GetItem", "TransactWriteItems"];
        assert_eq!(operations, expected, "{key:?}");
    }
}

/// Has a large input.
#[derive(Clone)]
struct Large;

impl Workflow for Large {
    const NAME: &'static str = "large";
    type Input = Vec<u64>;
    type Output = ();

    async fn run(&self, _: &Flow, _: Vec<u64>) -> Result<(), Stop> {
        Ok(())
    }
}

/// `StartBuilder::run`: with an input of more than 400 bytes, 1 more put and 1 delete.
#[tokio::test]
async fn a_replay_with_a_large_input_costs_what_is_said() {
    let desk = Desk::new().await;
    let (workflows, wire) = desk.machine();
    let input: Vec<u64> = (1..1001).map(|n: u64| n.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
    workflows.start(&Large, "l/1", &input).run().await.unwrap();
    wire.take();
    workflows.start(&Large, "l/1", &input).run().await.unwrap();
    let operations: Vec<_> = wire.take().into_iter().map(|exchange| exchange.operation).collect();
    // The input is written first, and in vain.
    assert_eq!(operations, ["PutItem", "PutItem", "DeleteItem"]);
}
