//! A workflow that ended, and is compensated again because an outcome arrived late.

use std::sync::Arc;
use std::time::Duration;

use locker::operator::Act;
use locker::workflow::{
    Compensated, Compensation, Completer, Flow, List, Outcome, Reaper, Reported, RetryPolicy, State,
    StepState, Stop, Workflow, Workflows,
};
use locker::{Failure, Intervened};
use locker_tests::{DAY, ada};
use tokio::sync::Semaphore;

use crate::bench::{Books, Desk, LATER};
use crate::interleavings::{Script, forever, input};
use crate::restored::checked;

/// A charge in doubt. Its refund drops a payment, or the payment is held.
#[derive(Clone)]
struct Refunds {
    books: Books,
    is_held: bool,
}

impl Workflow for Refunds {
    const NAME: &'static str = "refunds";
    type Input = ();
    type Output = ();

    async fn run(&self, flow: &Flow, (): ()) -> Result<(), Stop> {
        let charge = flow.once("charge").retry(RetryPolicy::never()).compensate(&"refund");
        charge.run(async |_| Err::<(), _>(Failure::in_doubt("no reply".to_owned()))).await
    }

    async fn compensate(&self, flow: &Flow, _: Compensation) -> Result<Compensated, Failure> {
        let payment = flow.once("payment").retry(RetryPolicy::never());
        let work = async |_| {
            self.books.enter("payment");
            if self.is_held {
                return Err(Failure::needs_operator("call us".to_owned()));
            }
            forever::<Result<(), Failure>>().await
        };
        let _ = tokio::time::timeout(Duration::from_millis(1), payment.run(work)).await;
        Ok(Compensated::Done)
    }
}

async fn drive(desk: &Desk, workflows: &Workflows, code: &Refunds) {
    workflows.start(code, "r/1", &()).run().await.unwrap();
    let view = desk.view("r/1").await;
    let payment = view.steps().iter().find(|step| step.name().contains("payment")).map(|step| step.state());
    assert_ne!(
        view.state(),
        State::Cancelled,
        "it ended with a payment that is {payment:?}; its charge: {:?}",
        view.steps().iter().map(|step| (step.name(), step.state())).collect::<Vec<_>>()
    );
}

/// The clock of the driver is behind the clock of the operator who closed the workflow.
#[tokio::test(start_paused = true)]
async fn effect_after_a_close_is_seen_by_a_driver_whose_clock_is_behind() {
    for is_held in [false, true] {
        let desk = Desk::new().await;
        let code = Refunds { books: Books::default(), is_held };
        let (workflows, _) = desk.machine();
        workflows.start(&code, "r/1", &()).run().await.unwrap();
        assert_eq!(desk.quarantine().await, ["r/1"]);
        desk.bench.clock.advance(LATER);
        let (slow, _) = desk.machine_behind(Duration::from_secs(4));
        assert_eq!(workflows.close(&desk.view("r/1").await, &ada()).await.unwrap(), Intervened::Done);
        let reported = slow.report("r/1", "charge").completed(&()).await.unwrap();
        assert_eq!(reported, Reported::Compensates);
        assert_eq!(slow.retry(&desk.view("r/1").await, &ada()).await.unwrap(), Intervened::Done);
        drive(&desk, &slow, &code).await;
        assert_eq!(code.books.entries(), ["payment"]);
        // An operator decides about the payment.
        desk.settle(&code).await;
        assert_eq!(desk.quarantine().await, ["r/1"]);
    }
}

/// A charge that is held, and a seat in doubt, whose outcome arrives after an operator has closed
/// the workflow.
#[derive(Clone)]
struct Trip(Books);

impl Workflow for Trip {
    const NAME: &'static str = "trip";
    type Input = ();
    type Output = ();

    async fn run(&self, flow: &Flow, (): ()) -> Result<(), Stop> {
        let seat = flow.once("seat").retry(RetryPolicy::never()).compensate(&"give-back");
        let charge = flow.once("charge").retry(RetryPolicy::never());
        let (seat, charge) = tokio::join!(
            seat.run(async |_| Err::<(), _>(Failure::in_doubt("no reply".to_owned()))),
            charge.run(async |_| Err::<(), _>(Failure::needs_operator("call us".to_owned()))),
        );
        seat.and(charge)
    }

