//! The reaper's last attempt: whatever the code does in it, the others get theirs.

use std::time::Duration;

use locker::workflow::{Completer, Flow, List, Reaper, ReaperReport, RetryPolicy, State, Stop, Workflow};
use locker::{Failure, Intervened, Operator, RunReport};
use locker_tests::{Fate, kill};

use crate::bench::{Books, Desk, LATER};

/// Past the time after which a workflow gets its last attempt.
const OLD: Duration = Duration::from_secs(97 * 3600);

/// What the code does once the provider is back.
#[derive(Debug, Clone, Copy, PartialEq)]
enum How {
    Finishes,
    Panics,
    Hangs,
    Fails,
}

#[derive(Clone)]
struct Code {
    books: Books,
    how: How,
}

impl Workflow for Code {
    const NAME: &'static str = "code";
    type Input = ();
    type Output = ();

    async fn run(&self, flow: &Flow, (): ()) -> Result<(), Stop> {
        self.books.enter(flow.key().as_str());
        match self.how {
            How::Panics if flow.key().as_str() == "code/0" => panic!("poison"),
            How::Hangs if flow.key().as_str() == "code/0" => std::future::pending().await,
            How::Fails => {
                let down = |_| async { Err::<(), _>(Failure::transient("down".to_owned())) };
                flow.step("down").retry(RetryPolicy::never()).run(down).await
            }
            _ => Ok(()),
        }
    }
}

/// Old workflows that have not been driven, and a reaper for them.
async fn reaped(desk: &Desk, how: How, workflows: usize) -> (Code, RunReport<ReaperReport>) {
    let code = Code { books: Books::default(), how };
    for number in 0..workflows {
        desk.machine().0.start(&code, format!("code/{number}"), &()).enqueue().await.unwrap();
    }
    desk.bench.clock.advance(OLD);
    let report = reap(desk, &code).await;
    (code, report)
}

async fn reap(desk: &Desk, code: &Code) -> RunReport<ReaperReport> {
    let (workflows, _) = desk.machine();
    let completer = Completer::new(&workflows).register(code.clone()).drive_for(Duration::from_millis(300));
    Reaper::new(&completer).run().await.expect("a run")
}

#[tokio::test(start_paused = true)]
async fn code_that_panics_is_quarantined_and_the_others_finish() {
    let desk = Desk::new().await;
    let (_, report) = reaped(&desk, How::Panics, 4).await;
    assert_eq!((report.completed, report.quarantined, report.failed), (3, 1, 0), "{report:?}");
    let view = desk.view("code/0").await;
    assert_eq!(view.listed(), Some(List::Quarantine));
    assert!(view.reason().unwrap().ends_with("it panicked: poison"), "{:?}", view.reason());
}

#[tokio::test(start_paused = true)]
async fn code_that_hangs_is_quarantined_and_the_others_finish() {
    let desk = Desk::new().await;
    let (_, report) = reaped(&desk, How::Hangs, 4).await;
    assert_eq!((report.completed, report.quarantined, report.failed), (3, 1, 0), "{report:?}");
    let view = desk.view("code/0").await;
    assert_eq!((view.listed(), view.locked_by()), (Some(List::Quarantine), None));
}

#[tokio::test(start_paused = true)]
async fn retried_workflow_gets_all_attempts_before_its_next_last_chance() {
    let desk = Desk::new().await;
    let (code, report) = reaped(&desk, How::Fails, 1).await;
    assert_eq!(report.quarantined, 1, "{report:?}");
    desk.bench.clock.advance(OLD);
    let operator = Operator::new("alice", "the provider is back").unwrap();
    let retried = desk.machine().0.retry(&desk.view("code/0").await, &operator).await.unwrap();
    assert_eq!(retried, Intervened::Done);
    let (workflows, _) = desk.machine();
    let completer = Completer::new(&workflows).register(code.clone());
    for hour in 0..5 {
        desk.bench.clock.advance(LATER);
        let driven = completer.run().await.expect("a run");
        assert_eq!(driven.waiting, 1, "{hour}: {driven:?}");
        desk.bench.clock.advance(Duration::from_secs(120));
        let report = reap(&desk, &code).await;
        assert_eq!(report.quarantined, 0, "{hour}: {report:?}");
    }
    desk.bench.clock.advance(OLD);
    let back = Code { how: How::Finishes, ..code };
    assert_eq!(reap(&desk, &back).await.completed, 1);
    assert_eq!(desk.view("code/0").await.state(), State::Completed);
}

