//! Waiting for a workflow that runs elsewhere, reading its outcome by its key alone, and the
//! fingerprint of its start.

use std::marker::PhantomData;
use std::time::Duration;

use locker::workflow::{Flow, List, Outcome, RetryPolicy, Stop, Workflow, Workflows};
use locker::{Failure, Intervened};
use locker_tests::{Fate, ada};
use serde::{Deserialize, Serialize};
use tokio::task::JoinHandle;

use crate::bench::{Books, Desk, LATER};
use crate::reported::{Order, Reply};

/// Longer than any wait of a test takes.
const LONG: Duration = Duration::from_secs(120);

fn waits(workflows: Workflows, code: &Order) -> JoinHandle<Outcome<String>> {
    let code = code.clone();
    tokio::spawn(async move { workflows.start(&code, "o/1", &()).wait_for(LONG).run().await.unwrap() })
}

fn reads(workflows: Workflows) -> JoinHandle<Option<Outcome<String>>> {
    tokio::spawn(async move { workflows.outcome::<Order>("o/1").wait_for(LONG).fetch().await.unwrap() })
}

#[tokio::test]
async fn caller_during_a_run_receives_its_outcome() {
    let desk = Desk::new().await;
    let code = Order::new(&[Reply::Slow]);
    let first = code.spawned(&desk, "o/1");
    code.until(1).await;
    let (second, wire) = desk.machine();
    let (third, other_wire) = desk.machine();
    let (second, third) = (waits(second, &code), reads(third));
    while wire.count() < 3 || other_wire.count() < 2 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    code.gate.add_permits(1);
    assert!(matches!(first.await.unwrap(), Outcome::Completed(answer) if !answer.is_replay()));
    for waited in [second.await.unwrap(), third.await.unwrap().unwrap()] {
        let Outcome::Completed(answer) = waited else { panic!("{waited:?}") };
        assert!(*answer == "paid 0" && answer.is_replay());
    }
    assert_eq!(code.books.count("charge"), 1);
}

#[tokio::test]
async fn a_wait_ends_with_its_time_or_its_deadline() {
    let desk = Desk::new().await;
    let code = Order::new(&[Reply::Slow]);
    let first = code.spawned(&desk, "o/1");
    code.until(1).await;
    let (workflows, _) = desk.machine();
    // Longer than a read takes on any machine.
    let soon = || desk.now() + Duration::from_secs(2);
    let short = Duration::from_millis(50);
    for outcome in [
        workflows.start(&code, "o/1", &()).wait_for(short).run().await.unwrap(),
        workflows.start(&code, "o/1", &()).wait_for(LONG).deadline(soon()).run().await.unwrap(),
        workflows.start(&code, "o/1", &()).wait_for(short).enqueue().await.unwrap(),
        workflows.outcome::<Order>("o/1").wait_for(short).fetch().await.unwrap().unwrap(),
        workflows.outcome::<Order>("o/1").fetch().await.unwrap().unwrap(),
    ] {
        let Outcome::InProgress(waiting) = outcome else { panic!("{outcome:?}") };
        assert_eq!(waiting.locked_by(), Some("test/machine"));
    }
    first.abort();
}

#[tokio::test]
async fn waiting_caller_drives_the_workflow_when_it_is_due() {
    let desk = Desk::new().await;
    let code = Notes::<u32>(PhantomData);
    // The driver dies before it has recorded its step.
    let (dying, wire) = desk.machine();
    wire.next([Fate::Ok, Fate::Hangs]);
    let first =
        tokio::spawn(async move { dying.start(&Notes::<u32>(PhantomData), "n/1", &7).run().await.map(drop) });
    while wire.count() < 2 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    first.abort();
    let (workflows, wire) = desk.machine();
    let second =
        tokio::spawn(async move { workflows.start(&code, "n/1", &7).wait_for(LONG).run().await.unwrap() });
    while wire.count() < 3 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(!second.is_finished());
    desk.bench.clock.advance(LATER);
    let outcome = second.await.unwrap();
    assert!(matches!(&outcome, Outcome::Completed(answer) if **answer == 7), "{outcome:?}");
}

