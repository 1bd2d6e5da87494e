//! The promises, checked on a history, token by token.
//!
//! A call took effect at some moment between its invocation and its outcome, or not at all; one without an
//! outcome may take effect at any later time. A call counts as before another only if it
//! ended before the other was invoked.

mod answers;
mod effects;
mod holders;
mod unfinished;
mod view;

use std::collections::HashMap;

use crate::history::effect::Effect;
use crate::history::event::{Op, Outcome};
use crate::history::report::Report;
use crate::history::{Call, History};
use view::View;

/// The rules of a check.
#[derive(Debug, Clone, Copy, Default)]
pub struct Rules {
    /// Whether every second effect is a violation, even one that a takeover or a release explains.
    pub at_most_once: bool,
}

/// Checks a history, and the books of the provider against it.
///
/// Only tokens that `of` accepts are checked, for books and histories of more than one kind.
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