    async fn compensate(&self, _: &Flow, compensation: Compensation) -> Result<Compensated, Failure> {
        self.0.enter(compensation.name());
        Ok(Compensated::Done)
    }
}

#[tokio::test]
async fn held_step_that_an_operator_closed_counts_only_once() {
    let desk = Desk::new().await;
    let code = Trip(Books::default());
    let (workflows, _) = desk.machine();
    workflows.start(&code, "t/1", &()).run().await.unwrap();
    assert_eq!(desk.quarantine().await, ["t/1"]);
    desk.bench.clock.advance(LATER);
    assert_eq!(workflows.close(&desk.view("t/1").await, &ada()).await.unwrap(), Intervened::Done);
    assert_eq!(workflows.report("t/1", "seat").completed(&()).await.unwrap(), Reported::Compensates);
    assert_eq!(workflows.retry(&desk.view("t/1").await, &ada()).await.unwrap(), Intervened::Done);
    desk.settle(&code).await;
    let view = desk.view("t/1").await;
    assert_eq!(
        (view.state(), view.listed()),
        (State::Cancelled, Some(List::Finished)),
        "{:?}",
        view.reason()
    );
    assert_eq!(code.0.entries(), ["give-back"]);
    let charge = view.steps().iter().find(|step| step.name() == "charge").map(|step| step.state());
    assert_eq!(charge, Some(StepState::Held), "it stays as evidence");
}

/// The operator closed the workflow with a held charge. Now the operator has everything compensated,
/// and not only the seat that came late.
#[tokio::test]
async fn compensation_of_a_closed_workflow_shows_what_was_held() {
    let desk = Desk::new().await;
    let code = Trip(Books::default());
    let (workflows, _) = desk.machine();
    workflows.start(&code, "t/1", &()).run().await.unwrap();
    desk.bench.clock.advance(LATER);
    assert_eq!(workflows.close(&desk.view("t/1").await, &ada()).await.unwrap(), Intervened::Done);
    assert_eq!(workflows.report("t/1", "seat").completed(&()).await.unwrap(), Reported::Compensates);
    assert_eq!(workflows.compensate(&desk.view("t/1").await, &ada()).await.unwrap(), Intervened::Done);
    desk.settle(&code).await;
    assert_eq!(code.0.entries(), ["give-back"]);
    assert_eq!(desk.quarantine().await, ["t/1"], "an operator decides about the charge");
}

/// Two charges in doubt. The refund of the second one makes a payment with a key of its own, which
/// the provider refuses first. Later the payment hangs, and its refund drops it.
#[derive(Clone)]
struct Payments {
    books: Books,
    hangs: std::sync::Arc<std::sync::atomic::AtomicBool>,
}

impl Workflow for Payments {
    const NAME: &'static str = "payments";
    type Input = ();
    type Output = ();

    async fn run(&self, flow: &Flow, (): ()) -> Result<(), Stop> {
        let doubt = async |_| Err::<(), _>(Failure::in_doubt("no reply".to_owned()));
        let a = flow.once("a").retry(RetryPolicy::never()).compensate(&"refund-a");
        let b = flow.once("b").retry(RetryPolicy::never()).compensate(&"refund-b");
        let (a, b) = tokio::join!(a.run(doubt), b.run(doubt));
        a.and(b)
    }

    async fn compensate(&self, flow: &Flow, compensation: Compensation) -> Result<Compensated, Failure> {
        if compensation.name() == "refund-a" {
            return Ok(Compensated::Done);
        }
        let payment = flow.once("payment").key("payment/1").retry(RetryPolicy::never());
        if !self.hangs.load(std::sync::atomic::Ordering::SeqCst) {
            let refused = async |_| Err::<(), _>(Failure::transient("down".to_owned()));
            return match payment.run(refused).await {
                Ok(()) => Ok(Compensated::Done),
                Err(_) => Err(Failure::transient("down".to_owned())),
            };
        }
        let work = async |_| {
            self.books.enter("payment");
            forever::<Result<(), Failure>>().await
        };
        let _ = tokio::time::timeout(Duration::from_millis(1), payment.run(work)).await;
        Ok(Compensated::Done)
    }
}