#[tokio::test]
async fn enqueue_with_wait_receives_the_outcome_of_the_completer() {
    let desk = Desk::new().await;
    let code = Order::new(&[Reply::Paid]);
    let enqueued = tokio::spawn({
        let (workflows, code) = (desk.machine().0, code.clone());
        async move { workflows.start(&code, "o/1", &()).wait_for(LONG).enqueue().await.unwrap() }
    });
    while desk.machine().0.get("o/1", 1).await.unwrap().is_none() {}
    desk.settle(&code).await;
    let outcome = enqueued.await.unwrap();
    assert!(matches!(&outcome, Outcome::Completed(answer) if **answer == "paid 0"), "{outcome:?}");
}

/// Fails once in passing.
#[derive(Clone, Default)]
struct Second(Books);

impl Workflow for Second {
    const NAME: &'static str = "second";
    type Input = ();
    type Output = usize;

    async fn run(&self, flow: &Flow, (): ()) -> Result<usize, Stop> {
        let attempt = |_| async {
            self.0.enter("try");
            match self.0.count("try") {
                1 => Err(Failure::transient("down".to_owned())),
                tries => Ok(tries),
            }
        };
        flow.step("try").retry(RetryPolicy::never()).run(attempt).await
    }
}

#[tokio::test]
async fn waiting_caller_retries_a_transient_failure() {
    let desk = Desk::new().await;
    let (workflows, _) = desk.machine_with(|_, limits| limits.retry_for = LATER * 24);
    let code = Second::default();
    let waits = tokio::spawn({
        let code = code.clone();
        async move { workflows.start(&code, "s/1", &()).wait_for(LONG).run().await.unwrap() }
    });
    let released = async {
        loop {
            let view = desk.machine().0.get("s/1", 1).await.unwrap();
            if view.is_some_and(|view| view.reason().is_some()) {
                return;
            }
        }
    };
    released.await;
    desk.bench.clock.advance(LATER);
    let outcome = waits.await.unwrap();
    assert!(matches!(&outcome, Outcome::Completed(answer) if **answer == 2), "{outcome:?}");
}

#[tokio::test]
async fn every_outcome_is_read_by_the_key_alone() {
    let desk = Desk::new().await;
    let (workflows, wire) = desk.machine();
    let read = || async { desk.machine().0.outcome::<Order>("o/1").fetch().await.unwrap() };
    assert!(read().await.is_none(), "not started");
    let code = Order::new(&[Reply::Silent]);
    workflows.start(&code, "o/1", &()).enqueue().await.unwrap();
    assert!(matches!(read().await, Some(Outcome::InProgress(_))));
    code.run_to_quarantine(&desk, "o/1").await;
    assert!(matches!(read().await, Some(Outcome::Quarantined(reason)) if reason.contains("charge")));
    assert_eq!(
        workflows.report("o/1", "charge").failed(&"declined").await.unwrap(),
        locker::workflow::Reported::Recorded
    );
    desk.settle(&code).await;
    let Some(Outcome::Failed(failed)) = read().await else { panic!("it failed") };
    assert_eq!((failed.failure().step(), failed.is_replay()), (Some("charge"), true));
    wire.take();
    let other = workflows.outcome::<Second>("o/1").fetch().await.unwrap();
    assert!(matches!(other, Some(Outcome::Mismatch)), "{other:?}");
    assert_eq!(wire.count(), 1);
    assert_eq!(workflows.cancel("o/2", 1, &ada()).await.unwrap(), Intervened::Done);
    let cancelled = workflows.outcome::<Order>("o/2").fetch().await.unwrap();
    assert!(matches!(cancelled, Some(Outcome::Cancelled)), "{cancelled:?}");
    // A read changes nothing and drives nothing.
    assert_eq!(desk.view("o/1").await.listed(), Some(List::Finished));
}

