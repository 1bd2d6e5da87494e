//! Recorded times, pauses, and starts at a later time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use chrono::{DateTime, Utc};
use locker::workflow::{Completer, Flow, Limits, List, Outcome, State, StepKind, Stop, Workflow};
use locker_tests::DAY;

use crate::bench::{Books, Desk};

const HOUR: Duration = Duration::from_secs(3600);

/// The code of the workflow. Its argument is the number of the run.
#[derive(Clone)]
struct Code<F> {
    books: Books,
    runs: Arc<AtomicU32>,
    code: F,
}

impl<F> Code<F> {
    fn new(code: F) -> Self {
        Self { books: Books::default(), runs: Arc::default(), code }
    }
}

impl<F> Workflow for Code<F>
where
    F: AsyncCode + Clone + Send + Sync + 'static,
{
    const NAME: &'static str = "timers";
    type Input = ();
    type Output = ();

    async fn run(&self, flow: &Flow, (): ()) -> Result<(), Stop> {
        let run = self.runs.fetch_add(1, Ordering::SeqCst);
        self.books.enter("run");
        self.code.call(flow, run).await
    }
}

trait AsyncCode {
    fn call(&self, flow: &Flow, run: u32) -> impl Future<Output = Result<(), Stop>> + Send;
}

/// Sleeps for an hour in the first run, and for a day in each later run.
#[derive(Clone)]
struct Naps;

impl AsyncCode for Naps {
    async fn call(&self, flow: &Flow, run: u32) -> Result<(), Stop> {
        flow.sleep("nap", if run == 0 { HOUR } else { DAY }).await
    }
}

#[tokio::test]
async fn pause_ends_when_its_first_run_said() {
    let desk = Desk::new().await;
    let code = Code::new(Naps);
    let (workflows, _) = desk.machine_with(|_, limits| *limits = Limits::default());
    let outcome = workflows.start(&code, "nap/1", &()).run().await.unwrap();
    let Outcome::InProgress(waiting) = outcome else { panic!("{outcome:?}") };
    assert_eq!(waiting.due(), desk.now() + HOUR);
    let completer = Completer::new(&workflows).register(code.clone());
    for _ in 0..59 {
        desk.bench.clock.advance(Duration::from_secs(60));
        assert_eq!(completer.run().await.unwrap().claimed, 0);
    }
    let view = desk.view("nap/1").await;
    assert_eq!((view.listed(), view.attempts()), (Some(List::Unfinished), 0));
    assert_eq!(view.steps()[0].kind(), StepKind::Timer);
    desk.bench.clock.advance(Duration::from_secs(61));
    assert_eq!(completer.run().await.unwrap().completed, 1);
    assert_eq!(code.books.count("run"), 2);
}

/// Notes the time at which it began, and pauses.
#[derive(Clone)]
struct Notes(Books);

impl AsyncCode for Notes {
    async fn call(&self, flow: &Flow, _: u32) -> Result<(), Stop> {
        let now = flow.now("begun").await?;
        self.0.enter(now.to_rfc3339());
        flow.sleep_until("pause", now + HOUR).await
    }
}

#[tokio::test]
async fn recorded_time_is_the_same_in_each_run() {
    let desk = Desk::new().await;
    let notes = Books::default();
    let code = Code::new(Notes(notes.clone()));
    let begun = desk.now();
    desk.machine().0.start(&code, "note/1", &()).run().await.unwrap();
    desk.bench.clock.advance(HOUR + Duration::from_secs(1));
    desk.settle(&code).await;
    assert_eq!(desk.view("note/1").await.state(), State::Completed);
    assert_eq!(notes.entries(), [begun.to_rfc3339(), begun.to_rfc3339()]);
}

/// Pauses twice at a time, for two hours and for one.
#[derive(Clone)]
struct Both;

impl AsyncCode for Both {
    async fn call(&self, flow: &Flow, _: u32) -> Result<(), Stop> {
        let (long, short) = tokio::join!(flow.sleep(("pause", 2), HOUR * 2), flow.sleep(("pause", 1), HOUR));
        short.and(long)
    }
}

#[tokio::test]
async fn shortest_pause_wakes_and_the_longest_ends_last() {
    let desk = Desk::new().await;
    let code = Code::new(Both);
    desk.machine().0.start(&code, "both/1", &()).run().await.unwrap();
    for (runs, state) in [(2, State::Running), (3, State::Completed)] {
        desk.bench.clock.advance(HOUR + Duration::from_secs(1));
        Completer::new(&desk.machine().0).register(code.clone()).run().await.unwrap();
        assert_eq!((code.books.count("run"), desk.view("both/1").await.state()), (runs, state));
    }
}

#[tokio::test]
async fn workflow_does_not_begin_before_its_time() {
    let desk = Desk::new().await;
    let code = Code::new(Naps);
    let (workflows, _) = desk.machine();
    let at: DateTime<Utc> = desk.now() + DAY;
    for enqueued in [true, false] {
        let key = format!("later/{enqueued}");
        let start = || workflows.start(&code, &key, &()).not_before(at);
        let outcome = if enqueued { start().enqueue().await } else { start().run().await }.unwrap();
        let Outcome::InProgress(waiting) = outcome else { panic!("{outcome:?}") };
        assert_eq!((waiting.due(), waiting.retry_after()), (at, Duration::from_secs(60)));
        // A second caller does not begin it either.
        let again = workflows.start(&code, &key, &()).run().await.unwrap();
        assert!(matches!(again, Outcome::InProgress(_)), "{again:?}");
        assert_eq!(desk.view(&key).await.due(), at);
    }
    let completer = Completer::new(&workflows).register(code.clone());
    assert_eq!(completer.run().await.unwrap().claimed, 0);
    assert_eq!(code.books.count("run"), 0);
    desk.bench.clock.advance(DAY + Duration::from_secs(1));
    assert_eq!(completer.run().await.unwrap().claimed, 2);
    assert_eq!(code.books.count("run"), 2);
    // The earliest time of an existing workflow does not change.
    let next = workflows.start(&code, "later/known", &()).not_before(at + DAY * 9);
    workflows.start(&code, "later/known", &()).enqueue().await.unwrap();
    let outcome = next.run().await.unwrap();
    assert!(matches!(outcome, Outcome::InProgress(_)), "{outcome:?}");
    assert_eq!(code.books.count("run"), 3);
    // With a time in the past, the caller drives the workflow.
    let outcome = workflows.start(&code, "later/past", &()).not_before(at - DAY).run().await.unwrap();
    assert!(matches!(outcome, Outcome::InProgress(_)), "{outcome:?}");
    assert_eq!(code.books.count("run"), 4);
}
