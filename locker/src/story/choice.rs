//! What an operator may do now, and what it will do.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::core::token::work::Work;

/// A verb of an operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum Verb {
    /// Say that it happened, and what it came to.
    Resolve,
    /// Say that it did not happen.
    Release,
    /// Let it, or its step, run again.
    Retry,
    /// Go on without the step.
    Skip,
    /// Replace what an operator said that it came to.
    Correct,
    /// Undo what its steps did.
    Compensate,
    /// Undo what its steps did, whatever it does meanwhile. For many: see [`Act::cancel`](crate::bulk::Act::cancel).
    Cancel,
    /// Leave it as it is.
    Close,
}

impl Verb {
    /// The verb of the command `locker`, or of `locker workflow`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Resolve => "resolve",
            Self::Release => "release",
            Self::Retry => "retry",
            Self::Skip => "skip",
            Self::Correct => "correct",
            Self::Compensate => "compensate",
            Self::Cancel => "cancel",
            Self::Close => "close",
        }
    }

    /// Whether it takes a result.
    #[must_use]
    pub const fn takes_result(self) -> bool {
        matches!(self, Self::Resolve | Self::Correct)
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// What an operator may do now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Choice {
    /// The verb.
    pub verb: Verb,
    /// The token or the workflow.
    pub of: Work,
    /// The step, if it is about one.
    pub step: Option<String>,
    /// The revision of the token or the workflow as it was read: the act is to depend on it.
    pub revision: String,
    /// What it means and what it will do.
    pub effect: String,
}

impl Choice {
    pub(super) const fn new(verb: Verb, of: Work, revision: String, effect: String) -> Self {
        Self { verb, of, step: None, revision, effect }
    }

    pub(super) fn at_step(mut self, step: &str) -> Self {
        self.step = Some(step.to_owned());
        self
    }
}
