//! The completer: workflows that were begun finish or are quarantined, whatever one of them does.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use locker::Failure;
use locker::workflow::{Completer, Flow, List, Outcome, RetryPolicy, State, Stop, Workflow};
use locker_tests::Recorded;
use tokio::sync::Semaphore;

use crate::bench::{Books, Desk, LATER};

/// Some of the poison workflows panic, some hang, and the rest always fail transiently.
#[derive(Clone)]
struct Task(Books);

impl Workflow for Task {
    const NAME: &'static str = "task";
    type Input = u32;
    type Output = u32;

    async fn run(&self, flow: &Flow, number: u32) -> Result<u32, Stop> {
        let done = flow.once("effect").input(&number).run(|_| async {
            self.0.enter(flow.key().as_str());
            Ok(number)
        });
        let done = done.await?;
        match number % 100 {
            77 if number.is_multiple_of(3) => panic!("poison"),
            77 if number.is_multiple_of(7) => std::future::pending().await,
            77 => {
                let down = |_| async { Err::<(), _>(Failure::transient("down".to_owned())) };
                flow.step("poison").retry(RetryPolicy::never()).run(down).await?;
            }
            _ => {}
        }
        flow.step("last").run(|_| async { Ok(done) }).await
    }
}

async fn enqueue(desk: &Desk, task: &Task, numbers: std::ops::Range<u32>) {
    let (workflows, _) = desk.machine_with(|settings, _| settings.shards = 4);
    let many: Vec<_> = numbers.collect();
    for some in many.chunks(50) {
        let mut starts = tokio::task::JoinSet::new();
        for number in some.iter().copied() {
            let (workflows, task) = (workflows.clone(), task.clone());
            starts.spawn(async move {
                workflows.start(&task, ("task", number), &number).enqueue().await.unwrap()
            });
        }
        starts.join_all().await;
    }
}

fn completer(desk: &Desk, task: &Task) -> Completer {
    let (workflows, _) = desk.machine_with(|settings, limits| {
        settings.shards = 4;
        limits.attempts = 3;
    });
    Completer::new(&workflows).register(task.clone())
}

