//! Limits by time: how long a workflow that makes no progress is retried, and when it shows as
//! failing.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use locker::workflow::{
    Completer, CompleterReport, Exhausted, Flow, Limits, List, Outcome, Reaper, RetryPolicy, State, Stop,
    View, Workflow, Workflows,
};
use locker::{Failure, Intervened, RunReport};
use locker_tests::{HOUR, MINUTE, Recorded, ada};

use crate::bench::{Books, Desk};

/// What the provider does when it is asked.
const WELL: usize = 0;
const DOWN: usize = 1;
const POISON: usize = 2;
/// It refunds nothing either.
const ALL_DOWN: usize = 3;

/// Reserves and charges; the provider of the charge is not always there.
#[derive(Clone)]
struct Charge {
    books: Books,
    provider: Arc<AtomicUsize>,
    /// Whether the first step is done.
    reserves: Arc<AtomicBool>,
    /// Limits of its type.
    limits: Option<Limits>,
    /// Of its step.
    retry_for: Option<Duration>,
    exhausted: Exhausted,
}

impl Charge {
    fn new(provider: usize) -> Self {
        Self {
            books: Books::default(),
            provider: Arc::new(AtomicUsize::new(provider)),
            reserves: Arc::default(),
            limits: None,
            retry_for: None,
            exhausted: Exhausted::Quarantine,
        }
    }

    fn is(&self, provider: usize) {
        self.provider.store(provider, Ordering::SeqCst);
    }
}

impl Workflow for Charge {
    const NAME: &'static str = "charge";
    type Input = ();
    type Output = ();

    fn limits(&self, limits: Limits) -> Limits {
        self.limits.clone().unwrap_or(limits)
    }

    fn exhausted(&self) -> Exhausted {
        self.exhausted
    }

    async fn run(&self, flow: &Flow, (): ()) -> Result<(), Stop> {
        if self.reserves.load(Ordering::SeqCst) {
            flow.once("reserve").compensate(&"free").run(|_| async { Ok(()) }).await?;
        }
        let policy = RetryPolicy::never();
        let policy = self.retry_for.map_or(policy.clone(), |time| policy.retry_for(time));
        let charge = |_| async {
            self.books.enter(flow.key().as_str());
            match self.provider.load(Ordering::SeqCst) {
                WELL => Ok(()),
                POISON => panic!("poison"),
                _ => Err(Failure::transient("down".to_owned())),
            }
        };
        flow.step("charge").retry(policy).run(charge).await
    }

    async fn compensate(
        &self,
        _: &Flow,
        compensation: locker::workflow::Compensation,
    ) -> Result<locker::workflow::Compensated, Failure> {
        if self.provider.load(Ordering::SeqCst) == ALL_DOWN {
            return Err(Failure::transient("down".to_owned()).after(MINUTE));
        }
        self.books.enter(compensation.name());
        Ok(locker::workflow::Compensated::Done)
    }
}

/// A machine with the limits as they are by default.
fn machine(desk: &Desk) -> Workflows {
    desk.machine_with(|_, limits| *limits = Limits::default()).0
}

fn completer<W: Workflow + Clone>(desk: &Desk, code: &W) -> Completer {
    Completer::new(&machine(desk)).register(code.clone())
}

/// Let a completer run after each of these pauses.
async fn completed<W: Workflow + Clone>(
    desk: &Desk,
    code: &W,
    times: usize,
    pause: Duration,
) -> RunReport<CompleterReport> {
    let completer = completer(desk, code);
    let mut last = RunReport::default();
    for _ in 0..times {
        desk.bench.clock.advance(pause);
        last = completer.run().await.expect("a run");
    }
    last
}

async fn enqueued(desk: &Desk, code: &Charge, key: &str) {
    machine(desk).start(code, key, &()).enqueue().await.expect("a start");
}

async fn retried(desk: &Desk, seen: &View) {
    assert_eq!(desk.machine().0.retry(seen, &ada()).await.unwrap(), Intervened::Done);
}

#[tokio::test]
async fn a_provider_that_is_down_for_an_hour_puts_nothing_in_quarantine() {
    let desk = Desk::new().await;
    let code = Charge::new(DOWN);
    for number in 0..30 {
        enqueued(&desk, &code, &format!("charge/{number}")).await;
    }
    completed(&desk, &code, 60, MINUTE).await;
    assert_eq!(desk.quarantine().await, Vec::<String>::new());
    code.is(WELL);
    completed(&desk, &code, 16, MINUTE).await;
    for number in 0..30 {
        assert_eq!(desk.view(&format!("charge/{number}")).await.state(), State::Completed, "{number}");
    }
}

