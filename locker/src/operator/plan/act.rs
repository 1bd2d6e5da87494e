//! The act of a plan.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::operator::Verb;

/// The act of a plan on each token, workflow or message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[non_exhaustive]
pub struct Act {
    /// The verb.
    pub verb: Verb,
    /// The step of each workflow, if the act is for a step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// The result of each record.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "given")]
    pub result: Option<Value>,
    /// Whether the provider receives another key. It then does not recognise earlier attempts.
    #[serde(default)]
    pub new_key: bool,
}

/// A present `null` is a result; an absent field is none.
fn given<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

impl Act {
    const fn of(verb: Verb) -> Self {
        Self { verb, step: None, result: None, new_key: false }
    }

    /// Releases tokens: their work did not happen, and the next caller does it.
    #[must_use]
    pub const fn release() -> Self {
        Self::of(Verb::Release)
    }

    /// Closes held tokens with their failure as the answer, or workflows in quarantine as they are.
    #[must_use]
    pub const fn close() -> Self {
        Self::of(Verb::Close)
    }

    /// Resolves tokens with this result: their work happened.
    #[must_use]
    pub fn resolve(result: Value) -> Self {
        Self { result: Some(result), ..Self::of(Verb::Resolve) }
    }

    /// Lets completers drive workflows again.
    #[must_use]
    pub const fn retry() -> Self {
        Self::of(Verb::Retry)
    }

    /// Compensates workflows.
    #[must_use]
    pub const fn compensate() -> Self {
        Self::of(Verb::Compensate)
    }

    /// Cancels workflows: compensates their steps and ends them.
    ///
    /// Same as [`compensate`](Self::compensate), but also for a workflow that has progressed since
    /// the plan was made: its driver reads it before the next step. A workflow that has ended
    /// meanwhile, or was started again, is not changed.
    #[must_use]
    pub const fn cancel() -> Self {
        Self::of(Verb::Cancel)
    }

    /// Continues workflows without the [step](Self::step).
    #[must_use]
    pub const fn skip() -> Self {
        Self::of(Verb::Skip)
    }

    /// Sends dead messages, or lets their consumers process them, again.
    #[must_use]
    pub const fn redrive() -> Self {
        Self::of(Verb::Redrive)
    }

    /// Archives dead messages.
    #[must_use]
    pub const fn archive() -> Self {
        Self::of(Verb::Archive)
    }

    /// Makes archived messages dead again.
    #[must_use]
    pub const fn restore() -> Self {
        Self::of(Verb::Restore)
    }

    /// Deletes dead or archived messages: they are not sent or processed.
    #[must_use]
    pub const fn discard() -> Self {
        Self::of(Verb::Discard)
    }

    /// Writes the reason as a note on dead or archived messages.
    #[must_use]
    pub const fn note() -> Self {
        Self::of(Verb::Note)
    }

    /// Applies the act to this step of each workflow.
    #[must_use]
    pub fn step(mut self, step: impl Into<String>) -> Self {
        self.step = Some(step.into());
        self
    }

    /// Gives the provider another key in a [retry](Self::retry) of a step.
    ///
    /// **If the step did happen, it happens twice.**
    #[must_use]
    pub const fn new_key(mut self) -> Self {
        self.new_key = true;
        self
    }

    /// The reason why the act is not valid, and what to do.
    pub(super) fn check(&self) -> Result<(), &'static str> {
        match self.verb {
            Verb::Correct => Err("a correction is for one record: use the verb for one"),
            Verb::Skip if self.step.is_none() => Err("name the step to skip"),
            verb if verb.is_for_messages() && self.step.is_some() => {
                Err("a message has no step: name no step")
            }
            Verb::Cancel if self.step.is_some() => Err("a cancel is for whole workflows: name no step"),
            verb if verb.takes_result() != self.result.is_some() => {
                Err("a resolve takes a result, and nothing else does")
            }
            _ if self.new_key && (self.verb != Verb::Retry || self.step.is_none()) => {
                Err("another key is for the retry of a step: name the step")
            }
            _ => Ok(()),
        }
    }
}
