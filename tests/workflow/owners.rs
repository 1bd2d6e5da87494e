//! Two owners at once, and an owner that wakes late: each step counts once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use locker::workflow::{Flow, Outcome, State, Stop, Workflow};
use locker_tests::Fate;
use tokio::sync::Semaphore;

use crate::bench::{Books, Desk, LATER};
use crate::ten::Ten;

#[tokio::test]
async fn of_many_callers_at_once_one_drives() {
    let desk = Desk::new().await;
    let ten = Ten::new(&desk);
    let callers = (0..8).map(|_| {
        let (workflows, ten) = (desk.machine().0, ten.clone());
        tokio::spawn(async move { workflows.start(&ten, "ten/race", &()).run().await.unwrap() })
    });
    let callers: Vec<_> = callers.collect();
    let mut completed = 0;
    for caller in callers {
        match caller.await.unwrap() {
            Outcome::Completed(_) => completed += 1,
            Outcome::InProgress(waiting) => assert_eq!(waiting.locked_by(), Some("test/machine")),
            other => panic!("{other:?}"),
        }
    }
    assert!(completed >= 1);
    assert_eq!(ten.books.entries().len(), 8, "{:?}", ten.books.entries());
}

/// Pauses inside its step until it is woken.
#[derive(Clone)]
struct Sleepy {
    books: Books,
    asleep: Arc<AtomicBool>,
    wake: Arc<Semaphore>,
    sleeps: bool,
}

impl Sleepy {
    fn new() -> Self {
        let (books, asleep, wake) = (Books::default(), Arc::default(), Arc::new(Semaphore::new(0)));
        Self { books, asleep, wake, sleeps: true }
    }
}

impl Workflow for Sleepy {
    const NAME: &'static str = "sleepy";
    type Input = ();
    type Output = u32;

    async fn run(&self, flow: &Flow, (): ()) -> Result<u32, Stop> {
        flow.step("first").run(|_| async { Ok(()) }).await?;
        if self.sleeps {
            self.asleep.store(true, Ordering::SeqCst);
            let _woken = self.wake.acquire().await.unwrap();
        }
        flow.once("charge")
            .run(|_| async {
                self.books.enter("charge");
                Ok(())
            })
            .await?;
        flow.step("last")
            .run(|_| async {
                self.books.enter("last");
                Ok(7)
            })
            .await
    }
}

