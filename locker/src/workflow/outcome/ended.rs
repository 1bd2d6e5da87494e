//! The outcome of a run, before the answer is decoded into its type.

use serde::de::DeserializeOwned;

use super::{Completion, Failed, Newer, Outcome, Waiting};
use crate::core::answer::{self, AnswerError};
use crate::core::workflow::header::State;
use crate::workflow::stop::StepFailure;

/// The outcome of a run of the driver, or the present state of a workflow.
#[derive(Debug)]
pub(crate) enum Ended {
    /// The answer, as JSON.
    Completed(String),
    Failed(StepFailure),
    Cancelled,
    /// It ended in this state, and an operator erased its answer or its failure.
    Erased(State),
    Quarantined(String),
    Waiting(Waiting),
    /// It continues under this partition, which no driver has yet.
    Continued(String, Waiting),
    Mismatch,
    Newer(Newer),
}

impl Ended {
    /// The outcome for the caller. `replayed`: an earlier call produced it.
    pub(crate) fn outcome<T: DeserializeOwned>(self, replayed: bool) -> Result<Outcome<T>, AnswerError> {
        Ok(match self {
            Self::Completed(json) => {
                Outcome::Completed(Completion { answer: answer::from_json(&json)?, replayed })
            }
            Self::Failed(failure) => Outcome::Failed(Failed { failure, replayed }),
            Self::Cancelled => Outcome::Cancelled,
            Self::Erased(_) => return Err(AnswerError::Redacted),
            Self::Quarantined(reason) => Outcome::Quarantined(reason),
            Self::Waiting(waiting) | Self::Continued(_, waiting) => Outcome::InProgress(waiting),
            Self::Mismatch => Outcome::Mismatch,
            Self::Newer(versions) => Outcome::Newer(versions),
        })
    }
}