#[tokio::test]
async fn without_progress_for_72_hours_it_is_quarantined() {
    let desk = Desk::new().await;
    let code = Charge::new(DOWN);
    enqueued(&desk, &code, "charge/1").await;
    completed(&desk, &code, 1, MINUTE).await;
    completed(&desk, &code, 71, HOUR).await;
    let view = desk.view("charge/1").await;
    assert_eq!((view.listed(), view.attempts()), (Some(List::Failing), 72));
    completed(&desk, &code, 1, HOUR).await;
    let view = desk.view("charge/1").await;
    assert_eq!(view.listed(), Some(List::Quarantine));
    let reason = view.reason().unwrap();
    let start = "no progress in 72 hours and 73 attempts: step charge can be retried after ";
    assert!(reason.starts_with(start), "{reason}");
}

#[tokio::test]
async fn it_gets_ten_attempts_however_long_they_take() {
    let desk = Desk::new().await;
    let code = Charge::new(DOWN);
    enqueued(&desk, &code, "charge/1").await;
    completed(&desk, &code, 9, 24 * HOUR).await;
    let view = desk.view("charge/1").await;
    assert_eq!((view.listed(), view.attempts()), (Some(List::Failing), 9));
    completed(&desk, &code, 1, HOUR).await;
    let view = desk.view("charge/1").await;
    assert_eq!((view.listed(), view.attempts()), (Some(List::Quarantine), 10));
}

#[tokio::test]
async fn after_an_hour_without_progress_it_is_listed_as_failing() {
    let recorded = Recorded::start();
    let failing = || recorded.take().gauge("failingWorkflows");
    let desk = Desk::new().await;
    let code = Charge::new(DOWN);
    let started = desk.now();
    enqueued(&desk, &code, "charge/1").await;
    completed(&desk, &code, 1, 59 * MINUTE).await;
    assert_eq!(desk.view("charge/1").await.listed(), Some(List::Unfinished));
    assert_eq!(failing(), Some(0.0));
    completed(&desk, &code, 1, MINUTE).await;
    let list = desk.machine().0.list(List::Failing).fetch().await.unwrap().items;
    assert_eq!((list.len(), list[0].since), (1, Some(started)));
    assert_eq!(list[0].attempts, Some(2));
    assert_eq!(failing(), Some(1.0));
    // A claim of it does not take it from the list.
    let desk = Arc::new(desk);
    let held = Watched { desk: Arc::clone(&desk), code: code.clone(), seen: Arc::default() };
    completed(&desk, &held, 1, HOUR).await;
    assert_eq!(*held.seen.lock().unwrap(), [Some(List::Failing)]);
    // Progress does.
    code.reserves.store(true, Ordering::SeqCst);
    completed(&desk, &code, 1, HOUR).await;
    let view = desk.view("charge/1").await;
    assert_eq!((view.listed(), view.since(), view.attempts()), (Some(List::Unfinished), desk.now(), 1));
    assert!(desk.machine().0.list(List::Failing).fetch().await.unwrap().items.is_empty());
    // So does an operator's retry.
    completed(&desk, &code, 2, HOUR).await;
    let view = desk.view("charge/1").await;
    assert_eq!(view.listed(), Some(List::Failing));
    retried(&desk, &view).await;
    let view = desk.view("charge/1").await;
    assert_eq!((view.listed(), view.since(), view.attempts()), (Some(List::Unfinished), desk.now(), 0));
}

/// The same workflow, seen while it is driven.
#[derive(Clone)]
struct Watched {
    desk: Arc<Desk>,
    code: Charge,
    seen: Arc<std::sync::Mutex<Vec<Option<List>>>>,
}

impl Workflow for Watched {
    const NAME: &'static str = "charge";
    type Input = ();
    type Output = ();

    async fn run(&self, flow: &Flow, (): ()) -> Result<(), Stop> {
        let view = self.desk.view(flow.key().as_str()).await;
        assert!(view.locked_by().is_some());
        self.seen.lock().unwrap().push(view.listed());
        Workflow::run(&self.code, flow, ()).await
    }
}

