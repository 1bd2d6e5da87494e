//! The completer among several types of workflow: one that hangs or kills its process does not keep
//! the others waiting.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use chrono::TimeDelta;
use locker::workflow::{Completer, Flow, List, State, Stop, Workflow, Workflows};
use locker_tests::{Fate, Wire};
use tokio::sync::Notify;

use crate::bench::{Books, Desk, LATER};

/// Its provider hangs.
#[derive(Debug, Clone, Default)]
struct Hangs(Arc<AtomicUsize>);

/// Counts those that run now.
struct Running<'a>(&'a AtomicUsize);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Workflow for Hangs {
    const NAME: &'static str = "hangs";
    type Input = ();
    type Output = ();

    async fn run(&self, _: &Flow, (): ()) -> Result<(), Stop> {
        self.0.fetch_add(1, Ordering::SeqCst);
        let _running = Running(&self.0);
        std::future::pending().await
    }
}

/// Notes how many of the others run beside the first of it. (When none of it waits any more, the
/// others take its place.)
#[derive(Debug, Clone, Default)]
struct Quick {
    begun: Arc<AtomicUsize>,
    beside: Arc<AtomicUsize>,
    hanging: Arc<AtomicUsize>,
}

impl Workflow for Quick {
    const NAME: &'static str = "quick";
    type Input = ();
    type Output = ();

    async fn run(&self, _: &Flow, (): ()) -> Result<(), Stop> {
        if self.begun.fetch_add(1, Ordering::SeqCst) < 20 {
            self.beside.fetch_max(self.hanging.load(Ordering::SeqCst), Ordering::SeqCst);
        }
        Ok(())
    }
}

async fn enqueue<W: Workflow<Input = ()>>(workflows: &Workflows, code: &W, count: usize) {
    for number in 0..count {
        workflows.start(code, (W::NAME, number), &()).enqueue().await.unwrap();
    }
}

/// How many pages of what is due were read, without those of what fails.
fn pages(wire: &Wire) -> usize {
    let of_due = |page: &locker_tests::Exchange| {
        let status = page.request["ExpressionAttributeValues"][":status"]["S"].as_str();
        page.request["Limit"] == 100 && status.is_some_and(|status| status.starts_with("unfinished"))
    };
    wire.take().iter().filter(|page| page.operation == "Query" && of_due(page)).count()
}

fn completer(workflows: &Workflows) -> Completer {
    Completer::new(workflows).concurrency(8).drive_for(Duration::from_millis(300))
}

