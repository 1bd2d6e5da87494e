//! Drivers that are killed or hang: which of them count, and when the workflow is quarantined.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use locker::workflow::{Compensated, Completer, Exhausted, Flow, List, Outcome, State, Stop, Workflow};
use locker::{Failure, Intervened};
use locker_tests::{Fate, ada, kill};
use tokio::sync::Semaphore;

use crate::bench::{Books, Desk, LATER};
use crate::interleavings::{Script, forever, input};

/// Funds up to 24 orders. Each run funds one, and its driver is lost after that.
#[derive(Clone)]
struct Funds {
    books: Books,
    /// Whether a run records its step before its driver is lost.
    records: Arc<AtomicBool>,
    /// Whether its steps have keys of their own.
    has_keys: bool,
    exhausted: Exhausted,
}

impl Funds {
    fn new(records: bool) -> Self {
        let records = Arc::new(AtomicBool::new(records));
        Self { books: Books::default(), records, has_keys: false, exhausted: Exhausted::Quarantine }
    }

    /// Runs it once, and kills its driver.
    async fn killed(&self, desk: &Desk) {
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
    }
}

impl Workflow for Funds {
    const NAME: &'static str = "funds";
    type Input = ();
    type Output = ();

    async fn run(&self, flow: &Flow, (): ()) -> Result<(), Stop> {
        for number in 0..400 {
            let name = format!("fund#{number}");
            if self.records.load(Ordering::SeqCst) && self.has_keys {
                flow.once(&name).key(&*name).run(async |_| Ok(())).await?;
            } else if self.records.load(Ordering::SeqCst) {
                flow.step(&name).run(async |_| Ok(())).await?;
            }
            // A step that was funded by an earlier run returns at once.
            if self.books.count(&format!("fund#{number}")) == 0 {
                self.books.enter(format!("fund#{number}"));
                forever::<()>().await;
            }
        }
        Ok(())
    }

    fn exhausted(&self) -> Exhausted {
        self.exhausted
    }
}

#[tokio::test]
async fn lost_drivers_that_recorded_a_step_do_not_count_in_a_row() {
    for has_keys in [false, true] {
        let desk = Desk::new().await;
        let code = Funds { has_keys, ..Funds::new(true) };
        desk.machine().0.start(&code, "f/1", &()).enqueue().await.unwrap();
        desk.bench.clock.advance(LATER);
        for _ in 0..24 {
            code.killed(&desk).await;
        }
        assert_eq!(code.books.entries().len(), 24, "keys: {has_keys}");
        assert_eq!(desk.quarantine().await, Vec::<String>::new());
    }
}

#[tokio::test]
async fn ten_lost_drivers_without_progress_quarantine_the_workflow() {
    let desk = Desk::new().await;
    let code = Funds::new(false);
    desk.machine().0.start(&code, "f/1", &()).enqueue().await.unwrap();
    desk.bench.clock.advance(LATER);
    for _ in 0..11 {
        code.killed(&desk).await;
    }
    assert_eq!(code.books.entries().len(), 10);
    assert_eq!(desk.quarantine().await, ["f/1"]);
    let reason = desk.view("f/1").await.reason().unwrap().to_owned();
    assert!(reason.starts_with("10 runs in a row killed or hung their driver"), "{reason}");
}

#[tokio::test]
async fn lost_drivers_are_compensated_if_the_type_says_so() {
    let desk = Desk::new().await;
    let code = Funds { exhausted: Exhausted::Compensate, ..Funds::new(false) };
    desk.machine().0.start(&code, "f/1", &()).enqueue().await.unwrap();
    desk.bench.clock.advance(LATER);
    for _ in 0..11 {
        code.killed(&desk).await;
    }
    assert_eq!(code.books.entries().len(), 10);
    assert_eq!(desk.view("f/1").await.state(), State::Failed);
}

#[tokio::test]
async fn lost_drivers_in_all_quarantine_a_workflow_that_progresses() {
    let desk = Desk::new().await;
    let code = Funds::new(true);
    desk.machine().0.start(&code, "f/1", &()).enqueue().await.unwrap();
    desk.bench.clock.advance(LATER);
    for _ in 0..101 {
        code.killed(&desk).await;
    }
    assert_eq!(code.books.entries().len(), 100);
    let reason = desk.view("f/1").await.reason().unwrap().to_owned();
    assert!(reason.starts_with("100 runs killed or hung their driver"), "{reason}");
    // An operator's retry resets the count.
    let seen = desk.view("f/1").await;
    assert_eq!(desk.machine().0.retry(&seen, &ada()).await.unwrap(), Intervened::Done);
    desk.bench.clock.advance(LATER);
    code.killed(&desk).await;
    assert_eq!(code.books.entries().len(), 101);
}

