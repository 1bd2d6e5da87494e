//! The promises, checked on what was seen, token by token.
//!
//! A call took effect at some moment between its invocation and its outcome, or not at all; one without an
//! outcome may take effect at any later time. Something is said to come before something else only if the
//! one ended before the other was invoked, by more than clocks may differ.

mod answers;
mod effects;
mod holders;
mod unfinished;
mod view;

#[cfg(test)]
mod tests;

use std::collections::HashMap;

use crate::effect::Effect;
use crate::event::{Op, Outcome};
use crate::history::{Call, History};
use crate::report::Report;
use view::View;

/// How to check.
#[derive(Debug, Clone, Copy, Default)]
pub struct Rules {
    /// How far apart the clocks of two machines may be, in microseconds.
    pub clock_skew: i64,
    /// Nothing explains a second effect: neither a takeover nor a release.
    pub at_most_once: bool,
    /// The history does not hold everything. What may have happened before it began is noted only.
    pub partial: bool,
}

/// Check a history, and the books of the provider against it.
///
/// A token counts if `of` says so, for books and histories that hold more than one kind.
#[must_use]
pub fn check(
    history: &History,
    effects: &HashMap<String, Vec<Effect>>,
    rules: Rules,
    of: impl Fn(&str) -> bool,
) -> Report {
    let mut report = Report::default();
    let tokens = history.tokens();
    for (token, calls) in tokens.iter().filter(|(token, _)| of(token)) {
        count(&mut report, calls);
        let effects = effects.get(*token).map(Vec::as_slice).unwrap_or_default();
        View::new(token, calls, effects, rules, &mut report).check();
    }
    let known: std::collections::HashSet<_> = tokens.iter().map(|(token, _)| *token).collect();
    let mut strangers: Vec<_> = effects.iter().filter(|(token, _)| !known.contains(token.as_str())).collect();
    strangers.sort_unstable_by_key(|(token, _)| *token);
    for (token, effects) in strangers.into_iter().filter(|(token, _)| of(token)) {
        View::new(token, &[], effects, rules, &mut report).check();
    }
    report
}

fn count(report: &mut Report, calls: &[Call]) {
    report.tokens += 1;
    report.calls += calls.len();
    for call in calls {
        report.open_calls += usize::from(call.is_open());
        let Some(outcome) = call.outcome else { continue };
        report.acquired += usize::from(outcome.holds());
        report.taken_over += usize::from(outcome == Outcome::TookOver);
        report.replays += usize::from(call.op == Op::Begin && outcome.tells_answer());
        report.lost += usize::from(outcome == Outcome::Lost);
    }
}