#[tokio::test]
async fn late_retry_by_an_operator_restarts_the_time_limit() {
    let desk = Desk::new().await;
    let code = Charge::new(DOWN);
    enqueued(&desk, &code, "charge/1").await;
    completed(&desk, &code, 80, HOUR).await;
    assert_eq!(desk.quarantine().await, ["charge/1"]);
    desk.bench.clock.advance(62 * HOUR);
    retried(&desk, &desk.view("charge/1").await).await;
    let reaper = Reaper::new(&completer(&desk, &code));
    for hour in 0..72 {
        let report = completed(&desk, &code, 1, MINUTE).await;
        assert_eq!((report.waiting, report.quarantined), (1, 0), "hour {hour}: {report:?}");
        let reaped = reaper.run().await.unwrap();
        assert_eq!((reaped.completed, reaped.quarantined), (0, 0), "hour {hour}: {reaped:?}");
        desk.bench.clock.advance(59 * MINUTE);
    }
    code.is(WELL);
    completed(&desk, &code, 1, HOUR).await;
    assert_eq!(desk.view("charge/1").await.state(), State::Completed);
}

#[tokio::test]
async fn reasons_do_not_nest() {
    let desk = Desk::new().await;
    let code = Charge::new(DOWN);
    enqueued(&desk, &code, "charge/1").await;
    let mut reasons = Vec::new();
    for round in 0..3 {
        completed(&desk, &code, 80, HOUR).await;
        let view = desk.view("charge/1").await;
        assert_eq!(view.listed(), Some(List::Quarantine), "{round}");
        reasons.push(view.reason().unwrap().to_owned());
        retried(&desk, &view).await;
    }
    for reason in &reasons {
        assert_eq!(reason.matches("no progress in").count(), 1, "{reason}");
        assert_eq!(reason.len(), reasons[0].len(), "{reason}");
    }
    // Nor do those of the reaper.
    let mut reasons = Vec::new();
    for _ in 0..3 {
        desk.bench.clock.advance(97 * HOUR);
        Reaper::new(&completer(&desk, &code)).run().await.unwrap();
        let view = desk.view("charge/1").await;
        assert_eq!(view.listed(), Some(List::Quarantine));
        reasons.push(view.reason().unwrap().to_owned());
        retried(&desk, &view).await;
    }
    for reason in &reasons {
        assert_eq!(reason.matches("unfinished since").count(), 1, "{reason}");
        assert_eq!(reason.len(), reasons[0].len(), "{reason}");
    }
}

#[tokio::test]
async fn a_type_has_limits_of_its_own_and_a_step_a_time_of_its_own() {
    for (of_type, of_step, hours) in [(Some(3), None, 3), (None, Some(2), 2), (Some(5), Some(4), 4)] {
        let desk = Desk::new().await;
        let mut code = Charge::new(DOWN);
        code.limits = of_type.map(|hours| {
            let mut limits = Limits::default();
            limits.retry_for = hours * HOUR;
            limits
        });
        code.retry_for = of_step.map(|hours| hours * HOUR);
        enqueued(&desk, &code, "charge/1").await;
        completed(&desk, &code, 1, Duration::from_millis(1)).await;
        completed(&desk, &code, hours * 4 - 1, 15 * MINUTE).await;
        assert_eq!(desk.quarantine().await, Vec::<String>::new(), "{hours} hours");
        completed(&desk, &code, 10, 15 * MINUTE).await;
        let view = desk.view("charge/1").await;
        assert_eq!(view.listed(), Some(List::Quarantine), "{hours} hours");
        // A time of the step ends it whatever its attempts; that of its type needs ten.
        let least = if of_step.is_some() { 1 } else { 10 };
        let attempts = (hours * 4 + 1).max(least);
        assert_eq!(usize::try_from(view.attempts()).unwrap(), attempts, "{:?}", view.reason());
    }
}

#[tokio::test]
async fn time_of_a_step_ends_the_workflow_whatever_its_attempts() {
    for exhausted in [Exhausted::Quarantine, Exhausted::Compensate] {
        let desk = Desk::new().await;
        let mut code = Charge::new(DOWN);
        (code.retry_for, code.exhausted) = (Some(MINUTE), exhausted);
        code.reserves.store(true, Ordering::SeqCst);
        enqueued(&desk, &code, "charge/1").await;
        // The first run reserves, which is progress.
        completed(&desk, &code, 1, Duration::from_secs(1)).await;
        completed(&desk, &code, 1, 59 * Duration::from_secs(1)).await;
        let view = desk.view("charge/1").await;
        assert_eq!((view.listed(), view.attempts()), (Some(List::Unfinished), 2));
        completed(&desk, &code, 1, MINUTE).await;
        let view = desk.view("charge/1").await;
        match exhausted {
            Exhausted::Compensate => assert_eq!((view.state(), code.books.count("free")), (State::Failed, 1)),
            _ => {
                assert_eq!((view.listed(), view.attempts()), (Some(List::Quarantine), 3));
                let reason = view.reason().unwrap();
                assert!(reason.starts_with("no progress in 119 seconds and 3 attempts: "), "{reason}");
            }
        }
    }
}

