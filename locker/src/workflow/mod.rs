//! Workflows: several things, once each, resumed or undone or shown to a person.
//!
//! ```
//! # locker_tests::example(async |dynamodb| {
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
//!         // At least once: run again if nobody knows whether it was recorded.
//!         let valid: bool = flow.step("validate").run(|_| async { Ok::<_, Failure>(!address.is_empty()) }).await?;
//!         if !valid {
//!             return Err(Stop::fail("there is no address"));
//!         }
//!         // At most once: the provider is handed a key, and nobody repeats it by himself.
//!         flow.once("label")
//!             .input(&address)
//!             .run(|attempt| async move { Ok::<_, Failure>(format!("label under {}", attempt.idempotency_key())) })
//!             .await
//!     }
//! }
//!
//! locker::workflow::create_workflow_table(&dynamodb, "workflows").await?;
//! let workflows = Workflows::new(&dynamodb, "workflows")?;
//! for _ in 0..2 {
//!     let outcome = workflows.workflow(&Ship, ("ship", 7), &"1 High Street".to_owned()).run().await?;
//!     // The second time round this is the stored answer.
//!     let Outcome::Completed(label) = outcome else { panic!("{outcome:?}") };
//!     assert_eq!(*label, "label under ship/7 label");
//! }
//! # Ok(())
//! # });
//! ```
//!
//! # Three kinds of step
//!
//! | step | runs | writes | a crash between the effect and its record |
//! |---|---|---|---|
//! | [`Flow::step`] | at least once | 1 | it runs again |
//! | [`Flow::once`] | at most once | 2 and a read of half a unit's price | **in doubt**: never run again by itself |
//! | [`Flow::atomic`] | exactly once, inside DynamoDB | 1 transaction | cannot be: they are one |
//!
//! Steps are found by their **names**: code may be reordered and steps added while workflows are on their
//! way. A name stands for one step, so a loop adds what it is about: `fund#7`. If a step's
//! [`input`](Once::input) is another than the recorded one, that is an error and not silence.
//!
//! # When a step does not succeed
//!
//! A step's error says what it means ([`Class`](crate::Class)), and [`Stop`] is what the workflow makes of it: hand it on with `?`.
//!
//! | the step says | the workflow |
//! |---|---|
//! | transient | tries again by its [`RetryPolicy`], then waits for the completer |
//! | permanent | gets [`Stop::Failed`]; handed on, what was done is undone, and the failure is the answer |
//! | needs a person | is parked in quarantine |
//! | in doubt | asks the step's probe, or sends the provider the same key again, or is parked |
//!
//! # Who drives it
//!
//! The caller of [`Start::run`], and after a crash whoever comes with the same key once it is due, or the
//! [`Completer`]. Each takes it by a conditional write and counts the attempt there; the former owner, should it
//! wake, finds each of its steps recorded or refused. A [`Reaper`] forgets what is finished.

mod adopt;
mod atomic;
mod attempt;
mod claim;
mod compensate;
mod completed;
mod completer;
mod definition;
mod drive;
mod fence;
mod flow;
mod late;
mod list;
mod once;
mod operate;
mod operate_step;
mod outcome;
mod reaper;
mod registry;
mod retry;
mod start;
mod starting;
mod step;
mod stop;
mod view;
mod workflows;
mod working;

pub use atomic::Atomic;
pub use attempt::StepAttempt;
pub use completed::Completed;
pub use completer::Completer;
pub use definition::{Found, Undo, Undone, Workflow};
pub use flow::Flow;
pub use list::{WorkflowListing, WorkflowSummary, WorkflowsListed};
pub use once::Once;
pub use operate::Intervened;
pub use outcome::{Failed, Outcome, Replayed, Waiting};
pub use reaper::{Reaped, Reaper};
pub use retry::RetryPolicy;
pub use start::Start;
pub use step::Step;
pub use stop::{StepFailure, Stop};
pub use view::{Message, StepView, WorkflowView};
pub use workflows::{Limits, Workflows, WorkflowsBuilder};

pub use crate::core::workflow::header::{Listed, WorkflowState};
pub use crate::core::workflow::name::{InvalidName, MAX_NAME_BYTES};
pub use crate::core::workflow::record::{StepKind, StepState};
pub use crate::store::{check_workflow_table, create_workflow_table};
