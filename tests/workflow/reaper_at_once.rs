//! The reaper deletes many workflows side by side: each on its own, and only what it has seen.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use locker::Failure;
use locker::workflow::{Completer, Flow, Outcome, Reaper, RetryPolicy, State, Stop, Workflow};
use locker_tests::{Fate, Wire};

use crate::bench::{Books, Desk, LATER};

const YEAR: Duration = Duration::from_secs(366 * 24 * 3600);
const STEPS: usize = 5;

#[derive(Clone)]
struct Job(Books);

impl Workflow for Job {
    const NAME: &'static str = "job";
    type Input = ();
    type Output = ();

    async fn run(&self, flow: &Flow, (): ()) -> Result<(), Stop> {
        for step in 0..STEPS {
            let work = |_| async move {
                self.0.enter(format!("{}#{step}", flow.key().as_str()));
                Ok(())
            };
            flow.step(format!("step#{step}")).run(work).await?;
        }
        Ok(())
    }
}

async fn finished(desk: &Desk, count: usize) -> Job {
    let job = Job(Books::default());
    for number in 0..count {
        desk.machine().0.start(&job, ("job", number), &()).run().await.unwrap();
    }
    desk.bench.clock.advance(YEAR);
    job
}

fn reaper(desk: &Desk, job: &Job) -> (Reaper, Wire) {
    // A request that is held is not sent again.
    let (workflows, wire) = desk.machine_with(|settings, _| {
        settings.attempt_timeout = Duration::from_secs(60);
        settings.give_up_after = Duration::from_secs(60);
    });
    (Reaper::new(&Completer::new(&workflows).register(job.clone())), wire)
}

/// What is left, apart from ledger records and from when the reaper ran.
async fn left(desk: &Desk) -> Vec<String> {
    let items = desk.items().await;
    let name = |name: &str, item: &std::collections::HashMap<_, aws_sdk_dynamodb::types::AttributeValue>| {
        item[name].as_s().unwrap().clone()
    };
    let mut left: Vec<_> =
        items.iter().map(|item| format!("{} {}", name("workflow", item), name("item", item))).collect();
    left.retain(|item| !item.contains("~ledger/") && !item.starts_with("locker runs "));
    left.sort();
    left
}

