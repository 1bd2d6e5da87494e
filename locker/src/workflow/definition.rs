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
/// effects. Its branches must depend only on the input and on results of steps: a branch that
/// depends on the clock or on a flag may differ in the next run, and both effects happen.
pub trait Workflow: Send + Sync + 'static {
    /// Name of the workflow. It is stored with each workflow, and a completer finds the code by it.
    /// Never change it while workflows are unfinished.
    const NAME: &'static str;
    /// Version of the code, from 1. Default: 1.
    ///
    /// Raise it with each change that adds, removes or renames a step. If code of this version has
    /// started or driven a workflow, code of a lower version skips the workflow: a completer counts
    /// it as [`unknown`](super::CompleterReport::unknown), and a caller receives
    /// [`Outcome::Newer`](super::Outcome::Newer). [`Flow::version`] records which branch a workflow
    /// takes.
    const VERSION: u32 = 1;
    /// Input of the workflow. It is stored, so that the workflow can be resumed without its caller.
    type Input: Serialize + DeserializeOwned + Send + Sync;
    /// Answer of the workflow.
    type Output: Serialize + DeserializeOwned + Send;

    /// Runs the workflow from start to end. Recorded steps are skipped.
    ///
    /// The workflow ends by the records of its steps and by each [`Stop`] that a step returned, not
    /// by the returned value alone. When this future returns, no further step begins.
    fn run(&self, flow: &Flow, input: Self::Input)
    -> impl Future<Output = Result<Self::Output, Stop>> + Send;

    /// Returns the limits for workflows of this type. Default: those of the session, [`Limits`].
    ///
    /// They are checked before anything is written: a start, a completer and a reaper return
    /// [`Error::Invalid`](crate::Error::Invalid) for limits that no workflow can have.
    fn limits(&self, limits: Limits) -> Limits {
        limits
    }

    /// Returns the policy for workflows whose attempts are exhausted. Default:
    /// [`Exhausted::Quarantine`], so that an operator decides.
    fn exhausted(&self) -> Exhausted {
        Exhausted::Quarantine
    }

    /// Returns the policy for a workflow that completes although an earlier run completed a `once`
    /// or `atomic` step that this code does not reach. Default: [`Unreached::Report`].
    fn unreached(&self) -> Unreached {
        Unreached::Report
    }

    /// Compensates a step that was declared with [`Once::compensate`](super::Once::compensate).
    /// [`Compensation::undo`] is the value that the step declared.
    ///
    /// A failed workflow is compensated once no effect is at work or in doubt. If an operator
    /// cancels the workflow, or [`exhausted`](Self::exhausted) selects compensation, the step may
    /// be **in doubt**: then [`Compensation::result`] is `None`. Return
    ///
    /// - [`Compensated::Done`] if the effect is reversed, or can never happen, because the provider
    ///   refuses [`tried_under`](Compensation::tried_under) from now on;
    /// - [`Compensated::Nothing`] if there is no effect. An outcome that is recorded later is
    ///   compensated then;
    /// - [`Failure::in_doubt`] if the request may still arrive. An operator decides.
    ///
    /// A step of `flow` returns a [`Stop`](super::Stop), and `?` converts it into a [`Failure`]. If
    /// such a step has to wait or to be retried, this code runs again from its start. So in a
    /// compensation that calls steps, do **each effect in a step**.
    ///
    /// It may run again under the same idempotency key: after a transient failure; if it is in
    /// doubt, within the time of [`compensate_within`](super::Once::compensate_within); and after
    /// [`ProbeOutcome::NotDone`]. So send the key with the effect. If it fails permanently, the
    /// failure is stored and the workflow is quarantined.
    fn compensate(
        &self,
        flow: &Flow,
        compensation: Compensation,
    ) -> impl Future<Output = Result<Compensated, Failure>> + Send {
        let _ = flow;
        let error = format!("the workflow has no code for the compensation {}", compensation.name());
        async { Err(Failure::needs_operator(error)) }
    }

    /// Finds out whether a compensation that is in doubt happened. Default:
    /// [`ProbeOutcome::Unknown`].
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

    /// The name of the variant that the step declared.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The variant that the step declared before it ran
    /// ([`Once::compensate`](super::Once::compensate)), as a value of the same enum.
    ///
    /// # Errors
    ///
    /// A [`Failure`] that needs an operator if the enum has no such variant, or the variant has
    /// another content: the workflow is quarantined, and its reason names the variant. Deploy a
    /// type that reads it, and retry the step of the compensation, such as `compensation:charge`.
    pub fn undo<U: DeserializeOwned>(&self) -> Result<U, Failure> {
        let variant = format!("{{{}:{}}}", answer::text(&self.name), *self.input);
        answer::from_json_by_field(&variant).map_err(|why| {
            let name = &self.name;
            Failure::needs_operator(format!(
                "the code cannot read its stored compensation {name}: {why}; deploy code that does, then retry the step of the compensation"
            ))
        })
    }

    /// The result of the step. `None`: the step is in doubt.
    ///
    /// # Errors
    ///
    /// A [`Failure`] that needs an operator if it is of another type.
    pub fn result<T: DeserializeOwned>(&self) -> Result<Option<T>, Failure> {
        self.result.as_deref().map(answer::from_json).transpose().map_err(|error| {
            Failure::needs_operator(format!(
                "the code cannot read the result of step {}: {error}; deploy code that does, then retry",
                self.step
            ))
        })
    }

    /// Whether the outcome of the step arrived after its compensation had returned
    /// [`Compensated::Nothing`].
    #[must_use]
    pub const fn is_late(&self) -> bool {
        self.late
    }

    /// The idempotency key that the provider received for the step. Use it to make the provider
    /// refuse a step in doubt.
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

/// The policy for a workflow whose attempts are exhausted. See [`Workflow::exhausted`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Exhausted {
    /// It is quarantined: an operator retries, cancels or closes it.
    Quarantine,
    /// It fails permanently, even after panics and lost drivers. Its steps are compensated, even a
    /// step in doubt. While a step may still be running, the workflow waits first.
    ///
    /// Its failure is the failure that the code returned or, without one, the step that was
    /// exhausted. After panics and lost drivers it names no step.
    Compensate,
}

/// The policy for a workflow whose code does not reach a completed effect. See
/// [`Workflow::unreached`].
///
/// The code took another branch than an earlier run: it depends on the time or on a flag, or a
/// deployment renamed the step. Both effects may have happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unreached {
    /// It completes. A warning is logged, the metric `stepsNotReached` counts the steps, and the
    /// reason of the workflow names them.
    Report,
    /// It is quarantined: an operator cancels or closes it, or retries it with corrected code.
    Quarantine,
}

/// The answer of a probe about a step in doubt.
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
