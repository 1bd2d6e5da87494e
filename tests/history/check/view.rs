//! The calls and effects of one token, for the checks.

use super::Rules;
use crate::history::Call;
use crate::history::effect::Effect;
use crate::history::event::{Op, Outcome, Time};
use crate::history::report::{Finding, Report, Rule, Severity};

pub(super) struct View<'a> {
    pub(super) token: &'a str,
    /// Sorted by invocation.
    pub(super) calls: Vec<&'a Call>,
    /// Sorted by time.
    pub(super) effects: &'a [Effect],
    pub(super) rules: Rules,
    pub(super) report: &'a mut Report,
}

/// An end that settled a token and is known to have been applied.
pub(super) struct Settled<'a> {
    /// The first call that knew it: the end itself, or a replay.
    pub(super) known: &'a Call,
    /// The earliest time at which it may have been stored.
    pub(super) since: Time,
    /// The time from which it counts as absent.
    pub(super) forgotten: Time,
}

impl<'a> View<'a> {
    pub(super) fn new(
        token: &'a str,
        calls: &'a [Call],
        effects: &'a [Effect],
        rules: Rules,
        report: &'a mut Report,
    ) -> Self {
        let mut calls: Vec<_> = calls.iter().collect();
        calls.sort_by_key(|call| call.invoked);
        Self { token, calls, effects, rules, report }
    }

    pub(super) fn check(mut self) {
        self.check_holders();
        self.check_takeovers();
        self.check_late_ends();
        self.check_settled();
        self.check_false_no();
        self.check_answers();
        self.check_effects();
        self.list_unfinished();
    }

    pub(super) fn say(&mut self, severity: Severity, rule: Rule, what: String) {
        self.report.findings.push(Finding { rule, severity, token: self.token.to_owned(), what });
    }

    pub(super) fn violation(&mut self, rule: Rule, what: String) {
        self.say(Severity::Violation, rule, what);
    }

    pub(super) fn holders(&self) -> Vec<&'a Call> {
        let holds = |call: &&Call| call.outcome.is_some_and(Outcome::holds);
        self.calls.iter().copied().filter(holds).collect()
    }

    pub(super) fn of_attempt<'b>(&'b self, attempt: &'b str) -> impl Iterator<Item = &'a Call> + 'b {
        self.calls.iter().copied().filter(move |call| call.attempt.as_deref() == Some(attempt))
    }

    /// Whether something may have freed the token between two calls. `operator_only`: only an operator, since no owner
    /// can free a settled token.
    pub(super) fn freed_between(&self, first: Time, then: &Call, operator_only: bool) -> bool {
        self.calls.iter().any(|call| {
            let frees = if operator_only { call.op == Op::ReleaseByOperator } else { call.op.frees() };
            frees && call.may_have_happened() && self.may_lie_between(call, first, then)
        })
    }

    pub(super) fn may_lie_between(&self, call: &Call, first: Time, then: &Call) -> bool {
        call.ended >= first && then.ended >= call.invoked
    }

    /// The ends that are known to have been applied.
    pub(super) fn settled(&self) -> Vec<Settled<'a>> {
        let settles = |call: &&&Call| call.op.answers() || call.op == Op::Hold;
        let ends = self.calls.iter().filter(settles);
        ends.filter_map(|end| {
            let attempt = end.attempt.as_deref();
            let told = |call: &&&Call| {
                let tells =
                    call.outcome.is_some_and(Outcome::tells_answer) || call.outcome == Some(Outcome::Held);
                call.op == Op::Begin && tells && call.found.as_deref() == attempt && call.digest == end.digest
            };
            let told = self.calls.iter().filter(told);
            let known = std::iter::once(end).filter(|end| end.is_ok()).chain(told);
            let known = known.copied().min_by_key(|call| call.ended)?;
            let forgotten = end.ttl.map_or(Time::NEVER, Time::of_seconds);
            Some(Settled { known, since: end.invoked, forgotten })
        })
        .collect()
    }
}
