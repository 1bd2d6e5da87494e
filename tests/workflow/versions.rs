//! Code that changes while workflows are unfinished: versions of a type, of a branch, and steps
//! that the code does not reach any more.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use lock_token_testing::Fate;
use locker::workflow::{Completer, Flow, List, Outcome, RetryPolicy, State, Stop, Unreached, Workflow};
use locker::{Failure, Intervened};
use locker_tests::ada;

use crate::bench::{Books, Desk, LATER};
use crate::interleavings::{Script, input};

fn transient() -> Failure {
    Failure::transient("503".to_owned())
}

/// An order whose code of version 2 checks for fraud before it pays.
#[derive(Clone)]
struct Order<const VERSION: u32>(Books);

impl<const VERSION: u32> Workflow for Order<VERSION> {
    const NAME: &'static str = "order";
    const VERSION: u32 = VERSION;
    type Input = ();
    type Output = u32;

    async fn run(&self, flow: &Flow, (): ()) -> Result<u32, Stop> {
        if VERSION > 1 {
            let check =
                flow.once("fraud-check").retry(RetryPolicy::never()).recognised_for(locker_tests::DAY);
            check.run(async |_| Err::<(), _>(Failure::in_doubt("no reply".to_owned()))).await?;
        }
        flow.once("pay-out")
            .run(async |_| {
                self.0.enter("pay-out");
                Ok(VERSION)
            })
            .await
    }
}

#[tokio::test]
async fn older_code_leaves_the_workflow_of_newer_code_alone() {
    let desk = Desk::new().await;
    let (old, new) = (Order::<1>(Books::default()), Order::<2>(Books::default()));
    let (workflows, wire) = desk.machine();
    let outcome = workflows.start(&new, "o/1", &()).run().await.unwrap();
    assert!(matches!(outcome, Outcome::InProgress(_)), "{outcome:?}");
    desk.bench.clock.advance(LATER);

    // An old caller and an old completer run during the deployment.
    let outcome = workflows.start(&old, "o/1", &()).run().await.unwrap();
    let Outcome::Newer(versions) = outcome else { panic!("{outcome:?}") };
    assert_eq!((versions.stored, versions.own), (2, 1));
    wire.take();
    let completer = || Completer::new(&workflows).register(old.clone());
    let report = completer().limit(1).run().await.unwrap();
    assert_eq!((report.claimed, report.taken_elsewhere), (0, 0), "{report:?}");
    assert_eq!(report.unknown.get("order version 2"), Some(&1), "{report:?}");
    assert!(wire.take().iter().all(|exchange| exchange.operation != "GetItem"), "it is not read");
    // It does not use up the limit.
    workflows.start(&old, "o/2", &()).enqueue().await.unwrap();
    desk.bench.clock.advance(LATER);
    assert_eq!(completer().limit(1).run().await.unwrap().completed, 1);
    assert_eq!(old.0.entries(), ["pay-out"], "of its own workflow");
    assert_eq!(desk.view("o/1").await.listed(), Some(List::Unfinished));
}

#[tokio::test]
async fn newer_code_takes_over_the_workflow_of_older_code() {
    let desk = Desk::new().await;
    let (old, new) = (Order::<1>(Books::default()), Order::<3>(Books::default()));
    let (workflows, _) = desk.machine();
    workflows.start(&old, "o/1", &()).enqueue().await.unwrap();
    desk.bench.clock.advance(LATER);
    Completer::new(&workflows).register(new.clone()).run().await.unwrap();
    desk.bench.clock.advance(LATER);
    let report = Completer::new(&workflows).register(old.clone()).run().await.unwrap();
    assert_eq!((report.claimed, old.0.entries().len()), (0, 0), "{report:?}");
}

/// Continues once as the next version of its key.
#[derive(Clone)]
struct Round<const VERSION: u32>(Books);

impl<const VERSION: u32> Workflow for Round<VERSION> {
    const NAME: &'static str = "round";
    const VERSION: u32 = VERSION;
    type Input = u32;
    type Output = ();

