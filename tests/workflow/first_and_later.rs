//! What a step gives back is what it recorded, in the run that did it and in every later one.

use locker::workflow::{Flow, List, Outcome, ProbeOutcome, RetryPolicy, StepState, Stop, Workflow};
use locker::{Failure, Intervened, Operator};
use serde::{Deserialize, Serialize};

use crate::bench::{Books, Desk};

/// A value that its JSON does not carry as a whole.
#[derive(Serialize, Deserialize)]
struct Receipt {
    charge: u32,
    #[serde(skip)]
    trace: Option<String>,
}

/// Reads the receipt, and fails in its first run after that.
#[derive(Clone)]
struct Reads {
    books: Books,
    once: bool,
}

impl Workflow for Reads {
    const NAME: &'static str = "reads";
    type Input = ();
    type Output = ();

    async fn run(&self, flow: &Flow, (): ()) -> Result<(), Stop> {
        let work = |_| async { Ok(Receipt { charge: 7, trace: Some("t".to_owned()) }) };
        let receipt =
            if self.once { flow.once("a").run(work).await? } else { flow.step("a").run(work).await? };
        self.books.enter(format!("{} {:?}", receipt.charge, receipt.trace));
        let first = self.books.entries().len() == 1;
        let down = |_| async move { if first { Err(Failure::transient("down".to_owned())) } else { Ok(()) } };
        flow.step("b").retry(RetryPolicy::never()).run(down).await
    }
}

#[tokio::test]
async fn the_first_run_sees_what_later_ones_see() {
    for once in [false, true] {
        let desk = Desk::new().await;
        let code = Reads { books: Books::default(), once };
        let outcome = desk.machine().0.start(&code, "reads/1", &()).run().await.unwrap();
        assert!(matches!(outcome, Outcome::InProgress(_)), "{outcome:?}");
        desk.settle(&code).await;
        assert_eq!(code.books.entries(), ["7 None", "7 None"], "once: {once}");
    }
}

/// A number that JSON does not have.
#[derive(Clone)]
struct Odd;

impl Workflow for Odd {
    const NAME: &'static str = "odd";
    type Input = ();
    type Output = f64;

    async fn run(&self, flow: &Flow, (): ()) -> Result<f64, Stop> {
        flow.once("a").run(|_| async { Ok(f64::NAN) }).await
    }
}

#[tokio::test]
async fn a_result_that_cannot_be_read_back_is_held_and_resolved() {
    let desk = Desk::new().await;
    let outcome = desk.machine().0.start(&Odd, "odd/1", &()).run().await.unwrap();
    let Outcome::Quarantined(reason) = outcome else { panic!("{outcome:?}") };
    assert!(
        reason.starts_with("step a failed and needs an operator: it happened, but its result cannot"),
        "{reason}"
    );
    let view = desk.view("odd/1").await;
    assert_eq!(view.steps()[0].state(), StepState::Held);
    let held = view.steps()[0].result().unwrap();
    assert!(held.contains("it happened, but its result cannot be recorded"), "{held}");
    let operator = Operator::new("alice", "as the provider says").unwrap();
    let resolved = desk.machine().0.resolve_step(&view, "a", &1.5.into(), &operator).await.unwrap();
    assert_eq!(resolved, Intervened::Done);
    desk.settle(&Odd).await;
    let outcome = desk.machine().0.start(&Odd, "odd/1", &()).run().await.unwrap();
    assert!(matches!(&outcome, Outcome::Completed(answer) if **answer == 1.5), "{outcome:?}");
}

/// Dies while it charges; its probe then says something else than the code reads.
#[derive(Clone)]
struct Asks(Books);

impl Workflow for Asks {
    const NAME: &'static str = "asks";
    type Input = ();
    type Output = u32;

    async fn run(&self, flow: &Flow, (): ()) -> Result<u32, Stop> {
        flow.once("charge")
            .probe(|_| async { Ok(ProbeOutcome::done(&"ch_1")?) })
            .run(|_| async {
                self.0.enter("charged");
                std::future::pending::<Result<u32, Failure>>().await
            })
            .await
    }
}

#[tokio::test]
async fn probe_result_is_recorded_only_if_the_code_reads_it() {
    let desk = Desk::new().await;
    let code = Asks(Books::default());
    let (workflows, driven) = (desk.machine().0, code.clone());
    let dies = tokio::spawn(async move { workflows.start(&driven, "asks/1", &()).run().await.map(drop) });
    while code.0.count("charged") == 0 {
        tokio::task::yield_now().await;
    }
    dies.abort();
    desk.settle(&code).await;
    let view = desk.view("asks/1").await;
    assert_eq!((view.listed(), view.steps()[0].state()), (Some(List::Quarantine), StepState::Held));
    let operator = Operator::new("alice", "as the provider says").unwrap();
    let resolved = desk.machine().0.resolve_step(&view, "charge", &7.into(), &operator).await.unwrap();
    assert_eq!(resolved, Intervened::Done);
    desk.settle(&code).await;
    assert_eq!(desk.view("asks/1").await.result(), Some("7"));
    assert_eq!(code.0.entries(), ["charged"]);
}
