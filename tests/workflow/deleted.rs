//! A driver whose workflow is cancelled, ended and deleted while it runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use locker::workflow::{Completer, Event, Flow, Outcome, Reaper, State, Stop, Workflow};
use locker::{Error, Failure, Intervened, Retention};
use locker_tests::{DAY, ada};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

use crate::bench::{Books, Desk, LATER};
use crate::interleavings::{Script, input};

/// Sends ten mails, each in a step; the first one waits for its gate.
#[derive(Clone)]
struct Mails {
    books: Books,
    calls: Arc<AtomicUsize>,
    gate: Arc<Semaphore>,
}

impl Mails {
    fn new() -> Self {
        Self { books: Books::default(), calls: Arc::default(), gate: Arc::new(Semaphore::new(0)) }
    }

    async fn mail(&self, number: usize) -> Result<usize, Failure> {
        self.books.enter(format!("mail {number}"));
        if self.calls.fetch_add(1, Ordering::SeqCst) == 0 {
            drop(self.gate.acquire().await.unwrap());
        }
        Ok(number)
    }
}

impl Workflow for Mails {
    const NAME: &'static str = "mails";
    type Input = ();
    type Output = usize;

    async fn run(&self, flow: &Flow, (): ()) -> Result<usize, Stop> {
        for number in 0..10 {
            flow.step(format!("mail#{number}")).run(|_| self.mail(number)).await?;
        }
        Ok(10)
    }
}

type Driver = JoinHandle<Result<Outcome<usize>, Error>>;

/// Starts a driver, and deletes its workflow during the first mail.
async fn deleted_under_its_driver(desk: &Desk, code: &Mails) -> Driver {
    let driver = tokio::spawn({
        let (workflows, code) = (desk.machine().0, code.clone());
        let kept = Retention::For(Duration::from_secs(60));
        async move { workflows.start(&code, "mails/1", &()).retention(kept).run().await }
    });
    while code.calls.load(Ordering::SeqCst) == 0 {
        tokio::task::yield_now().await;
    }
    let (workflows, _) = desk.machine();
    assert_eq!(workflows.cancel("mails/1", 1, &ada()).await.unwrap(), Intervened::Done);
    let completer = Completer::new(&workflows).register(code.clone());
    desk.bench.clock.advance(LATER);
    completer.run().await.unwrap();
    let view = desk.view("mails/1").await;
    assert_eq!(view.state(), State::Cancelled);
    desk.bench.clock.advance(LATER);
    assert_eq!(Reaper::new(&completer).run().await.unwrap().deleted, 1);
    driver
}

/// The sort keys of the items that are left, without the ledger and the operators' acts.
async fn left(desk: &Desk) -> Vec<String> {
    let items = desk.items().await;
    let items = items.iter().filter(|item| item["workflow"].as_s().unwrap() == "mails/1");
    let items = items.map(|item| item["item"].as_s().unwrap().clone());
    items.filter(|item| !item.starts_with('~')).collect()
}

#[tokio::test]
async fn driver_of_a_deleted_workflow_leaves_no_step_behind() {
    let (desk, code) = (Desk::new().await, Mails::new());
    let driver = deleted_under_its_driver(&desk, &code).await;
    assert_eq!(left(&desk).await, Vec::<String>::new());
    code.gate.add_permits(1);
    let _ = driver.await.unwrap();
    assert_eq!(left(&desk).await, Vec::<String>::new());
    assert_eq!(code.books.entries(), ["mail 0"], "it sends no other mail");
}

/// The code reaches its wait only after the deletion. `again`: the key is in use again by then.
#[tokio::test]
async fn driver_of_a_deleted_workflow_leaves_no_wait_behind() {
    for again in [false, true] {
        let desk = Desk::new().await;
        let code = Script::new(|flow, script| async move {
            script.call();
            drop(script.gate.acquire().await.unwrap());
            flow.wait_for(Event::<u32>::named("paid"), DAY).await?;
            Ok("done".to_owned())
        });
        let (workflows, _) = desk.machine();
        let kept = Retention::For(Duration::from_secs(60));
        let (drives, slow) = (code.clone(), desk.machine().0);
        let driver =
            tokio::spawn(async move { slow.start(&drives, "mails/1", &input()).retention(kept).run().await });
        code.until(1).await;
        assert_eq!(workflows.cancel("mails/1", 1, &ada()).await.unwrap(), Intervened::Done);
        let completer = Completer::new(&workflows).register(code.clone());
        desk.bench.clock.advance(LATER);
        completer.run().await.unwrap();
        desk.bench.clock.advance(LATER);
        assert_eq!(Reaper::new(&completer).run().await.unwrap().deleted, 1);
        if again {
            drop(workflows.start(&code, "mails/1", &input()).enqueue().await.unwrap());
        }
        code.gate.add_permits(1);
        let _ = driver.await.unwrap();
        let events: Vec<_> = left(&desk).await.into_iter().filter(|item| item.contains("event/")).collect();
        assert_eq!(events, [""; 0], "again: {again}");
    }
}

#[tokio::test]
async fn error_for_the_driver_of_a_deleted_workflow_is_that_it_is_gone() {
    let (desk, code) = (Desk::new().await, Mails::new());
    let driver = deleted_under_its_driver(&desk, &code).await;
    code.gate.add_permits(1);
    let error = driver.await.unwrap().unwrap_err();
    assert!(matches!(error, Error::Deleted { .. }), "{error:?}");
    let text = error.to_string();
    assert!(text.contains("deleted") && !text.contains("no clear reply"), "{text}");
    assert!(!text.contains("nothing was changed"), "{text}");
}
