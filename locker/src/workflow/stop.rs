//! Reasons why a step or a workflow cannot continue.

use std::time::Duration;

use chrono::{DateTime, Utc};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::core::answer::{self, AnswerError};
use crate::core::class::Class;
use crate::core::name::InvalidName;
use crate::core::private::Private;
use crate::core::workflow::ending::NeedKind;
use crate::core::workflow::header::Awaited;
use crate::core::{cause, time};
use crate::error::{BoxError, Error};
use crate::failure::{self, Classify, Failure};
use crate::workflow::flow::is_in_step;

/// The reason why a run of a workflow cannot continue. Pass it on with `?`.
///
/// If the code ignores a stop, the workflow still does not end until the step was called again and
/// returned an outcome. **A permanent failure, a refusal and a cancelled step are outcomes:** if
/// the code ignores them, it continues, and the workflow may complete. To handle the failure of a
/// step, ask for its [`outcome`](super::Once::outcome) instead.
///
/// | the stop comes from | the workflow |
/// |---|---|
/// | a step that failed permanently, or was refused or cancelled; [`Stop::fail`]; a permanent [`Failure`] | is compensated and fails, once no effect is at work or in doubt |
/// | a step that can be retried later, or waits; a transient [`Failure`] | waits, and is resumed by a completer |
/// | a step in doubt | waits if the code can find out; otherwise quarantined |
/// | a step that needs an operator, an invalid request, a result that cannot be read; another [`Failure`]; any [error](std::error::Error) of the code between its steps | quarantined |
/// | [`Flow::continue_as_new`](super::Flow::continue_as_new) | ends, and continues as the next version of its key |
/// | another driver that runs the workflow, or its end | nothing is written |
/// | DynamoDB that cannot be reached or that refuses | waits, and the attempt counts only after [`Error::Denied`] |
///
/// If several branches stop, the first that applies decides: lost, quarantined, failed, waits. A
/// failure that the code passes on ends a retry of another branch, or a wait of the workflow. The
/// failure itself waits while a `once` may be running or is in doubt.
///
/// `?` converts an error of the code between its steps, such as of `parse`: the workflow is
/// quarantined, and an operator retries it with corrected code. To let the workflow fail instead,
/// give the error a class: `text.parse().permanent()?`, see [`OfClass`](crate::OfClass).
///
/// No text of a stop contains a key, an input or a result. It contains the cause of a failure
/// ([`Classify::cause`]) and the text of an error between steps.
#[must_use = "pass it on with `?`, so that the workflow stops here"]
pub struct Stop(Box<StopKind>);

impl std::fmt::Debug for Stop {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl std::fmt::Display for Stop {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl Stop {
    /// Fails the workflow permanently with this error, without a failed step.
    pub fn fail(error: impl Serialize) -> Self {
        StopKind::Failed(StepFailure::of(None, Class::Permanent, &error)).into()
    }

    pub(crate) fn kind(self) -> StopKind {
        *self.0
    }

    /// Whether the workflow continues as another version of its key.
    pub(crate) fn continues(&self) -> bool {
        matches!(*self.0, StopKind::Continue(_))
    }