async fn asleep(sleepy: &Sleepy) {
    while !sleepy.asleep.load(Ordering::SeqCst) {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn an_owner_that_wakes_late_changes_nothing() {
    let desk = Desk::new().await;
    let zombie = Sleepy::new();
    let late = {
        let (workflows, zombie) = (desk.machine().0, zombie.clone());
        tokio::spawn(async move { workflows.start(&zombie, "sleepy/1", &()).run().await.unwrap() })
    };
    asleep(&zombie).await;
    desk.bench.clock.advance(LATER);
    let awake = Sleepy { sleeps: false, ..zombie.clone() };
    let outcome = desk.machine().0.start(&awake, "sleepy/1", &()).run().await.unwrap();
    assert!(matches!(&outcome, Outcome::Completed(answer) if **answer == 7), "{outcome:?}");
    let items = desk.items().await;

    zombie.wake.add_permits(1);
    let outcome = late.await.unwrap();
    assert!(matches!(&outcome, Outcome::Completed(answer) if **answer == 7), "told the answer: {outcome:?}");
    assert_eq!(zombie.books.count("charge"), 1);
    assert_eq!(desk.items().await.len(), items.len());
}

#[tokio::test]
async fn an_owner_that_wakes_before_the_other_reaches_the_step_does_not_run_it() {
    let desk = Desk::new().await;
    let zombie = Sleepy::new();
    let late = {
        let (workflows, zombie) = (desk.machine().0, zombie.clone());
        tokio::spawn(async move { workflows.start(&zombie, "sleepy/2", &()).run().await.unwrap() })
    };
    asleep(&zombie).await;
    desk.bench.clock.advance(LATER);
    // The other takes the workflow over, and sleeps at the same place.
    let other = Sleepy { books: zombie.books.clone(), ..Sleepy::new() };
    let driver = {
        let (workflows, other) = (desk.machine().0, other.clone());
        tokio::spawn(async move { workflows.start(&other, "sleepy/2", &()).run().await.unwrap() })
    };
    asleep(&other).await;
    zombie.wake.add_permits(1);
    let outcome = late.await.unwrap();
    assert!(matches!(outcome, Outcome::InProgress(_)), "{outcome:?}");
    assert_eq!(zombie.books.entries(), Vec::<String>::new(), "its start was written, and withdrawn");
    other.wake.add_permits(1);
    let outcome = driver.await.unwrap();
    assert!(matches!(outcome, Outcome::Completed(_)), "{outcome:?}");
    assert_eq!(other.books.entries(), ["charge", "last"]);
}

#[tokio::test]
async fn record_of_a_deleted_workflow_is_not_adopted() {
    let desk = Desk::new().await;
    let ten = Ten::new(&desk);
    let (workflows, wire) = desk.machine();
    // The record of the first step is in flight when its driver sleeps for longer than a retention.
    wire.next([Fate::Ok, Fate::Stalls]);
    let cut = tokio::spawn({
        let ten = ten.clone();
        async move { workflows.start(&ten, "ten/old", &()).run().await.map(drop) }
    });
    while wire.count() < 2 {
        tokio::task::yield_now().await;
    }
    cut.abort();
    let late = wire.take().remove(1);
    desk.settle(&ten).await;
    desk.bench.clock.advance(LATER * 24 * 366);
    let completer = locker::workflow::Completer::new(&desk.machine().0);
    assert_eq!(
        locker::workflow::Reaper::new(&completer).run().await.unwrap().deleted,
        0,
        "its messages are unsent"
    );
    for message in desk.view("ten/old").await.messages() {
        let reported = desk.machine().0.sent(message).await.unwrap();
        assert_eq!(reported, locker::workflow::SentReport::Deleted);
    }
    desk.bench.clock.advance(LATER * 24 * 31);
    assert_eq!(locker::workflow::Reaper::new(&completer).run().await.unwrap().deleted, 1);
    let answer = desk.bench.engine.send("PutItem", &late.request).await;
    assert!(answer.contains("ConsumedCapacity"), "it is applied: {answer}");

    let again = Plain(Books::default());
    let outcome = desk.machine().0.start(&again, "ten/old", &()).run().await.unwrap();
    assert!(matches!(&outcome, Outcome::Completed(answer) if **answer == "new"), "{outcome:?}");
}

/// A later workflow that has a step of the same name.
struct Plain(Books);

impl Workflow for Plain {
    const NAME: &'static str = "plain";
    type Input = ();
    type Output = String;

    async fn run(&self, flow: &Flow, (): ()) -> Result<String, Stop> {
        flow.step("step#0")
            .input(&0)
            .run(|_| async {
                self.0.enter("new");
                Ok("new".to_owned())
            })
            .await
    }
}

#[tokio::test]
async fn the_same_owner_resumes_at_once() {
    let desk = Desk::new().await;
    let ten = Ten::new(&desk);
    let (workflows, wire) = desk.machine();
    // Its invocation ends after the first step.
    wire.next([Fate::Ok, Fate::Ok, Fate::Stalls]);
    let cut = {
        let (workflows, ten) = (workflows.clone(), ten.clone());
        tokio::spawn(
            async move { workflows.start(&ten, "ten/own", &()).owner("message/1").run().await.map(drop) },
        )
    };
    while wire.count() < 3 {
        tokio::task::yield_now().await;
    }
    cut.abort();
    let other = desk.machine().0.start(&ten, "ten/own", &()).owner("message/2").run().await.unwrap();
    assert!(
        matches!(&other, Outcome::InProgress(waiting) if waiting.locked_by() == Some("message/1")),
        "{other:?}"
    );
    let same = desk.machine().0.start(&ten, "ten/own", &()).owner("message/1").run().await.unwrap();
    assert!(matches!(same, Outcome::Completed(_)), "{same:?}");
    assert_eq!(ten.books.count("step#0"), 1);
    assert_eq!(desk.view("ten/own").await.state(), State::Completed);
}

#[tokio::test]
async fn a_start_that_arrives_late_overwrites_nothing() {
    let desk = Desk::new().await;
    let ten = Ten::new(&desk);
    let (workflows, wire) = desk.machine();
    // The start of once#0 is in flight when its driver dies.
    wire.next([Fate::Ok, Fate::Ok, Fate::Stalls]);
    let cut = tokio::spawn({
        let ten = ten.clone();
        async move { workflows.start(&ten, "ten/late", &()).run().await.map(drop) }
    });
    while wire.count() < 3 {
        tokio::task::yield_now().await;
    }
    cut.abort();
    let late = wire.take().remove(2);
    assert!(late.request.to_string().contains("step/once#0"), "{late:?}");
    desk.settle(&ten).await;
    let before = desk.view("ten/late").await;
    assert_eq!(before.state(), State::Completed);
    let answer = desk.bench.engine.send("PutItem", &late.request).await;
    assert!(answer.contains("ConditionalCheckFailedException"), "{answer}");
    assert_eq!(ten.books.count("once#0"), 1);
}