#[tokio::test]
async fn one_whose_time_is_over_is_compensated_if_its_type_says_so() {
    let desk = Desk::new().await;
    let mut code = Charge::new(DOWN);
    code.exhausted = Exhausted::Compensate;
    code.reserves.store(true, Ordering::SeqCst);
    enqueued(&desk, &code, "charge/1").await;
    completed(&desk, &code, 1, MINUTE).await;
    completed(&desk, &code, 71, HOUR).await;
    assert_eq!(code.books.count("free"), 0);
    assert_eq!(desk.view("charge/1").await.listed(), Some(List::Failing));
    completed(&desk, &code, 1, HOUR).await;
    assert_eq!(code.books.count("free"), 1);
    let outcome = machine(&desk).start(&code, "charge/1", &()).run().await.unwrap();
    let Outcome::Failed(failed) = outcome else { panic!("{outcome:?}") };
    let reason: String = failed.failure().error().unwrap();
    assert!(reason.starts_with("no progress in 72 hours and "), "{reason}");
    assert_eq!(failed.failure().step(), Some("charge"));
    assert!(desk.quarantine().await.is_empty());
}

#[tokio::test]
async fn refund_that_fails_after_72_hours_is_retried() {
    let desk = Desk::new().await;
    let mut code = Charge::new(DOWN);
    code.exhausted = Exhausted::Compensate;
    code.reserves.store(true, Ordering::SeqCst);
    enqueued(&desk, &code, "charge/1").await;
    completed(&desk, &code, 1, MINUTE).await;
    completed(&desk, &code, 71, HOUR).await;
    code.is(ALL_DOWN);
    completed(&desk, &code, 1, HOUR).await;
    let view = desk.view("charge/1").await;
    assert_eq!((view.state(), view.listed()), (State::Compensating, Some(List::Unfinished)));
    assert_eq!((view.attempts(), view.since()), (1, desk.now()));
    code.is(DOWN);
    completed(&desk, &code, 1, HOUR).await;
    assert_eq!((desk.view("charge/1").await.state(), code.books.count("free")), (State::Failed, 1));
}

#[tokio::test]
async fn run_that_records_an_outcome_after_72_hours_is_not_the_last() {
    let desk = Desk::new().await;
    let code = Charge::new(DOWN);
    enqueued(&desk, &code, "charge/1").await;
    completed(&desk, &code, 1, MINUTE).await;
    completed(&desk, &code, 71, HOUR).await;
    code.reserves.store(true, Ordering::SeqCst);
    completed(&desk, &code, 1, HOUR).await;
    let view = desk.view("charge/1").await;
    assert_eq!((view.listed(), view.attempts(), view.since()), (Some(List::Unfinished), 1, desk.now()));
    code.is(WELL);
    completed(&desk, &code, 1, HOUR).await;
    assert_eq!(desk.view("charge/1").await.state(), State::Completed);
}

#[tokio::test]
async fn only_runs_that_did_not_come_back_count_to_the_cap() {
    let desk = Desk::new().await;
    let code = Charge::new(POISON);
    enqueued(&desk, &code, "charge/1").await;
    for _ in 0..3 {
        code.is(POISON);
        completed(&desk, &code, 9, 15 * MINUTE).await;
        code.is(DOWN);
        completed(&desk, &code, 9, 15 * MINUTE).await;
    }
    assert_eq!(desk.quarantine().await, Vec::<String>::new(), "no ten in a row");
    code.is(POISON);
    completed(&desk, &code, 9, 15 * MINUTE).await;
    assert!(desk.quarantine().await.is_empty());
    let last = completed(&desk, &code, 1, 15 * MINUTE).await;
    assert_eq!((last.broken_off, last.quarantined), (1, 1), "{last:?}");
    let reason = "10 runs in a row were aborted: it panicked: poison";
    assert_eq!(desk.view("charge/1").await.reason(), Some(reason));
}
