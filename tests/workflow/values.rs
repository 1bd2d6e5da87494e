//! One guard for values of workflows: inputs are refused before an effect, and a result that cannot
//! be stored is held.

use aws_sdk_dynamodb::types::{AttributeValue, Put};
use locker::message::{Bodies, ClaimCheck, NewMessage};
use locker::workflow::{Flow, Outcome, Reported, StepState, Stop, Workflow, Workflows};
use locker::{AnswerError, BoxError, Class, Classify as _, Error, Failure};

use crate::bench::{Books, Desk};

const ODD: f64 = f64::NAN;

fn is_refused(error: &Error) -> bool {
    matches!(error, Error::Answer(AnswerError::Encode { .. }))
}

/// Takes a number.
#[derive(Clone)]
struct Rated;

impl Workflow for Rated {
    const NAME: &'static str = "rated";
    type Input = Option<f64>;
    type Output = ();

    async fn run(&self, _: &Flow, _: Option<f64>) -> Result<(), Stop> {
        Ok(())
    }
}

#[tokio::test]
async fn input_that_json_would_change_is_refused_before_any_request() {
    let desk = Desk::new().await;
    let (workflows, wire) = desk.machine();
    for number in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        let start = || workflows.start(&Rated, "rated/1", &Some(number));
        let errors = [
            start().run().await.expect_err("refused"),
            start().enqueue().await.expect_err("refused"),
            start().fingerprint(&1).run().await.expect_err("refused"),
            workflows.start(&Rated, "rated/1", &None).fingerprint(&number).run().await.expect_err("refused"),
        ];
        for error in errors {
            assert!(is_refused(&error), "{number}: {error:?}");
        }
    }
    assert_eq!(wire.count(), 0);
    // A start without a number is another request than all of those.
    workflows.start(&Rated, "rated/1", &None).run().await.expect("an outcome");
}

/// Reads less than it writes.
#[derive(Debug, Clone, serde::Serialize)]
struct OneWay(u8);

impl<'de> serde::Deserialize<'de> for OneWay {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(|text| Self(text.len() as u8))
    }
}

#[derive(Clone)]
struct Unreadable;

impl Workflow for Unreadable {
    const NAME: &'static str = "unreadable";
    type Input = OneWay;
    type Output = ();

    async fn run(&self, _: &Flow, _: OneWay) -> Result<(), Stop> {
        Ok(())
    }
}

#[tokio::test]
async fn input_that_cannot_be_read_back_is_refused_before_any_request() {
    let desk = Desk::new().await;
    let (workflows, wire) = desk.machine();
    let error = workflows.start(&Unreadable, "one/way", &OneWay(1)).enqueue().await.expect_err("refused");
    assert!(is_refused(&error), "{error:?}");
    assert!(error.to_string().contains("it cannot be read back"), "{error}");
    assert_eq!(wire.count(), 0);
}

/// Where a value goes into a workflow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Door {
    StepInput,
    OnceInput,
    AtomicInput,
    OnceCompensation,
    AtomicCompensation,
    AtomicValue,
    Message,
}

#[derive(Clone)]
struct Gives(Door, Books);

#[derive(serde::Serialize)]
enum Undo {
    Undo(f64),
}

impl Workflow for Gives {
    const NAME: &'static str = "gives";
    type Input = ();
    type Output = ();

    async fn run(&self, flow: &Flow, (): ()) -> Result<(), Stop> {
        let work = |_| async {
            self.1.enter("effect");
            Ok(())
        };
        match self.0 {
            Door::StepInput => flow.step("a").input(&ODD).run(work).await,
            Door::OnceInput => flow.once("a").input(&ODD).run(work).await,
            Door::AtomicInput => flow.atomic("a").input(&ODD).commit(&()).await,
            Door::OnceCompensation => flow.once("a").compensate(&Undo::Undo(ODD)).run(work).await,
            Door::AtomicCompensation => flow.atomic("a").compensate(&Undo::Undo(ODD)).commit(&()).await,
            Door::AtomicValue => flow.atomic("a").commit(&ODD).await.map(drop),
            Door::Message => flow.atomic("a").message("rate/odd", &ODD).commit(&()).await,
        }
    }
}