    /// Whether it is an outcome, which holds no workflow: the code may handle it.
    pub(crate) fn is_outcome(&self) -> bool {
        self.0.need().is_none()
    }
}

/// An error of the code between its steps. The workflow is quarantined, except for an [`Error`] of
/// a request to DynamoDB.
impl<E: std::error::Error + Send + Sync + 'static> From<E> for Stop {
    fn from(error: E) -> Self {
        let error: BoxError = Box::new(error);
        // A step of the library returned it.
        let error = match error.downcast::<StopKind>() {
            Ok(kind) => return Self(kind),
            Err(error) => error,
        };
        Self(Box::new(match error.downcast::<Error>() {
            Ok(error) => StopKind::Store(*error),
            Err(error) => StopKind::Code(error.to_string()),
        }))
    }
}

/// A failure between steps. Its class determines the next state of the workflow.
impl<E: Serialize + DeserializeOwned> From<Failure<E>> for Stop {
    fn from(failure: Failure<E>) -> Self {
        let why = StepFailure { step: None, ..StepFailure::classified("", &failure) };
        Self(Box::new(match failure.class {
            Class::Permanent => StopKind::Failed(why),
            Class::Transient => StopKind::Again(why.cause),
            Class::NeedsOperator | Class::InDoubt => StopKind::NeedsOperator(why),
        }))
    }
}

/// The reason of a [`Stop`].
#[derive(Debug, thiserror::Error)]
pub(crate) enum StopKind {
    /// A step failed permanently, or the workflow called [`Stop::fail`].
    #[error("the workflow failed permanently{}{}", at_step(&.0.step), because(&.0.cause))]
    Failed(StepFailure),
    /// Conditions of the writes of the step failed, so none of them was applied.
    #[error("step {step} was refused: the conditions of its writes {writes:?} failed; nothing was written")]
    Refused {
        /// The name of the step.
        step: String,
        /// The writes whose conditions failed, counted from 0 in the order in which they were
        /// added.
        writes: Vec<usize>,
    },
    /// The step was cancelled before it started, or has been compensated.
    #[error("step {step} was cancelled or compensated and cannot run")]
    Cancelled {
        /// The name of the step.
        step: String,
    },
    /// The step cannot run now: its retries in this run are exhausted, the remaining time is too
    /// short, another driver may be running it, or newer code must run it.
    #[error("step {step} can be retried after {}: {cause}", time::to_text(*at))]
    Later {
        /// The name of the step.
        step: String,
        /// The earliest time of the next attempt.
        at: DateTime<Utc>,
        /// Why it cannot run now.
        cause: String,
        /// Whether this counts as an attempt of the workflow.
        counts: bool,
        /// The time for which the workflow is retried because of this step, if its retry policy
        /// sets one.
        retry_for: Option<Duration>,
    },
    /// The code waits on purpose. See [`Flow::sleep`](super::Flow::sleep).
    #[error("it waits until {}", time::to_text(*until))]
    Waiting {
        /// When it is resumed.
        until: DateTime<Utc>,
    },
    /// The code ends this version of the key, and the next one starts with this input, as JSON.
    #[error("the workflow continues as the next version of its key")]
    Continue(Private<String>),
    /// The code waits for an event or a timer. See [`Flow::wait_for`](super::Flow::wait_for) and
    /// [`Flow::sleep`](super::Flow::sleep).
    #[error("it waits for {_0} until {}", time::to_text(_0.until))]
    Awaits(Awaited),
    /// The step was started, and its outcome is unknown.
    #[error("step {step} is in doubt: it may or may not have happened{}", because(cause))]
    InDoubt {
        /// The name of the step.
        step: String,
        /// Whether the code may still find out: by a probe, or by an idempotency key that the
        /// provider recognises.
        resolvable: bool,
        /// The cause of the last failure. Empty if it is unknown.
        cause: String,
        /// Where it is stored.
        item: String,
        /// The time for which the workflow is retried because of this step, if its retry policy
        /// sets one.
        retry_for: Option<Duration>,
    },
    /// The step failed and needs an operator.
    #[error("step {} failed and needs an operator{}", .0.step.as_deref().unwrap_or("-"), because(&.0.cause))]
    NeedsOperator(StepFailure),
    /// The compensation of a step failed permanently. Its failure is kept together with the first
    /// one.
    #[error("the compensation of step {} failed{}", .0.step.as_deref().unwrap_or("-"), because(&.0.cause))]
    CompensationFailed(StepFailure),
    /// A step of this name is recorded with another input, key, or kind of step.
    #[error("step {step} is recorded with another {what}; give a changed step another name")]
    Changed {
        /// The name of the step.
        step: String,
        /// The part that differs.
        what: &'static str,
    },
    /// The code made an invalid request, or a result cannot be recorded. The reason states whether
    /// the step happened.
    #[error("step {step} cannot run: {reason}")]
    Invalid {
        /// The name of the step.
        step: String,
        /// The mistake, and the next step.
        reason: String,
    },
    /// The code cannot read the recorded result of a step: an operator gave another type of result,
    /// or the type has changed. An operator corrects the result.
    #[error("the recorded result of step {step} cannot be read as the type asked for: {error}")]
    Unreadable {
        /// The name of the step.
        step: String,
        /// The reason why it cannot be read.
        error: AnswerError,
        /// Where it is stored.
        item: String,
    },
    /// The code cannot read the input of the workflow. If its type has changed since the start,
    /// deploy a type that reads the stored input, and retry the workflow.
    #[error("the input of the workflow cannot be read: {reason}")]
    Input {
        /// The field that cannot be read, why, and what to do. It never contains a value.
        reason: String,
    },
    /// The workflow returned an answer that cannot be stored. Its steps stay recorded: correct the
    /// code, and retry the workflow.
    #[error("the answer of the workflow cannot be recorded: {0}")]
    Answer(AnswerError),
    /// This driver no longer owns the workflow: another driver took it over, or it ended. Do
    /// nothing more.
    #[error("this driver no longer owns the workflow: it was taken over or has ended")]
    Lost,
    /// The code returned an error that has no class.
    #[error("the code of the workflow returned an error between its steps: {0}")]
    Code(String),
    /// The code returned a transient failure.
    #[error("the code of the workflow can be run again: {0}")]
    Again(String),
    /// A request to DynamoDB failed, or a stored item cannot be read.
    #[error(transparent)]
    Store(Error),
}

impl From<Error> for StopKind {
    fn from(error: Error) -> Self {
        Self::Store(error)
    }
}

fn at_step(step: &Option<String>) -> String {
    step.as_ref().map(|step| format!(" at step {step}")).unwrap_or_default()
}

/// The end of a sentence: the cause, if it is known.
fn because(cause: &str) -> String {
    if cause.is_empty() { String::new() } else { format!(": {cause}") }
}

/// For the steps of a [compensation](super::Workflow::compensate). If a step may run later, the
/// compensation is retried. If a step is in doubt, the compensation is in doubt. If a step failed
/// permanently, the compensation has failed. Every other stop needs an operator, and so does each
/// stop in the closure of a step: nothing shows whether the effect of that step has happened.
impl From<Stop> for Failure {
    fn from(stop: Stop) -> Self {
        let text = stop.to_string();
        if is_in_step() {
            return Self::needs_operator(text);
        }
        match stop.kind() {
            StopKind::Later { .. }
            | StopKind::Waiting { .. }
            | StopKind::Awaits(_)
            | StopKind::Lost
            | StopKind::Again(_)
            | StopKind::Store(_) => Self::transient(text),
            StopKind::InDoubt { .. } => Self::in_doubt(text),
            StopKind::Failed(_) | StopKind::Refused { .. } => Self::permanent(text),
            _ => Self::needs_operator(text),
        }
    }
}

impl StopKind {
    /// The same stop, with the cause of a failure.
    pub(crate) fn after(mut self, failure: &str) -> Self {
        match &mut self {
            Self::Later { cause, .. } => cause.push_str(&because(failure)),
            Self::InDoubt { cause, .. } => failure.clone_into(cause),
            _ => {}
        }
        self
    }

