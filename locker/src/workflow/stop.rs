//! Why a workflow does not go on.

use chrono::{DateTime, Utc};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::core::answer::{self, AnswerError};
use crate::core::workflow::name::InvalidName;
use crate::error::Error;
use crate::token::Class;

/// Why a step, and with it the workflow, does not go on. Hand it on with `?`, unless the workflow has
/// another way to its end.
///
/// | stop | what becomes of the workflow when it is handed on |
/// |---|---|
/// | [`Failed`](Self::Failed), [`Refused`](Self::Refused) | undone as far as it can be, then failed for good |
/// | [`Cancelled`](Self::Cancelled) | the same |
/// | [`Later`](Self::Later) | waits, and is driven on by a completer |
/// | [`InDoubt`](Self::InDoubt) | waits if the code can find out; otherwise parked for a person |
/// | [`NeedsPerson`](Self::NeedsPerson), [`UndoFailed`](Self::UndoFailed), [`Changed`](Self::Changed), [`Invalid`](Self::Invalid) | parked for a person |
/// | [`Lost`](Self::Lost) | somebody else drives it |
/// | [`Store`](Self::Store) | waits; the attempt does not count against it |
///
/// No message shows a key, an input or a result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Stop {
    /// A step failed for good, or the workflow itself says that it has.
    #[error("the workflow failed for good{}", at_step(&.0.step))]
    Failed(StepFailure),
    /// Conditions of the caller's own writes failed, so nothing of the step was written.
    #[error("conditions of step {step} failed, at its writes {writes:?}; nothing of it was written")]
    Refused {
        /// Its name.
        step: String,
        /// Which writes, counted from 0 in the order in which they were added.
        writes: Vec<usize>,
    },
    /// The step was cancelled before it started, or has been undone.
    #[error("step {step} was cancelled and may not run")]
    Cancelled {
        /// Its name.
        step: String,
    },
    /// It cannot be now: the tries are used up, or somebody else may be at it.
    #[error("step {step} is to be tried again after {at}: {cause}")]
    Later {
        /// Its name.
        step: String,
        /// Not before this time.
        at: DateTime<Utc>,
        /// Why.
        cause: String,
        /// Whether this counts as a try of the workflow.
        counts: bool,
    },
    /// The step was started, and nobody knows whether it happened.
    #[error("nobody knows whether step {step} happened")]
    InDoubt {
        /// Its name.
        step: String,
        /// Whether the code may still find out: by a probe, or by a key that the provider recognises.
        resolvable: bool,
    },
    /// The step failed, and a person has to look.
    #[error("step {} failed and needs a person", .0.step.as_deref().unwrap_or("-"))]
    NeedsPerson(StepFailure),
    /// Undoing a step failed for good. The failure is kept, beside the first one.
    #[error("undoing step {} failed", .0.step.as_deref().unwrap_or("-"))]
    UndoFailed(StepFailure),
    /// A step of that name is recorded with another input or as another kind of step.
    #[error("step {step} is recorded with another {what}; give a changed step another name")]
    Changed {
        /// Its name.
        step: String,
        /// What differs.
        what: &'static str,
    },
    /// The code asks for what cannot be. Nothing was done.
    #[error("step {step} cannot run: {reason}")]
    Invalid {
        /// Its name.
        step: String,
        /// What is wrong, and what to do.
        reason: String,
    },
    /// Somebody else drives the workflow now, or ended it. Do nothing more.
    #[error("somebody else has taken the workflow over")]
    Lost,
    /// DynamoDB did not answer.
    #[error(transparent)]
    Store(#[from] Error),
}

fn at_step(step: &Option<String>) -> String {
    step.as_ref().map(|step| format!(" at step {step}")).unwrap_or_default()
}

impl Stop {
    /// The workflow has failed for good, though no step says so.
    #[must_use]
    pub fn fail(error: impl Serialize) -> Self {
        match StepFailure::of(None, Class::Permanent, &error) {
            Ok(failure) => Self::Failed(failure),
            Err(error) => Self::Store(error.into()),
        }
    }

    pub(crate) fn invalid(step: &str, reason: impl std::fmt::Display) -> Self {
        Self::Invalid { step: step.to_owned(), reason: reason.to_string() }
    }

    pub(crate) fn name(step: &str, name: &InvalidName) -> Self {
        Self::invalid(step, name)
    }

    /// What a person reads, without what a step was given or gave.
    pub(crate) fn reason(&self) -> String {
        const LONGEST: usize = 200;
        let mut reason = self.to_string();
        if let Some((end, _)) = reason.char_indices().nth(LONGEST) {
            reason.truncate(end);
        }
        reason
    }
}

/// How a step failed.
#[derive(Clone)]
pub struct StepFailure {
    pub(crate) step: Option<String>,
    pub(crate) class: Class,
    pub(crate) json: String,
}

/// A failure as it is stored.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Stored {
    #[serde(skip_serializing_if = "Option::is_none")]
    step: Option<String>,
    class: Class,
    /// JSON text, kept to the letter.
    error: String,
}

impl StepFailure {
    pub(crate) fn of(step: Option<&str>, class: Class, error: &impl Serialize) -> Result<Self, AnswerError> {
        let json = answer::to_json(error)?;
        Ok(Self { step: step.map(str::to_owned), class, json })
    }

    /// The step that failed, if it was one.
    #[must_use]
    pub fn step(&self) -> Option<&str> {
        self.step.as_deref()
    }

    /// What the failure means.
    #[must_use]
    pub const fn class(&self) -> Class {
        self.class
    }

    /// The error as JSON text.
    #[must_use]
    pub fn json(&self) -> &str {
        &self.json
    }

    /// The error.
    ///
    /// # Errors
    ///
    /// [`AnswerError::Decode`] if it is of another type.
    pub fn error<E: DeserializeOwned>(&self) -> Result<E, AnswerError> {
        answer::from_json(&self.json)
    }

    pub(crate) fn to_stored(&self) -> Result<String, AnswerError> {
        let Self { step, class, json } = self.clone();
        answer::to_json(&Stored { step, class, error: json })
    }

    pub(crate) fn from_stored(json: &str) -> Result<Self, AnswerError> {
        let Stored { step, class, error } = serde_json::from_str(json)
            .map_err(|_| AnswerError::Damaged { reason: "it is not a failure of a step" })?;
        Ok(Self { step, class, json: error })
    }
}

// Errors may be private.
impl std::fmt::Debug for StepFailure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "StepFailure({:?}, {}, {} bytes)", self.step, self.class.as_str(), self.json.len())
    }
}