#[tokio::test]
async fn number_that_json_does_not_have_is_refused_before_the_effect_of_a_step() {
    for (door, says) in [
        (Door::StepInput, "step a cannot run: its input is refused: "),
        (Door::OnceInput, "step a cannot run: its input is refused: "),
        (Door::AtomicInput, "step a cannot run: its input is refused: "),
        (Door::OnceCompensation, "step a cannot run: its compensation is refused: "),
        (Door::AtomicCompensation, "step a cannot run: its compensation is refused: "),
        (Door::AtomicValue, "step a cannot run: its value is refused: "),
        (Door::Message, "step a cannot run: invalid message: the body cannot be sent: "),
    ] {
        let desk = Desk::new().await;
        let code = Gives(door, Books::default());
        let outcome = desk.machine().0.start(&code, "gives/1", &()).run().await.expect("an outcome");
        let Outcome::Quarantined(reason) = outcome else { panic!("{door:?}: {outcome:?}") };
        assert!(reason.starts_with(says), "{door:?}: {reason}");
        assert!(reason.contains("NaN or an infinite number"), "{door:?}: {reason}");
        assert!(code.1.entries().is_empty(), "{door:?}");
        assert!(desk.view("gives/1").await.steps().is_empty(), "{door:?}");
    }
}

/// Its seat writes to JSON and does not read back.
#[derive(Clone)]
struct Seats(String);

impl Workflow for Seats {
    const NAME: &'static str = "seats";
    type Input = ();
    type Output = ();

    async fn run(&self, flow: &Flow, (): ()) -> Result<(), Stop> {
        let row = Put::builder().table_name(&self.0).item("id", AttributeValue::S("seat".to_owned()));
        flow.atomic("a").put(row.build().expect("a put")).commit(&OneWay(1)).await.map(drop)
    }
}

#[tokio::test]
async fn atomic_value_that_cannot_be_read_back_is_refused_before_its_rows() {
    let desk = Desk::new().await;
    let code = Seats(desk.rows.clone());
    let outcome = desk.machine().0.start(&code, "seats/1", &()).run().await.expect("an outcome");
    let Outcome::Quarantined(reason) = outcome else { panic!("{outcome:?}") };
    assert!(reason.starts_with("step a cannot run: its value is refused: "), "{reason}");
    assert!(reason.contains("it cannot be read back"), "{reason}");
    assert!(desk.view("seats/1").await.steps().is_empty());
    assert_eq!(desk.row("seat").await, None);
}

/// Where a result comes out of a workflow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Step,
    Once,
    Answer,
}

/// Its result is a number that JSON does not have, or too large.
#[derive(Clone)]
struct Returns(Place, bool);

impl Returns {
    fn value(&self) -> (Option<f64>, String) {
        let noise = || (0..600_000).map(|_| fastrand::alphanumeric()).collect();
        if self.1 { (None, noise()) } else { (Some(ODD), String::new()) }
    }
}

impl Workflow for Returns {
    const NAME: &'static str = "returns";
    type Input = ();
    type Output = (Option<f64>, String);

    async fn run(&self, flow: &Flow, (): ()) -> Result<(Option<f64>, String), Stop> {
        let work = |_| async { Ok(self.value()) };
        match self.0 {
            Place::Step => flow.step("a").run(work).await,
            Place::Once => flow.once("a").run(work).await,
            Place::Answer => Ok(self.value()),
        }
    }
}

