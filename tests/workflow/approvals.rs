//! An approval that waits for thirty days: given, refused, expired and late.

use std::time::Duration;

use locker::Failure;
use locker::workflow::{
    Compensated, Compensation, Completer, Event, Flow, Outcome, Signalled, State, Stop, Workflow,
};
use locker_tests::DAY;
use serde::{Deserialize, Serialize};

use crate::bench::{Books, Desk, LATER};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
enum Decision {
    Approved,
    Rejected,
}

const DECIDED: Event<Decision> = Event::named("decided");

/// Reserves a budget, and waits thirty days for the decision.
#[derive(Clone, Default)]
struct Expense(Books);

impl Workflow for Expense {
    const NAME: &'static str = "expense";
    type Input = ();
    type Output = ();

    async fn run(&self, flow: &Flow, (): ()) -> Result<(), Stop> {
        let reserve = async |_| {
            self.0.enter("reserve");
            Ok(())
        };
        flow.once("reserve").compensate(&"release").run(reserve).await?;
        match flow.wait_for(DECIDED, 30 * DAY).on_late(&"withdraw").await? {
            Some(Decision::Approved) => Ok(()),
            Some(Decision::Rejected) => Err(Stop::fail("rejected")),
            None => Err(Stop::fail("no decision")),
        }
    }

    async fn compensate(&self, _: &Flow, it: Compensation) -> Result<Compensated, Failure> {
        // A rejection needs no withdrawal.
        if it.name() == "withdraw" && it.result::<Decision>()? != Some(Decision::Approved) {
            return Ok(Compensated::Nothing);
        }
        self.0.enter(it.name());
        Ok(Compensated::Done)
    }
}

struct Office {
    desk: Desk,
    code: Expense,
}

impl Office {
    async fn open() -> Self {
        let (desk, code) = (Desk::new().await, Expense::default());
        let outcome = desk.machine().0.start(&code, "x/1", &()).run().await.unwrap();
        assert!(matches!(outcome, Outcome::InProgress(_)), "{outcome:?}");
        Self { desk, code }
    }

    async fn decide(&self, decision: Decision) -> Signalled {
        self.desk.machine().0.signal("x/1", DECIDED, &decision).await.unwrap()
    }

    /// Returns the state of the workflow, and its effects.
    async fn after(&self) -> (State, Vec<String>) {
        self.desk.settle(&self.code).await;
        (self.desk.view("x/1").await.state(), self.code.0.entries())
    }

    /// Runs the completer each hour, as a schedule does. Returns the number of claims.
    async fn wait(&self, time: Duration) -> usize {
        let completer = Completer::new(&self.desk.machine().0).register(self.code.clone());
        let mut claims = 0;
        for _ in 0..time.as_secs() / LATER.as_secs() {
            self.desk.bench.clock.advance(LATER);
            claims += completer.run().await.unwrap().claimed;
        }
        claims
    }
}

#[tokio::test]
async fn approval_after_29_days_completes_the_workflow() {
    let office = Office::open().await;
    assert_eq!(office.wait(29 * DAY).await, 0, "nothing runs while it waits");
    assert_eq!(office.decide(Decision::Approved).await, Signalled::Accepted);
    assert_eq!(office.after().await, (State::Completed, vec!["reserve".to_owned()]));
}

#[tokio::test]
async fn rejection_compensates_and_still_answers() {
    let office = Office::open().await;
    assert_eq!(office.decide(Decision::Rejected).await, Signalled::Accepted);
    assert_eq!(office.after().await, (State::Failed, vec!["reserve".to_owned(), "release".to_owned()]));
    let outcome = office.desk.machine().0.start(&office.code, "x/1", &()).run().await.unwrap();
    let Outcome::Failed(failed) = outcome else { panic!("{outcome:?}") };
    assert_eq!(failed.failure().error::<String>().unwrap(), "rejected");
}

#[tokio::test]
async fn without_a_decision_it_fails_after_thirty_days() {
    let office = Office::open().await;
    assert_eq!(office.wait(30 * DAY - LATER).await, 0);
    assert_eq!(office.desk.view("x/1").await.state(), State::Running);
    office.desk.bench.clock.advance(LATER);
    assert_eq!(office.after().await, (State::Failed, vec!["reserve".to_owned(), "release".to_owned()]));
    // A later decision changes no outcome, and is compensated once.
    let late = office.decide(Decision::Approved).await;
    assert!(matches!(late, Signalled::Late { compensates: true, .. }), "{late:?}");
    assert_eq!(office.decide(Decision::Approved).await, Signalled::Duplicate);
    let (state, done) = office.after().await;
    assert_eq!(
        (state, done.as_slice()),
        (State::Failed, ["reserve", "release", "withdraw"].map(str::to_owned).as_slice())
    );
    let outcome = office.desk.machine().0.start(&office.code, "x/1", &()).run().await.unwrap();
    let Outcome::Failed(failed) = outcome else { panic!("{outcome:?}") };
    assert_eq!(failed.failure().error::<String>().unwrap(), "no decision");
}
