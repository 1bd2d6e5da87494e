//! What a user writes: a workflow, and how its steps are undone.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::flow::Flow;
use super::stop::Stop;
use crate::core::answer::{self, AnswerError};
use crate::error::BoxError;
use crate::token::Failure;

/// The code of a workflow: what drives one forward, and what undoes its steps.
///
/// The same code is run by whoever starts a workflow and by whoever resumes it. A step that is recorded is
/// not run again, so between the steps the code may do what it likes, as long as it does not matter how often.
pub trait Workflow: Send + Sync + 'static {
    /// Stored with each workflow, so that a completer finds the code again. Never change it while
    /// workflows are on their way.
    const NAME: &'static str;
    /// What it is given. Stored, so that it can be driven on without its caller.
    type Input: Serialize + DeserializeOwned + Send + Sync;
    /// Its answer.
    type Output: Serialize + DeserializeOwned + Send;

    /// Drive it from the start to the end; what is recorded is skipped.
    fn run(&self, flow: &Flow, input: Self::Input)
    -> impl Future<Output = Result<Self::Output, Stop>> + Send;

    /// Undo a step that was declared with [`Once::compensate`](super::Once::compensate).
    ///
    /// The step may be **in doubt**: then there may be nothing to undo, and [`Undone::Nothing`] says so. If
    /// what was found to be nothing yet may still arrive at the provider, have the provider refuse it, or fail with
    /// [`Failure::in_doubt`] and a person looks.
    ///
    /// Runs at most once under one idempotency key, is tried again while the failure is transient, and is
    /// parked with its failure when it fails for good.
    fn undo(&self, flow: &Flow, undo: Undo) -> impl Future<Output = Result<Undone, Failure>> + Send {
        let _ = flow;
        let error = format!("the workflow has no code that undoes {}", undo.name());
        async { Err(Failure::needs_person(error)) }
    }

    /// Whether an undoing happened that was started and of which nobody knows how it ended.
    fn probe_undo(&self, undo: &Undo) -> impl Future<Output = Result<Found, BoxError>> + Send {
        let _ = undo;
        async { Ok(Found::Unknown) }
    }
}

/// A step that is to be undone.
#[derive(Clone)]
pub struct Undo {
    pub(crate) step: String,
    pub(crate) name: String,
    pub(crate) input: String,
    pub(crate) result: Option<String>,
    pub(crate) late: bool,
    pub(crate) tried_under: String,
    pub(crate) idempotency_key: String,
}

// What it was given and what it came to may be private.
impl std::fmt::Debug for Undo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Undo").field("step", &self.step).field("name", &self.name).finish_non_exhaustive()
    }
}

impl Undo {
    /// The step.
    #[must_use]
    pub fn step(&self) -> &str {
        &self.step
    }

    /// What is to be done, as the step declared it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it was declared with, before the step ran.
    ///
    /// # Errors
    ///
    /// [`AnswerError::Decode`] if it is of another type.
    pub fn input<T: DeserializeOwned>(&self) -> Result<T, AnswerError> {
        answer::from_json(&self.input)
    }

    /// What the step came to. `None`: nobody knows whether it happened.
    ///
    /// # Errors
    ///
    /// [`AnswerError::Decode`] if it is of another type.
    pub fn result<T: DeserializeOwned>(&self) -> Result<Option<T>, AnswerError> {
        self.result.as_deref().map(answer::from_json).transpose()
    }

    /// Whether the step's outcome came after it had been cancelled, and an undoing that found nothing.
    #[must_use]
    pub const fn is_late(&self) -> bool {
        self.late
    }

    /// The idempotency key that the step itself was tried under: what to tell a provider that is to refuse a step in
    /// doubt.
    #[must_use]
    pub fn tried_under(&self) -> &str {
        &self.tried_under
    }

    /// The key to hand to the provider of the undoing.
    #[must_use]
    pub fn idempotency_key(&self) -> &str {
        &self.idempotency_key
    }
}

/// What an undoing came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Undone {
    /// The step had happened, and is undone; or it can never happen any more.
    Done,
    /// The step has not happened. Should its outcome come later, it is undone then.
    Nothing,
}

/// What a probe found out about a step of which nobody knows how it ended.
#[derive(Clone, PartialEq, Eq)]
pub enum Found {
    /// It happened, with this result as JSON.
    Done(String),
    /// It has not happened and **will not**: it is safe to run it again.
    NotDone,
    /// Nobody knows yet.
    Unknown,
}

impl std::fmt::Debug for Found {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Done(_) => "Done(..)",
            Self::NotDone => "NotDone",
            Self::Unknown => "Unknown",
        })
    }
}

impl Found {
    /// It happened, with this result.
    ///
    /// # Errors
    ///
    /// [`AnswerError::Encode`] if the value has no JSON form.
    pub fn done(result: &impl Serialize) -> Result<Self, AnswerError> {
        answer::to_json(result).map(Self::Done)
    }
}