async fn until(what: impl Fn() -> bool) {
    while !what() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn one_that_gets_no_answer_or_fails_does_not_keep_the_others_waiting() {
    for fault in [Fate::HeldBefore, Fate::Denied] {
        let desk = Desk::new().await;
        let job = finished(&desk, 30).await;
        let (reaper, wire) = reaper(&desk, &job);
        // The items of the first workflow that is looked at.
        wire.matching(|it| it.operation == "Query" && it.request["IndexName"].is_null(), fault);
        let run = tokio::spawn(async move { reaper.concurrency(4).run().await.unwrap() });
        if fault == Fate::HeldBefore {
            // 29 are deleted meanwhile.
            while left(&desk).await.len() > STEPS + 1 {
                assert!(!run.is_finished());
            }
            wire.let_through();
        }
        let report = run.await.unwrap();
        let failed = usize::from(fault != Fate::HeldBefore);
        assert_eq!((report.deleted, report.failed), (30 - failed, failed), "{report:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn one_that_was_suspended_between_reading_and_deleting_deletes_nothing_of_the_next_life() {
    let desk = Desk::new().await;
    let job = finished(&desk, 4).await;
    let (suspended, wire) = reaper(&desk, &job);
    for _ in 0..64 {
        wire.matching(|it| it.operation == "DeleteItem", Fate::HeldBefore);
    }
    let run = tokio::spawn(async move { suspended.run().await });
    // All four have come to their deletions, and no further.
    while wire.held() < 4 * STEPS {
        assert!(!run.is_finished());
        tokio::task::yield_now().await;
    }
    // Another reaper goes on after its time, and the keys are started anew.
    desk.bench.clock.advance(LATER);
    reaper(&desk, &job).0.run().await.unwrap();
    assert_eq!(left(&desk).await, Vec::<String>::new());
    for number in 0..4 {
        let outcome = desk.machine().0.start(&job, ("job", number), &()).run().await.unwrap();
        assert!(matches!(&outcome, Outcome::Completed(answer) if !answer.is_replay()), "{outcome:?}");
    }
    let before = left(&desk).await;
    assert_eq!(before.len(), 4 * (STEPS + 1));
    for _ in 0..64 {
        wire.let_through();
    }
    let report = run.await.unwrap().unwrap();
    assert_eq!(left(&desk).await, before, "{report:?}");
    let refused = |seen: &locker_tests::Exchange| seen.operation == "DeleteItem" && seen.status == Some(400);
    assert!(wire.take().iter().any(refused), "records of the next life were asked for");
}

/// Fails while its provider is down.
#[derive(Clone)]
struct Fails(Arc<AtomicBool>);

impl Workflow for Fails {
    const NAME: &'static str = "fails";
    type Input = ();
    type Output = ();

    async fn run(&self, flow: &Flow, (): ()) -> Result<(), Stop> {
        let mail = flow.step("mail").retry(RetryPolicy::never());
        let is_down = self.0.load(Ordering::SeqCst);
        let work =
            |_| async move { if is_down { Err(Failure::transient("down".to_owned())) } else { Ok(()) } };
        mail.run(work).await
    }
}

#[tokio::test(start_paused = true)]
async fn suspended_reaper_deletes_no_cause_of_the_next_life() {
    let desk = Desk::new().await;
    let code = Fails(Arc::new(AtomicBool::new(true)));
    let start = async || desk.machine().0.start(&code, "f/1", &()).run().await.unwrap();
    start().await;
    code.0.store(false, Ordering::SeqCst);
    desk.settle(&code).await;
    assert_eq!(desk.view("f/1").await.state(), State::Completed);
    desk.bench.clock.advance(YEAR);
    let reaper = || {
        let (workflows, wire) = desk.machine_with(|settings, _| {
            settings.attempt_timeout = Duration::from_secs(60);
            settings.give_up_after = Duration::from_secs(60);
        });
        (Reaper::new(&Completer::new(&workflows).register(code.clone())), wire)
    };
    let (suspended, wire) = reaper();
    wire.matching(|it| it.operation == "BatchWriteItem", Fate::HeldBefore);
    let run = tokio::spawn(async move { suspended.run().await });
    while wire.held() == 0 {
        assert!(!run.is_finished());
        tokio::task::yield_now().await;
    }
    // Another reaper goes on after its time. The key is started anew, and its run fails.
    desk.bench.clock.advance(LATER);
    assert_eq!(reaper().0.run().await.unwrap().deleted, 1);
    code.0.store(true, Ordering::SeqCst);
    start().await;
    assert_eq!(desk.view("f/1").await.failed_runs().len(), 1);
    wire.let_through();
    let report = run.await.unwrap().unwrap();
    let view = desk.view("f/1").await;
    assert_eq!((view.state(), view.failed_runs().len()), (State::Running, 1), "{report:?}");
}

#[tokio::test(start_paused = true)]
async fn killed_anywhere_the_next_run_goes_on() {
    for n in (0..40).step_by(3) {
        let desk = Desk::new().await;
        let job = finished(&desk, 5).await;
        let (dying, wire) = reaper(&desk, &job);
        wire.next(std::iter::repeat_n(Fate::Ok, n).chain(std::iter::repeat_n(Fate::Hangs, 100)));
        let run = tokio::spawn(async move { dying.run().await.map(drop) });
        until(|| wire.count() >= n || run.is_finished()).await;
        tokio::time::sleep(Duration::from_millis(20)).await;
        run.abort();
        desk.bench.clock.advance(LATER);
        reaper(&desk, &job).0.run().await.unwrap();
        assert_eq!(left(&desk).await, Vec::<String>::new(), "killed at {n}");
    }
}

#[tokio::test(start_paused = true)]
async fn kept_workflow_is_examined_at_growing_intervals() {
    #[derive(Clone)]
    struct Tells;

    impl Workflow for Tells {
        const NAME: &'static str = "tells";
        type Input = ();
        type Output = ();

        async fn run(&self, flow: &Flow, (): ()) -> Result<(), Stop> {
            flow.atomic("tell").message("told", &1).commit(&()).await
        }
    }

    let desk = Desk::new().await;
    let (workflows, _) = desk.machine();
    workflows.start(&Tells, "tells/1", &()).run().await.unwrap();
    let reaper = Reaper::new(&Completer::new(&workflows).register(Tells));
    let mut looks = Vec::new();
    for day in 0..150 {
        if reaper.run().await.unwrap().kept > 0 {
            looks.push(day);
        }
        desk.bench.clock.advance(Duration::from_secs(24 * 3600 + 1));
    }
    // Its retention is 30 days.
    assert_eq!(looks, [30, 31, 33, 37, 45, 61, 91, 121]);
}
