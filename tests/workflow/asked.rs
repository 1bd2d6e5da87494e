//! The pause that a provider asks for: a workflow waits for it, but not longer than its longest pause.

use std::time::Duration;

use locker::Failure;
use locker::workflow::{
    Compensated, Compensation, Completer, Flow, List, Outcome, RetryPolicy, Stop, Workflow,
};
use locker_tests::DAY;

use crate::bench::{Books, Desk};

/// The longest pause of the machines of these tests.
const LONGEST: Duration = Duration::from_secs(60);

#[derive(Debug, Clone, Copy, PartialEq)]
enum Asks {
    Step,
    Once,
    Compensation,
}

/// Its provider is busy, and asks for this pause.
#[derive(Clone)]
struct Busy(Books, Asks, Duration);

impl Busy {
    fn call(&self) -> Failure {
        self.0.enter("call");
        Failure::transient("busy".to_owned()).after(self.2)
    }
}

impl Workflow for Busy {
    const NAME: &'static str = "busy";
    type Input = ();
    type Output = ();

    async fn run(&self, flow: &Flow, (): ()) -> Result<(), Stop> {
        let policy = RetryPolicy::default();
        match self.1 {
            Asks::Step => flow.step("call").retry(policy).run(|_| async { Err(self.call()) }).await,
            Asks::Once => flow.once("call").retry(policy).run(|_| async { Err(self.call()) }).await,
            Asks::Compensation => {
                flow.once("pay").compensate(&"refund").run(|_| async { Ok(()) }).await?;
                Err(Stop::fail("no"))
            }
        }
    }

    async fn compensate(&self, _: &Flow, _: Compensation) -> Result<Compensated, Failure> {
        Err(self.call())
    }
}

#[tokio::test]
async fn pause_of_ten_years_is_the_longest_of_the_workflow() {
    for asks in [Asks::Step, Asks::Once, Asks::Compensation] {
        let (desk, code) = (Desk::new().await, Busy(Books::default(), asks, 3650 * DAY));
        let (workflows, _) = desk.machine();
        let outcome = workflows.start(&code, "busy/1", &()).run().await.unwrap();
        let Outcome::InProgress(waiting) = outcome else { panic!("{asks:?}: {outcome:?}") };
        assert_eq!(waiting.due(), desk.now() + LONGEST, "{asks:?}");
        desk.bench.clock.advance(LONGEST + Duration::from_secs(1));
        Completer::new(&workflows).register(code.clone()).run().await.unwrap();
        assert_eq!(code.0.count("call"), 2, "{asks:?}");
    }
}

#[tokio::test]
async fn shorter_pause_than_the_longest_is_kept() {
    const ASKED: Duration = Duration::from_secs(50);
    let (desk, code) = (Desk::new().await, Busy(Books::default(), Asks::Step, ASKED));
    let (workflows, _) = desk.machine();
    workflows.start(&code, "busy/1", &()).run().await.unwrap();
    let view = desk.view("busy/1").await;
    assert_eq!((view.due(), view.listed()), (desk.now() + ASKED, Some(List::Unfinished)));
}
