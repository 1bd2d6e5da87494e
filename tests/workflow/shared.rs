//! A step with a business key of its own: once, whichever workflow asks.

use std::time::Duration;

use locker::workflow::{Compensated, Compensation, Flow, Outcome, StepAttempt, Stop, Workflow};
use locker::{Failure, Retention};
use locker_tests::DAY;
use serde::{Deserialize, Serialize};

use crate::bench::{Books, Desk, LATER};

#[derive(Clone)]
struct Charge {
    books: Books,
    declined: bool,
    version: u32,
    then_fails: bool,
}

impl Charge {
    fn new() -> Self {
        Self { books: Books::default(), declined: false, version: 1, then_fails: false }
    }
}

#[derive(Serialize, Deserialize)]
enum Undo {
    Refund(u32),
}

impl Workflow for Charge {
    const NAME: &'static str = "charge";
    type Input = u32;
    type Output = String;

    async fn run(&self, flow: &Flow, amount: u32) -> Result<String, Stop> {
        let receipt = flow
            .once("charge")
            .key(("card/charge", 7))
            .version(self.version)
            .input(&amount)
            .compensate(&Undo::Refund(amount))
            .run(|attempt| async move {
                self.books.enter(attempt.idempotency_key());
                if self.declined {
                    Err(Failure::permanent("declined".to_owned()))
                } else {
                    Ok("paid".to_owned())
                }
            })
            .await?;
        if self.then_fails {
            return Err(Stop::fail("sold out"));
        }
        Ok(receipt)
    }

    async fn compensate(&self, _: &Flow, compensation: Compensation) -> Result<Compensated, Failure> {
        let Undo::Refund(amount) = compensation.undo()?;
        self.books.enter(format!("refund {amount}"));
        Ok(Compensated::Done)
    }
}

async fn run(desk: &Desk, code: &Charge, key: &str) -> Outcome<String> {
    desk.machine().0.start(code, key, &10).run().await.unwrap()
}

#[tokio::test]
async fn a_second_workflow_shares_it() {
    let desk = Desk::new().await;
    let code = Charge::new();
    for key in ["charge/1", "charge/2"] {
        let outcome = run(&desk, &code, key).await;
        assert!(matches!(&outcome, Outcome::Completed(answer) if **answer == "paid"), "{outcome:?}");
    }
    assert_eq!(code.books.entries(), ["card/charge/7"]);
    let other = desk.machine().0.start(&code, "charge/3", &11).run().await.unwrap();
    let Outcome::Quarantined(reason) = other else { panic!("{other:?}") };
    assert_eq!(reason, "step charge is recorded with another input; give a changed step another name");
}

#[tokio::test]
async fn a_restart_under_the_next_version_of_the_workflows_key_shares_it() {
    let desk = Desk::new().await;
    let code = Charge::new();
    run(&desk, &code, "charge/1").await;
    let outcome = desk.machine().0.start(&code, "charge/1", &10).key_version(2).run().await.unwrap();
    assert!(matches!(outcome, Outcome::Completed(_)), "{outcome:?}");
    assert_eq!(code.books.entries(), ["card/charge/7"]);
}

#[tokio::test]
async fn a_failure_counts_until_the_next_version_of_its_key_and_a_success_for_ever() {
    let desk = Desk::new().await;
    let code = Charge { declined: true, ..Charge::new() };
    for key in ["charge/1", "charge/2"] {
        let outcome = run(&desk, &code, key).await;
        assert!(matches!(outcome, Outcome::Failed(_)), "{outcome:?}");
    }
    assert_eq!(code.books.entries(), ["card/charge/7"]);
    let mended = Charge { declined: false, version: 2, ..code.clone() };
    for key in ["charge/3", "charge/4"] {
        let outcome = run(&desk, &mended, key).await;
        assert!(matches!(outcome, Outcome::Completed(_)), "{outcome:?}");
    }
    let newer = Charge { version: 3, ..mended };
    assert!(matches!(run(&desk, &newer, "charge/5").await, Outcome::Completed(_)));
    assert_eq!(code.books.entries(), ["card/charge/7", "card/charge/7 ~v2"]);
}