/// The pointer of the payment is older than the close, and the payment is not.
#[tokio::test(start_paused = true)]
async fn keyed_payment_that_starts_after_a_close_counts() {
    let desk = Desk::new().await;
    let code = Payments { books: Books::default(), hangs: std::sync::Arc::default() };
    let (workflows, _) = desk.machine();
    workflows.start(&code, "p/1", &()).run().await.unwrap();
    for late in ["b", "a"] {
        assert_eq!(desk.quarantine().await, ["p/1"], "before {late}");
        desk.bench.clock.advance(LATER);
        assert_eq!(workflows.close(&desk.view("p/1").await, &ada()).await.unwrap(), Intervened::Done);
        let reported = workflows.report("p/1", late).completed(&()).await.unwrap();
        assert_eq!(reported, Reported::Compensates, "{late}");
        code.hangs.store(late == "a", std::sync::atomic::Ordering::SeqCst);
        assert_eq!(workflows.retry(&desk.view("p/1").await, &ada()).await.unwrap(), Intervened::Done);
        desk.settle(&code).await;
    }
    assert_eq!(code.books.entries(), ["payment"]);
    let view = desk.view("p/1").await;
    let steps: Vec<_> = view.steps().iter().map(|step| (step.name(), step.state())).collect();
    assert_eq!(desk.quarantine().await, ["p/1"], "{:?}: {steps:?}", view.state());
}

/// Two workflows have a step with the same key. It is in doubt for the first one.
#[tokio::test]
async fn close_leaves_a_step_in_doubt_to_the_workflow_that_started_it() {
    let desk = Desk::new().await;
    let code = Script::new(|flow, _| async move {
        let doubt = async |_| Err::<(), _>(Failure::in_doubt("no reply".to_owned()));
        let own = flow.once("own").retry(RetryPolicy::never());
        let shared = flow.once("charge").key("card/1").retry(RetryPolicy::never());
        if flow.key().as_str() == "r/1" {
            shared.run(doubt).await?;
        }
        let (own, shared) = tokio::join!(own.run(doubt), flow.once("charge").key("card/1").run(doubt));
        own.and(shared)?;
        Ok("done".to_owned())
    });
    let (workflows, _) = desk.machine();
    for key in ["r/1", "r/2"] {
        let outcome = workflows.start(&code, key, &input()).run().await.unwrap();
        assert!(matches!(outcome, Outcome::Quarantined(_)), "{key}: {outcome:?}");
    }
    let state = async || desk.view("r/1").await.steps()[0].state();
    assert_eq!(state().await, StepState::Started);
    desk.bench.clock.advance(LATER);
    let closed = workflows.close(&desk.view("r/2").await, &ada()).await.unwrap();
    assert_eq!(closed, Intervened::Done);
    assert_eq!(state().await, StepState::Started);
}

/// Steps in doubt with compensations. The workflow is quarantined and closed.
async fn closed_in_doubt(desk: &Desk, steps: &'static [&'static str]) -> (Script, Workflows) {
    let code = Script::new(move |flow, _| async move {
        let mut steps: Vec<_> = steps
            .iter()
            .map(|step| {
                let doubt = async |_| Err::<(), _>(Failure::in_doubt("no reply".to_owned()));
                flow.once(*step).retry(RetryPolicy::never()).compensate(&"refund").run(doubt)
            })
            .map(Box::pin)
            .collect();
        // All of them start before the first one stops.
        let mut stopped = None;
        for step in &mut steps {
            stopped = step.await.err().or(stopped);
        }
        stopped.map_or_else(|| Ok("paid".to_owned()), Err)
    });
    let (workflows, _) = desk.machine();
    drop(workflows.start(&code, "o/1", &input()).run().await.unwrap());
    desk.bench.clock.advance(LATER);
    assert_eq!(workflows.close(&desk.view("o/1").await, &ada()).await.unwrap(), Intervened::Done);
    (code, workflows)
}

