//! Retries of steps, and the effect of each class of failure on a workflow.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use locker::Failure;
use locker::workflow::{Flow, Outcome, RetryPolicy, State, Stop, Workflow};

use crate::bench::{Desk, LATER};

/// Fails this many times, then succeeds.
#[derive(Clone)]
struct Shaky {
    once: bool,
    failures: u32,
    failure: Failure,
    calls: Arc<AtomicU32>,
}

impl Shaky {
    fn new(once: bool, failures: u32, failure: Failure) -> Self {
        Self { once, failures, failure, calls: Arc::default() }
    }

    fn calls(&self) -> u32 {
        self.calls.load(Ordering::SeqCst)
    }
}

impl Workflow for Shaky {
    const NAME: &'static str = "shaky";
    type Input = ();
    type Output = u32;

    async fn run(&self, flow: &Flow, (): ()) -> Result<u32, Stop> {
        let policy = RetryPolicy::default().initial_interval(Duration::from_millis(1));
        let work = |_| async {
            let call = self.calls.fetch_add(1, Ordering::SeqCst) + 1;
            if call <= self.failures { Err(self.failure.clone()) } else { Ok(call) }
        };
        if self.once {
            flow.once("a").retry(policy).run(work).await
        } else {
            flow.step("a").retry(policy).run(work).await
        }
    }
}

async fn run(desk: &Desk, code: &Shaky) -> Outcome<u32> {
    desk.machine().0.start(code, "shaky/1", &()).run().await.unwrap()
}

fn down() -> Failure {
    Failure::transient("down".to_owned())
}

#[tokio::test]
async fn a_transient_failure_is_retried_in_place() {
    for once in [false, true] {
        let desk = Desk::new().await;
        let code = Shaky::new(once, 2, down());
        let outcome = run(&desk, &code).await;
        assert!(matches!(&outcome, Outcome::Completed(answer) if **answer == 3), "{outcome:?}");
    }
}

#[tokio::test]
async fn once_the_retries_are_exhausted_a_completer_resumes() {
    for once in [false, true] {
        let desk = Desk::new().await;
        let code = Shaky::new(once, 4, down());
        let outcome = run(&desk, &code).await;
        let Outcome::InProgress(waiting) = outcome else { panic!("{outcome:?}") };
        assert_eq!((waiting.locked_by(), code.calls()), (None, 3));
        let reason = waiting.reason().unwrap();
        assert!(reason.starts_with("step a can be retried after"), "{reason}");
        assert!(reason.ends_with(": its retries are exhausted: down"), "{reason}");
        desk.settle(&code).await;
        assert_eq!(code.calls(), 5);
        let view = desk.view("shaky/1").await;
        assert_eq!((view.state(), view.steps()[0].key_version()), (State::Completed, 1));
    }
}

#[tokio::test]
async fn a_provider_that_asks_for_a_pause_gets_it() {
    let desk = Desk::new().await;
    let code = Shaky::new(true, 1, down().after(Duration::from_secs(50)));
    let outcome = run(&desk, &code).await;
    let Outcome::InProgress(waiting) = outcome else { panic!("{outcome:?}") };
    assert!(waiting.due() >= desk.now() + Duration::from_secs(50));
    assert_eq!(code.calls(), 1);
}

#[tokio::test]
async fn a_failure_that_stays_transient_is_quarantined_at_the_cap() {
    let desk = Desk::new().await;
    let code = Shaky::new(false, u32::MAX, down());
    run(&desk, &code).await;
    desk.settle(&code).await;
    let view = desk.view("shaky/1").await;
    assert_eq!(desk.quarantine().await, ["shaky/1"]);
    assert_eq!(view.attempts(), 10);
    assert_eq!(code.calls(), 30, "ten runs of three attempts");
}

#[tokio::test]
async fn a_failure_that_needs_an_operator_is_quarantined_at_once() {
    for once in [false, true] {
        let desk = Desk::new().await;
        let code = Shaky::new(once, 1, Failure::needs_operator("odd".to_owned()));
        let outcome = run(&desk, &code).await;
        let Outcome::Quarantined(reason) = outcome else { panic!("{outcome:?}") };
        assert_eq!(reason, "step a failed and needs an operator: odd");
        desk.bench.clock.advance(LATER);
        assert!(matches!(run(&desk, &code).await, Outcome::Quarantined(_)));
        assert_eq!(code.calls(), 1);
    }
}

#[tokio::test]
async fn a_permanent_refusal_of_dynamodb_counts_as_an_attempt() {
    use locker_tests::Fate;
    let desk = Desk::new().await;
    let code = Shaky::new(false, 0, down());
    desk.machine().0.start(&code, "shaky/1", &()).enqueue().await.unwrap();
    desk.bench.clock.advance(LATER);
    let (workflows, wire) = desk.machine();
    // Refused start, claim, read; then the record of the step is refused.
    wire.next([Fate::Ok, Fate::Ok, Fate::Ok, Fate::Denied]);
    workflows.start(&code, "shaky/1", &()).run().await.unwrap_err();
    let view = desk.view("shaky/1").await;
    assert_eq!((view.attempts(), view.locked_by()), (1, None), "{:?}", view.reason());
}
