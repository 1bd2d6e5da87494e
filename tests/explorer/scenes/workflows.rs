//! Scenes of workflows.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::HOUR;
use crate::ada;
use lock_token_testing::{Fate, Wire};
use locker::workflow::{
    Compensated, Compensation, Completer, Flow, List, Outcome, Reaper, Reported, RetryPolicy, Stop, View,
    Workflow, Workflows,
};
use locker::{Failure, Intervened, Settings};
use tokio::task::JoinHandle;

use super::{Scene, is_held_back, seen, served};
use crate::Bench;

pub(super) const SCENES: &[Scene] = &[
    Scene { name: "claim-before-the-reaper", play: || served(a_claim_before_the_reapers_word()) },
    Scene { name: "outcome-after-the-close", play: || served(an_outcome_after_the_close()) },
    Scene { name: "claim-within-the-skew", play: || served(a_claim_within_the_skew()) },
    Scene { name: "end-after-a-claim", play: || served(an_end_after_a_claim()) },
    Scene { name: "failure-past-the-pivot", play: || served(a_failure_past_the_pivot()) },
    Scene { name: "record-of-a-former-life", play: || served(a_record_of_a_former_life()) },
    Scene { name: "outcome-of-an-older-version", play: || served(an_outcome_of_an_older_version()) },
];

const TWO_MONTHS: Duration = Duration::from_secs(60 * 24 * 3600);

/// What the code of a scene does.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Does {
    /// Asks for the first call's number.
    Quotes,
    /// Charges, and hears nothing of it.
    Charges,
    /// Charges and ships, and fails then.
    Ships,
    /// Fails for now.
    IsDown,
}

/// A workflow, and what it asked of others.
#[derive(Debug, Clone)]
struct Code {
    does: Does,
    books: Arc<Mutex<Vec<String>>>,
    calls: Arc<AtomicU32>,
}

impl Code {
    fn that(does: Does) -> Self {
        Self { does, books: Arc::default(), calls: Arc::default() }
    }

    fn enter(&self, entry: &str) {
        self.books.lock().expect("no panic while it is locked").push(entry.to_owned());
    }

    fn entries(&self) -> Vec<String> {
        self.books.lock().expect("no panic while it is locked").clone()
    }
}

impl Workflow for Code {
    const NAME: &'static str = "code";
    type Input = ();
    type Output = u32;

    async fn run(&self, flow: &Flow, (): ()) -> Result<u32, Stop> {
        let call = self.calls.fetch_add(1, Ordering::SeqCst) + 1;
        let never = RetryPolicy::never;
        let charge = flow.once("charge").retry(never()).compensate(&"refund");
        match self.does {
            Does::Quotes => flow.step("quote").run(|_| async { Ok(call) }).await,
            Does::Charges => {
                let silent = |_| async {
                    self.enter("charge");
                    Err::<u32, _>(Failure::in_doubt("no reply".to_owned()))
                };
                charge.run(silent).await
            }
            Does::Ships => {
                charge.run(|_| async { Ok(1) }).await?;
                flow.once("ship").pivot().run(|_| async { Ok(2) }).await?;
                Err(Stop::fail("the address is wrong"))
            }
            Does::IsDown => {
                let down = |_| async { Err::<u32, _>(Failure::transient("down".to_owned())) };
                flow.step("call").retry(never()).run(down).await
            }
        }
    }

    async fn compensate(&self, _: &Flow, compensation: Compensation) -> Result<Compensated, Failure> {
        self.enter(compensation.name());
        Ok(Compensated::Done)
    }
}

/// A table of workflows, and machines that drive them.
struct Desk {
    bench: Bench,
    table: String,
}

impl Desk {
    async fn new() -> Self {
        let bench = Bench::new().await;
        let table = format!("{}-workflows", bench.table);
        locker::workflow::create_table(&bench.client, &table).await.expect("a table");
        Self { bench, table }
    }

    fn machine(&self) -> (Workflows, Wire) {
        let wire = Wire::default();
        let mut settings = Settings::default();
        settings.owner = "scene/machine".to_owned();
        settings.attempt_timeout = Duration::from_secs(60);
        settings.give_up_after = Duration::from_secs(60);
        let workflows = Workflows::builder(&self.bench.engine.client_over(&wire), &self.table)
            .settings(settings)
            .source("/scenes")
            .with_clock(Arc::new(self.bench.clock.clone()));
        (workflows.build().expect("settings of a test are allowed"), wire)
    }

    fn completer(&self, code: &Code) -> Completer {
        Completer::new(&self.machine().0).register(code.clone())
    }

    async fn run(&self, code: &Code) -> Outcome<u32> {
        self.machine().0.start(code, "scene", &()).run().await.expect("an outcome")
    }

    /// The same, held back at this exchange.
    async fn run_held_at(&self, code: &Code, exchange: usize) -> (JoinHandle<()>, Wire) {
        let ((workflows, wire), code) = (self.machine(), code.clone());
        wire.next(std::iter::repeat_n(Fate::Ok, exchange).chain([Fate::HeldBefore]));
        let run = tokio::spawn(async move {
            // What it is told in the end is not what a scene is about.
            drop(workflows.start(&code, "scene", &()).run().await);
        });
        is_held_back(&wire).await;
        (run, wire)
    }

    /// Let completers run until nothing is due.
    async fn settle(&self, code: &Code) {
        for _ in 0..5 {
            self.bench.clock.advance(HOUR);
            self.completer(code).run().await.expect("a run");
        }
    }

    async fn view(&self) -> View {
        self.machine().0.get("scene", 1).await.expect("an answer").expect("a workflow")
    }
}