/// Charges, and panics after that.
#[derive(Clone)]
struct Panics(Books);

impl Workflow for Panics {
    const NAME: &'static str = "panics";
    type Input = ();
    type Output = ();

    async fn run(&self, flow: &Flow, (): ()) -> Result<(), Stop> {
        let charge = flow.once("charge").compensate(&"refund").run(async |_| {
            self.0.enter("charge");
            Ok(())
        });
        charge.await?;
        self.0.enter("panic");
        panic!("a bug")
    }

    async fn compensate(
        &self,
        _: &Flow,
        compensation: locker::workflow::Compensation,
    ) -> Result<locker::workflow::Compensated, Failure> {
        self.0.enter(compensation.name());
        Ok(locker::workflow::Compensated::Done)
    }

    fn exhausted(&self) -> Exhausted {
        Exhausted::Compensate
    }
}

#[tokio::test]
async fn panics_are_compensated_if_the_type_says_so() {
    let desk = Desk::new().await;
    let code = Panics(Books::default());
    desk.machine().0.start(&code, "p/1", &()).enqueue().await.unwrap();
    desk.settle(&code).await;
    assert_eq!(desk.view("p/1").await.state(), State::Failed, "{:?}", desk.view("p/1").await.reason());
    assert_eq!(code.books().last().map(String::as_str), Some("refund"));
    assert_eq!(code.0.count("charge"), 1);
}

impl Panics {
    fn books(&self) -> Vec<String> {
        self.0.entries()
    }
}

/// A workflow of ten steps of one kind, each of which takes this time of the clock.
#[derive(Clone)]
struct Slow {
    books: Books,
    desk: Arc<Desk>,
    takes: Duration,
    is_once: bool,
}

impl Workflow for Slow {
    const NAME: &'static str = "slow";
    type Input = ();
    type Output = ();

    async fn run(&self, flow: &Flow, (): ()) -> Result<(), Stop> {
        for number in 0..10 {
            let works = async |_: locker::workflow::StepAttempt| {
                let deadline = flow.deadline().unwrap();
                self.desk.bench.clock.advance(self.takes);
                assert!(self.desk.now() < deadline, "the function would be cut off in its step");
                self.books.enter(format!("step {number}"));
                Ok(())
            };
            let name = format!("step#{number}");
            match self.is_once {
                true => flow.once(name).run(works).await?,
                false => flow.step(name).run(works).await?,
            }
        }
        Ok(())
    }
}

#[tokio::test]
async fn functions_of_30_and_3_seconds_run_ten_steps() {
    for (timeout, takes, is_once) in
        [(30_000, 2_000, false), (3_000, 400, false), (30_000, 2_000, true), (3_000, 400, true)]
    {
        let (timeout, takes) = (Duration::from_millis(timeout), Duration::from_millis(takes));
        let desk = Arc::new(Desk::new().await);
        let code = Slow { books: Books::default(), desk: Arc::clone(&desk), takes, is_once };
        let mut runs = 0;
        loop {
            runs += 1;
            let (workflows, _) = desk.machine();
            let start = workflows.start(&code, "s/1", &()).owner("queue/1").deadline(desk.now() + timeout);
            let outcome = start.run().await.unwrap();
            if matches!(outcome, Outcome::Completed(_)) {
                break;
            }
            assert!(matches!(outcome, Outcome::InProgress(_)) && runs < 10, "{outcome:?}");
            desk.bench.clock.advance(LATER);
        }
        assert_eq!(code.books.entries().len(), 10, "each step ran once");
        assert!(runs > 1);
    }
}

/// An export that takes longer than a claim, and sends a mail after it.
#[derive(Clone)]
struct Export(Books, Duration, Arc<Semaphore>);

impl Workflow for Export {
    const NAME: &'static str = "export";
    type Input = ();
    type Output = ();