async fn state_and_list(desk: &Desk) -> (State, Option<List>) {
    let view = desk.view("o/1").await;
    (view.state(), view.listed())
}

/// The operator may have repaired each of the effects manually.
#[tokio::test]
async fn late_outcomes_after_a_close_wait_for_an_operator() {
    let desk = Desk::new().await;
    let (code, workflows) = closed_in_doubt(&desk, &["a", "b", "c", "d"]).await;
    let report = async |step| workflows.report("o/1", step).completed(&()).await.unwrap();
    let waits = async |what: &str| {
        desk.settle(&code).await;
        assert_eq!(
            (code.books.entries(), desk.quarantine().await),
            (vec![], vec!["o/1".to_owned()]),
            "{what}"
        );
    };
    for step in ["b", "a"] {
        assert_eq!(report(step).await, Reported::Compensates);
        waits(step).await;
    }
    let skipped = workflows.skip_step(&desk.view("o/1").await, "a", &ada()).await.unwrap();
    assert_eq!(skipped, Intervened::Done);
    waits("a decision about one step is none about the others").await;
    let reason = desk.view("o/1").await.reason().unwrap_or_default().to_owned();
    assert!(reason.starts_with("an operator closed the workflow, and b is not compensated: "), "{reason}");
    let skipped = workflows.skip_step(&desk.view("o/1").await, "b", &ada()).await.unwrap();
    assert_eq!(skipped, Intervened::Done);
    desk.settle(&code).await;
    assert_eq!(state_and_list(&desk).await, (State::Cancelled, Some(List::Finished)));
    assert_eq!(report("c").await, Reported::Compensates);
    waits("it has ended again").await;
    // The retry is a decision about c. The outcome of d comes after it.
    assert_eq!(workflows.retry(&desk.view("o/1").await, &ada()).await.unwrap(), Intervened::Done);
    assert_eq!(report("d").await, Reported::Compensates);
    waits("the outcome came after the retry").await;
    assert_eq!(workflows.retry(&desk.view("o/1").await, &ada()).await.unwrap(), Intervened::Done);
    desk.settle(&code).await;
    assert_eq!(code.books.entries(), ["undo d", "undo c"]);
    assert_eq!(state_and_list(&desk).await, (State::Cancelled, Some(List::Finished)));
}

/// The code has not declared the compensation of the step.
#[tokio::test]
async fn step_recorded_after_a_close_waits_for_its_repair() {
    let desk = Desk::new().await;
    let (code, workflows) = closed_in_doubt(&desk, &["a"]).await;
    assert_eq!(workflows.report("o/1", "a").completed(&()).await.unwrap(), Reported::Compensates);
    let seen = desk.view("o/1").await;
    let recorded = workflows.resolve_step(&seen, "b", &1.into(), &ada()).await.unwrap();
    assert_eq!(recorded, Intervened::Done);
    for act in [Act::retry(), Act::compensate()] {
        let effect = checked(&workflows, &act).await.expect("it is possible");
        assert!(effect.starts_with("nothing is compensated yet: "), "{act:?}: {effect}");
    }
    assert_eq!(workflows.retry(&desk.view("o/1").await, &ada()).await.unwrap(), Intervened::Done);
    desk.settle(&code).await;
    assert_eq!((code.books.entries(), desk.quarantine().await), (vec![], vec!["o/1".to_owned()]));
    let reason = desk.view("o/1").await.reason().unwrap_or_default().to_owned();
    assert!(reason.starts_with("an operator recorded that b happened, "), "{reason}");
    let skipped = workflows.skip_step(&desk.view("o/1").await, "b", &ada()).await.unwrap();
    assert_eq!(skipped, Intervened::Done);
    assert_eq!(workflows.retry(&desk.view("o/1").await, &ada()).await.unwrap(), Intervened::Done);
    desk.settle(&code).await;
    assert_eq!(code.books.entries(), ["undo a"]);
    assert_eq!(state_and_list(&desk).await, (State::Cancelled, Some(List::Finished)));
}

