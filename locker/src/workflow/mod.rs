//! Workflows: steps that run once each; a workflow is resumed, compensated, or quarantined for an
//! operator.
//!
//! ```
//! use locker::workflow::{Flow, Outcome, Stop, Workflow, Workflows};
//! use locker::Failure;
//!
//! struct Ship;
//!
//! impl Workflow for Ship {
//!     const NAME: &'static str = "ship";
//!     type Input = String;
//!     type Output = String;
//!
//!     async fn run(&self, flow: &Flow, address: String) -> Result<String, Stop> {
//!         // At least once: it runs again if its result may not have been recorded.
//!         let valid: bool = flow.step("validate").run(|_| async { Ok::<_, Failure>(!address.is_empty()) }).await?;
//!         if !valid {
//!             return Err(Stop::fail("there is no address"));
//!         }
//!         // At most once: the provider gets an idempotency key, and no driver repeats the call on its own.
//!         flow.once("label")
//!             .input(&address)
//!             .run(|attempt| async move { Ok::<_, Failure>(format!("label under {}", attempt.idempotency_key())) })
//!             .await
//!     }
//! }
//!
//! #[tokio::main]
//! async fn main() -> Result<(), locker::BoxError> {
//!     // From the package `lock-token-testing`; on AWS Lambda, `locker::client::lambda()?`.
//!     let dynamodb = lock_token_testing::Embedded::memory()?.client();
//!     locker::workflow::create_table(&dynamodb, "workflows").await?;
//!     let workflows = Workflows::new(&dynamodb, "workflows")?;
//!     for _ in 0..2 {
//!         let outcome = workflows.start(&Ship, ("ship", 7), &"1 High Street".to_owned()).run().await?;
//!         // The second call returns the stored answer.
//!         let Outcome::Completed(label) = outcome else { panic!("{outcome:?}") };
//!         assert_eq!(*label, "label under ship/7 label");
//!     }
//!     Ok(())
//! }
//! ```
//!
//! # Three kinds of step
//!
//! | step | runs | writes | a crash between the effect and its record |
//! |---|---|---|---|
//! | [`Flow::step`] | at least once | 1 | it runs again |
//! | [`Flow::once`] | at most once | 2, and 1 read | **in doubt**: never run again by itself |
//! | [`Flow::atomic`] | exactly once, inside DynamoDB | 1 transaction | impossible: both are one transaction |
//!
//! Steps are identified by their **names**: you can reorder code and add steps while workflows are
//! running. Each name stands for one step; in a loop, add the item to the name: `fund#7`. A step
//! whose [`input`](Once::input) differs from the recorded one is an error, [`Stop::Changed`].
//!
//! # When a step does not succeed
//!
//! The error of a step has a [`Class`](crate::Class), which decides what the workflow does. The
//! step returns a [`Stop`]; pass it on with `?`.
//!
//! | the step's error is | the workflow |
//! |---|---|
//! | transient | retries by the step's [`RetryPolicy`], then waits for the completer |
//! | permanent | gets [`Stop::Failed`]; if that is passed on, steps are compensated, and the failure is the answer |
//! | needs an operator | is quarantined |
//! | in doubt | asks the step's probe, sends the provider the same key again, or is quarantined |
//!
//! # Drivers
//!
//! A workflow is driven by the caller of [`StartBuilder::run`]; after a crash, once it is due, by
//! the next caller with the same key or by the [`Completer`]. Each of them claims it by a
//! conditional write that also counts the attempt; if the former driver wakes up, it finds each of
//! its steps recorded or refused. A [`Reaper`] deletes finished workflows.

pub(crate) mod context;
mod definition;
mod driver;
pub(crate) mod flow;
mod limits;
mod operator;
mod outcome;
mod report;
mod run_time;
pub(crate) mod send;
mod start;
mod step;
mod stop;
mod unsent;
mod workflows;

pub use definition::{Compensated, Compensation, Exhausted, ProbeOutcome, Unreached, Workflow};
pub use driver::completer::Completer;
pub use driver::reaper::{Reaper, ReaperReport};
pub use driver::report::CompleterReport;
pub use flow::Flow;
pub use limits::Limits;
pub use operator::list::Summary;
pub use operator::message::Message;
pub use operator::sent::SentReport;
pub use operator::view::{StepView, View};
#[cfg(feature = "operator")]
pub(crate) use operator::workflow::WorkflowAct;
pub use outcome::read::OutcomeBuilder;
pub use outcome::{Completion, Failed, Newer, Outcome, Waiting};
pub use report::ReportBuilder;
pub use start::StartBuilder;
pub use step::atomic::Atomic;
pub use step::attempt::StepAttempt;
pub use step::once::Once;
pub use step::retry::RetryPolicy;
pub use step::step::Step;
pub use stop::{StepFailure, Stop};
pub use workflows::{Builder, Workflows};

pub use crate::core::workflow::header::{FailedRuns, List, State};
pub use crate::core::workflow::step::{Reported, StepKind, StepState};
pub use crate::store::workflow::{check_table, create_table};