#[tokio::test]
async fn invalid_wait_is_refused_before_any_request() {
    let desk = Desk::new().await;
    let (workflows, wire) = desk.machine();
    let code = Order::new(&[Reply::Paid]);
    let text = "wait_for must be between 1ms and 86400s, got 0ns";
    let error = workflows.start(&code, "o/1", &()).wait_for(Duration::ZERO).run().await.unwrap_err();
    assert_eq!(error.to_string(), text);
    let error = workflows.outcome::<Order>("o/1").wait_for(Duration::ZERO).fetch().await.unwrap_err();
    assert_eq!(error.to_string(), text);
    let error = workflows.outcome::<Order>("o/1").key_version(0).fetch().await.unwrap_err();
    assert_eq!(error.to_string(), "key_version must be at least 1, got 0");
    let error = workflows.outcome::<Order>("").fetch().await.unwrap_err();
    assert!(matches!(error, locker::Error::Invalid(_)), "{error}");
    assert_eq!(wire.count(), 0);
}

#[derive(Clone, Serialize, Deserialize)]
struct Before {
    order: u32,
}

/// The same input, as of the next deployment.
#[derive(Clone, Serialize, Deserialize)]
struct After {
    order: u32,
    note: Option<String>,
}

#[derive(Clone)]
struct Notes<I>(PhantomData<fn() -> I>);

impl<I: Serialize + for<'de> Deserialize<'de> + Send + Sync + 'static> Workflow for Notes<I> {
    const NAME: &'static str = "notes";
    type Input = I;
    type Output = u32;

    async fn run(&self, flow: &Flow, _: I) -> Result<u32, Stop> {
        flow.step("number").run(|_| async { Ok(7) }).await
    }
}

#[tokio::test]
async fn an_optional_field_that_is_added_is_no_other_request_for_who_said_what_identifies_it() {
    let desk = Desk::new().await;
    let (workflows, _) = desk.machine();
    let (before, after) = (Notes::<Before>(PhantomData), Notes::<After>(PhantomData));
    let new = After { order: 7, note: None };
    // Without a fingerprint, the whole input counts.
    workflows.start(&before, "n/1", &Before { order: 7 }).run().await.unwrap();
    let outcome = workflows.start(&after, "n/1", &new).run().await.unwrap();
    assert!(matches!(outcome, Outcome::Mismatch), "{outcome:?}");
    workflows.start(&before, "n/2", &Before { order: 7 }).fingerprint(&7).run().await.unwrap();
    let outcome = workflows.start(&after, "n/2", &new).fingerprint(&7).run().await.unwrap();
    assert!(matches!(&outcome, Outcome::Completed(answer) if answer.is_replay()), "{outcome:?}");
    let outcome = workflows.start(&after, "n/2", &new).fingerprint(&8).run().await.unwrap();
    assert!(matches!(outcome, Outcome::Mismatch), "{outcome:?}");
    // Another workflow with the same fingerprint is another request.
    let outcome = workflows.start(&Second::default(), "n/2", &()).fingerprint(&7).run().await.unwrap();
    assert!(matches!(outcome, Outcome::Mismatch), "{outcome:?}");
}

#[tokio::test]
async fn one_that_was_on_its_way_at_the_deployment_goes_on_with_its_first_input() {
    let desk = Desk::new().await;
    let (workflows, _) = desk.machine();
    let before = Notes::<Before>(PhantomData);
    workflows.start(&before, "n/1", &Before { order: 7 }).fingerprint(&7).enqueue().await.unwrap();
    desk.settle(&Notes::<After>(PhantomData)).await;
    let outcome = workflows.outcome::<Notes<After>>("n/1").fetch().await.unwrap();
    assert!(matches!(&outcome, Some(Outcome::Completed(answer)) if **answer == 7), "{outcome:?}");
}
