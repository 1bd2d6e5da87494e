//! What a check found.

use std::fmt;

use serde::Serialize;

use crate::event::Time;
use crate::history::Call;

/// The promises that a history can break.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Rule {
    /// It happened more often than anything explains.
    DuplicateEffect,
    /// It happened, and nobody held the token.
    EffectWithoutHolder,
    /// Two callers were told different answers.
    DifferentAnswers,
    /// An answer was told that nobody can have stored.
    UnstoredAnswer,
    /// A token was acquired, or in progress, after its answer was known.
    AfterTheAnswer,
    /// A token was acquired while somebody held it, without a takeover.
    TwoHolders,
    /// A takeover names a predecessor that never held the token, or that had ended.
    BadTakeover,
    /// An end was acknowledged after its token had been taken over.
    LateEnd,
    /// A caller was told that nothing was written, and it was.
    FalseNo,
}

/// How sure it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Severity {
    /// A promise was broken.
    Violation,
    /// It can be explained, by something that the history does not show: a request that arrived late, or
    /// what happened before the history begins.
    Note,
}

/// One thing that was found.
#[derive(Debug, Clone, Serialize)]
pub struct Finding {
    /// Which promise.
    pub rule: Rule,
    /// How sure it is.
    pub severity: Severity,
    /// The token.
    pub token: String,
    /// What happened, in a sentence, with calls and times.
    pub what: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.token, self.what)
    }
}

/// A call as a finding names it.
pub(crate) struct Named<'a>(pub(crate) &'a Call);

impl fmt::Display for Named<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(call) = self;
        write!(f, "{} {}", word(call.op), call.id)?;
        if let Some(attempt) = &call.attempt {
            write!(f, " of attempt {attempt}")?;
        }
        write!(f, " by {} ({} to ", call.owner, call.invoked)?;
        match call.outcome {
            Some(outcome) if call.ended == Time::NEVER => write!(f, "never: {})", word(outcome)),
            Some(outcome) => write!(f, "{}: {})", call.ended, word(outcome)),
            None => f.write_str("never: cut off)"),
        }
    }
}

/// The word by which a history names a value.
fn word(value: impl Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(word)) => word,
        _ => String::new(),
    }
}

/// What a check found, and of how much.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// Tokens.
    pub tokens: usize,
    /// Calls.
    pub calls: usize,
    /// Calls of which nobody knows what came.
    pub open_calls: usize,
    /// Tokens acquired, taken over included.
    pub acquired: usize,
    /// Of these, taken over.
    pub taken_over: usize,
    /// Answers told from the table.
    pub replays: usize,
    /// Ends told that the token was lost.
    pub lost: usize,
    /// Effects in the books of the provider.
    pub effects: usize,
    /// Effects beyond the first of a token, each explained.
    pub explained_repeats: usize,
    /// Tokens acquired and, as far as is known, not ended: a scan has to list each.
    pub unfinished: Vec<String>,
    /// Tokens of which nobody knows whether they are unfinished.
    pub uncertain: Vec<String>,
    /// Broken promises, and what looks like one.
    pub findings: Vec<Finding>,
}

impl Report {
    /// The broken promises.
    pub fn violations(&self) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(|finding| finding.severity == Severity::Violation)
    }

    /// What can be explained by something that the history does not show.
    pub fn notes(&self) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(|finding| finding.severity == Severity::Note)
    }
}
