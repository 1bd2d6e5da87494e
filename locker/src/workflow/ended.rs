//! The outcome of a run, before the answer is decoded into its type.

use super::outcome::Waiting;
use super::stop::StepFailure;

/// The outcome of a run of the driver, or the present state of a workflow.
#[derive(Debug)]
pub(crate) enum Ended {
    /// The answer, as JSON.
    Completed(String),
    Failed(StepFailure),
    Cancelled,
    Quarantined(String),
    Waiting(Waiting),
    Mismatch,
}
