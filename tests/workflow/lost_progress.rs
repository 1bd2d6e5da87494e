//! The limits of lost drivers, where the outcome or the end of a run is not that of its own start.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use locker::workflow::{
    Compensated, Compensation, Completer, Exhausted, Flow, ProbeOutcome, RetryPolicy, State, StepAttempt,
    Stop, Workflow,
};
use locker::{Failure, Intervened};
use locker_tests::{DAY, ada, kill};

use crate::bench::{Books, Desk, LATER};
use crate::interleavings::{forever, transient};

/// The steps of a workflow that loses its drivers.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Step {
    /// A `once` whose driver is killed. The next driver asks the probe.
    Probed,
    /// A `once` with a key of its own. The next driver sends it again.
    SentAgain,
    /// A `step`, after which the driver is killed.
    Recorded,
    /// The driver is killed, and nothing is recorded.
    Nothing,
}

/// A workflow that is killed once in each run.
#[derive(Clone)]
struct Killed {
    step: Step,
    books: Books,
    /// Its only step fails, and its driver lives.
    calm: Arc<AtomicBool>,
}

impl Killed {
    fn new(step: Step) -> Self {
        Self { step, books: Books::default(), calm: Arc::default() }
    }

    async fn started(&self, desk: &Desk) {
        desk.machine().0.start(self, "k/1", &()).enqueue().await.unwrap();
        desk.bench.clock.advance(Duration::from_secs(1));
    }

    /// Runs it once and kills its driver. `false`: it did not run.
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

    /// The first attempt kills its driver.
    async fn dies_once(&self, name: &str) {
        if self.books.count(name) == 0 {
            self.books.enter(name);
            forever::<()>().await;
        }
    }

    /// Runs it once, and its only step fails. It is not listed as failing yet.
    async fn failed(&self, desk: &Desk) {
        self.calm.store(true, Ordering::SeqCst);
        Completer::new(&desk.machine().0).register(self.clone()).run().await.unwrap();
        self.calm.store(false, Ordering::SeqCst);
        desk.bench.clock.advance(Duration::from_secs(120));
    }
}

impl Workflow for Killed {
    const NAME: &'static str = "killed";
    type Input = ();
    type Output = ();

    async fn run(&self, flow: &Flow, (): ()) -> Result<(), Stop> {
        if self.calm.load(Ordering::SeqCst) {
            return flow.step("calm").retry(RetryPolicy::never()).run(async |_| Err(transient())).await;
        }
        for number in 0..400 {
            let name = format!("charge#{number}");
            let charge = async |_: StepAttempt| {
                self.dies_once(&name).await;
                Ok(())
            };
            match self.step {
                Step::Probed => {
                    let probe = async |_| Ok(ProbeOutcome::Done("null".to_owned()));
                    flow.once(&name).probe(probe).run(charge).await?;
                }
                Step::SentAgain => {
                    flow.once(&name).key(&*name).recognised_for(DAY * 300).run(charge).await?;
                }
                Step::Recorded => {
                    flow.step(&name).run(async |_| Ok(())).await?;
                    self.dies_once(&name).await;
                }
                Step::Nothing => self.dies_once(&name).await,
            }
        }
        Ok(())
    }
}

#[tokio::test]
async fn outcome_of_an_earlier_start_is_progress_of_its_recorder() {
    for step in [Step::Probed, Step::SentAgain] {
        let desk = Desk::new().await;
        let code = Killed::new(step);
        code.started(&desk).await;
        for run in 0..14 {
            let ran = code.killed(&desk).await;
            assert!(ran, "{step:?}, run {run}: {:?}", desk.view("k/1").await.reason());
        }
        assert_eq!(desk.quarantine().await, Vec::<String>::new(), "{step:?}");
    }
}

#[tokio::test]
async fn lost_drivers_that_recorded_a_step_use_up_no_attempts() {
    let desk = Desk::new().await;
    let code = Killed::new(Step::Recorded);
    code.started(&desk).await;
    for _ in 0..9 {
        assert!(code.killed(&desk).await);
    }
    code.failed(&desk).await;
    let view = desk.view("k/1").await;
    assert_eq!(desk.quarantine().await, Vec::<String>::new(), "{:?}", view.reason());
    assert!(view.attempts() <= 2, "{}", view.attempts());
}

/// A workflow that runs next to the workflow that kills its drivers.
#[derive(Clone)]
struct Neighbour(Books);

impl Workflow for Neighbour {
    const NAME: &'static str = "neighbour";
    type Input = ();
    type Output = ();