/// The operator may have refunded the charge as well.
#[tokio::test]
async fn refund_that_happened_after_a_close_waits_for_an_operator() {
    for (outcome, needs_operator) in [(Compensated::Done, true), (Compensated::Nothing, false)] {
        let (desk, code) = (Desk::new().await, RefundInDoubt(None));
        let (workflows, _) = desk.machine();
        drop(workflows.start(&code, "o/1", &()).run().await.unwrap());
        desk.settle(&code).await;
        assert_eq!(workflows.close(&desk.view("o/1").await, &ada()).await.unwrap(), Intervened::Done);
        let report =
            async || workflows.report("o/1", "compensation:charge").completed(&outcome).await.unwrap();
        assert_eq!(report().await, Reported::Recorded);
        if needs_operator {
            let view = desk.view("o/1").await;
            assert_eq!((view.state(), view.listed()), (State::Compensating, Some(List::Quarantine)));
            let reason = view.reason().unwrap_or_default().to_owned();
            assert!(
                reason.starts_with("a compensation in doubt happened, and an operator has closed"),
                "{reason}"
            );
            assert_eq!(workflows.retry(&view, &ada()).await.unwrap(), Intervened::Done);
        }
        assert_eq!(report().await, Reported::Known);
        desk.settle(&code).await;
        assert_eq!(state_and_list(&desk).await, (State::Failed, Some(List::Finished)), "{outcome:?}");
    }
}

/// A charge whose refund is in doubt, or is slow.
#[derive(Clone, Default)]
struct RefundInDoubt(Option<Slow>);

/// A call that waits for the gate.
#[derive(Clone)]
struct Slow {
    begun: Arc<Semaphore>,
    gate: Arc<Semaphore>,
}

impl Workflow for RefundInDoubt {
    const NAME: &'static str = "refund-in-doubt";
    type Input = ();
    type Output = ();

    async fn run(&self, flow: &Flow, (): ()) -> Result<(), Stop> {
        let charge = flow.once("charge").compensate(&"refund");
        charge.run(async |_| Ok::<_, Failure>(())).await?;
        flow.once("seat").run(async |_| Err::<(), _>(Failure::permanent("sold out".to_owned()))).await
    }

    async fn compensate(&self, _: &Flow, _: Compensation) -> Result<Compensated, Failure> {
        let Some(slow) = &self.0 else { return Err(Failure::in_doubt("no reply".to_owned())) };
        slow.begun.add_permits(1);
        drop(slow.gate.acquire().await.unwrap());
        Ok(Compensated::Done)
    }
}

/// The driver that makes the refund is slow. Meanwhile the operator refunds the charge.
#[tokio::test]
async fn refund_of_a_slow_driver_after_a_close_waits_for_an_operator() {
    let desk = Desk::new().await;
    let slow = Slow { begun: Arc::new(Semaphore::new(0)), gate: Arc::new(Semaphore::new(0)) };
    let code = RefundInDoubt(Some(slow.clone()));
    let driver = tokio::spawn({
        let (workflows, code) = (desk.machine().0, code.clone());
        async move { drop(workflows.start(&code, "o/1", &()).run().await) }
    });
    drop(slow.begun.acquire().await.unwrap());
    desk.bench.clock.advance(LATER);
    desk.settle(&code).await;
    let (workflows, _) = desk.machine();
    assert_eq!(desk.quarantine().await, ["o/1"]);
    assert_eq!(workflows.close(&desk.view("o/1").await, &ada()).await.unwrap(), Intervened::Done);
    slow.gate.add_permits(1);
    driver.await.unwrap();
    let reason = desk.view("o/1").await.reason().unwrap_or_default().to_owned();
    assert!(reason.starts_with("a compensation in doubt happened"), "{reason}");
    assert_eq!(desk.quarantine().await, ["o/1"]);
    // The driver has lost the workflow.
    assert_eq!(desk.view("o/1").await.steps()[0].state(), StepState::Completed);
}