    async fn run(&self, flow: &Flow, (): ()) -> Result<(), Stop> {
        let export = flow.step("export").expect_within(self.1).run(async |_| {
            self.0.enter("export begins");
            drop(self.2.acquire().await.unwrap());
            Ok(())
        });
        export.await?;
        for number in 0..20 {
            let mail = flow.step(format!("mail#{number}")).run(async |_| {
                self.0.enter("mail");
                Ok(())
            });
            mail.await?;
        }
        Ok(())
    }
}

/// Lets the clock and the timers of the driver advance together.
async fn pass(desk: &Desk, time: Duration) {
    for _ in 0..time.as_secs() {
        desk.bench.clock.advance(Duration::from_secs(1));
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn driver_extends_its_claim_while_its_step_is_in_time() {
    // A step of 10 minutes keeps its claim. After 15 minutes, the workflow is due in any case.
    // A long claim ends after 15 minutes as well.
    for (expected, claim, minutes, taken_over) in
        [(10, 1, 9, false), (60, 1, 14, false), (60, 1, 16, true), (60, 10, 16, true), (1, 1, 9, true)]
    {
        let desk = Desk::new().await;
        let code = Export(Books::default(), Duration::from_secs(expected * 60), Arc::new(Semaphore::new(0)));
        let first = tokio::spawn({
            let (workflows, code) = (desk.machine().0, code.clone());
            let claim = Duration::from_secs(claim * 60);
            async move { workflows.start(&code, "e/1", &()).expect_within(claim).run().await.map(drop) }
        });
        while code.0.entries().is_empty() {
            tokio::task::yield_now().await;
        }
        pass(&desk, Duration::from_secs(minutes * 60)).await;
        let header = desk.view("e/1").await;
        let due = header.due();
        assert_eq!(due <= desk.now(), taken_over, "{expected} {claim} {minutes}: {due}");
        first.abort();
    }
}

/// The claim is shorter than the time after which another step may extend it.
#[tokio::test(start_paused = true)]
async fn claim_of_three_seconds_never_ends_during_a_step() {
    let desk = Desk::new().await;
    let code = Export(Books::default(), Duration::from_secs(60), Arc::new(Semaphore::new(0)));
    let first = tokio::spawn({
        let (workflows, code) = (desk.machine().0, code.clone());
        let claim = Duration::from_secs(3);
        async move { workflows.start(&code, "e/1", &()).expect_within(claim).run().await.map(drop) }
    });
    while code.0.entries().is_empty() {
        tokio::task::yield_now().await;
    }
    for second in 1..=30 {
        pass(&desk, Duration::from_secs(1)).await;
        let due = desk.view("e/1").await.due();
        assert!(due > desk.now(), "after {second} seconds: {due}");
    }
    first.abort();
}

/// The first extension of the claim, after 40 seconds, is refused.
#[tokio::test(start_paused = true)]
async fn failed_extension_is_repeated_before_the_claim_ends() {
    let desk = Desk::new().await;
    let code = Export(Books::default(), Duration::from_secs(600), Arc::new(Semaphore::new(0)));
    let (workflows, wire) = desk.machine();
    let first = tokio::spawn({
        let code = code.clone();
        async move { workflows.start(&code, "e/1", &()).run().await.map(drop) }
    });
    while code.0.entries().is_empty() {
        tokio::task::yield_now().await;
    }
    wire.matching(|it| it.operation == "PutItem", Fate::Denied);
    for second in 1..=90 {
        pass(&desk, Duration::from_secs(1)).await;
        let due = desk.view("e/1").await.due();
        assert!(due > desk.now(), "after {second} seconds: {due}");
    }
    first.abort();
}

/// The operator cancels the workflow during a step. The claim of the driver lasts longer.
#[tokio::test(start_paused = true)]
async fn driver_notices_a_cancel_at_its_next_extension() {
    let desk = Desk::new().await;
    let code = Export(Books::default(), Duration::from_secs(600), Arc::new(Semaphore::new(0)));
    let first = tokio::spawn({
        let (workflows, code) = (desk.machine().0, code.clone());
        async move { workflows.start(&code, "e/1", &()).run().await.map(drop) }
    });
    while code.0.entries().is_empty() {
        tokio::task::yield_now().await;
    }
    assert_eq!(desk.machine().0.cancel("e/1", 1, &ada()).await.unwrap(), Intervened::Done);
    pass(&desk, Duration::from_secs(45)).await;
    code.2.add_permits(1);
    let _ = first.await.unwrap();
    assert_eq!(code.0.entries(), ["export begins"], "no mail is sent");
}

#[tokio::test]
async fn call_for_a_workflow_at_work_costs_one_request() {
    let desk = Desk::new().await;
    let code = Export(Books::default(), Duration::from_secs(60), Arc::new(Semaphore::new(0)));
    let first = tokio::spawn({
        let (workflows, code) = (desk.machine().0, code.clone());
        async move { workflows.start(&code, "e/1", &()).run().await.map(drop) }
    });
    while code.0.entries().is_empty() {
        tokio::task::yield_now().await;
    }
    let (workflows, wire) = desk.machine();
    let outcome = workflows.start(&code, "e/1", &()).run().await.unwrap();
    assert!(matches!(outcome, Outcome::InProgress(_)), "{outcome:?}");
    let requests: Vec<_> = wire.take().iter().map(|it| it.operation.clone()).collect();
    assert_eq!(requests, ["PutItem"], "its steps are not read");
    first.abort();
}

#[tokio::test]
async fn driver_that_lost_its_workflow_runs_no_further_step() {
    let desk = Desk::new().await;
    let code = Export(Books::default(), Duration::from_secs(60), Arc::new(Semaphore::new(0)));
    let first = tokio::spawn({
        let (workflows, code) = (desk.machine().0, code.clone());
        async move { workflows.start(&code, "e/1", &()).run().await.map(drop) }
    });
    while code.0.entries().is_empty() {
        tokio::task::yield_now().await;
    }
    desk.bench.clock.advance(LATER);
    assert_eq!(desk.machine().0.cancel("e/1", 1, &ada()).await.unwrap(), Intervened::Done);
    desk.settle(&code).await;
    assert_eq!(desk.view("e/1").await.state(), State::Cancelled);
    let items = desk.items().await.len();
    code.2.add_permits(1);
    let _ = first.await.unwrap();
    assert_eq!(code.0.entries(), ["export begins"]);
    assert!(desk.items().await.len() <= items + 1, "at most the outcome of the step under way");
}

/// A workflow that runs next to the workflow that kills its drivers.
#[derive(Clone)]
struct Neighbour(Books);

impl Workflow for Neighbour {
    const NAME: &'static str = "neighbour";
    type Input = ();
    type Output = ();

    async fn run(&self, flow: &Flow, (): ()) -> Result<(), Stop> {
        flow.step("only").run(async |_| Ok(())).await?;
        self.0.enter("neighbour");
        Ok(())
    }
}

#[tokio::test]
async fn three_lost_drivers_in_a_row_run_the_workflow_alone() {
    let desk = Desk::new().await;
    let code = Funds::new(true);
    desk.machine().0.start(&code, "f/1", &()).enqueue().await.unwrap();
    desk.bench.clock.advance(LATER);
    for _ in 0..3 {
        code.killed(&desk).await;
    }
    let neighbour = Neighbour(code.books.clone());
    for number in 0..3 {
        desk.machine().0.start(&neighbour, ("n", number), &()).enqueue().await.unwrap();
    }
    desk.bench.clock.advance(LATER);
    let driver = tokio::spawn({
        let completer = Completer::new(&desk.machine().0).register(code.clone()).register(neighbour);
        async move { completer.run().await.map(drop) }
    });
    while code.books.count("fund#3") == 0 && !driver.is_finished() {
        tokio::task::yield_now().await;
    }
    driver.abort();
    let books = code.books.entries();
    assert_eq!(books[3..], ["neighbour", "neighbour", "neighbour", "fund#3"]);
}

#[tokio::test]
async fn workflow_that_one_driver_holds_for_longer_is_listed() {
    for (minutes, list) in [(10, List::Unfinished), (60, List::Failing)] {
        let desk = Desk::new().await;
        let script = Script::new(move |flow, script| async move {
            flow.extend(Duration::from_secs(minutes * 60)).await?;
            script.call();
            forever().await
        });
        let first = tokio::spawn({
            let (workflows, script) = (desk.machine().0, script.clone());
            async move { workflows.start(&script, "s/1", &input()).run().await.map(drop) }
        });
        script.until(1).await;
        let view = desk.view("s/1").await;
        assert_eq!((view.listed(), view.locked_by().is_some()), (Some(list), true));
        let held = view.reason().is_some_and(|reason| reason.starts_with("one driver has it since"));
        assert_eq!(held, list == List::Failing, "{:?}", view.reason());
        first.abort();
    }
}

/// Charges, and its driver is lost after that. The provider of its refund is down for a while.
#[derive(Clone)]
struct Refunded {
    books: Books,
    is_down: Arc<AtomicBool>,
}

impl Workflow for Refunded {
    const NAME: &'static str = "refunded";
    type Input = ();
    type Output = ();

    async fn run(&self, flow: &Flow, (): ()) -> Result<(), Stop> {
        flow.once("charge").compensate(&"refund").run(async |_| Ok(())).await?;
        self.books.enter("killed");
        forever().await
    }

    async fn compensate(&self, _: &Flow, _: locker::workflow::Compensation) -> Result<Compensated, Failure> {
        if self.is_down.load(Ordering::SeqCst) {
            return Err(Failure::transient("down".to_owned()));
        }
        self.books.enter("refund");
        Ok(Compensated::Done)
    }

    fn exhausted(&self) -> Exhausted {
        Exhausted::Compensate
    }
}

/// The limit of the lost drivers of the code is not the limit of its compensations.
#[tokio::test]
async fn refund_after_all_lost_drivers_is_tried_again() {
    let desk = Desk::new().await;
    let code = Refunded { books: Books::default(), is_down: Arc::new(AtomicBool::new(true)) };
    let machine = || {
        desk.machine_with(|_, limits| {
            limits.crashes = 3;
            limits.retry_for = Duration::from_secs(30 * 24 * 3600);
        })
        .0
    };
    machine().start(&code, "r/1", &()).enqueue().await.unwrap();
    desk.bench.clock.advance(LATER);
    for killed in 1..=3 {
        let driver = tokio::spawn({
            let (workflows, code) = (machine(), code.clone());
            async move { Completer::new(&workflows).register(code).run().await.map(drop) }
        });
        while code.books.entries().len() < killed {
            assert!(!driver.is_finished());
            tokio::task::yield_now().await;
        }
        kill(driver).await;
        desk.bench.clock.advance(LATER);
    }
    for _ in 0..3 {
        Completer::new(&machine()).register(code.clone()).run().await.unwrap();
        desk.bench.clock.advance(LATER);
        code.is_down.store(false, Ordering::SeqCst);
    }
    let view = desk.view("r/1").await;
    assert_eq!(view.state(), State::Failed, "{:?}", view.reason());
    assert_eq!(code.books.count("refund"), 1);
}

/// The record of a step with a key of its own cannot be read, and the driver is lost.
#[tokio::test]
async fn unreadable_keyed_record_does_not_keep_lost_drivers_from_counting() {
    let desk = Desk::new().await;
    let script = Script::new(|flow, script| async move {
        if script.call() == 0 {
            flow.once("charge").key("card/1").run(async |_| Ok("paid".to_owned())).await?;
            return forever().await;
        }
        flow.once("charge").key("card/1").run(async |_| Ok("paid".to_owned())).await
    });
    desk.machine().0.start(&script, "s/1", &input()).enqueue().await.unwrap();
    desk.bench.clock.advance(LATER);
    let driver = tokio::spawn({
        let (workflows, script) = (desk.machine().0, script.clone());
        async move { Completer::new(&workflows).register(script).run().await.map(drop) }
    });
    while !desk
        .items()
        .await
        .iter()
        .any(|it| it["workflow"].as_s().unwrap() == "card/1" && it.contains_key("actualCompletion"))
    {
        tokio::task::yield_now().await;
    }
    kill(driver).await;
    let is_it = |it: &std::collections::HashMap<_, _>| {
        it.get("workflow")
            .is_some_and(|it: &aws_sdk_dynamodb::types::AttributeValue| it.as_s().unwrap() == "card/1")
    };
    let mut item = desk.items().await.into_iter().find(is_it).unwrap();
    item.insert("version".to_owned(), aws_sdk_dynamodb::types::AttributeValue::N("99".to_owned()));
    desk.bench.client.put_item().table_name(&desk.table).set_item(Some(item)).send().await.unwrap();
    for _ in 0..14 {
        desk.bench.clock.advance(LATER);
        Completer::new(&desk.machine().0).register(script.clone()).run().await.unwrap();
    }
    let attempts = desk.machine().0.list(List::Quarantine).fetch().await.unwrap().items.len();
    assert_eq!((desk.quarantine().await, attempts), (vec!["s/1".to_owned()], 1), "calls: {:?}", script.calls);
}