    /// The step happened, and its result cannot be stored.
    pub(crate) fn unrecorded(step: &str, error: &AnswerError) -> Self {
        let why = answer::unrecorded(error);
        Self::NeedsOperator(StepFailure::of(Some(step), Class::NeedsOperator, &why))
    }

    pub(crate) fn invalid(step: &str, reason: impl std::fmt::Display) -> Self {
        Self::Invalid { step: step.to_owned(), reason: reason.to_string() }
    }

    pub(crate) fn input(reason: &str) -> Self {
        Self::Input { reason: reason.to_owned() }
    }

    /// Its driver may be running the step until this time.
    pub(crate) fn busy(step: &str, until: DateTime<Utc>) -> Self {
        Self::Later {
            step: step.to_owned(),
            at: until,
            cause: "it was started and may still be running".to_owned(),
            counts: false,
            retry_for: None,
        }
    }

    /// The name of the step.
    pub(crate) fn step(&self) -> Option<&str> {
        match self {
            Self::Later { step, .. } | Self::InDoubt { step, .. } => Some(step),
            _ => None,
        }
    }

    /// The need of the run that issued this stop. `None`: it is an outcome, which the code may
    /// handle.
    pub(crate) fn need(&self) -> Option<NeedKind> {
        let retry = |at, counts, retry_for| NeedKind::Retry { at, counts, retry_for };
        Some(match self {
            Self::Failed(_) | Self::Refused { .. } | Self::Cancelled { .. } | Self::Continue(_) => {
                return None;
            }
            Self::Later { at, counts, retry_for, .. } => retry(*at, *counts, *retry_for),
            Self::Waiting { until } => NeedKind::Wait { until: *until, on: None },
            Self::Awaits(on) => NeedKind::Wait { until: on.until, on: Some(on.clone()) },
            Self::InDoubt { item, resolvable, retry_for, .. } => {
                NeedKind::InDoubt { item: item.clone(), resolvable: *resolvable, retry_for: *retry_for }
            }
            Self::Unreadable { item, .. } => NeedKind::Operator { item: Some(item.clone()) },
            Self::Lost => NeedKind::Lost,
            Self::Again(_) => retry(DateTime::UNIX_EPOCH, true, None),
            // That DynamoDB cannot be reached is no fault of the workflow; a refusal may be.
            Self::Store(error) if !is_about_the_workflow(error) => {
                retry(DateTime::UNIX_EPOCH, matches!(error, Error::Denied { .. }), None)
            }
            Self::NeedsOperator(_)
            | Self::CompensationFailed(_)
            | Self::Changed { .. }
            | Self::Invalid { .. }
            | Self::Input { .. }
            | Self::Answer(_)
            | Self::Code(_)
            | Self::Store(_) => NeedKind::Operator { item: None },
        })
    }