    async fn run(&self, flow: &Flow, round: u32) -> Result<(), Stop> {
        self.0.enter(format!("{round}"));
        if round == 1 { Err(flow.continue_as_new(&2)) } else { Ok(()) }
    }
}

/// The driver with newer code dies before each of its requests.
#[tokio::test]
async fn older_code_does_not_drive_what_newer_code_continued() {
    let mut continued = false;
    for n in 1.. {
        let desk = Desk::new().await;
        let (old, new) = (Round::<1>(Books::default()), Round::<2>(Books::default()));
        let (slow, wire) = desk.machine();
        wire.nth(n, Fate::HeldBefore);
        let drive = tokio::spawn(async move { slow.start(&new, "r/1", &1).run().await });
        while wire.held() == 0 && !drive.is_finished() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        if drive.is_finished() {
            break;
        }
        drive.abort();
        desk.bench.clock.advance(LATER);
        let (workflows, _) = desk.machine();
        Completer::new(&workflows).register(old.clone()).run().await.unwrap();
        assert_eq!(old.0.entries(), [""; 0], "{n}");
        let next = workflows.get("r/1", 2).await.unwrap();
        continued |= next.is_some_and(|next| next.state() == State::Running && next.locked_by().is_none());
    }
    assert!(continued, "a driver died before it claimed the next version");
}

/// A branch that was added while workflows were unfinished.
#[derive(Clone)]
struct Branch {
    books: Books,
    /// The highest version that the code knows. 0: it was deployed before the branch.
    max: Arc<AtomicU32>,
    fails: Arc<AtomicU32>,
}

impl Branch {
    fn new(max: u32, fails: u32) -> Self {
        Self {
            books: Books::default(),
            max: Arc::new(AtomicU32::new(max)),
            fails: Arc::new(AtomicU32::new(fails)),
        }
    }
}

impl Workflow for Branch {
    const NAME: &'static str = "branch";
    type Input = ();
    type Output = u32;

    async fn run(&self, flow: &Flow, (): ()) -> Result<u32, Stop> {
        flow.step("first").run(async |_| Ok(())).await?;
        let chosen = match self.max.load(Ordering::SeqCst) {
            0 => 1,
            max => flow.version("branch", max).await?,
        };
        self.books.enter(format!("branch {chosen}"));
        flow.step("second").run(async |_| Ok(())).await?;
        let last = flow.step("last").retry(RetryPolicy::never()).run(async |_| {
            match self.fails.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)) {
                Ok(_) => Err(transient()),
                Err(_) => Ok(chosen),
            }
        });
        last.await
    }
}

#[tokio::test]
async fn branch_is_chosen_once_for_each_workflow() {
    let desk = Desk::new().await;
    // A new workflow takes the new way, and keeps it when a third way is deployed.
    let code = Branch::new(2, 1);
    let (workflows, _) = desk.machine();
    workflows.start(&code, "b/1", &()).run().await.unwrap();
    code.max.store(3, Ordering::SeqCst);
    desk.settle(&code).await;
    let outcome = workflows.start(&code, "b/1", &()).run().await.unwrap();
    let Outcome::Completed(answer) = outcome else { panic!("{outcome:?}") };
    assert_eq!((*answer, code.books.entries()), (2, vec!["branch 2".to_owned(), "branch 2".to_owned()]));
    // A workflow that an earlier run brought beyond the branch keeps the old way.
    let code = Branch::new(0, 1);
    workflows.start(&code, "b/2", &()).run().await.unwrap();
    code.max.store(2, Ordering::SeqCst);
    desk.settle(&code).await;
    let outcome = workflows.start(&code, "b/2", &()).run().await.unwrap();
    let Outcome::Completed(answer) = outcome else { panic!("{outcome:?}") };
    assert_eq!(*answer, 1);
    // Code that does not know the chosen branch leaves it to newer code.
    let code = Branch::new(2, 1);
    workflows.start(&code, "b/3", &()).run().await.unwrap();
    code.max.store(1, Ordering::SeqCst);
    desk.bench.clock.advance(LATER);
    let report = Completer::new(&workflows).register(code.clone()).run().await.unwrap();
    assert_eq!(report.waiting, 1, "{report:?}");
    let view = desk.view("b/3").await;
    assert_eq!(view.state(), State::Running);
    assert!(view.reason().unwrap().contains("version 2 of this branch"), "{:?}", view.reason());
    code.max.store(2, Ordering::SeqCst);
    desk.settle(&code).await;
    assert_eq!(desk.view("b/3").await.state(), State::Completed);
}

