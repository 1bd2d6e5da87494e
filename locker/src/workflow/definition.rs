//! The trait that you implement: a workflow, and how its steps are compensated.

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::flow::Flow;
use super::limits::Limits;
use super::stop::Stop;
use crate::core::answer::{self, AnswerError};
use crate::core::private::Private;
pub use crate::core::workflow::compensation::Compensated;
use crate::error::BoxError;
use crate::failure::Failure;

/// The code of a workflow: it drives the workflow forward and compensates its steps.
///
/// The same code runs when a workflow is started and when it is resumed. Recorded steps are
/// skipped, but the code between steps may run any number of times, so keep it free of side
/// effects.
pub trait Workflow: Send + Sync + 'static {
    /// Name of the workflow. It is stored with each workflow, and a completer finds the code by it.
    /// Never change it while workflows are unfinished.
    const NAME: &'static str;
    /// Version of the code, from 1. Default: 1.
    ///
    /// Raise it with each change that adds, removes or renames a step. Code of a lower version then
    /// leaves the workflows alone that code of this version has started or driven: it knows nothing
    /// of the new steps. [`Flow::version`] tells such a workflow from a new one.
    const VERSION: u32 = 1;
    /// Input of the workflow. It is stored, so that the workflow can be resumed without its caller.
    type Input: Serialize + DeserializeOwned + Send + Sync;
    /// Answer of the workflow.
    type Output: Serialize + DeserializeOwned + Send;

    /// Drive the workflow from start to end; recorded steps are skipped.
    fn run(&self, flow: &Flow, input: Self::Input)
    -> impl Future<Output = Result<Self::Output, Stop>> + Send;

    /// The limits for workflows of this type. Default: those of the session, [`Limits`].
    ///
    /// They are checked before anything is written: a start, a completer and a reaper return
    /// [`Error::Invalid`](crate::Error::Invalid) for limits that no workflow can have.
    fn limits(&self, limits: Limits) -> Limits {
        limits
    }

    /// What happens when the attempts of a workflow of this type are exhausted. Default: an
    /// operator decides.
    fn exhausted(&self) -> Exhausted {
        Exhausted::Quarantine
    }

    /// What happens to a workflow that completes although an earlier run completed a `once` or
    /// `atomic` step that this code does not reach. Default: it is reported.
    fn unreached(&self) -> Unreached {
        Unreached::Report
    }

    /// Compensate a step that was declared with [`Once::compensate`](super::Once::compensate).
    ///
    /// The step may be **in doubt**: then there may be nothing to compensate; return
    /// [`Compensated::Nothing`]. If the step's request may still arrive at the provider, make the
    /// provider refuse it, or fail with [`Failure::in_doubt`], so that an operator decides.
    ///
    /// Steps that it makes of `flow` return a [`Stop`](super::Stop), which `?` turns into the
    /// [`Failure`] that it amounts to.
    ///
    /// Runs at most once under one idempotency key. It is retried while its failure is transient;
    /// if it fails permanently, the failure is kept and the workflow is quarantined.
    fn compensate(
        &self,
        flow: &Flow,
        compensation: Compensation,
    ) -> impl Future<Output = Result<Compensated, Failure>> + Send {
        let _ = flow;
        let error = format!("the workflow has no code for the compensation {}", compensation.name());
        async { Err(Failure::needs_operator(error)) }
    }

    /// Find out whether a compensation that is in doubt happened.
    fn probe_compensation(
        &self,
        compensation: &Compensation,
    ) -> impl Future<Output = Result<ProbeOutcome, BoxError>> + Send {
        let _ = compensation;
        async { Ok(ProbeOutcome::Unknown) }
    }
}

/// A step to compensate, and the parameters of its compensation.
#[derive(Debug, Clone)]
pub struct Compensation {
    pub(crate) step: String,
    pub(crate) name: String,
    pub(crate) input: Private<String>,
    pub(crate) result: Private<Option<String>>,
    pub(crate) late: bool,
    pub(crate) tried_under: Private<String>,
    pub(crate) idempotency_key: Private<String>,
}

impl Compensation {
    /// The name of the step.
    #[must_use]
    pub fn step(&self) -> &str {
        &self.step
    }

    /// The name of the compensation, as the step declared it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The input that the step declared for its compensation before it ran.
    ///
    /// # Errors
    ///
    /// [`AnswerError::Decode`] if it is of another type.
    pub fn input<T: DeserializeOwned>(&self) -> Result<T, AnswerError> {
        answer::from_json(&self.input)
    }

    /// The result of the step. `None`: the step is in doubt.
    ///
    /// # Errors
    ///
    /// [`AnswerError::Decode`] if it is of another type.
    pub fn result<T: DeserializeOwned>(&self) -> Result<Option<T>, AnswerError> {
        self.result.as_deref().map(answer::from_json).transpose()
    }

    /// Whether the outcome of the step arrived after it was cancelled and its compensation had
    /// found nothing.
    #[must_use]
    pub const fn is_late(&self) -> bool {
        self.late
    }

    /// The idempotency key of the step itself. Use it to make the provider refuse a step in doubt.
    #[must_use]
    pub fn tried_under(&self) -> &str {
        &self.tried_under
    }

    /// The idempotency key of the compensation, for its provider.
    #[must_use]
    pub fn idempotency_key(&self) -> &str {
        &self.idempotency_key
    }
}

/// What happens to a workflow whose attempts are exhausted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Exhausted {
    /// It is quarantined: an operator retries, compensates or closes it.
    Quarantine,
    /// It fails permanently: its steps are compensated. Source: seed 002.
    Compensate,
}

/// What happens to a workflow whose code does not reach a completed effect.
///
/// The code took another branch than an earlier run: because of the time, of a flag, or of a
/// deployment that renamed the step. The effect of each branch may have happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unreached {
    /// It completes. A warning is logged, `stepsNotReached` counts the steps, and the reason of the
    /// workflow names them.
    Report,
    /// It is quarantined: an operator compensates or closes it, or corrected code resumes it.
    Quarantine,
}

/// What a probe found out about a step in doubt.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProbeOutcome {
    /// The step happened, with this result as JSON.
    Done(String),
    /// The step has not happened and **will not**: it is safe to run it again.
    NotDone,
    /// Still unknown.
    Unknown,
}

impl std::fmt::Debug for ProbeOutcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Done(_) => "Done(..)",
            Self::NotDone => "NotDone",
            Self::Unknown => "Unknown",
        })
    }
}

impl ProbeOutcome {
    /// The step happened, with this result.
    ///
    /// # Errors
    ///
    /// [`AnswerError::Encode`] if the value has no JSON form.
    pub fn done(result: &impl Serialize) -> Result<Self, AnswerError> {
        answer::to_json(result).map(Self::Done)
    }
}
