//! The report of a check.

use std::fmt;

use serde::Serialize;

use crate::history::Call;
use crate::history::event::Time;

/// The promises that a history can break.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rule {
    /// An effect happened more often than the calls explain.
    DuplicateEffect,
    /// An effect happened while no caller owned the token.
    EffectWithoutHolder,
    /// Two callers got different answers.
    DifferentAnswers,
    /// A caller got an answer that no call can have stored.
    UnstoredAnswer,
    /// A token was acquired or in progress after its answer was known.
    AfterTheAnswer,
    /// A token was acquired while another caller owned it, without a takeover.
    TwoHolders,
    /// A takeover names a predecessor that never owned the token, or had ended it.
    BadTakeover,
    /// An end was acknowledged after the token had been taken over.
    LateEnd,
    /// A caller was told that nothing was written, although it was.
    FalseNo,
}

/// The certainty of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// A promise was broken.
    Violation,
    /// A request that arrived late may explain it.
    Note,
}

/// One finding of a check.
#[derive(Debug, Clone)]
pub struct Finding {
    /// The promise.
    pub rule: Rule,
    /// The certainty of a finding.
    pub severity: Severity,
    /// The token.
    pub token: String,
    /// A sentence that says what happened, with calls and times.
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

/// The findings of a check, with counts.
#[derive(Debug, Default)]
pub struct Report {
    /// Tokens that were checked.
    pub tokens: usize,
    /// Calls on them.
    pub calls: usize,
    /// Calls without a known outcome.
    pub open_calls: usize,
    /// Begins that acquired a token, takeovers included.
    pub acquired: usize,
    /// Takeovers.
    pub taken_over: usize,
    /// Begins that got a stored answer.
    pub replays: usize,
    /// Calls that were refused because the token had another owner.
    pub lost: usize,
    /// Effects in the books of the provider.
    pub effects: usize,
    /// Effects beyond the first of a token that a takeover or a release explains.
    pub explained_repeats: usize,
    /// Tokens that were acquired and not ended, as far as the history shows. A scan has to list each.
    pub unfinished: Vec<String>,
    /// Tokens that may be unfinished.
    pub uncertain: Vec<String>,
    /// Broken promises, and notes.
    pub findings: Vec<Finding>,
}

impl Report {
    /// The broken promises.
    pub fn violations(&self) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(|finding| finding.severity == Severity::Violation)
    }

    /// The findings that something outside the history may explain.
    pub fn notes(&self) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(|finding| finding.severity == Severity::Note)
    }
}