/// Charges another card in each run.
#[derive(Clone)]
struct Cards {
    books: Books,
    runs: Arc<AtomicU32>,
    unreached: Unreached,
}

impl Workflow for Cards {
    const NAME: &'static str = "cards";
    type Input = ();
    type Output = ();

    async fn run(&self, flow: &Flow, (): ()) -> Result<(), Stop> {
        let run = self.runs.fetch_add(1, Ordering::SeqCst);
        let card = if run == 0 { "charge-a" } else { "charge-b" };
        let charge = flow.once(card).run(async |_| {
            self.books.enter(card);
            Ok(())
        });
        charge.await?;
        let mail = flow.step("mail").retry(RetryPolicy::never()).run(async |_| match run {
            0 => Err(transient()),
            _ => Ok(()),
        });
        mail.await
    }

    fn unreached(&self) -> Unreached {
        self.unreached
    }
}

#[tokio::test]
async fn completed_effect_that_is_not_reached_is_reported() {
    for unreached in [Unreached::Report, Unreached::Quarantine] {
        let desk = Desk::new().await;
        let code = Cards { books: Books::default(), runs: Arc::default(), unreached };
        desk.machine().0.start(&code, "c/1", &()).run().await.unwrap();
        desk.settle(&code).await;
        assert_eq!(code.books.entries(), ["charge-a", "charge-b"]);
        let view = desk.view("c/1").await;
        let reason = view.reason().unwrap();
        assert!(reason.contains("charge-a") && reason.contains("does not reach"), "{reason}");
        if unreached == Unreached::Report {
            assert_eq!(view.state(), State::Completed);
            continue;
        }
        assert_eq!(view.listed(), Some(List::Quarantine));
        // The operator takes both charges back, or leaves them.
        assert_eq!(desk.machine().0.close(&view, &ada()).await.unwrap(), Intervened::Done);
    }
}

/// No run completed the step.
#[tokio::test]
async fn step_that_an_operator_completed_may_stay_unreached() {
    let desk = Desk::new().await;
    let (books, runs) = (Books::default(), Arc::new(AtomicU32::new(1)));
    let code = Cards { books, runs, unreached: Unreached::Quarantine };
    let (workflows, _) = desk.machine();
    drop(workflows.start(&code, "c/1", &()).enqueue().await.unwrap());
    let view = desk.view("c/1").await;
    let resolved = workflows.resolve_step(&view, "charge-c", &serde_json::Value::Null, &ada()).await;
    assert_eq!(resolved.unwrap(), Intervened::Done);
    desk.settle(&code).await;
    let view = desk.view("c/1").await;
    assert_eq!((view.state(), view.reason()), (State::Completed, None));
}

/// The operator knows of the step. The code takes another branch in the next run.
#[tokio::test]
async fn step_in_doubt_that_an_operator_skipped_may_stay_unreached() {
    let desk = Desk::new().await;
    let code = Script::new(|flow, script| async move {
        if script.call() == 0 {
            let lost = async |_| Err(Failure::in_doubt("no reply".to_owned()));
            return flow.once("charge-a").run(lost).await;
        }
        flow.once("charge-b").run(async |_| Ok("done".to_owned())).await
    });
    let (workflows, _) = desk.machine();
    drop(workflows.start(&code, "c/1", &input()).run().await.unwrap());
    let skipped = workflows.skip_step(&desk.view("c/1").await, "charge-a", &ada()).await;
    assert_eq!(skipped.unwrap(), Intervened::Done);
    desk.settle(&code).await;
    let view = desk.view("c/1").await;
    assert_eq!((view.state(), view.reason()), (State::Completed, None));
}