#[tokio::test]
async fn of_a_thousand_with_ten_of_poison_the_rest_completes_and_the_ten_are_quarantined_within_their_cap() {
    let recorded = Recorded::start();
    let desk = Desk::new().await;
    let task = Task(Books::default());
    enqueue(&desk, &task, 0..1000).await;
    // Long enough for a busy machine: a run that is aborted in the middle of its effect leaves a
    // step in doubt.
    let completer = completer(&desk, &task).concurrency(16).drive_for(Duration::from_secs(8));
    let (mut taken, mut quarantined) = (0, 0);
    for _ in 0..4 {
        desk.bench.clock.advance(LATER);
        let done = completer.run().await.unwrap();
        assert!(done.finished && done.stopped_by.is_none(), "{done:?}");
        assert_eq!(done.failed, 0, "{done:?}");
        taken += done.claimed;
        quarantined += done.quarantined;
    }
    // The first run of each, and two more of each poison workflow. The first run of the four that
    // panic or hang recorded a step, so it does not count.
    assert_eq!((taken, quarantined), (1024, 10));
    let quarantine: BTreeSet<_> = desk.quarantine_of(4).await.into_iter().collect();
    assert_eq!(quarantine, (0..10).map(|hundred| format!("task/{}", hundred * 100 + 77)).collect());
    let effects: BTreeSet<_> = task.0.entries().into_iter().collect();
    assert_eq!((task.0.entries().len(), effects.len()), (1000, 1000), "each effect once");

    let metrics = recorded.take();
    assert_eq!(metrics.count("workflowsQuarantined"), 10);
    assert_eq!(metrics.gauge("workflowsInQuarantine"), Some(10.0));
    assert_eq!(metrics.gauge("unfinishedWorkflows"), Some(0.0));
    assert_eq!(metrics.gauge("completerFinished"), Some(1.0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixteen_completers_at_once_do_no_step_twice() {
    let desk = Arc::new(Desk::new().await);
    let task = Task(Books::default());
    enqueue(&desk, &task, 0..60).await;
    desk.bench.clock.advance(LATER);
    let mut racing = tokio::task::JoinSet::new();
    for _ in 0..16 {
        let completer = completer(&desk, &task);
        racing.spawn(async move { completer.run().await.unwrap() });
    }
    let done = racing.join_all().await;
    let taken: usize = done.iter().map(|done| done.claimed).sum();
    let completed: usize = done.iter().map(|done| done.completed).sum();
    assert_eq!((taken, completed), (60, 60), "{done:?}");
    let effects: BTreeSet<_> = task.0.entries().into_iter().collect();
    assert_eq!((task.0.entries().len(), effects.len()), (60, 60));
}

#[tokio::test]
async fn attempts_are_counted_when_a_workflow_is_claimed() {
    use locker_tests::Fate;
    let desk = Desk::new().await;
    let task = Task(Books::default());
    let (workflows, _) = desk.machine_with(|_, limits| limits.attempts = 3);
    workflows.start(&task, "task/1", &1).enqueue().await.unwrap();
    // Each driver dies right after it claimed the workflow.
    for attempt in 1..=3 {
        desk.bench.clock.advance(LATER);
        let (workflows, wire) = desk.machine_with(|_, limits| limits.attempts = 3);
        // After the first, a claim reads before it whether the lost driver had recorded a step.
        let requests = if attempt == 1 { 2 } else { 3 };
        wire.next(std::iter::repeat_n(Fate::Ok, requests).chain([Fate::Stalls]));
        let cut = tokio::spawn({
            let task = task.clone();
            async move { workflows.start(&task, "task/1", &1).run().await.map(drop) }
        });
        while wire.count() <= requests {
            tokio::task::yield_now().await;
        }
        cut.abort();
        assert_eq!(desk.view("task/1").await.attempts(), attempt);
    }
    desk.bench.clock.advance(LATER);
    let outcome = workflows.start(&task, "task/1", &1).run().await.unwrap();
    let Outcome::Quarantined(reason) = outcome else { panic!("{outcome:?}") };
    assert_eq!(reason, "3 runs in a row killed or hung their driver");
    assert!(task.0.entries().is_empty());
}

#[tokio::test]
async fn a_workflow_without_code_is_reported_and_left() {
    let desk = Desk::new().await;
    let task = Task(Books::default());
    enqueue(&desk, &task, 0..3).await;
    desk.bench.clock.advance(LATER);
    let (workflows, _) = desk.machine_with(|settings, _| settings.shards = 4);
    let recorded = Recorded::start();
    let without = Completer::new(&workflows);
    let done = without.run().await.unwrap();
    assert_eq!(done.unknown.get("task"), Some(&3), "{done:?}");
    assert_eq!((done.claimed, done.finished), (0, true));
    // There may be no code for it anywhere. What this one is responsible for is done all the same.
    let metrics = recorded.take();
    assert_eq!(metrics.gauge("workflowsWithoutCode"), Some(3.0));
    assert_eq!(metrics.gauge("completerFinished"), Some(1.0));
    // Another service shares the table.
    let done = without.also_expect(["task", "other"]).run().await.unwrap();
    assert!(done.unknown.is_empty() && done.finished, "{done:?}");
    assert_eq!(recorded.take().gauge("workflowsWithoutCode"), Some(0.0));
    assert_eq!(workflows.list(List::Unfinished).count(100).await.unwrap().at_least, 3);
}

#[tokio::test]
async fn a_limit_and_a_deadline_are_reported() {
    let desk = Desk::new().await;
    let task = Task(Books::default());
    enqueue(&desk, &task, 0..20).await;
    desk.bench.clock.advance(LATER);
    let done = completer(&desk, &task).limit(5).run().await.unwrap();
    assert_eq!((done.completed, done.finished), (5, false), "{done:?}");
    let late = completer(&desk, &task).deadline(chrono::DateTime::UNIX_EPOCH).run().await;
    assert!(late.is_err() || !late.unwrap().finished);
}

#[tokio::test]
async fn a_workflow_that_is_not_due_is_not_claimed() {
    let desk = Desk::new().await;
    let task = Task(Books::default());
    let (workflows, _) = desk.machine();
    let held = workflows.start(&task, "task/377", &377).run();
    // It fails transiently, and waits.
    assert!(matches!(held.await.unwrap(), Outcome::InProgress(_)));
    let done = Completer::new(&workflows).register(task.clone()).run().await.unwrap();
    assert!(done.claimed <= 1, "its pause is random, and may be over");
    let view = desk.view("task/377").await;
    assert_eq!(view.state(), State::Running);
}

/// A step that may happen twice and takes long.
#[derive(Clone)]
struct Long {
    books: Books,
    gate: Arc<Semaphore>,
}

impl Workflow for Long {
    const NAME: &'static str = "long";
    type Input = ();
    type Output = ();

    async fn run(&self, flow: &Flow, (): ()) -> Result<(), Stop> {
        let work = |_| async {
            self.books.enter("work");
            self.gate.acquire().await.unwrap().forget();
            Ok(())
        };
        flow.step("work").run(work).await
    }
}

#[tokio::test]
async fn a_completer_that_drives_a_workflow_keeps_it_for_as_long_as_it_may_drive_it() {
    const MINUTE: Duration = Duration::from_secs(60);
    let mut drives = Vec::new();
    // Clocks may differ by 5 seconds, and known outcomes are recorded for up to 3 seconds more.
    let just_ended = MINUTE + Duration::from_secs(6);
    for (drive_for, expected, after) in [
        (10 * MINUTE, MINUTE, 2 * MINUTE),
        (MINUTE, Duration::from_secs(1), MINUTE / 2),
        (MINUTE, Duration::from_secs(1), just_ended),
    ] {
        let desk = Desk::new().await;
        let code = Long { books: Books::default(), gate: Arc::new(Semaphore::new(0)) };
        desk.machine().0.start(&code, "l/1", &()).expect_within(expected).enqueue().await.unwrap();
        desk.bench.clock.advance(Duration::from_secs(1));
        let spawned = || {
            let completer = Completer::new(&desk.machine().0).register(code.clone()).drive_for(drive_for);
            tokio::spawn(async move { completer.run().await.unwrap() })
        };
        let first = spawned();
        while code.books.count("work") < 1 {
            tokio::task::yield_now().await;
        }
        desk.bench.clock.advance(after);
        let second = spawned();
        let mut looks = 0;
        while code.books.count("work") < 2 && !second.is_finished() && looks < 200 {
            looks += 1;
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        drives.push(code.books.count("work"));
        code.gate.add_permits(100);
        let _ = (first.await.unwrap(), second.await.unwrap());
    }
    assert_eq!(drives, [1, 1, 1]);
}
