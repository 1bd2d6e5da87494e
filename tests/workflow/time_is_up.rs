//! A run whose time is up: what was done is recorded, nothing new begins, and that takes seconds at
//! most.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use locker::Failure;
use locker::workflow::{Compensated, Compensation, Completer, Flow, StepState, Stop, Workflow};
use locker_tests::Fate;
use tokio::sync::oneshot;

use crate::bench::{Books, Desk, LATER};

const NEIGHBOURS: usize = 6;
const DRIVE: Duration = Duration::from_secs(2);

/// A provider that answers when it is told to.
#[derive(Clone, Default)]
struct Provider {
    books: Books,
    calls: Arc<Mutex<Option<Vec<oneshot::Sender<()>>>>>,
}

impl Provider {
    fn new() -> Self {
        Self { calls: Arc::new(Mutex::new(Some(Vec::new()))), ..Self::default() }
    }

    async fn call(&self, entry: String, hops: bool) {
        self.books.enter(entry);
        let (reply, answer) = oneshot::channel();
        match &mut *self.calls.lock().unwrap() {
            Some(calls) => calls.push(reply),
            None => return,
        }
        if hops {
            // As the reply to a request comes: its head, and then its body from another task.
            answer.await.unwrap();
            let body = tokio::spawn(tokio::task::yield_now());
            tokio::spawn(async move { body.await.unwrap() }).await.unwrap();
        } else {
            answer.await.unwrap();
        }
    }

    /// Answer, if this many calls have come.
    fn answers(&self, many: usize) -> bool {
        let mut calls = self.calls.lock().unwrap();
        if calls.as_ref().is_none_or(|calls| calls.len() < many) {
            return false;
        }
        for call in calls.take().unwrap_or_default() {
            call.send(()).unwrap();
        }
        true
    }
}

/// Blocks its thread for longer than a drive may take, just as the provider answers the others.
#[derive(Clone)]
struct Blocks(Provider);

impl Workflow for Blocks {
    const NAME: &'static str = "blocks";
    type Input = ();
    type Output = ();

    async fn run(&self, _: &Flow, (): ()) -> Result<(), Stop> {
        while !self.0.answers(NEIGHBOURS + 1) {
            tokio::task::yield_now().await;
        }
        std::thread::sleep(DRIVE + Duration::from_millis(500));
        Ok(())
    }
}

/// Its effect takes place while the thread is blocked.
#[derive(Clone)]
struct Neighbour(Provider);

impl Workflow for Neighbour {
    const NAME: &'static str = "neighbour";
    type Input = usize;
    type Output = ();

    async fn run(&self, flow: &Flow, number: usize) -> Result<(), Stop> {
        let key = flow.key().as_str();
        if number == 0 {
            let seat = flow.once("seat").compensate(&"back").run(|_| async { Ok(()) });
            seat.await?;
            return Err(Stop::fail("sold out"));
        }
        let work = |_| async move {
            self.0.call(format!("effect {key}"), number.is_multiple_of(2)).await;
            Ok(())
        };
        match number {
            1 | 2 => flow.step("effect").run(work).await?,
            _ => flow.once("effect").run(work).await?,
        }
        for name in ["next", "last"] {
            let next = |_| async move {
                self.0.books.enter(format!("{name} {key}"));
                Ok(())
            };
            flow.step(name).run(next).await?;
            flow.once(format!("once-{name}")).run(next).await?;
        }
        Ok(())
    }

    async fn compensate(&self, flow: &Flow, _: Compensation) -> Result<Compensated, Failure> {
        self.0.call(format!("effect {}", flow.key().as_str()), true).await;
        Ok(Compensated::Done)
    }
}

#[tokio::test]
async fn outcomes_are_recorded_after_a_blocked_thread_and_nothing_begins() {
    let desk = Desk::new().await;
    let (workflows, _) = desk.machine();
    let provider = Provider::new();
    let books = provider.books.clone();
    let (neighbour, blocks) = (Neighbour(provider.clone()), Blocks(provider));
    for number in 0..=NEIGHBOURS {
        workflows.start(&neighbour, ("n", number), &number).enqueue().await.unwrap();
    }
    workflows.start(&blocks, "blocks", &()).enqueue().await.unwrap();
    desk.bench.clock.advance(LATER);
    let completer = || Completer::new(&workflows).register(neighbour.clone()).register(blocks.clone());
    let report = completer().drive_for(DRIVE).run().await.unwrap();

    assert_eq!(desk.quarantine().await, Vec::<String>::new(), "{report:?}");
    assert_eq!(books.entries().len(), NEIGHBOURS + 1, "nothing new begins: {:?}", books.entries());
    for number in 0..=NEIGHBOURS {
        let view = desk.view(&format!("n/{number}")).await;
        let name = if number == 0 { "compensation:seat" } else { "effect" };
        let step = view.steps().iter().find(|step| step.name() == name).unwrap();
        assert_eq!(step.state(), StepState::Completed, "{number}: {report:?}");
        let begun: Vec<_> = view.steps().iter().map(|step| step.name().to_owned()).collect();
        assert!(!begun.iter().any(|name| name.contains("next")), "{number}: {begun:?}");
        assert_eq!(view.locked_by(), None, "{number}: it is released");
    }

    desk.bench.clock.advance(LATER);
    let report = completer().run().await.unwrap();
    assert_eq!(report.waiting + report.quarantined, 0, "{report:?}");
    for number in 0..=NEIGHBOURS {
        assert_eq!(books.count(&format!("effect n/{number}")), 1, "once: {:?}", books.entries());
    }
}