/// An application that cancels by key has not read the records.
#[tokio::test]
async fn closed_workflow_is_not_cancelled_by_its_key() {
    let desk = Desk::new().await;
    let (code, workflows) = closed_in_doubt(&desk, &["a"]).await;
    assert_eq!(workflows.report("o/1", "a").completed(&()).await.unwrap(), Reported::Compensates);
    desk.settle(&code).await;
    assert_eq!(workflows.cancel("o/1", 1, &ada()).await.unwrap(), Intervened::NotPossible);
    let refused = checked(&workflows, &Act::cancel()).await.expect_err("an operator closed it");
    assert!(refused.starts_with("an operator closed it, "), "{refused}");
    let effect = checked(&workflows, &Act::compensate()).await.expect("it is possible");
    assert!(effect.contains("they may repeat repairs"), "{effect}");
    desk.settle(&code).await;
    assert_eq!((code.books.entries(), desk.quarantine().await), (vec![], vec!["o/1".to_owned()]));
}

#[tokio::test]
async fn closed_workflow_with_a_step_in_doubt_is_never_deleted() {
    for skips in [true, false] {
        let desk = Desk::new().await;
        let (code, workflows) = closed_in_doubt(&desk, &["a", "b"]).await;
        assert_eq!(workflows.report("o/1", "a").completed(&()).await.unwrap(), Reported::Compensates);
        let seen = desk.view("o/1").await;
        let decided = match skips {
            true => workflows.skip_step(&seen, "a", &ada()).await,
            false => workflows.retry(&seen, &ada()).await,
        };
        assert_eq!(decided.unwrap(), Intervened::Done);
        desk.settle(&code).await;
        assert_eq!(state_and_list(&desk).await, (State::Cancelled, Some(List::Finished)));
        desk.bench.clock.advance(366 * DAY);
        let reaper = Reaper::new(&Completer::new(&workflows).register(code.clone()));
        let reaped = reaper.run().await.unwrap();
        assert_eq!((reaped.deleted, reaped.kept), (0, 1), "skips: {skips}");
    }
}

/// A compensation makes a payment, which may have happened twice. The outcome of another step
/// arrives after that.
#[derive(Clone, Default)]
struct PaysBack(Books);

impl Workflow for PaysBack {
    const NAME: &'static str = "pays-back";
    type Input = ();
    type Output = ();

    async fn run(&self, flow: &Flow, (): ()) -> Result<(), Stop> {
        let charge = flow.once("charge").compensate(&"pay-back");
        charge.run(async |_| Ok::<_, Failure>(())).await?;
        let doubt = async |_| Err::<(), _>(Failure::in_doubt("no reply".to_owned()));
        flow.once("seat").retry(RetryPolicy::never()).compensate(&"give-back").run(doubt).await
    }

    async fn compensate(&self, flow: &Flow, compensation: Compensation) -> Result<Compensated, Failure> {
        if compensation.name() == "give-back" {
            return Ok(if compensation.is_late() { Compensated::Done } else { Compensated::Nothing });
        }
        let paid = flow.once("pay").run(async |_| Ok::<_, Failure>(1)).await;
        self.0.enter("pay");
        paid.map(|_| Compensated::Done).map_err(|_| Failure::transient("down".to_owned()))
    }
}

#[tokio::test]
async fn late_outcome_leaves_a_quarantine_for_a_payment_that_happened_twice() {
    let desk = Desk::new().await;
    let code = PaysBack::default();
    let (workflows, _) = desk.machine();
    workflows.start(&code, "o/1", &()).run().await.unwrap();
    desk.bench.clock.advance(LATER);
    assert_eq!(workflows.compensate(&desk.view("o/1").await, &ada()).await.unwrap(), Intervened::Done);
    desk.settle(&code).await;
    let view = desk.view("o/1").await;
    let pay = view.steps().iter().find(|step| step.name().starts_with("pay")).expect("a payment").name();
    assert_eq!(workflows.report("o/1", &pay).completed(&2).await.unwrap(), Reported::Twice);
    assert_eq!(workflows.report("o/1", "seat").completed(&()).await.unwrap(), Reported::Compensates);
    desk.settle(&code).await;
    assert_eq!(desk.quarantine().await, ["o/1"]);
    let reason = desk.view("o/1").await.reason().unwrap_or_default().to_owned();
    assert!(reason.starts_with("a step may have happened twice"), "{reason}");
}
