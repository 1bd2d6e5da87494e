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
    /// Undo what its steps did, whatever it does meanwhile. For many: see [`Act::cancel`](crate::operator::Act::cancel).
    Cancel,
    /// Leave it as it is.
    Close,
    /// Have a dead message sent, or handled by its consumer, again.
    Redrive,
    /// Set a dead message aside, and keep it.
    Archive,
    /// Take an archived message back: it is dead again.
    Restore,
    /// Delete a message: it is not sent or handled any more.
    Discard,
    /// Write a note on a message.
    Note,
}

impl Verb {
    /// The verb of the command `locker`, of `locker workflow` or of `locker dead`.
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
            Self::Redrive => "redrive",
            Self::Archive => "archive",
            Self::Restore => "restore",
            Self::Discard => "discard",
            Self::Note => "note",
        }
    }

    /// Whether it is a verb for messages.
    #[must_use]
    pub const fn is_for_messages(self) -> bool {
        matches!(self, Self::Redrive | Self::Archive | Self::Restore | Self::Discard | Self::Note)
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
    /// The token, the workflow or the message.
    pub of: Work,
    /// The step, if it is about one.
    pub step: Option<String>,
    /// Its revision as it was read: the act is to depend on it.
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