    /// Whether the same run may call the step again: it returned no outcome.
    pub(crate) const fn may_be_repeated(&self) -> bool {
        matches!(
            self,
            Self::Later { .. }
                | Self::Waiting { .. }
                | Self::Awaits(_)
                | Self::InDoubt { .. }
                | Self::Store(_)
        )
    }

    pub(crate) fn name(step: &str, name: &InvalidName) -> Self {
        // A long name would hide the reason, which is cut off.
        const SHOWN: usize = 40;
        match step.char_indices().nth(SHOWN) {
            Some((end, _)) => Self::invalid(&format!("{}…", &step[..end]), name),
            None => Self::invalid(step, name),
        }
    }

    /// The text for an operator, without inputs or results of steps.
    pub(crate) fn reason(&self) -> String {
        const LONGEST: usize = 200;
        let mut reason = self.to_string();
        if let Some((end, _)) = reason.char_indices().nth(LONGEST) {
            reason.truncate(end);
        }
        reason
    }
}

/// Whether the error lies in the workflow's own data, so that neither time nor another driver would
/// help.
const fn is_about_the_workflow(error: &Error) -> bool {
    matches!(error, Error::Answer(_) | Error::Record { .. } | Error::Fingerprint { .. } | Error::Invalid(_))
}

/// The failure of a step or of a workflow.
#[derive(Clone)]
pub struct StepFailure {
    pub(crate) step: Option<String>,
    pub(crate) class: Class,
    pub(crate) json: String,
    /// The cause of the failure.
    pub(crate) cause: String,
}

/// A failure as it is stored.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Stored {
    #[serde(skip_serializing_if = "Option::is_none")]
    step: Option<String>,
    class: Class,
    /// JSON text, kept byte for byte.
    error: String,
    /// The cause, if it differs from that in the JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cause: Option<String>,
}

impl StepFailure {
    /// The failure of a step, with its cause.
    pub(crate) fn classified(step: &str, error: &impl Classify) -> Self {
        Self { cause: failure::said(error), ..Self::of(Some(step), error.class(), error) }
    }

    /// A failure that fits into an item. Its class is kept even if its details cannot be stored, so
    /// that its steps are compensated.
    pub(crate) fn of(step: Option<&str>, class: Class, error: &impl Serialize) -> Self {
        let of = |json| Self::new(step.map(str::to_owned), class, json);
        let whole = answer::to_json(error).and_then(|json| {
            let failure = of(json);
            if failure.json.len() > answer::MOST_BYTES {
                answer::encode_for_item(failure.to_stored()?)?;
            }
            Ok(failure)
        });
        whole.unwrap_or_else(|why| of(answer::text(&answer::not_whole(&why))))
    }