/// After the failed last attempt, and before the reaper reads the workflow again, an operator cancels
/// it. The wait of the retries of a test is over by then.
#[tokio::test(start_paused = true)]
async fn act_after_the_last_attempt_is_not_undone_by_the_quarantine() {
    let desk = Desk::new().await;
    let code = Code { books: Books::default(), how: How::Fails };
    let aged = async |key: &str| {
        desk.machine().0.start(&code, key, &()).enqueue().await.unwrap();
        desk.bench.clock.advance(OLD);
        let (workflows, wire) = desk.machine();
        let completer = Completer::new(&workflows).register(code.clone());
        (Reaper::new(&completer.drive_for(Duration::from_millis(300))), wire)
    };
    let (reaper, wire) = aged("code/0").await;
    assert_eq!(reaper.run().await.expect("a run").quarantined, 1);
    let reads = wire.take().into_iter().map(|exchange| exchange.operation);
    let reread = reads.enumerate().rfind(|(_, operation)| operation == "GetItem");
    let (nth, _) = reread.expect("the workflow is read again");

    let (reaper, wire) = aged("code/1").await;
    wire.nth(nth, Fate::HeldBefore);
    let reaping = tokio::spawn(async move { reaper.run().await.expect("a run") });
    while wire.held() == 0 {
        tokio::task::yield_now().await;
    }
    let seen = desk.view("code/1").await;
    assert_eq!((seen.locked_by(), seen.listed()), (None, Some(List::Failing)), "its last attempt is over");
    let operator = Operator::new("alice", "the customer called").unwrap();
    assert_eq!(desk.machine().0.compensate(&seen, &operator).await.unwrap(), Intervened::Done);
    wire.let_through();
    let report = reaping.await.expect("no panic");
    assert_eq!(report.quarantined, 0, "{report:?}");
    let view = desk.view("code/1").await;
    assert_eq!((view.state(), view.listed()), (State::Compensating, Some(List::Unfinished)));
}

/// Ten drivers were lost, and no completer has run since.
#[tokio::test(start_paused = true)]
async fn last_attempt_is_made_after_any_number_of_lost_drivers() {
    let desk = Desk::new().await;
    let code = Code { books: Books::default(), how: How::Hangs };
    for run in 1..=10 {
        let driver = tokio::spawn({
            let (workflows, code) = (desk.machine().0, code.clone());
            async move { workflows.start(&code, "code/0", &()).run().await.map(drop) }
        });
        while code.books.entries().len() < run {
            tokio::task::yield_now().await;
        }
        kill(driver).await;
        desk.bench.clock.advance(LATER);
    }
    desk.bench.clock.advance(OLD);
    let report = reap(&desk, &Code { how: How::Finishes, ..code }).await;
    assert_eq!((report.completed, report.quarantined), (1, 0), "{report:?}");
}

/// Code of another service that shares the table.
#[derive(Clone)]
struct Other;

impl Workflow for Other {
    const NAME: &'static str = "other";
    type Input = ();
    type Output = ();

    async fn run(&self, _: &Flow, (): ()) -> Result<(), Stop> {
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn workflow_without_code_is_left_to_its_service() {
    let desk = Desk::new().await;
    desk.machine().0.start(&Other, "other/1", &()).enqueue().await.unwrap();
    let (code, report) = reaped(&desk, How::Finishes, 1).await;
    assert_eq!((report.completed, report.quarantined), (1, 0), "{report:?}");
    assert_eq!(desk.view("other/1").await.listed(), Some(List::Unfinished));
    assert_eq!(code.books.entries(), ["code/0"]);
    assert_eq!(report.unknown.get("other"), Some(&1), "{report:?}");
    let (workflows, _) = desk.machine();
    let completer = Completer::new(&workflows).register(code).also_expect(["other"]);
    let report = Reaper::new(&completer).run().await.unwrap();
    assert!(report.unknown.is_empty(), "{report:?}");
    assert_eq!(desk.view("other/1").await.listed(), Some(List::Unfinished));
}

#[tokio::test(start_paused = true)]
async fn a_list_that_cannot_be_read_holds_up_no_last_attempt() {
    let desk = Desk::new().await;
    let code = Code { books: Books::default(), how: How::Finishes };
    for number in 0..3 {
        desk.machine().0.start(&code, format!("code/{number}"), &()).enqueue().await.unwrap();
    }
    desk.bench.clock.advance(OLD);
    let (workflows, wire) = desk.machine();
    wire.matching(|it| it.request.to_string().contains("\"finished\""), Fate::Denied);
    let report = Reaper::new(&Completer::new(&workflows).register(code)).run().await.unwrap();
    assert_eq!((report.completed, report.finished), (3, false), "{report:?}");
    assert!(matches!(report.stopped_by, Some(locker::Error::Denied { .. })), "{report:?}");
}

#[derive(Clone)]
struct Quick;

impl Workflow for Quick {
    const NAME: &'static str = "quick";
    type Input = ();
    type Output = ();

    async fn run(&self, _: &Flow, (): ()) -> Result<(), Stop> {
        Ok(())
    }
}

#[derive(Clone)]
struct Stuck;

impl Workflow for Stuck {
    const NAME: &'static str = "stuck";
    type Input = ();
    type Output = ();

    async fn run(&self, _: &Flow, (): ()) -> Result<(), Stop> {
        std::future::pending().await
    }
}

#[tokio::test(start_paused = true)]
async fn beside_a_type_that_hangs_a_quiet_one_gets_its_last_attempt_in_the_first_round() {
    let desk = Desk::new().await;
    for number in 0..60 {
        desk.machine().0.start(&Stuck, ("stuck", number), &()).enqueue().await.unwrap();
    }
    desk.bench.clock.advance(Duration::from_secs(60));
    desk.machine().0.start(&Quick, "quick/1", &()).enqueue().await.unwrap();
    desk.bench.clock.advance(OLD);
    let (workflows, _) = desk.machine();
    let completer = Completer::new(&workflows).register(Stuck).register(Quick);
    let completer = completer.drive_for(Duration::from_millis(300));
    let report = Reaper::new(&completer).limit(9).run().await.unwrap();
    assert_eq!((report.completed, report.quarantined, report.finished), (1, 8, false), "{report:?}");
}