#[tokio::test]
async fn result_that_cannot_be_stored_is_held_and_named() {
    const HELD: &str =
        "step a failed and needs an operator: it happened, but its result cannot be recorded: the ";
    for is_large in [false, true] {
        for (result, says) in [
            (Place::Step, HELD),
            (Place::Once, HELD),
            (Place::Answer, "the answer of the workflow cannot be recorded: the "),
        ] {
            let desk = Desk::new().await;
            let code = Returns(result, is_large);
            let outcome = desk.machine().0.start(&code, "returns/1", &()).run().await.expect("an outcome");
            let Outcome::Quarantined(reason) = outcome else { panic!("{result:?}: {outcome:?}") };
            assert!(reason.starts_with(says), "{result:?}: {reason}");
            assert!(!reason.contains("token"), "{result:?}: {reason}");
            let steps =
                desk.view("returns/1").await.steps().iter().map(|step| step.state()).collect::<Vec<_>>();
            let held = if result == Place::Once { vec![StepState::Held] } else { Vec::new() };
            assert_eq!(steps, held, "{result:?}");
        }
    }
}

/// Fails with a number that JSON does not have.
#[derive(Clone)]
struct Fails(bool);

impl Workflow for Fails {
    const NAME: &'static str = "fails";
    type Input = ();
    type Output = ();

    async fn run(&self, flow: &Flow, (): ()) -> Result<(), Stop> {
        let fails = |_| async { Err::<(), _>(Failure::permanent(ODD).code("odd")) };
        if self.0 { Ok(flow.once("a").outcome(fails).await??) } else { Err(Stop::fail(ODD)) }
    }
}

#[tokio::test]
async fn failure_that_json_would_change_stays_permanent() {
    for at_a_step in [false, true] {
        let desk = Desk::new().await;
        let outcome =
            desk.machine().0.start(&Fails(at_a_step), "fails/1", &()).run().await.expect("an outcome");
        let Outcome::Failed(failed) = outcome else { panic!("{outcome:?}") };
        assert_eq!(failed.failure().class(), Class::Permanent);
        let text: String = failed.failure().error().expect("a text");
        assert!(text.starts_with("the failure could not be stored whole: "), "{text}");
    }
}

/// Waits for a result from outside.
#[derive(Clone)]
struct Waits;

impl Workflow for Waits {
    const NAME: &'static str = "waits";
    type Input = ();
    type Output = Option<f64>;

    async fn run(&self, flow: &Flow, (): ()) -> Result<Option<f64>, Stop> {
        let lost = |_| async { Err::<Option<f64>, _>(Failure::in_doubt("no reply".to_owned())) };
        flow.once("a").run(lost).await
    }
}

async fn report(workflows: &Workflows, number: f64) -> Result<Reported, Error> {
    workflows.report("waits/1", "a").completed(&Some(number)).await
}

#[tokio::test]
async fn reported_result_that_json_would_change_is_refused() {
    let desk = Desk::new().await;
    let (workflows, wire) = desk.machine();
    workflows.start(&Waits, "waits/1", &()).run().await.expect("an outcome");
    wire.take();
    let error = report(&workflows, ODD).await.expect_err("refused");
    assert!(is_refused(&error), "{error:?}");
    assert_eq!(wire.count(), 0);
    assert_eq!(report(&workflows, 1.5).await.expect("an answer"), Reported::Recorded);
}

struct Nowhere;

impl Bodies for Nowhere {
    async fn put(&self, _: &str, _: Vec<u8>) -> Result<(), BoxError> {
        Err("nothing may be stored".into())
    }

    async fn get(&self, _: &str) -> Result<Option<Vec<u8>>, BoxError> {
        Ok(None)
    }
}

#[tokio::test]
async fn body_that_json_would_change_is_refused_before_it_is_stored() {
    let refused = ClaimCheck::new(Nowhere).store(&ODD).await.expect_err("refused");
    assert_eq!(refused.class(), Class::Permanent);
    let desk = Desk::new().await;
    let (workflows, _) = desk.machine();
    let error = workflows.outbox().message(NewMessage::new("rate/odd", &ODD)).expect_err("refused");
    assert!(error.to_string().contains("NaN or an infinite number"), "{error}");
}