    async fn run(&self, _: &Flow, (): ()) -> Result<(), Stop> {
        self.0.enter("neighbour");
        Ok(())
    }
}

/// Whether the workflow runs after a neighbour that is due later.
async fn runs_alone<W: Workflow + Clone>(desk: &Desk, code: &W, books: &Books) -> bool {
    let neighbour = Neighbour(books.clone());
    desk.machine().0.start(&neighbour, "n/1", &()).enqueue().await.unwrap();
    desk.bench.clock.advance(LATER);
    let before = books.entries().len();
    let completer = Completer::new(&desk.machine().0).register(code.clone()).register(neighbour);
    let driver = tokio::spawn(async move { completer.concurrency(1).run().await.map(drop) });
    while books.entries().len() == before && !driver.is_finished() {
        tokio::task::yield_now().await;
    }
    kill(driver).await;
    books.entries()[before] == "neighbour"
}

#[tokio::test]
async fn only_lost_drivers_in_a_row_make_a_workflow_run_alone() {
    // Runs that failed came back, so they kill no process.
    for (failed, lost, alone) in [(2, 1, false), (0, 2, false), (0, 3, true)] {
        for step in [Step::Recorded, Step::Nothing] {
            let desk = Desk::new().await;
            let code = Killed::new(step);
            code.started(&desk).await;
            for _ in 0..failed {
                code.failed(&desk).await;
            }
            for _ in 0..lost {
                assert!(code.killed(&desk).await);
            }
            assert_eq!(runs_alone(&desk, &code, &code.books).await, alone, "{failed} {lost} {step:?}");
        }
    }
}

#[tokio::test]
async fn run_that_came_back_ends_the_row_of_lost_drivers() {
    let desk = Desk::new().await;
    let code = Killed::new(Step::Recorded);
    code.started(&desk).await;
    for _ in 0..2 {
        assert!(code.killed(&desk).await);
    }
    code.failed(&desk).await;
    assert!(code.killed(&desk).await);
    assert!(!runs_alone(&desk, &code, &code.books).await);
}

#[tokio::test]
async fn operators_retry_ends_the_row_of_lost_drivers() {
    let desk = Desk::new().await;
    let code = Killed::new(Step::Nothing);
    code.started(&desk).await;
    for _ in 0..3 {
        assert!(code.killed(&desk).await);
    }
    let seen = desk.view("k/1").await;
    assert_eq!(desk.machine().0.retry(&seen, &ada()).await.unwrap(), Intervened::Done);
    assert!(!runs_alone(&desk, &code, &code.books).await);
}

/// A charge of ten hours, whose driver is killed. Later runs panic.
#[derive(Clone)]
struct Panics {
    books: Books,
    runs: Arc<AtomicUsize>,
}

impl Workflow for Panics {
    const NAME: &'static str = "panics";
    type Input = ();
    type Output = ();

    async fn run(&self, flow: &Flow, (): ()) -> Result<(), Stop> {
        self.runs.fetch_add(1, Ordering::SeqCst);
        let charge = flow.once("charge").expect_within(LATER * 10).compensate(&"refund");
        let charge = charge.run(async |_| {
            self.books.enter("charge");
            forever::<Result<(), Failure>>().await
        });
        let charged = charge.await;
        panic!("a bug: {charged:?}")
    }

    async fn compensate(&self, _: &Flow, compensation: Compensation) -> Result<Compensated, Failure> {
        self.books.enter(compensation.name());
        Ok(Compensated::Done)
    }

    fn exhausted(&self) -> Exhausted {
        Exhausted::Compensate
    }
}

#[tokio::test(start_paused = true)]
async fn exhausted_workflow_does_not_run_while_it_waits_for_a_charge() {
    let desk = Desk::new().await;
    let code = Panics { books: Books::default(), runs: Arc::default() };
    let (workflows, _) = desk.machine();
    let caller = tokio::spawn({
        let (workflows, code) = (workflows.clone(), code.clone());
        async move { workflows.start(&code, "p/1", &()).run().await.map(drop) }
    });
    while code.books.entries().is_empty() {
        tokio::task::yield_now().await;
    }
    kill(caller).await;
    for _ in 0..150 {
        desk.bench.clock.advance(Duration::from_secs(600));
        Completer::new(&workflows).register(code.clone()).run().await.unwrap();
    }
    let view = desk.view("p/1").await;
    assert_eq!(view.state(), State::Failed, "{:?}", view.reason());
    assert_eq!(code.books.entries(), ["charge", "refund"]);
    assert_eq!(code.runs.load(Ordering::SeqCst), 10, "ten runs lost their driver");
}
