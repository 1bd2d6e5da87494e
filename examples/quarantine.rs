//! A workflow that needs an operator: its state, its steps, and how it ends.
//!
//! Run it with `cargo run -p locker-examples --bin quarantine`.

use std::time::Duration;

use lock_token_testing::Embedded;
use locker::workflow::{
    Exhausted, FailedRuns, Flow, List, Outcome, RetryPolicy, StepKind, StepState, StepView, Stop, Summary,
    View, Workflow, Workflows,
};
use locker::{BoxError, Class, Classify, Intervened, Operator};
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// An error of the carrier. Its class determines the state of the step.
#[derive(Debug, Error, Serialize, Deserialize)]
enum CarrierError {
    #[error("the carrier is busy")]
    Busy,
    #[error("the carrier did not reply")]
    NoReply,
}

impl Classify for CarrierError {
    fn class(&self) -> Class {
        match self {
            Self::Busy => Class::Transient,
            Self::NoReply => Class::InDoubt,
        }
    }

    fn code(&self) -> Option<String> {
        Some(format!("carrier.{self:?}"))
    }
}

fn rate(attempt: u32) -> Result<u64, CarrierError> {
    if attempt == 1 { Err(CarrierError::Busy) } else { Ok(490) }
}

fn label() -> Result<String, CarrierError> {
    Err(CarrierError::NoReply)
}

struct Ship;

impl Workflow for Ship {
    const NAME: &'static str = "ship";
    type Input = String;
    type Output = String;

    async fn run(&self, flow: &Flow, address: String) -> Result<String, Stop> {
        // A request for a rate has no effect, so the step may run again.
        let policy = RetryPolicy::default().max_attempts(5).initial_interval(Duration::from_millis(1));
        let cents = flow.step("rate").retry(policy).run(async |it| Ok(rate(it.number())?)).await?;
        // The carrier does not recognise a key, so only an operator can find out if a label exists.
        let label = flow.once("label").input(&address).run(async |_| Ok(label()?)).await?;
        Ok(format!("{label}, for {cents}"))
    }

    /// An operator decides about a workflow that used up its attempts.
    fn exhausted(&self) -> Exhausted {
        Exhausted::Quarantine
    }
}

fn print_step(step: &StepView) {
    let kind = match step.kind() {
        StepKind::Atomic => "exactly once",
        StepKind::Step => "at least once",
        _ => "at most once",
    };
    let state = match step.state() {
        StepState::Started => "no outcome",
        state => state.as_str(),
    };
    println!("step {} ({kind}): {state}", step.name());
}

fn print_view(view: &View) {
    let list = view.listed().map_or("in no list", List::as_str);
    println!("{} is {}, {list}: {}", view.name(), view.state().as_str(), view.reason().unwrap_or("-"));
    view.steps().iter().for_each(print_step);
    for FailedRuns { runs, cause, .. } in view.failed_runs() {
        println!("{runs} failed run(s): {cause}");
    }
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let dynamodb = Embedded::memory()?.client();
    locker::workflow::create_table(&dynamodb, "workflows").await?;
    assert!(locker::workflow::check_table(&dynamodb, "workflows").await?.problems.is_empty());
    let workflows = Workflows::new(&dynamodb, "workflows")?;
    let start = || workflows.start(&Ship, ("ship", 7), &"1 High Street".to_owned());
    let Outcome::Quarantined(reason) = start().run().await? else { return Err("it is in doubt".into()) };
    println!("the caller receives: {reason}");

    for Summary { workflow, .. } in workflows.list(List::Quarantine).fetch().await?.items {
        let Some(view) = workflows.get_listed(&workflow).await? else { continue };
        print_view(&view);
        // The carrier's records contain the label, so an operator gives the result of the step.
        let bob = Operator::new("bob", "the carrier has label 17")?;
        let done = workflows.resolve_step(&view, "label", &"label 17".into(), &bob).await?;
        assert!(matches!(done, Intervened::Done), "{done:?}");
    }

    // The next driver continues: a completer, or a caller with the same key.
    if let Outcome::Completed(label) = start().run().await? {
        println!("ship 7: {}", *label);
    }
    Ok(())
}
