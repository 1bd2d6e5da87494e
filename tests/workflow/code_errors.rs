//! Errors of the code of a workflow, between its steps and inside them.

use std::time::Duration;

use locker::workflow::{Compensated, Compensation, Flow, List, Outcome, RetryPolicy, State, Stop, Workflow};
use locker::{Class, Classify, Failure, Intervened, OfClass as _};
use serde::{Deserialize, Serialize};

use crate::bench::{Books, Desk};
use crate::interleavings::{Script, input};

trait Pays {
    fn pays(&self) -> Result<(), Failure>;
}

impl Pays for Script {
    fn pays(&self) -> Result<(), Failure> {
        self.books.enter("charge");
        Ok(())
    }
}

fn number(text: &str) -> Result<u32, std::num::ParseIntError> {
    text.parse()
}

/// Charges, and then calls a code that returns this error.
async fn ends_with(
    code: impl Fn() -> Result<(), Stop> + Clone + Send + Sync + 'static,
) -> (Desk, Script, (State, bool)) {
    let desk = Desk::new().await;
    let script = Script::new(move |flow, script| {
        let code = code.clone();
        async move {
            let charge = flow.once("charge").compensate(&"refund");
            charge.run(async |_| script.pays()).await?;
            code()?;
            Ok("done".to_owned())
        }
    });
    desk.machine().0.start(&script, "s/1", &input()).run().await.unwrap();
    let view = desk.view("s/1").await;
    let state = (view.state(), view.listed() == Some(List::Quarantine));
    (desk, script, state)
}

#[tokio::test]
async fn error_between_steps_needs_an_operator() {
    let (desk, script, state) = ends_with(|| number("many").map(drop).map_err(Stop::from)).await;
    assert_eq!(state, (State::Running, true));
    assert_eq!(
        desk.view("s/1").await.reason(),
        Some("the code of the workflow returned an error between its steps: invalid digit found in string")
    );
    assert_eq!(script.books.entries(), ["charge"]);
}

#[tokio::test]
async fn permanent_failure_between_steps_is_compensated() {
    let (_desk, script, state) = ends_with(|| number("many").permanent().map(drop).map_err(Stop::from)).await;
    assert_eq!(state, (State::Failed, false));
    assert_eq!(script.books.entries().len(), 2, "{:?}", script.books.entries());
}

#[tokio::test]
async fn transient_failure_between_steps_is_retried() {
    let (desk, script, state) = ends_with(|| number("many").transient().map(drop).map_err(Stop::from)).await;
    assert_eq!(state, (State::Running, false));
    let view = desk.view("s/1").await;
    assert_eq!(
        view.reason(),
        Some("the code of the workflow can be run again: invalid digit found in string")
    );
    assert!(view.due() > desk.now(), "it pauses");
    assert_eq!(script.books.entries(), ["charge"]);
}

#[tokio::test]
async fn doubt_between_steps_needs_an_operator() {
    let (_desk, script, state) = ends_with(|| number("many").in_doubt().map(drop).map_err(Stop::from)).await;
    assert_eq!(state, (State::Running, true));
    assert_eq!(script.books.entries(), ["charge"]);
}

#[derive(Debug, PartialEq, thiserror::Error, Serialize, Deserialize)]
enum CardError {
    #[error("the card was declined, code {code}")]
    Declined { code: u32 },
    #[error("the bank is down")]
    Down,
}

impl Classify for CardError {
    fn class(&self) -> Class {
        match self {
            Self::Declined { .. } => Class::Permanent,
            Self::Down => Class::Transient,
        }
    }

    fn cause(&self) -> String {
        self.to_string()
    }

    fn retry_after(&self) -> Option<Duration> {
        Some(Duration::from_secs(7))
    }
}

#[test]
fn error_with_a_class_becomes_a_failure_of_that_class() {
    let failure = Failure::from(CardError::Declined { code: 51 });
    assert_eq!((failure.class, failure.error.as_str()), (Class::Permanent, "the card was declined, code 51"));
    assert_eq!(failure.retry_after, Some(Duration::from_secs(7)));
    assert_eq!(Failure::from(CardError::Down).class, Class::Transient);
}

/// Pays by card, and by invoice if the card is declined.
#[derive(Clone)]
struct Pay(Books, u32);

impl Workflow for Pay {
    const NAME: &'static str = "pay";
    type Input = ();
    type Output = String;

    async fn run(&self, flow: &Flow, (): ()) -> Result<String, Stop> {
        let card = async |_| {
            self.0.enter("card");
            Err::<String, _>(CardError::Declined { code: self.1 })
        };
        match flow.once("card").outcome(card).await? {
            Err(CardError::Declined { code: 51 }) => {
                let mail = flow.step("mail").retry(RetryPolicy::never());
                mail.run(
                    async |_| if self.0.count("card") == 0 { Ok(()) } else { Err(CardError::Down.into()) },
                )
                .await?;
                Ok("by invoice".to_owned())
            }
            Err(other) => Err(Stop::fail(other)),
            Ok(receipt) => Ok(receipt),
        }
    }
}

#[tokio::test]
async fn failure_of_a_step_has_its_own_type_in_each_run() {
    let desk = Desk::new().await;
    let code = Pay(Books::default(), 51);
    let outcome = desk.machine().0.start(&code, "pay/1", &()).run().await.unwrap();
    assert!(matches!(outcome, Outcome::InProgress(_)), "the mail is down: {outcome:?}");
    // The next run reads the failure from its record.
    let later = Pay(Books::default(), 99);
    desk.settle(&later).await;
    assert_eq!(later.0.count("card"), 0);
    let view = desk.view("pay/1").await;
    assert_eq!((view.state(), view.result()), (State::Completed, Some("\"by invoice\"")));
}

