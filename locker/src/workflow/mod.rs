//! Workflows: steps that run once each; a workflow is resumed, compensated, or quarantined for an
//! operator.
//!
//! ```
//! use locker::workflow::{Flow, Outcome, Stop, Workflow, Workflows};
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
//!         let valid = flow.step("validate").run(async |_| Ok(!address.is_empty())).await?;
//!         if !valid {
//!             return Err(Stop::fail("there is no address"));
//!         }
//!         // At most once: the provider receives the idempotency key, and no driver simply repeats the call.
//!         flow.once("label")
//!             .input(&address)
//!             .run(async |attempt| Ok(format!("label under {}", attempt.idempotency_key())))
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
//! unfinished. A renamed step is another step, and runs again. Each name stands for one step; in a
//! loop, add the item: `flow.once(("fund", 7))`. A step whose [`input`](Once::input) differs from
//! the recorded one quarantines the workflow.
//!
//! # When a step does not succeed
//!
//! The error of a step has a [`Class`](crate::Class). The step returns a [`Stop`]; pass it on with
//! `?`.
//!
//! | class | the step | the workflow |
//! |---|---|---|
//! | transient | is retried by its [`RetryPolicy`] | then waits for the completer |
//! | permanent | failed | if the code passes that on, steps are compensated, and the failure is the answer |
//! | needs an operator | a `once` is held; a `step` is not recorded | is quarantined |
//! | in doubt | sends the same key again, or asks its probe | is quarantined if neither is possible |
//!
//! # How a workflow ends
//!
//! The returned value alone does not end a workflow. The run also ends by the records of its steps,
//! and by each stop that a step returned, even if the code ignores it, unless it is a permanent
//! failure, a refusal or a cancelled step:
//!
//! - A workflow completes only if the outcome of each `once` step is known, reached by this run or
//!   not. A failure is compensated only then.
//! - A step that is held, or in doubt without a way to find out, quarantines the workflow. So does
//!   a step in doubt that the code dropped or no longer reaches.
//! - Until a step can no longer be at work, or while a step is to be retried or waits, the workflow
//!   waits. It resumes at the earliest of these times.
//!
//! `select!`, `try_join!` and timeouts drop steps, so use `join!`. When the code returns, no
//! further step begins.
//!
//! # Drivers
//!
//! The caller of [`StartBuilder::run`] drives a workflow. After a crash, the next caller with the
//! same key or the [`Completer`] resumes it once it is due. A driver claims the workflow by a
//! conditional write that also counts the attempt, and extends its claim while a step is within its
//! expected time. If a former driver wakes up, its writes are refused, or its outcome is adopted. A
//! [`Reaper`] deletes finished workflows.
//!
//! Code of a lower [`Workflow::VERSION`] leaves the workflows of newer code alone.

pub(crate) mod context;
mod definition;
mod driver;
mod event;
pub(crate) mod flow;
mod input;
mod limits;
#[cfg(feature = "messages")]
mod lines;
mod map;
mod operator;
mod outcome;
mod report;
mod run_time;
pub(crate) mod send;
mod signal;
mod start;
mod step;
mod stop;
mod unsent;
mod versions;
mod workflows;

pub use definition::{Compensated, Compensation, Exhausted, ProbeOutcome, Unreached, Workflow};
pub use driver::completer::Completer;
pub use driver::reaper::{Reaper, ReaperReport};
pub use driver::report::CompleterReport;
pub use event::{Event, Wait};
pub use flow::Flow;
pub use limits::Limits;
pub use operator::event::EventView;
#[cfg(feature = "operator")]
pub(crate) use operator::event::{NewEvent, is_event};
pub use operator::list::Summary;
#[cfg(feature = "operator")]
pub(crate) use operator::list::{LateEvent, late_events, waiting};
pub use operator::message::Message;
pub use operator::sent::SentReport;
pub use operator::view::{StepView, View};
#[cfg(feature = "operator")]
pub(crate) use operator::workflow::WorkflowAct;
pub use outcome::read::OutcomeBuilder;
pub use outcome::{Completion, Failed, Newer, Outcome, Waiting};
pub use report::ReportBuilder;
pub use signal::Signal;
pub use start::StartBuilder;
pub use step::atomic::{Atomic, Refused};
pub use step::attempt::StepAttempt;
pub use step::name::IntoStepName;
pub use step::once::Once;
pub use step::retry::RetryPolicy;
pub use step::step::Step;
pub use stop::{StepFailure, Stop};
pub use workflows::{Builder, Workflows};

pub use crate::core::workflow::event::{EventState, Signalled};
pub use crate::core::workflow::header::{Awaited, FailedRuns, List, State};
pub use crate::core::workflow::step::{Reported, StepKind, StepState};
pub use crate::store::workflow::{check_table, create_table};