async fn a_claim_before_the_reapers_word() -> Result<(), String> {
    let desk = Desk::new().await;
    let code = Code::that(Does::IsDown);
    desk.machine().0.start(&code, "scene", &()).enqueue().await.expect("started");
    desk.bench.clock.advance(TWO_MONTHS);
    // How many exchanges the reaper needs, of which the last two read the header and quarantine the
    // workflow.
    let (workflows, wire) = desk.machine();
    let completer = Completer::new(&workflows).register(code.clone());
    let other = Desk::new().await;
    let exchanges = {
        other.machine().0.start(&code, "scene", &()).enqueue().await.expect("started");
        other.bench.clock.advance(TWO_MONTHS);
        let (workflows, wire) = other.machine();
        let completer = Completer::new(&workflows).register(code.clone());
        let reaped = Reaper::new(&completer).concurrency(1).run().await.expect("a run");
        assert_eq!(reaped.quarantined, 1, "{reaped:?}");
        wire.take().iter().map(|exchange| exchange.operation.clone()).collect::<Vec<_>>()
    };
    let last_read = exchanges.iter().rposition(|operation| operation == "GetItem").expect("a read");
    wire.next(std::iter::repeat_n(Fate::Ok, last_read).chain([Fate::HeldBefore]));
    let reaper = tokio::spawn(async move { Reaper::new(&completer).concurrency(1).run().await });
    is_held_back(&wire).await;
    desk.bench.clock.advance(HOUR);
    // It claims, and sleeps before it reads its steps.
    let (driver, held) = desk.run_held_at(&code, 3).await;
    let claimed = desk.view().await;
    assert!(claimed.locked_by().is_some(), "{claimed:?}");
    wire.let_through();
    reaper.await.expect("no panic").expect("a run");
    let left = desk.view().await;
    held.let_through();
    driver.await.expect("no panic");
    seen(left.listed() != Some(List::Quarantine), || format!("{left:?}"))
}

async fn an_outcome_after_the_close() -> Result<(), String> {
    let desk = Desk::new().await;
    let code = Code::that(Does::Charges);
    desk.run(&code).await;
    let (workflows, _) = desk.machine();
    let closed = workflows.close(&desk.view().await, &ada()).await.expect("an answer");
    assert_eq!(closed, Intervened::Done);
    let reported = workflows.report("scene", "charge").completed(&7).await.expect("an answer");
    assert_eq!(reported, Reported::Compensates);
    desk.settle(&code).await;
    let (listed, entries) = (desk.view().await.listed(), code.entries());
    seen(listed == Some(List::Quarantine) && entries == ["charge"], || format!("{listed:?} {entries:?}"))
}

async fn a_claim_within_the_skew() -> Result<(), String> {
    let desk = Desk::new().await;
    let code = Code::that(Does::Quotes);
    let (first, wire) = desk.run_held_at(&code, 1).await;
    let due = desk.view().await.due();
    let now = locker::Clock::now(&desk.bench.clock);
    desk.bench.clock.advance((due - now).to_std().expect("it is not due") + Duration::from_secs(2));
    let outcome = desk.run(&code).await;
    wire.let_through();
    first.await.expect("no panic");
    seen(matches!(outcome, Outcome::InProgress(_)), || format!("{outcome:?}"))
}

async fn an_end_after_a_claim() -> Result<(), String> {
    let desk = Desk::new().await;
    let code = Code::that(Does::Quotes);
    // The first sleeps before it ends the workflow, the second before it reads its steps.
    let (first, wire) = desk.run_held_at(&code, 2).await;
    desk.bench.clock.advance(HOUR);
    let (second, held) = desk.run_held_at(&code, 3).await;
    wire.let_through();
    first.await.expect("no panic");
    let left = desk.view().await;
    held.let_through();
    second.await.expect("no panic");
    seen(left.locked_by().is_some(), || format!("{left:?}"))
}

async fn a_failure_past_the_pivot() -> Result<(), String> {
    let desk = Desk::new().await;
    let code = Code::that(Does::Ships);
    let outcome = desk.run(&code).await;
    let entries = code.entries();
    let is_shown = matches!(outcome, Outcome::Quarantined(_));
    seen(is_shown && entries.is_empty(), || format!("{outcome:?} {entries:?}"))
}

async fn a_record_of_a_former_life() -> Result<(), String> {
    let desk = Desk::new().await;
    let code = Code::that(Does::Quotes);
    let (former, wire) = desk.run_held_at(&code, 1).await;
    desk.settle(&code).await;
    desk.bench.clock.advance(TWO_MONTHS);
    let reaped = Reaper::new(&desk.completer(&code)).run().await.expect("a run");
    assert_eq!(reaped.deleted, 1, "{reaped:?}");
    wire.let_through();
    former.await.expect("no panic");
    desk.machine().0.start(&code, "scene", &()).enqueue().await.expect("started");
    let before = code.calls.load(Ordering::SeqCst);
    desk.settle(&code).await;
    let view = desk.view().await;
    let own = (before + 1).to_string();
    seen(view.result() == Some(own.as_str()), || format!("{:?}, not {own}", view.result()))
}

async fn an_outcome_of_an_older_version() -> Result<(), String> {
    let desk = Desk::new().await;
    let code = Code::that(Does::Charges);
    desk.run(&code).await;
    desk.bench.clock.advance(HOUR);
    let (workflows, _) = desk.machine();
    let freed = workflows.retry_step_with_new_key(&desk.view().await, "charge", &ada()).await;
    assert_eq!(freed.expect("an answer"), Intervened::Done);
    desk.settle(&code).await;
    let reported =
        workflows.report("scene", "charge").step_version(1).completed(&7).await.expect("an answer");
    let view = desk.view().await;
    seen(reported == Reported::Compensates, || format!("{reported:?}, {:?}", view.steps()))
}
