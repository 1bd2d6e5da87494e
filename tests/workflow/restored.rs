//! A restored table: workflows that it shows as unfinished, and starts that it has forgotten, wait
//! for an operator.

use chrono::{DateTime, Utc};
use locker::operator::{Act, Console};
use locker::workflow::{Completer, Flow, Outcome, RetryPolicy, State, StepKind, Stop, Workflow, Workflows};
use locker::{Begun, Failure, Intervened, RunError};
use locker_tests::{DAY, Fate, HOUR, MINUTE, Wire, ada};
use tokio::task::JoinHandle;

use crate::bench::{Books, Desk, LATER};
use crate::interleavings::{Script, input};

/// Charges once. Its step begins a token of its own.
#[derive(Clone)]
struct Charge {
    books: Books,
    tokens: Option<locker::Locker>,
}

impl Charge {
    fn new() -> Self {
        Self { books: Books::default(), tokens: None }
    }
}

impl Workflow for Charge {
    const NAME: &'static str = "charge";
    type Input = u32;
    type Output = u32;

    async fn run(&self, flow: &Flow, number: u32) -> Result<u32, Stop> {
        let charge = async || {
            self.books.enter(format!("charge {}", flow.key().as_str()));
            if let Some(tokens) = &self.tokens {
                let inner =
                    tokens.token(("inner", flow.key().as_str())).run(async |_| Ok::<_, Failure>(1)).await;
                inner.map_err(|error: RunError<Failure>| Failure::permanent(error.to_string()))?;
            }
            Ok::<_, Failure>(number)
        };
        flow.once("charge").input(&number).run(|_| charge()).await
    }
}

/// Charges twice.
#[derive(Clone, Default)]
struct Pair(Books);

impl Workflow for Pair {
    const NAME: &'static str = "pair";
    type Input = ();
    type Output = u32;

    async fn run(&self, flow: &Flow, (): ()) -> Result<u32, Stop> {
        let charge = async |step: &'static str| {
            self.0.enter(step);
            Ok::<_, Failure>(1)
        };
        let first: u32 = flow.once("first").run(|_| charge("first")).await?;
        Ok(first + flow.once("second").run(|_| charge("second")).await?)
    }
}

/// The machine of a table that was restored at this time.
fn closed(desk: &Desk, end: DateTime<Utc>) -> Workflows {
    desk.machine_with(|settings, _| settings.restored = Some(end)).0
}

async fn complete(desk: &Desk, workflows: &Workflows, code: &Charge) {
    for _ in 0..3 {
        desk.bench.clock.advance(LATER);
        Completer::new(workflows).register(code.clone()).run().await.expect("a run");
    }
}

#[tokio::test(start_paused = true)]
async fn old_start_is_quarantined_until_an_operator_retries_it() {
    let desk = Desk::new().await;
    let code = Charge::new();
    let before = desk.now();
    desk.bench.clock.advance(HOUR);
    let end = desk.now();
    desk.bench.clock.advance(MINUTE);
    let workflows = closed(&desk, end);
    let start = |key: &'static str| workflows.start(&code, key, &7);
    for (key, at) in [("no-time", None), ("old", Some(before)), ("end", Some(end))] {
        let request = |key| match at {
            Some(at) => start(key).requested_at(at),
            None => start(key),
        };
        // By each of the two ways to start, and again.
        for outcome in [request(key).run().await, request(key).enqueue().await, request(key).run().await] {
            let Ok(Outcome::Quarantined(reason)) = outcome else { panic!("{key}: {outcome:?}") };
            assert!(reason.contains("may have forgotten this work"), "{reason}");
        }
        complete(&desk, &workflows, &code).await;
        assert_eq!(code.books.entries(), [""; 0], "{key}");
    }
    let enqueued = start("enqueued").requested_at(before).enqueue().await;
    assert!(matches!(enqueued, Ok(Outcome::Quarantined(_))), "{enqueued:?}");
    assert!(matches!(start("new").requested_at(desk.now()).run().await, Ok(Outcome::Completed(_))));
    assert_eq!(workflows.retry(&desk.view("old").await, &ada()).await.expect("an answer"), Intervened::Done);
    complete(&desk, &workflows, &code).await;
    assert_eq!(code.books.entries(), ["charge new", "charge old"]);
    assert!(matches!(start("old").requested_at(before).run().await, Ok(Outcome::Completed(_))));
}