#[tokio::test(start_paused = true)]
async fn one_behind_many_that_hang_is_done_in_the_same_run() {
    for many in [40, 250] {
        let desk = Desk::new().await;
        let (workflows, wire) = desk.machine();
        let (hangs, quick) = (Hangs::default(), Quick::default());
        enqueue(&workflows, &hangs, many).await;
        desk.bench.clock.advance(Duration::from_secs(60));
        enqueue(&workflows, &quick, 1).await;
        desk.bench.clock.advance(LATER);
        wire.take();
        // It claims no more of those that hang than it drives at a time, twice.
        let report = completer(&workflows).register(hangs).register(quick).limit(16).run().await.unwrap();
        assert_eq!(report.completed, 1, "{many}: {report:?}");
        assert_eq!(desk.view("quick/0").await.state(), State::Completed);
        assert_eq!(pages(&wire), many / 100 + 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_type_that_hangs_has_its_share_of_what_is_driven_at_a_time() {
    let desk = Desk::new().await;
    let (workflows, _) = desk.machine();
    let hangs = Hangs::default();
    let quick = Quick { hanging: Arc::clone(&hangs.0), ..Quick::default() };
    enqueue(&workflows, &hangs, 20).await;
    desk.bench.clock.advance(Duration::from_secs(60));
    enqueue(&workflows, &quick, 30).await;
    desk.bench.clock.advance(LATER);
    let completer = completer(&workflows).register(hangs.clone()).register(quick.clone());
    let report = completer.run().await.unwrap();
    assert_eq!((report.completed, report.broken_off), (30, 20), "{report:?}");
    assert_eq!(quick.beside.load(Ordering::SeqCst), 4);
}

#[tokio::test(start_paused = true)]
async fn with_one_type_no_page_is_read_before_it_is_needed() {
    let desk = Desk::new().await;
    let (workflows, wire) = desk.machine();
    let quick = Quick::default();
    enqueue(&workflows, &quick, 250).await;
    desk.bench.clock.advance(LATER);
    wire.take();
    let alone = completer(&workflows).register(quick.clone());
    assert_eq!(alone.clone().limit(8).run().await.unwrap().completed, 8);
    assert_eq!(pages(&wire), 1);
    // All of them take as many pages with two types registered as with one.
    let both = alone.register(Hangs::default());
    assert_eq!(both.run().await.unwrap().completed, 242);
    assert_eq!(pages(&wire), 3);
}

/// One of them ends the whole process, before any of the others gets anything done.
#[derive(Debug, Clone, Default)]
struct Deadly {
    books: Books,
    dies: Arc<Notify>,
}

impl Workflow for Deadly {
    const NAME: &'static str = "deadly";
    type Input = bool;
    type Output = ();

    async fn run(&self, flow: &Flow, deadly: bool) -> Result<(), Stop> {
        if deadly {
            self.dies.notify_one();
            return std::future::pending().await;
        }
        let work = |_| async {
            tokio::time::sleep(Duration::from_millis(100)).await;
            self.books.enter(flow.key().as_str());
            Ok(())
        };
        // What a `once` had begun would be in doubt: nothing tells what became of it.
        flow.step("work").run(work).await
    }
}

#[tokio::test(start_paused = true)]
async fn one_that_kills_its_process_does_not_use_up_the_attempts_of_its_neighbours() {
    let desk = Desk::new().await;
    let (workflows, _) = desk.machine();
    let code = Deadly::default();
    for number in 0..6 {
        workflows.start(&code, ("deadly", number), &(number == 3)).enqueue().await.unwrap();
    }
    for _ in 0..14 {
        desk.bench.clock.advance(LATER);
        let run = completer(&workflows).register(code.clone()).drive_for(Duration::from_secs(5));
        let running = tokio::spawn(async move { run.run().await });
        tokio::select! {
            () = code.dies.notified() => running.abort(),
            () = async { while !running.is_finished() { tokio::time::sleep(Duration::from_millis(1)).await } } => {}
        }
    }
    assert_eq!(desk.quarantine().await, ["deadly/3"]);
    assert_eq!(workflows.list(List::Unfinished).count(100).await.unwrap().at_least, 0);
    assert_eq!(code.books.entries().len(), 5, "{:?}", code.books.entries());
}

/// What a run does within its time: one type hangs, the list of those that fail cannot be read, and
/// one is quiet.
#[tokio::test(start_paused = true)]
async fn beside_a_type_that_hangs_and_a_dead_list_a_quiet_one_is_driven_in_the_first_round() {
    let desk = Desk::new().await;
    let (workflows, wire) = desk.machine();
    let (hangs, quick) = (Hangs::default(), Quick::default());
    enqueue(&workflows, &hangs, 150).await;
    desk.bench.clock.advance(Duration::from_secs(60));
    enqueue(&workflows, &quick, 1).await;
    desk.bench.clock.advance(LATER);
    let clock = desk.bench.clock.clone();
    tokio::spawn(async move {
        loop {
            tokio::time::sleep(Duration::from_millis(100)).await;
            clock.advance(Duration::from_millis(100));
        }
    });
    wire.matching(|it| it.request.to_string().contains("\"failing"), Fate::Denied);
    let begun = desk.now();
    let completer =
        completer(&workflows).register(hangs.clone()).register(quick).deadline(begun + TimeDelta::seconds(3));
    let report = completer.run().await.unwrap();
    assert_eq!((report.completed, report.finished), (1, false), "{report:?}");
    assert!(matches!(report.stopped_by, Some(locker::Error::Denied { .. })), "{report:?}");
    assert!((16..150).contains(&report.broken_off), "{report:?}");
    assert!(desk.now() - begun <= TimeDelta::seconds(4), "{}", desk.now() - begun);
}
