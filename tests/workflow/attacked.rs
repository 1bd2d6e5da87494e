//! Orders of events that once lost money, evidence or time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use locker::workflow::{
    Compensated, Compensation, Completer, Exhausted, Flow, Limits, Outcome, RetryPolicy, State, StepState,
    Stop, Unreached, Workflow,
};
use locker::{Failure, Intervened};
use locker_tests::{DAY, Fate, ada, kill};
use tokio::sync::Semaphore;

use crate::bench::{Books, Desk, LATER};
use crate::interleavings::{Script, forever, input, transient};

fn paid() -> Result<String, Failure> {
    Ok("paid".to_owned())
}

async fn yields(mut until: impl FnMut() -> bool, what: &str) {
    for _ in 0..2_000 {
        if until() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    panic!("it does not come so far: {what}");
}

/// An extension of the claim holds the header's lock across its request. A step that is not polled
/// meanwhile (`buffer_unordered`, a pinned future) keeps the lock, and every other step waits for it.
#[tokio::test(start_paused = true)]
async fn step_that_is_not_polled_blocks_no_other_step() {
    let desk = Desk::new().await;
    let (workflows, wire) = desk.machine();
    wire.next([Fate::Ok, Fate::HeldAfter]);
    let (gate, clock) = (wire.clone(), desk.bench.clock.clone());
    let script = Script::new(move |flow, script| {
        let (gate, clock) = (gate.clone(), clock.clone());
        async move {
            let export = flow.step("export").expect_within(Duration::from_secs(600));
            let mut export = Box::pin(export.run(async |_| forever::<Result<String, Failure>>().await));
            let extends = async {
                while gate.held() == 0 {
                    clock.advance(Duration::from_secs(1));
                    tokio::time::sleep(Duration::from_secs(1)).await;
                }
            };
            tokio::select! {
                biased;
                _ = &mut export => {}
                () = extends => {}
            }
            gate.let_through();
            script.books.enter("extension in flight");
            flow.step("mail").run(async |_| paid()).await
        }
    });
    let running = workflows.start(&script, "s/1", &input()).run();
    let outcome = tokio::time::timeout(Duration::from_secs(600), running).await;
    assert_eq!(script.books.entries(), ["extension in flight"]);
    assert!(outcome.is_ok(), "the step `mail` waits for ever for the lock of the header");
}

/// `Flow::end` looks at the records, then reads, and then looks at the starts. A start whose reply
/// comes during the read is in neither.
#[tokio::test]
async fn start_that_is_answered_during_the_end_still_counts() {
    let desk = Desk::new().await;
    let (workflows, wire) = desk.machine();
    let gate = wire.clone();
    let script = Script::new(move |flow, script| {
        let gate = gate.clone();
        async move {
            if script.call() == 0 {
                flow.once("first").key("card/1").run(async |_| paid()).await?;
                return flow.step("mail").retry(RetryPolicy::never()).run(async |_| Err(transient())).await;
            }
            // The second run takes another branch, and leaves a task behind.
            let left = script.clone();
            tokio::spawn(async move {
                let work = async |_| {
                    left.books.enter("charge");
                    forever::<Result<String, Failure>>().await
                };
                let _ = flow.once("charge").run(work).await;
            });
            yields(|| gate.held() == 1, "start is held").await;
            Ok("done".to_owned())
        }
    });
    let first = workflows.start(&script, "s/1", &input()).run().await.unwrap();
    assert!(matches!(first, Outcome::InProgress(_)), "{first:?}");
    desk.bench.clock.advance(LATER);
    wire.take();
    wire.matching(
        |it| it.operation == "PutItem" && it.request.to_string().contains("step/charge"),
        Fate::HeldAfter,
    );
    wire.matching(
        |it| it.operation == "GetItem" && it.request.to_string().contains("card/1"),
        Fate::HeldAfter,
    );
    let second = tokio::spawn({
        let (workflows, script) = (workflows.clone(), script.clone());
        async move { workflows.start(&script, "s/1", &input()).run().await.unwrap() }
    });
    for _ in 0..2_000 {
        if wire.held() == 2 || second.is_finished() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let seen: Vec<_> = wire.take().iter().map(|it| format!("{} {}", it.operation, it.request)).collect();
    assert_eq!(wire.held(), 2, "{seen:#?}");
    // The reply to the start arrives, and its task asks whether it still has the workflow. The process is
    // suspended there, as a function is after its response.
    wire.matching(|it| it.operation == "GetItem", Fate::HeldBefore);
    wire.let_through();
    yields(|| wire.held() == 3, "answered").await;
    wire.let_through();
    let outcome = second.await.unwrap();
    let steps: Vec<_> =
        desk.view("s/1").await.steps().iter().map(|step| (step.name(), step.state())).collect();
    let open = steps.iter().any(|(_, state)| *state == StepState::Started);
    assert!(!(open && matches!(outcome, Outcome::Completed(_))), "{outcome:?} {steps:?}");
}

/// A workflow whose driver is killed at some point of each run.
#[derive(Clone)]
struct Killed {
    books: Books,
    exhausted: Exhausted,
    at: At,
    limits: Option<(u32, u32)>,
    calm: Arc<AtomicBool>,
    number: Arc<AtomicUsize>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum At {
    Charge,
    Refund,
    /// After a step.
    Step,
    /// Without a step.
    Nothing,
}

impl Killed {
    fn new(at: At, exhausted: Exhausted) -> Self {
        Self {
            books: Books::default(),
            exhausted,
            at,
            limits: None,
            calm: Arc::default(),
            number: Arc::default(),
        }
    }

    async fn killed(&self, desk: &Desk) -> bool {
        let before = self.books.entries().len();
        let driver = tokio::spawn({
            let (workflows, code) = (desk.machine().0, self.clone());
            async move { Completer::new(&workflows).register(code).run().await.map(drop) }
        });
        while self.books.entries().len() == before && !driver.is_finished() {
            tokio::task::yield_now().await;
        }
        kill(driver).await;
        desk.bench.clock.advance(LATER);
        self.books.entries().len() > before
    }

    async fn dies(&self, entry: &str) -> Result<String, Failure> {
        self.books.enter(entry);
        forever().await
    }
}

impl Workflow for Killed {
    const NAME: &'static str = "killed";
    type Input = ();
    type Output = String;

    fn limits(&self, mut limits: Limits) -> Limits {
        if let Some((attempts, crashes)) = self.limits {
            (limits.attempts, limits.crashes) = (attempts, crashes);
        }
        limits
    }

    fn exhausted(&self) -> Exhausted {
        self.exhausted
    }

    async fn run(&self, flow: &Flow, (): ()) -> Result<String, Stop> {
        if self.calm.load(Ordering::SeqCst) {
            return flow.step("calm").retry(RetryPolicy::never()).run(async |_| Err(transient())).await;
        }
        match self.at {
            At::Charge => {
                let charge = flow.once("charge").recognised_for(DAY * 300).compensate(&"refund");
                charge.run(async |_| self.dies("charge").await).await
            }
            At::Refund => {
                flow.once("charge").compensate_within(&"refund", DAY * 300).run(async |_| paid()).await?;
                Err(Stop::fail("no stock"))
            }
            At::Step => {
                let number = self.number.fetch_add(1, Ordering::SeqCst);
                flow.step(format!("step#{number}")).run(async |_| paid()).await?;
                self.books.enter("after a step");
                forever().await
            }
            At::Nothing => {
                self.books.enter("nothing");
                forever().await
            }
        }
    }

    async fn compensate(&self, _: &Flow, _: Compensation) -> Result<Compensated, Failure> {
        self.books.enter("refund");
        if self.at == At::Refund {
            return forever().await;
        }
        Ok(Compensated::Done)
    }
}

/// The code does not run, and the reason is that "the code drops it or does not reach it".
#[tokio::test]
async fn drivers_lost_in_a_charge_compensate_it_if_the_type_says_so() {
    let desk = Desk::new().await;
    let code = Killed::new(At::Charge, Exhausted::Compensate);
    desk.machine().0.start(&code, "k/1", &()).enqueue().await.unwrap();
    desk.bench.clock.advance(LATER);
    let mut runs = 0;
    while runs < 10 && code.killed(&desk).await {
        runs += 1;
    }
    desk.settle(&code).await;
    let view = desk.view("k/1").await;
    let charges = code.books.count("charge");
    assert_eq!(
        (view.state(), code.books.count("refund")),
        (State::Failed, 1),
        "after {charges} charges: {:?}",
        view.reason()
    );
}

/// A type that declares `Exhausted::Compensate` is always claimed, also while it is compensated.
#[tokio::test]
async fn compensation_that_kills_its_driver_is_set_aside() {
    for exhausted in [Exhausted::Quarantine, Exhausted::Compensate] {
        let desk = Desk::new().await;
        let code = Killed::new(At::Refund, exhausted);
        desk.machine().0.start(&code, "k/1", &()).enqueue().await.unwrap();
        desk.bench.clock.advance(LATER);
        for _ in 0..110 {
            if !code.killed(&desk).await {
                break;
            }
        }
        let refunds = code.books.count("refund");
        assert_eq!(desk.quarantine().await, ["k/1"], "{exhausted:?}: {refunds} refunds");
    }
}

/// The same owner resumes before the workflow is due, so what its lost run recorded is not read.
#[tokio::test]
async fn lost_runs_of_one_owner_that_recorded_a_step_do_not_count() {
    let desk = Desk::new().await;
    let code = Killed::new(At::Step, Exhausted::Quarantine);
    for run in 1..=13 {
        let driver = tokio::spawn({
            let (workflows, code) = (desk.machine().0, code.clone());
            async move { workflows.start(&code, "k/1", &()).owner("queue/message-1").run().await.map(drop) }
        });
        while code.books.entries().len() < run && !driver.is_finished() {
            tokio::task::yield_now().await;
        }
        kill(driver).await;
        desk.bench.clock.advance(Duration::from_secs(1));
    }
    let reason = desk.view("k/1").await.reason().map(str::to_owned);
    assert_eq!(desk.quarantine().await, Vec::<String>::new(), "{reason:?}");
}

/// The reason asserts records that are not there.
#[tokio::test]
async fn reason_for_lost_drivers_names_no_step_that_was_not_recorded() {
    let desk = Desk::new().await;
    let code = Killed { limits: Some((10, 3)), ..Killed::new(At::Nothing, Exhausted::Quarantine) };
    desk.machine().0.start(&code, "k/1", &()).enqueue().await.unwrap();
    desk.bench.clock.advance(LATER);
    for _ in 0..5 {
        code.killed(&desk).await;
    }
    let view = desk.view("k/1").await;
    assert_eq!(view.steps().len(), 0);
    let reason = view.reason().unwrap_or_default();
    assert!(!reason.contains("although steps were recorded"), "{reason}");
}

/// The records are read before the claim is counted, so that a record that cannot be read is read for
/// ever.
#[tokio::test]
async fn lost_driver_with_an_unreadable_record_comes_to_an_end() {
    let desk = Desk::new().await;
    let code = Killed::new(At::Step, Exhausted::Quarantine);
    desk.machine().0.start(&code, "k/1", &()).enqueue().await.unwrap();
    desk.bench.clock.advance(LATER);
    assert!(code.killed(&desk).await);
    let items = desk.items().await;
    let mut record =
        items.iter().find(|item| item["item"].as_s().unwrap().contains("step#0")).unwrap().clone();
    record.insert("state".to_owned(), aws_sdk_dynamodb::types::AttributeValue::S("odd".to_owned()));
    let put = desk.bench.client.put_item().table_name(&desk.table).set_item(Some(record));
    put.send().await.unwrap();
    let mut failed = 0;
    for _ in 0..40 {
        let (workflows, _) = desk.machine();
        let completer = Completer::new(&workflows).register(code.clone());
        failed += completer.run().await.unwrap().failed;
        desk.bench.clock.advance(LATER);
    }
    assert_eq!(desk.quarantine().await, ["k/1"], "{failed} runs failed in 40 hours");
}

/// A pointer is taken for a completed effect.
#[tokio::test]
async fn keyed_step_that_was_withdrawn_is_no_completed_effect() {
    let desk = Desk::new().await;
    let script = Script::new(|flow, script| async move {
        if script.call() == 0 {
            let charge = flow.once("charge").key("card/1").retry(RetryPolicy::never());
            return charge.run(async |_| Err::<String, _>(transient())).await;
        }
        Ok("other branch".to_owned())
    });
    desk.machine().0.start(&script, "s/1", &input()).run().await.unwrap();
    desk.settle(&script).await;
    let view = desk.view("s/1").await;
    let steps: Vec<_> = view.steps().iter().map(|step| (step.name(), step.state())).collect();
    assert_eq!((view.state(), view.reason()), (State::Completed, None), "{steps:?}");
}

/// The same with the setting: nothing happened, and it cannot complete any more.
#[derive(Clone)]
struct Strict(Script);

impl Workflow for Strict {
    const NAME: &'static str = "strict";
    type Input = String;
    type Output = String;

    fn unreached(&self) -> Unreached {
        Unreached::Quarantine
    }

    async fn run(&self, flow: &Flow, input: String) -> Result<String, Stop> {
        Workflow::run(&self.0, flow, input).await
    }
}

#[tokio::test]
async fn keyed_step_that_was_withdrawn_quarantines_no_workflow() {
    let desk = Desk::new().await;
    let script = Strict(Script::new(|flow, script| async move {
        if script.call() == 0 {
            let charge = flow.once("charge").key("card/1").retry(RetryPolicy::never());
            return charge.run(async |_| Err::<String, _>(transient())).await;
        }
        Ok("other branch".to_owned())
    }));
    desk.machine().0.start(&script, "s/1", &input()).run().await.unwrap();
    desk.settle(&script).await;
    let reason = desk.view("s/1").await.reason().map(str::to_owned);
    assert_eq!(desk.quarantine().await, Vec::<String>::new(), "{reason:?}");
}

/// A step that an operator completed before it had a record was completed by no run.
#[tokio::test]
async fn step_completed_by_an_operator_is_not_blamed_on_a_run() {
    let desk = Desk::new().await;
    let script = Script::new(|flow, script| async move {
        if script.call() == 0 {
            return flow.step("mail").retry(RetryPolicy::never()).run(async |_| Err(transient())).await;
        }
        Ok("done".to_owned())
    });
    desk.machine().0.start(&script, "s/1", &input()).run().await.unwrap();
    let seen = desk.view("s/1").await;
    let done = desk.machine().0.resolve_step(&seen, "charge", &"paid".into(), &ada()).await.unwrap();
    assert_eq!(done, Intervened::Done);
    desk.settle(&script).await;
    let view = desk.view("s/1").await;
    let reason = view.reason().unwrap_or_default();
    assert!(!reason.contains("an earlier run completed charge"), "{:?} {reason}", view.state());
}

/// A refund of which a new version is deployed before the first workflow starts.
#[derive(Clone)]
struct Refunds(Books);

impl Workflow for Refunds {
    const NAME: &'static str = "refunds";
    type Input = ();
    type Output = String;

    async fn run(&self, flow: &Flow, (): ()) -> Result<String, Stop> {
        flow.once("charge").compensate(&"refund").run(async |_| paid()).await?;
        Err(Stop::fail("no stock"))
    }

    async fn compensate(&self, flow: &Flow, _: Compensation) -> Result<Compensated, Failure> {
        let version = flow.version("refund-way", 2).await?;
        self.0.enter(format!("refund {version}"));
        Ok(Compensated::Done)
    }
}

/// In a compensation no step of the forward part is called, so each branch is an old one.
#[tokio::test]
async fn new_workflow_takes_the_new_branch_of_a_compensation() {
    let desk = Desk::new().await;
    let code = Refunds(Books::default());
    desk.machine().0.start(&code, "r/1", &()).run().await.unwrap();
    assert_eq!(code.0.entries(), ["refund 2"]);
}

/// Each of the steps that run side by side extends the claim.
#[tokio::test(start_paused = true)]
async fn parallel_steps_extend_one_claim_by_one_write() {
    let desk = Desk::new().await;
    let (workflows, wire) = desk.machine();
    let gate = Arc::new(Semaphore::new(0));
    let script = Script::new(move |flow, script| async move {
        let step = |number: usize| {
            let (flow, script) = (flow.clone(), script.clone());
            async move {
                let step = flow.step(format!("export#{number}")).expect_within(Duration::from_secs(600));
                step.run(async |_| {
                    script.call();
                    forever::<Result<String, Failure>>().await
                })
                .await
            }
        };
        tokio::join!(step(0), step(1), step(2), step(3), step(4), step(5), step(6), step(7)).0
    });
    let driver = tokio::spawn({
        let script = script.clone();
        async move { workflows.start(&script, "s/1", &input()).run().await.map(drop) }
    });
    script.until(8).await;
    wire.take();
    // The claim of 60 seconds is extended after 40.
    for _ in 0..45 {
        desk.bench.clock.advance(Duration::from_secs(1));
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    let writes = wire.take().len();
    driver.abort();
    drop(gate);
    assert_eq!(writes, 1, "one claim was extended by {writes} requests");
}

/// The driver knows that no attempt happened, learns that it lost the workflow, and leaves the step in
/// doubt.
#[tokio::test(start_paused = true)]
async fn lost_driver_withdraws_a_step_that_did_not_happen() {
    let desk = Desk::new().await;
    let script = Script::new(|flow, script| async move {
        let charge = flow.once("charge").expect_within(Duration::from_secs(600));
        charge
            .run(async |_| {
                script.call();
                drop(script.gate.acquire().await.unwrap());
                Err::<String, _>(transient())
            })
            .await
    });
    let driver = tokio::spawn({
        let (workflows, script) = (desk.machine().0, script.clone());
        async move {
            let start = workflows.start(&script, "s/1", &input()).expect_within(Duration::from_secs(3));
            start.run().await.map(drop)
        }
    });
    script.until(1).await;
    assert_eq!(desk.machine().0.cancel("s/1", 1, &ada()).await.unwrap(), Intervened::Done);
    // Its next extension finds out.
    for _ in 0..4 {
        desk.bench.clock.advance(Duration::from_secs(1));
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    script.gate.add_permits(100);
    let _ = driver.await.unwrap();
    let calls = script.calls.load(Ordering::SeqCst);
    desk.settle(&script).await;
    let view = desk.view("s/1").await;
    assert_eq!(calls, 1);
    assert_eq!(view.state(), State::Cancelled, "nothing happened: {:?}", view.reason());
}

/// A refund whose step takes longer than a completer has.
#[derive(Clone)]
struct LongRefund(Books);

impl Workflow for LongRefund {
    const NAME: &'static str = "long-refund";
    type Input = ();
    type Output = String;

    async fn run(&self, flow: &Flow, (): ()) -> Result<String, Stop> {
        flow.once("charge").compensate(&"refund").run(async |_| paid()).await?;
        flow.sleep("pause", DAY * 20_000).await?;
        Ok("done".to_owned())
    }

    async fn compensate(&self, flow: &Flow, _: Compensation) -> Result<Compensated, Failure> {
        let step = flow.step("export").expect_within(Duration::from_secs(3600));
        step.run(async |_| paid()).await?;
        self.0.enter("refund");
        Ok(Compensated::Done)
    }
}

/// Forward, a step that takes too long for this completer counts as no attempt. In a compensation it
/// does, and the compensation is set aside although a larger completer could run it.
#[tokio::test]
async fn small_completer_leaves_a_long_compensation_to_a_larger_one() {
    let desk = Desk::new().await;
    let code = LongRefund(Books::default());
    desk.machine().0.start(&code, "l/1", &()).run().await.unwrap();
    assert_eq!(desk.machine().0.cancel("l/1", 1, &ada()).await.unwrap(), Intervened::Done);
    for _ in 0..25 {
        desk.bench.clock.advance(LATER);
        let (workflows, _) = desk.machine();
        Completer::new(&workflows).register(code.clone()).run().await.unwrap();
    }
    let view = desk.view("l/1").await;
    assert_eq!(desk.quarantine().await, Vec::<String>::new(), "{:?}", view.reason());
}

/// A compensation that panics in the run in which the workflow failed.
#[derive(Clone)]
struct PanicsInRefund;

impl Workflow for PanicsInRefund {
    const NAME: &'static str = "panics-in-refund";
    type Input = ();
    type Output = String;

    async fn run(&self, flow: &Flow, (): ()) -> Result<String, Stop> {
        flow.once("charge").compensate(&"refund").run(async |_| paid()).await?;
        Err(Stop::fail("no stock"))
    }

    async fn compensate(&self, _: &Flow, _: Compensation) -> Result<Compensated, Failure> {
        panic!("a bug")
    }
}

#[tokio::test]
async fn workflow_whose_compensation_panics_is_released() {
    let desk = Desk::new().await;
    let (workflows, _) = desk.machine();
    workflows.start(&PanicsInRefund, "p/1", &()).enqueue().await.unwrap();
    desk.bench.clock.advance(Duration::from_secs(1));
    let report = Completer::new(&workflows).register(PanicsInRefund).run().await.unwrap();
    let view = desk.view("p/1").await;
    assert_eq!(report.broken_off, 1, "{report:?}");
    assert_eq!(view.locked_by(), None, "due {} at {}", view.due(), desk.now());
}

/// The outcome of the step is reported while its driver is suspended. The driver still has the
/// workflow, takes it for lost, and keeps the claim.
#[tokio::test]
async fn reported_outcome_does_not_make_its_driver_lose_the_workflow() {
    let desk = Arc::new(Desk::new().await);
    let other = Arc::clone(&desk);
    let script = Script::new(move |flow, script| {
        let desk = Arc::clone(&other);
        async move {
            let charge = flow.once("charge").run(async |_| {
                if script.call() == 0 {
                    // It is suspended for an hour; the webhook comes meanwhile.
                    desk.bench.clock.advance(LATER);
                    let report = desk.machine().0.report("s/1", "charge").completed(&"paid").await.unwrap();
                    script.books.enter(format!("{report:?}"));
                }
                Err::<String, _>(transient())
            });
            charge.await
        }
    });
    let (workflows, _) = desk.machine();
    let start = workflows.start(&script, "s/1", &input()).expect_within(Duration::from_secs(12 * 3600));
    let outcome = start.run().await.unwrap();
    let view = desk.view("s/1").await;
    assert_eq!(script.books.entries(), ["Recorded"]);
    assert_eq!(view.locked_by(), None, "{outcome:?}: due {} at {}", view.due(), desk.now());
}
