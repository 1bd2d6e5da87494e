//! What is to be done to each record.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::operator::Verb;

/// What is to be done to each token, workflow or message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[non_exhaustive]
pub struct Act {
    /// The verb.
    pub verb: Verb,
    /// The step of each workflow, if it is about one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// The result that each of them gets.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "given")]
    pub result: Option<Value>,
    /// Give the provider another key: it no longer recognises what it did under the one before.
    #[serde(default)]
    pub new_key: bool,
}

/// A `null` that is there is a result; one that is not there is none.
fn given<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

impl Act {
    const fn of(verb: Verb) -> Self {
        Self { verb, step: None, result: None, new_key: false }
    }

    /// Release tokens: their work did not happen, and the next caller does it.
    #[must_use]
    pub const fn release() -> Self {
        Self::of(Verb::Release)
    }

    /// Close held tokens, whose failure is the answer; or workflows in quarantine, as they are.
    #[must_use]
    pub const fn close() -> Self {
        Self::of(Verb::Close)
    }

    /// Resolve tokens with this result.
    #[must_use]
    pub fn resolve(result: Value) -> Self {
        Self { result: Some(result), ..Self::of(Verb::Resolve) }
    }

    /// Let workflows be driven again.
    #[must_use]
    pub const fn retry() -> Self {
        Self::of(Verb::Retry)
    }

    /// Compensate workflows.
    #[must_use]
    pub const fn compensate() -> Self {
        Self::of(Verb::Compensate)
    }

    /// Cancel workflows: undo what their steps did, and end them.
    ///
    /// Same as [`compensate`](Self::compensate), but also for a workflow that has gone on since the plan was made: its driver reads it before the next
    /// step. One that has ended meanwhile, or was begun anew, is left as it is.
    #[must_use]
    pub const fn cancel() -> Self {
        Self::of(Verb::Cancel)
    }

    /// Go on without the [step](Self::step).
    #[must_use]
    pub const fn skip() -> Self {
        Self::of(Verb::Skip)
    }

    /// Have dead messages sent, or handled by their consumers, again.
    #[must_use]
    pub const fn redrive() -> Self {
        Self::of(Verb::Redrive)
    }

    /// Set dead messages aside, and keep them.
    #[must_use]
    pub const fn archive() -> Self {
        Self::of(Verb::Archive)
    }

    /// Take archived messages back.
    #[must_use]
    pub const fn restore() -> Self {
        Self::of(Verb::Restore)
    }

    /// Delete dead or archived messages: they are not sent or handled any more.
    #[must_use]
    pub const fn discard() -> Self {
        Self::of(Verb::Discard)
    }

    /// Write the reason on dead or archived messages, as a note.
    #[must_use]
    pub const fn note() -> Self {
        Self::of(Verb::Note)
    }

    /// Act on this step of each workflow.
    #[must_use]
    pub fn step(mut self, step: impl Into<String>) -> Self {
        self.step = Some(step.into());
        self
    }

    /// In a [retry](Self::retry) of a step, give the provider another key. **If the step did happen, it happens twice.**
    #[must_use]
    pub const fn new_key(mut self) -> Self {
        self.new_key = true;
        self
    }

    /// Why it makes no sense, and what to do.
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
