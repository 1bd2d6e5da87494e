//! The failure of a workflow whose attempts are exhausted, if its type compensates then.

use locker::Failure;
use locker::workflow::{
    Compensated, Compensation, Exhausted, Flow, Outcome, RetryPolicy, State, StepFailure, Stop, Workflow,
};
use locker_tests::DAY;

use crate::bench::{Books, Desk};
use crate::interleavings::transient;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Branches {
    /// One branch waits on purpose, and the other fails each time.
    WaitAndMail,
    /// One branch waits for another step, without a failure of its own, and the other fails.
    LongAndMail,
    /// One branch is in doubt each time, and the other failed for good.
    DoubtAndStock,
}

#[derive(Clone)]
struct Order(Branches, Books);

impl Workflow for Order {
    const NAME: &'static str = "order";
    type Input = ();
    type Output = ();

    async fn run(&self, flow: &Flow, (): ()) -> Result<(), Stop> {
        let mail = flow.step("mail").retry(RetryPolicy::never()).run(async |_| Err::<(), _>(transient()));
        let (one, other) = match self.0 {
            Branches::WaitAndMail => {
                tokio::join!(flow.sleep("pause", DAY * 50_000), mail)
            }
            Branches::LongAndMail => {
                let long = flow.step("long").expect_within(DAY);
                tokio::join!(long.run(async |_| Ok(())), mail)
            }
            Branches::DoubtAndStock => {
                let charge = flow.once("charge").recognised_for(DAY * 300).retry(RetryPolicy::never());
                let charge = charge.compensate(&"refund");
                let doubt = charge.run(async |_| Err::<(), _>(Failure::in_doubt("no reply".to_owned())));
                let stock = flow.step("stock");
                let stock = stock.run(async |_| Err::<(), _>(Failure::permanent("sold out".to_owned())));
                let (doubt, stock) = tokio::join!(doubt, stock);
                (stock, doubt)
            }
        };
        one.and(other)
    }

    async fn compensate(&self, _: &Flow, compensation: Compensation) -> Result<Compensated, Failure> {
        self.1.enter(compensation.name());
        Ok(Compensated::Done)
    }

    fn exhausted(&self) -> Exhausted {
        Exhausted::Compensate
    }
}

async fn failure(desk: &Desk, code: &Order) -> StepFailure {
    desk.machine().0.start(code, "o/1", &()).enqueue().await.unwrap();
    desk.settle(code).await;
    let view = desk.view("o/1").await;
    assert_eq!(view.state(), State::Failed, "{:?}", view.reason());
    match desk.machine().0.start(code, "o/1", &()).run().await.unwrap() {
        Outcome::Failed(failed) => failed.failure().clone(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn exhausted_workflow_fails_with_the_step_that_was_exhausted() {
    for branches in [Branches::WaitAndMail, Branches::LongAndMail] {
        let desk = Desk::new().await;
        let failure = failure(&desk, &Order(branches, Books::default())).await;
        assert_eq!(failure.step(), Some("mail"), "{branches:?}: {}", failure.cause());
        assert!(failure.cause().contains("down"), "{branches:?}: {}", failure.cause());
    }
}

#[tokio::test]
async fn exhausted_doubt_keeps_the_failure_of_the_code() {
    let desk = Desk::new().await;
    let code = Order(Branches::DoubtAndStock, Books::default());
    let failure = failure(&desk, &code).await;
    assert_eq!((failure.step(), failure.cause()), (Some("stock"), "sold out"));
    assert_eq!(code.1.entries(), ["refund"]);
}