#[tokio::test]
async fn a_start_for_which_no_time_is_left_is_withdrawn() {
    // Two listings, the header, the claim, the steps; then the thread is blocked in the middle of
    // the start of the step, or of the look at the header after it.
    for before in [5, 6] {
        let desk = Desk::new().await;
        let (workflows, wire) = desk.machine();
        let neighbour = Neighbour(Provider::default());
        workflows.start(&neighbour, "n/3", &3).enqueue().await.unwrap();
        desk.bench.clock.advance(LATER);
        wire.next(std::iter::repeat_n(Fate::Ok, before).chain([Fate::HeldAfter]));
        let completer = || Completer::new(&workflows).register(neighbour.clone());
        let run = completer().drive_for(DRIVE);
        let run = tokio::spawn(async move { run.run().await.unwrap() });
        while wire.held() == 0 {
            tokio::task::yield_now().await;
        }
        wire.let_through();
        std::thread::sleep(DRIVE + Duration::from_millis(500));
        let report = run.await.unwrap();
        assert_eq!(neighbour.0.books.entries(), Vec::<String>::new(), "{report:?}");
        let view = desk.view("n/3").await;
        assert_eq!((view.steps()[0].state(), view.locked_by()), (StepState::Withdrawn, None), "{report:?}");
        desk.bench.clock.advance(LATER);
        assert_eq!(completer().run().await.unwrap().completed, 1);
        assert_eq!(neighbour.0.books.count("effect n/3"), 1);
    }
}

/// It fails, and its compensation hangs.
#[derive(Clone)]
struct Stuck;

impl Workflow for Stuck {
    const NAME: &'static str = "stuck";
    type Input = ();
    type Output = ();

    async fn run(&self, flow: &Flow, (): ()) -> Result<(), Stop> {
        let seat = flow.once("seat").compensate(&"back").run(|_| async { Ok(()) });
        seat.await?;
        Err(Stop::fail("sold out"))
    }

    async fn compensate(&self, _: &Flow, _: Compensation) -> Result<Compensated, Failure> {
        std::future::pending().await
    }
}

#[tokio::test]
async fn a_compensation_that_hangs_is_broken_off() {
    let desk = Desk::new().await;
    let (workflows, _) = desk.machine();
    workflows.start(&Stuck, "stuck", &()).enqueue().await.unwrap();
    desk.bench.clock.advance(LATER);
    let completer = Completer::new(&workflows).register(Stuck).drive_for(Duration::from_secs(1));
    let report =
        tokio::time::timeout(Duration::from_secs(25), completer.run()).await.expect("it ends").unwrap();
    assert_eq!(report.broken_off, 1, "{report:?}");
}

#[tokio::test]
async fn a_record_that_does_not_get_through_holds_a_run_for_seconds_only() {
    let desk = Desk::new().await;
    let (workflows, wire) = desk.machine_with(|settings, _| {
        settings.attempt_timeout = Duration::from_secs(60);
        settings.give_up_after = Duration::from_secs(60);
    });
    let neighbour = Neighbour(Provider::default());
    workflows.start(&neighbour, "n/3", &3).enqueue().await.unwrap();
    desk.bench.clock.advance(LATER);
    // The listing, the header, the claim, the steps, the start of the step and the header again;
    // then its record, and the release of the workflow.
    wire.next(std::iter::repeat_n(Fate::Ok, 6).chain(std::iter::repeat_n(Fate::Stalls, 2)));
    let completer = Completer::new(&workflows).register(neighbour).drive_for(Duration::from_secs(1));
    let run = tokio::time::timeout(Duration::from_secs(25), completer.run()).await;
    let report = run.expect("it ends").unwrap();
    assert_eq!(report.completed, 0, "{report:?}");
}