#[tokio::test]
async fn failure_that_the_code_cannot_read_quarantines() {
    let desk = Desk::new().await;
    let write = Script::new(|flow, _| async move {
        drop(
            flow.once("card")
                .outcome(async |_| Err::<String, _>(Failure::permanent("no".to_owned())))
                .await?,
        );
        let mail = flow.step("mail").retry(RetryPolicy::never());
        mail.run(async |_| Err(Failure::transient("down".to_owned()))).await
    });
    desk.machine().0.start(&write, "s/1", &input()).run().await.unwrap();
    let read = Script::new(|flow, _| async move {
        let found = flow.once("card").outcome(async |_| Err::<String, _>(CardError::Down)).await?;
        Ok(format!("{found:?}"))
    });
    desk.settle(&read).await;
    let view = desk.view("s/1").await;
    assert_eq!(view.listed(), Some(List::Quarantine));
    let reason = view.reason().unwrap_or_default();
    assert!(reason.starts_with("step card cannot run: its recorded failure cannot be read"), "{reason}");
}

#[derive(Serialize, Deserialize)]
enum Old {
    Refund(u32),
    Void,
}

#[derive(Serialize, Deserialize)]
enum New {
    Refund(u32),
}

/// Charges and fails; reads its compensation as the new or as the old enum.
#[derive(Clone)]
struct Charge(Books, bool, Option<u32>);

impl Workflow for Charge {
    const NAME: &'static str = "charge";
    type Input = ();
    type Output = ();

    async fn run(&self, flow: &Flow, (): ()) -> Result<(), Stop> {
        let undo = self.2.map_or(Old::Void, Old::Refund);
        flow.once("charge").compensate(&undo).run(async |_| Ok(())).await?;
        Err(Stop::fail("no seat"))
    }

    async fn compensate(&self, _: &Flow, it: Compensation) -> Result<Compensated, Failure> {
        let text = if self.1 {
            let New::Refund(cents) = it.undo()?;
            format!("refund {cents}")
        } else {
            match it.undo()? {
                Old::Refund(cents) => format!("refund {cents}"),
                Old::Void => "void".to_owned(),
            }
        };
        self.0.enter(text);
        Ok(Compensated::Done)
    }
}

#[tokio::test]
async fn compensation_is_the_variant_that_was_declared() {
    for (declared, new, entered) in
        [(Some(5), false, vec!["refund 5"]), (Some(5), true, vec!["refund 5"]), (None, false, vec!["void"])]
    {
        let desk = Desk::new().await;
        let code = Charge(Books::default(), new, declared);
        let outcome = desk.machine().0.start(&code, "charge/1", &()).run().await.unwrap();
        assert!(matches!(outcome, Outcome::Failed(_)), "{outcome:?}");
        assert_eq!(code.0.entries(), entered);
    }
}

#[tokio::test]
async fn unknown_compensation_is_quarantined_by_its_name() {
    let desk = Desk::new().await;
    let code = Charge(Books::default(), true, None);
    let outcome = desk.machine().0.start(&code, "charge/1", &()).run().await.unwrap();
    let Outcome::Quarantined(reason) = outcome else { panic!("{outcome:?}") };
    assert!(
        reason.contains(
            "the code cannot read its stored compensation Void: unknown variant, expected `Refund`"
        ),
        "{reason}"
    );
    // Code that has the variant repairs it.
    let seen = desk.view("charge/1").await;
    let (workflows, _) = desk.machine();
    let retried = workflows.retry_step(&seen, "compensation:charge", &locker_tests::ada()).await.unwrap();
    assert_eq!(retried, Intervened::Done);
    let code = Charge(Books::default(), false, None);
    desk.settle(&code).await;
    assert_eq!(
        (desk.view("charge/1").await.state(), code.0.entries()),
        (State::Failed, vec!["void".to_owned()])
    );
}

#[tokio::test]
async fn unknown_variant_is_refused_before_the_step_runs() {
    let desk = Desk::new().await;
    let script = Script::new(|flow, script| async move {
        let charge = flow.once("charge").compensate(&5);
        charge.run(async |_| script.pays()).await?;
        Ok("done".to_owned())
    });
    let outcome = desk.machine().0.start(&script, "s/1", &input()).run().await.unwrap();
    let Outcome::Quarantined(reason) = outcome else { panic!("{outcome:?}") };
    assert_eq!(
        reason,
        "step charge cannot run: its compensation must be a variant of an enum, such as Undo::Refund { order }"
    );
    assert!(script.books.entries().is_empty() && desk.view("s/1").await.steps().is_empty());
}

#[tokio::test]
async fn step_is_named_by_a_text_and_an_id() {
    let desk = Desk::new().await;
    let script = Script::new(|flow, _| async move {
        for id in ["7", "a b/ü"] {
            flow.step(("fund", id)).run(async |_| Ok(())).await?;
        }
        flow.step(("fund", "x".repeat(300))).run(async |_| Ok(())).await?;
        Ok("done".to_owned())
    });
    let outcome = desk.machine().0.start(&script, "s/1", &input()).run().await.unwrap();
    let Outcome::Quarantined(reason) = outcome else { panic!("{outcome:?}") };
    assert!(reason.ends_with("xxx… cannot run: a name must have 1 to 200 bytes, this one has 305; name what the step does, such as charge"), "{reason}");
    let view = desk.view("s/1").await;
    let names: Vec<_> = view.steps().iter().map(|step| step.name().to_owned()).collect();
    assert_eq!(names, ["fund#7", "fund#a%20b%2F%C3%BC"]);
}