#[tokio::test(start_paused = true)]
async fn unfinished_workflow_of_the_backup_is_not_resumed() {
    for by_caller in [false, true] {
        let desk = Desk::new().await;
        let code = Charge::new();
        let workflows = desk.machine().0;
        let started = workflows.start(&code, "order/7", &7).enqueue().await;
        assert!(matches!(started, Ok(Outcome::InProgress(_))), "{started:?}");
        desk.bench.clock.advance(HOUR);
        let end = desk.now();
        let workflows = closed(&desk, end);
        if by_caller {
            desk.bench.clock.advance(HOUR);
            let resumed = workflows.start(&code, "order/7", &7).requested_at(desk.now()).run().await;
            assert!(matches!(resumed, Ok(Outcome::Quarantined(_))), "{resumed:?}");
        }
        complete(&desk, &workflows, &code).await;
        assert_eq!(code.books.entries(), [""; 0]);
        assert_eq!(desk.quarantine().await, ["order/7"]);
        assert_eq!(
            workflows.retry(&desk.view("order/7").await, &ada()).await.expect("an answer"),
            Intervened::Done
        );
        complete(&desk, &workflows, &code).await;
        assert_eq!(code.books.entries(), ["charge order/7"]);
        let done = workflows.start(&code, "order/7", &7).run().await;
        assert!(matches!(done, Ok(Outcome::Completed(_))), "{done:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn finished_workflow_of_the_backup_is_replayed() {
    let desk = Desk::new().await;
    let code = Charge::new();
    let done = desk.machine().0.start(&code, "order/7", &7).run().await;
    assert!(matches!(done, Ok(Outcome::Completed(_))), "{done:?}");
    desk.bench.clock.advance(HOUR);
    let workflows = closed(&desk, desk.now());
    let again = workflows.start(&code, "order/7", &7).run().await;
    assert!(matches!(again, Ok(Outcome::Completed(_))), "{again:?}");
    assert_eq!(code.books.entries(), ["charge order/7"]);
}

#[tokio::test(start_paused = true)]
async fn steps_have_the_time_of_their_workflow() {
    let desk = Desk::new().await;
    let before = desk.now();
    desk.bench.clock.advance(HOUR);
    let end = desk.now();
    desk.bench.clock.advance(MINUTE);
    let tokens = desk.bench.machine_with(|settings| settings.restored = Some(end)).0;
    let code = Charge { tokens: Some(tokens.clone()), ..Charge::new() };
    let workflows = closed(&desk, end);
    let new = workflows.start(&code, "new", &7).requested_at(desk.now()).run().await;
    assert!(matches!(new, Ok(Outcome::Completed(_))), "{new:?}");
    // After an operator's retry, the steps belong to that decision.
    let old = workflows.start(&code, "old", &7).requested_at(before).run().await;
    assert!(matches!(old, Ok(Outcome::Quarantined(_))), "{old:?}");
    desk.bench.clock.advance(MINUTE);
    assert_eq!(workflows.retry(&desk.view("old").await, &ada()).await.expect("an answer"), Intervened::Done);
    complete(&desk, &workflows, &code).await;
    let old = workflows.start(&code, "old", &7).run().await;
    assert!(matches!(old, Ok(Outcome::Completed(_))), "{old:?}");
    assert!(tokens.get(("inner", "old")).await.expect("an answer").is_some());
}

/// The provider may know the key from an attempt that the table has forgotten, and forget it sooner.
#[tokio::test(start_paused = true)]
async fn charge_in_doubt_after_a_restore_is_not_sent_again() {
    let desk = Desk::new().await;
    let code = Script::new(|flow, script| async move {
        if flow.key().as_str() == "next" && flow.key_version() == 1 {
            return Err(flow.continue_as_new(&input()));
        }
        let charge = flow.once("charge").recognised_for(DAY).retry(RetryPolicy::never());
        // An older workflow may have used this key.
        let charge = if flow.key().as_str() == "keyed" { charge.key("card/1") } else { charge };
        let send = async |_| {
            script.books.enter(format!("charge {}", flow.key().as_str()));
            let is_sent =
                script.books.entries().iter().filter(|it| it.ends_with(flow.key().as_str())).count();
            if is_sent > 1 { Ok("paid".to_owned()) } else { Err(Failure::in_doubt("no reply".to_owned())) }
        };
        charge.run(send).await
    });
    let before = desk.now();
    desk.bench.clock.advance(HOUR);
    let end = desk.now();
    let workflows = closed(&desk, end);
    desk.bench.clock.advance(MINUTE);
    let start = |key: &'static str, at| workflows.start(&code, key, &input()).requested_at(at).run();
    let outcomes = [start("old", before).await, start("new", desk.now()).await];
    assert!(matches!(&outcomes, [Ok(Outcome::Quarantined(_)), Ok(_)]), "{outcomes:?}");
    assert!(start("keyed", desk.now()).await.is_ok());
    // Its next version does the work.
    let next = start("next", before).await;
    assert!(matches!(next, Ok(Outcome::Quarantined(_))), "{next:?}");
    for key in ["old", "next"] {
        let retried = workflows.retry(&desk.view(key).await, &ada()).await.expect("an answer");
        assert_eq!(retried, Intervened::Done);
    }
    // An operator may also have allowed the work that starts the workflow.
    let tokens = desk.bench.machine_with(|settings| settings.restored = Some(end)).0;
    let outer = tokens.token("outer").requested_at(before);
    let Ok(Begun::Restored(record)) = outer.clone().begin().await else { panic!("it is held") };
    assert_eq!(tokens.release(&record, &ada()).await.expect("an answer"), Intervened::Done);
    let inner = async |_| Ok::<_, Failure>(workflows.start(&code, "inner", &input()).run().await.is_ok());
    assert!(matches!(outer.run(inner).await, Ok(started) if *started));
    drive(&desk, &workflows, &code).await;
    assert_eq!(desk.view("new").await.state(), State::Completed);
    let mut waiting = desk.quarantine().await;
    waiting.sort_unstable();
    assert_eq!(waiting, ["inner", "keyed", "next v2", "old"]);
    let mut sent = code.books.entries();
    sent.sort_unstable();
    assert_eq!(
        sent,
        ["charge inner", "charge keyed", "charge new", "charge new", "charge next", "charge old"]
    );
}

/// Both charges happened after the backup. A decision about one does not allow the other.
#[tokio::test(start_paused = true)]
async fn decision_about_a_step_does_not_run_the_other_forgotten_steps() {
    for is_quarantined in [true, false] {
        let desk = Desk::new().await;
        let code = Pair::default();
        let started = desk.machine().0.start(&code, "order/7", &()).enqueue().await;
        assert!(matches!(started, Ok(Outcome::InProgress(_))), "{started:?}");
        desk.bench.clock.advance(HOUR);
        let workflows = closed(&desk, desk.now());
        desk.bench.clock.advance(MINUTE);
        let complete = async || {
            desk.bench.clock.advance(LATER);
            Completer::new(&workflows).register(code.clone()).run().await.expect("a run");
        };
        if is_quarantined {
            complete().await;
        }
        for step in ["first", "second"] {
            let seen = desk.view("order/7").await;
            let done = workflows.resolve_step(&seen, step, &7.into(), &ada()).await;
            assert_eq!(done.expect("an answer"), Intervened::Done, "{step}");
            complete().await;
            assert_eq!(code.0.entries(), [""; 0], "{step}");
            assert_eq!(desk.quarantine().await, ["order/7"], "{step}");
        }
        let seen = desk.view("order/7").await;
        assert_eq!(workflows.retry(&seen, &ada()).await.expect("an answer"), Intervened::Done);
        complete().await;
        assert_eq!(code.0.entries(), [""; 0]);
        assert_eq!(desk.view("order/7").await.result(), Some("14"));
    }
}

/// Starts these workflows, records the charge in the first one, and retries all.
async fn with_a_charge_on_record(desk: &Desk, keys: &[&'static str], code: &Script) -> Workflows {
    for key in keys {
        let started = desk.machine().0.start(code, *key, &input()).enqueue().await;
        assert!(matches!(started, Ok(Outcome::InProgress(_))), "{started:?}");
    }
    desk.bench.clock.advance(HOUR);
    let workflows = closed(desk, desk.now());
    desk.bench.clock.advance(MINUTE);
    let done = workflows.resolve_step(&desk.view(keys[0]).await, "charge", &7.into(), &ada()).await;
    assert_eq!(done.expect("an answer"), Intervened::Done);
    assert_eq!(desk.view(keys[0]).await.steps()[0].kind(), StepKind::Given);
    for key in keys {
        let retried = workflows.retry(&desk.view(key).await, &ada()).await;
        assert_eq!(retried.expect("an answer"), Intervened::Done, "{key}");
    }
    workflows
}

async fn drive(desk: &Desk, workflows: &Workflows, code: &Script) {
    for _ in 0..3 {
        desk.bench.clock.advance(LATER);
        Completer::new(workflows).register(code.clone()).run().await.expect("a run");
    }
}

/// Returns the effect that a dry run of the act shows, or the reason of its refusal.
pub(crate) async fn checked(workflows: &Workflows, act: &Act) -> Result<String, String> {
    let console = Console::new().workflows(workflows);
    let parts = console.get("o/1").await.expect("read");
    let checked = console.check(&parts[0], act);
    checked.map(|meaning| meaning.effect).map_err(|refusal| refusal.because)
}

async fn charges(script: &Script) -> Result<u32, Failure> {
    script.books.enter("charge");
    Ok(1)
}

fn fails<T>() -> Result<T, Stop> {
    Err(Stop::fail("no seat is left"))
}

/// The operator does not know the compensation of the charge. The code does.
#[tokio::test(start_paused = true)]
async fn charge_that_an_operator_recorded_is_compensated_as_its_code_declares() {
    let once = Script::new(|flow, script| async move {
        flow.once("before").compensate(&"refund").run(async |_| Ok(())).await?;
        let charge = flow.once("charge").compensate(&"refund");
        let charged: u32 = charge.run(|_| charges(&script)).await?;
        assert_eq!(charged, 7);
        fails()
    });
    let atomic = Script::new(|flow, _| async move {
        flow.once("before").compensate(&"refund").run(async |_| Ok(())).await?;
        let charged: u32 = flow.atomic("charge").compensate(&"refund").commit(&1).await?;
        assert_eq!(charged, 7);
        fails()
    });
    for (code, kind) in [(once, StepKind::Once), (atomic, StepKind::Atomic)] {
        let desk = Desk::new().await;
        let workflows = with_a_charge_on_record(&desk, &["o/1"], &code).await;
        drive(&desk, &workflows, &code).await;
        assert_eq!(code.books.entries(), ["undo charge", "undo before"]);
        let view = desk.view("o/1").await;
        let charge = view.steps().iter().find(|step| step.name() == "charge").expect("a charge");
        assert_eq!((view.state(), charge.kind()), (State::Failed, kind));
    }
}

#[tokio::test(start_paused = true)]
async fn pivot_that_an_operator_recorded_keeps_the_steps_before_it() {
    let once = Script::new(|flow, _| async move {
        flow.once("before").compensate(&"refund").run(async |_| Ok(())).await?;
        let _: u32 = flow.once("charge").pivot().run(async |_| Ok(1)).await?;
        fails()
    });
    let atomic = Script::new(|flow, _| async move {
        flow.once("before").compensate(&"refund").run(async |_| Ok(())).await?;
        let _: u32 = flow.atomic("charge").pivot().commit(&1).await?;
        fails()
    });
    for code in [once, atomic] {
        let desk = Desk::new().await;
        let workflows = with_a_charge_on_record(&desk, &["o/1"], &code).await;
        drive(&desk, &workflows, &code).await;
        assert_eq!(code.books.entries(), [""; 0]);
        assert_eq!(desk.quarantine().await, ["o/1"]);
        let reason = desk.view("o/1").await.reason().unwrap_or_default().to_owned();
        assert!(reason.contains("past its pivot charge"), "{reason}");
    }
}

/// Only the code knows the compensation, and fails before it reaches the charge. The charge may be
/// a pivot, so nothing before it is compensated.
#[tokio::test(start_paused = true)]
async fn recorded_charge_without_its_code_needs_an_operator() {
    let before = Script::new(|flow, _| async move {
        flow.once("before").compensate(&"refund").run(async |_| Ok(())).await?;
        fails()
    });
    let none = Script::new(|_, _| async move { fails() });
    for (code, undone) in [(before, &["undo before"][..]), (none, &[])] {
        let desk = Desk::new().await;
        let workflows = with_a_charge_on_record(&desk, &["o/1"], &code).await;
        let effect = checked(&workflows, &Act::compensate()).await.expect("it is possible");
        assert!(effect.starts_with("nothing is compensated yet: its code has not reached"), "{effect}");
        drive(&desk, &workflows, &code).await;
        assert_eq!((code.books.entries(), desk.quarantine().await), (vec![], vec!["o/1".to_owned()]));
        let reason = desk.view("o/1").await.reason().unwrap_or_default().to_owned();
        let said =
            "an operator recorded that charge happened, and the code has not declared its compensation";
        assert!(reason.starts_with(said), "{reason}");
        let skipped = workflows.skip_step(&desk.view("o/1").await, "charge", &ada()).await.unwrap();
        assert_eq!(skipped, Intervened::Done);
        drive(&desk, &workflows, &code).await;
        assert_eq!(
            (code.books.entries(), desk.view("o/1").await.state()),
            (undone.iter().map(|it| (*it).to_owned()).collect(), State::Failed)
        );
    }
}

/// A plain step takes the result that an operator recorded.
#[tokio::test(start_paused = true)]
async fn recorded_plain_step_is_not_compensated() {
    let desk = Desk::new().await;
    let code = Script::new(|flow, _| async move {
        flow.once("after").compensate(&"refund").run(async |_| Ok(())).await?;
        let _: u32 = flow.step("charge").run(async |_| Ok(1)).await?;
        fails()
    });
    let workflows = with_a_charge_on_record(&desk, &["o/1"], &code).await;
    drive(&desk, &workflows, &code).await;
    assert_eq!(code.books.entries(), ["undo after"]);
    assert_eq!(desk.view("o/1").await.state(), State::Failed);
}

/// Charges under a key that other workflows share.
fn shares_its_charge() -> Script {
    Script::new(|flow, script| async move {
        let charge = flow.once("charge").key("card/1").compensate(&"refund");
        let charged: u32 = charge.run(|_| charges(&script)).await?;
        Ok(charged.to_string())
    })
}

/// The workflow in which the operator recorded the charge runs first.
#[tokio::test(start_paused = true)]
async fn recorded_charge_with_its_own_key_is_shared() {
    let (desk, code) = (Desk::new().await, shares_its_charge());
    let workflows = with_a_charge_on_record(&desk, &["o/1"], &code).await;
    drive(&desk, &workflows, &code).await;
    let other = workflows.start(&code, "o/2", &input()).requested_at(desk.now()).run().await;
    assert!(matches!(&other, Ok(Outcome::Completed(done)) if **done == *"7"), "{other:?}");
    assert_eq!(code.books.entries(), [""; 0]);
    let seen = desk.view("o/1").await;
    assert_eq!((seen.state(), seen.result()), (State::Completed, Some("\"7\"")));
}

/// The other workflow runs first, and has another result. Only the provider shows whether this is
/// one charge.
#[tokio::test(start_paused = true)]
async fn recorded_charge_with_another_result_under_its_key_needs_an_operator() {
    let (desk, code) = (Desk::new().await, shares_its_charge());
    let other = desk.machine().0.start(&code, "o/2", &input()).run().await;
    assert!(matches!(&other, Ok(Outcome::Completed(done)) if **done == *"1"), "{other:?}");
    let workflows = with_a_charge_on_record(&desk, &["o/1"], &code).await;
    drive(&desk, &workflows, &code).await;
    assert_eq!(
        (code.books.entries(), desk.quarantine().await),
        (vec!["charge".to_owned()], vec!["o/1".to_owned()])
    );
    let reason = desk.view("o/1").await.reason().unwrap_or_default().to_owned();
    assert!(reason.contains("the record under its key is completed: compare both"), "{reason}");
}

#[tokio::test(start_paused = true)]
async fn recorded_charge_with_its_own_key_is_compensated_once() {
    let desk = Desk::new().await;
    let code = Script::new(|flow, script| async move {
        let charge = flow.once("charge").key("card/1").compensate(&"refund");
        let _: u32 = charge.run(|_| charges(&script)).await?;
        fails()
    });
    let workflows = with_a_charge_on_record(&desk, &["o/1"], &code).await;
    drive(&desk, &workflows, &code).await;
    assert_eq!(code.books.entries(), ["undo charge"]);
    assert_eq!(desk.view("o/1").await.state(), State::Failed);
}

/// Another workflow has refunded the charge that the operator recorded.
#[tokio::test(start_paused = true)]
async fn recorded_charge_that_was_refunded_needs_an_operator() {
    let fails_after_it = Script::new(|flow, script| async move {
        let charge = flow.once("charge").key("card/1").compensate(&"refund");
        let _: u32 = charge
            .run(|_| async {
                script.books.enter("charge");
                Ok(7)
            })
            .await?;
        fails()
    });
    let (desk, code) = (Desk::new().await, shares_its_charge());
    drop(desk.machine().0.start(&fails_after_it, "o/2", &input()).run().await);
    desk.settle(&fails_after_it).await;
    assert_eq!(fails_after_it.books.entries(), ["charge", "undo charge"]);
    let workflows = with_a_charge_on_record(&desk, &["o/1"], &code).await;
    drive(&desk, &workflows, &code).await;
    assert_eq!((code.books.entries(), desk.quarantine().await), (vec![], vec!["o/1".to_owned()]));
    let reason = desk.view("o/1").await.reason().unwrap_or_default().to_owned();
    assert!(reason.contains("the record under its key is compensated: compare both"), "{reason}");
}

/// Begins a run of a completer, and holds its first transaction.
async fn held_before_a_transaction(desk: &Desk, code: &Script) -> (JoinHandle<()>, Wire) {
    let (slow, wire) = desk.machine();
    wire.matching(|it| it.operation == "TransactWriteItems", Fate::HeldBefore);
    desk.bench.clock.advance(LATER);
    let completer = Completer::new(&slow).register(code.clone());
    let driver = tokio::spawn(async move { drop(completer.run().await) });
    while wire.held() == 0 && !driver.is_finished() {
        tokio::task::yield_now().await;
    }
    (driver, wire)
}

/// The record under the key has the recorded result when the driver reads it.
#[tokio::test]
async fn recorded_charge_that_is_refunded_meanwhile_does_not_run_again() {
    let desk = Desk::new().await;
    let code = Script::new(|flow, script| async move {
        let charge = flow.once("charge").key("card/1").compensate(&"refund");
        let charged = async |_| {
            script.books.enter("charge");
            Ok(7)
        };
        let charged: u32 = charge.run(charged).await?;
        if flow.key().as_str() == "o/2" {
            flow.sleep("pause", DAY).await?;
        }
        Ok(charged.to_string())
    });
    let other = desk.machine().0.start(&code, "o/2", &input()).run().await;
    assert!(matches!(other, Ok(Outcome::InProgress(_))), "{other:?}");
    let workflows = with_a_charge_on_record(&desk, &["o/1"], &code).await;
    let (driver, wire) = held_before_a_transaction(&desk, &code).await;
    let cancelled = workflows.compensate(&desk.view("o/2").await, &ada()).await.unwrap();
    assert_eq!(cancelled, Intervened::Done);
    let other = workflows.start(&code, "o/2", &input()).run().await;
    assert!(matches!(other, Ok(Outcome::Cancelled)), "{other:?}");
    wire.let_through();
    driver.await.unwrap();
    assert_eq!(code.books.entries(), ["charge", "undo charge"]);
    assert_eq!(desk.quarantine().await, ["o/1"]);
}

/// While a driver is slow, an operator cancels the workflow and repairs the charge. Another workflow
/// must not read the repaired charge.
#[tokio::test]
async fn driver_that_lost_its_workflow_shares_no_recorded_charge() {
    for closes in [false, true] {
        let (desk, code) = (Desk::new().await, shares_its_charge());
        let workflows = with_a_charge_on_record(&desk, &["o/1"], &code).await;
        let (driver, wire) = held_before_a_transaction(&desk, &code).await;
        let cancelled = workflows.compensate(&desk.view("o/1").await, &ada()).await.unwrap();
        assert_eq!(cancelled, Intervened::Done);
        drive(&desk, &workflows, &code).await;
        let seen = desk.view("o/1").await;
        let decided = match closes {
            true => workflows.close(&seen, &ada()).await,
            false => workflows.skip_step(&seen, "charge", &ada()).await,
        };
        assert_eq!(decided.unwrap(), Intervened::Done);
        wire.let_through();
        driver.await.unwrap();
        drive(&desk, &workflows, &code).await;
        assert_eq!(desk.view("o/1").await.state(), State::Cancelled);
        let other = desk.machine().0.start(&code, "o/2", &input()).run().await;
        assert!(matches!(&other, Ok(Outcome::Completed(done)) if **done == *"1"), "{closes}: {other:?}");
        assert_eq!(code.books.entries(), ["charge"], "{closes}");
    }
}