#[tokio::test]
async fn the_workflow_that_ran_it_compensates_it_and_then_it_may_run_again_under_another_key() {
    let desk = Desk::new().await;
    let code = Charge { then_fails: true, ..Charge::new() };
    let outcome = run(&desk, &code, "charge/1").await;
    assert!(matches!(outcome, Outcome::Failed(_)), "{outcome:?}");
    assert_eq!(code.books.entries(), ["card/charge/7", "refund 10"]);
    let again = Charge { then_fails: false, ..code.clone() };
    let outcome = run(&desk, &again, "charge/2").await;
    assert!(matches!(outcome, Outcome::Completed(_)), "{outcome:?}");
    assert_eq!(code.books.entries(), ["card/charge/7", "refund 10", "card/charge/7 ~v2"]);
    // A third finds it done, fails, and does not compensate it.
    let outcome = run(&desk, &code, "charge/3").await;
    assert!(matches!(outcome, Outcome::Failed(_)), "{outcome:?}");
    assert_eq!(code.books.entries().len(), 3);
}

#[tokio::test]
async fn while_another_workflow_may_be_running_it_it_waits_and_then_it_is_in_doubt() {
    use locker_tests::Fate;
    let desk = Desk::new().await;
    let code = Charge::new();
    let (workflows, wire) = desk.machine();
    // Start, pointer, start of the step, fence; and the outcome is never written.
    wire.next([Fate::Ok, Fate::Ok, Fate::Ok, Fate::Ok, Fate::Stalls]);
    let cut = tokio::spawn({
        let code = code.clone();
        async move { workflows.start(&code, "charge/1", &10).run().await.map(drop) }
    });
    while wire.count() < 5 {
        tokio::task::yield_now().await;
    }
    cut.abort();
    let outcome = run(&desk, &code, "charge/2").await;
    let Outcome::InProgress(waiting) = outcome else { panic!("{outcome:?}") };
    assert!(waiting.reason().unwrap().contains("it was started and may still be running"));
    desk.bench.clock.advance(LATER);
    let outcome = run(&desk, &code, "charge/2").await;
    assert!(matches!(outcome, Outcome::Quarantined(_)), "{outcome:?}");
    assert_eq!(code.books.entries(), ["card/charge/7"]);
}

#[tokio::test]
async fn after_a_failure_the_code_may_ask_again_under_the_next_version() {
    #[derive(Clone)]
    struct Account(Books);
    impl Workflow for Account {
        const NAME: &'static str = "account";
        type Input = ();
        type Output = u32;
        async fn run(&self, flow: &Flow, (): ()) -> Result<u32, Stop> {
            for version in 1..=2 {
                let created = flow.once("create").version(version).outcome(|attempt| async move {
                    self.0.enter(attempt.idempotency_key());
                    if version == 1 { Err(Failure::permanent("no name".to_owned())) } else { Ok(version) }
                });
                if let Ok(created) = created.await? {
                    return Ok(created);
                }
            }
            Err(Stop::fail("twice"))
        }
    }
    let desk = Desk::new().await;
    let code = Account(Books::default());
    for _ in 0..2 {
        let outcome = desk.machine().0.start(&code, "account/1", &()).run().await.unwrap();
        assert!(matches!(&outcome, Outcome::Completed(version) if **version == 2), "{outcome:?}");
    }
    assert_eq!(code.0.entries(), ["account/1 create", "account/1 create ~v1.2"]);
}

/// A greeting that is sent once a day.
#[derive(Clone)]
struct Greeting(Books);

impl Workflow for Greeting {
    const NAME: &'static str = "greeting";
    type Input = ();
    type Output = ();

    async fn run(&self, flow: &Flow, (): ()) -> Result<(), Stop> {
        let send = |attempt: StepAttempt| async move {
            self.0.enter(attempt.idempotency_key());
            Ok(())
        };
        flow.once("send").key("greeting/7").retention(Retention::For(DAY)).run(send).await
    }
}

#[tokio::test]
async fn after_its_retention_and_what_clocks_may_differ_it_happens_again_under_another_key() {
    let desk = Desk::new().await;
    let code = Greeting(Books::default());
    let greet = async |key: &str| {
        let outcome = desk.machine().0.start(&code, key, &()).run().await.unwrap();
        assert!(matches!(outcome, Outcome::Completed(_)), "{outcome:?}");
    };
    greet("g/1").await;
    desk.bench.clock.advance(DAY - Duration::from_secs(60));
    greet("g/2").await;
    // The clock that wrote the record may be 5 seconds behind.
    desk.bench.clock.advance(Duration::from_secs(63));
    greet("g/3").await;
    assert_eq!(code.0.entries(), ["greeting/7"]);
    desk.bench.clock.advance(Duration::from_secs(5));
    greet("g/4").await;
    assert_eq!(code.0.entries(), ["greeting/7", "greeting/7 ~v2"]);
}