    pub(crate) fn new(step: Option<String>, class: Class, json: String) -> Self {
        Self { step, class, cause: cause::shortened(&cause::of_json(&json)), json }
    }

    /// The cause of the failure, on one line ([`Classify::cause`]).
    #[must_use]
    pub fn cause(&self) -> &str {
        &self.cause
    }

    /// The step that failed. `None`: the workflow itself failed.
    #[must_use]
    pub fn step(&self) -> Option<&str> {
        self.step.as_deref()
    }

    /// The class of the failure.
    #[must_use]
    pub const fn class(&self) -> Class {
        self.class
    }

    /// The error as JSON text.
    #[must_use]
    pub fn json(&self) -> &str {
        &self.json
    }

    /// The error, decoded.
    ///
    /// # Errors
    ///
    /// [`AnswerError::Decode`] if it is of another type.
    pub fn error<E: DeserializeOwned>(&self) -> Result<E, AnswerError> {
        answer::from_json(&self.json)
    }

    pub(crate) fn to_stored(&self) -> Result<String, AnswerError> {
        let Self { step, class, json, cause } = self.clone();
        let said_by_json = cause == cause::shortened(&cause::of_json(&json));
        answer::to_json(&Stored { step, class, error: json, cause: (!said_by_json).then_some(cause) })
    }

    pub(crate) fn from_stored(json: &str) -> Result<Self, AnswerError> {
        let Stored { step, class, error, cause } = serde_json::from_str(json)
            .map_err(|_| AnswerError::Damaged { reason: "it is not a stored failure" })?;
        let failure = Self::new(step, class, error);
        Ok(match cause {
            Some(cause) => Self { cause, ..failure },
            None => failure,
        })
    }
}

// Errors may be private.
impl std::fmt::Debug for StepFailure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "StepFailure({:?}, {}, {} bytes)", self.step, self.class.as_str(), self.json.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Serialize, Deserialize)]
    struct Refused(u32);

    impl Classify for Refused {
        fn class(&self) -> Class {
            Class::Permanent
        }

        fn cause(&self) -> String {
            format!("refused with\n{}", self.0)
        }
    }

    #[test]
    fn stop_in_a_compensation_has_the_class_of_its_step() {
        let step = || "refund".to_owned();
        let failed = || StepFailure::of(Some("refund"), Class::Permanent, &"no");
        let later = StopKind::Later {
            step: step(),
            at: DateTime::UNIX_EPOCH,
            cause: step(),
            counts: true,
            retry_for: None,
        };
        let doubt = StopKind::InDoubt {
            step: step(),
            resolvable: false,
            cause: step(),
            item: step(),
            retry_for: None,
        };
        for (stop, class) in [
            (later, Class::Transient),
            (StopKind::Waiting { until: DateTime::UNIX_EPOCH }, Class::Transient),
            (StopKind::Lost, Class::Transient),
            (doubt, Class::InDoubt),
            (StopKind::Failed(failed()), Class::Permanent),
            (StopKind::Refused { step: step(), writes: vec![0] }, Class::Permanent),
            (StopKind::NeedsOperator(failed()), Class::NeedsOperator),
            (StopKind::Cancelled { step: step() }, Class::NeedsOperator),
        ] {
            let text = stop.to_string();
            let failure = Failure::from(Stop::from(stop));
            assert_eq!(
                (failure.class(), failure.cause()),
                (class, crate::core::cause::shortened(&text)),
                "{text}"
            );
        }
    }

    #[test]
    fn text_of_a_failure_is_stored_with_its_json() {
        let failure = StepFailure::classified("charge", &Refused(51));
        let read = StepFailure::from_stored(&failure.to_stored().unwrap()).unwrap();
        assert_eq!((read.cause(), read.json()), ("refused with 51", "51"));
        assert_eq!(
            StopKind::NeedsOperator(read).to_string(),
            "step charge failed and needs an operator: refused with 51"
        );
        // A cause that equals that of the JSON is not stored again.
        let plain = StepFailure::of(None, Class::Permanent, &"declined").to_stored().unwrap();
        assert_eq!(StepFailure::from_stored(&plain).unwrap().cause(), "declined");
        assert!(!plain.contains("cause"), "{plain}");
    }
}
