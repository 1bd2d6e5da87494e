//! One winner; a takeover from an owner; no owner after the answer; no late end; no false *no*.

use super::view::View;
use crate::history::Call;
use crate::history::event::{Op, Outcome};
use crate::history::report::{Named, Rule, Severity};

impl<'a> View<'a> {
    /// Between two callers that acquired a token without a takeover, something freed it.
    pub(super) fn check_holders(&mut self) {
        let mut winners = self.holders();
        winners.retain(|call| call.outcome == Some(Outcome::Acquired));
        winners.sort_by_key(|call| call.ended);
        // A call frees a token once.
        let mut used = vec![false; self.calls.len()];
        for pair in winners.windows(2) {
            let &[first, second] = pair else { continue };
            let line = self.line_of(first);
            let free = self.calls.iter().enumerate().position(|(at, call)| {
                let theirs = call.op == Op::Resolve
                    || call.attempt.as_deref().is_none_or(|attempt| line.contains(&attempt));
                let expired = call.op.answers()
                    && call.may_have_happened()
                    && call.ttl.is_some_and(|ttl| second.ended >= crate::history::Time::of_seconds(ttl));
                let freed = call.op.frees()
                    && call.may_have_happened()
                    && self.may_lie_between(call, first.invoked, second);
                !used[at] && theirs && (freed || expired)
            });
            match free {
                Some(at) => used[at] = true,
                None => self.violation(
                    Rule::TwoHolders,
                    format!(
                        "acquired twice, and nothing freed it in between: {} and {}",
                        Named(first),
                        Named(second)
                    ),
                ),
            }
        }
    }

    /// The attempt of an owner, and the attempts that took over from it, one after the other.
    fn line_of(&self, first: &'a Call) -> Vec<&'a str> {
        let mut line: Vec<&str> = first.attempt.as_deref().into_iter().collect();
        let mut takeovers = self.holders();
        takeovers.retain(|call| call.outcome == Some(Outcome::TookOver));
        takeovers.sort_by_key(|call| call.ended);
        for takeover in takeovers {
            if takeover.found.as_deref().is_some_and(|found| line.contains(&found)) {
                line.extend(takeover.attempt.as_deref());
            }
        }
        line
    }

    /// A takeover names an attempt that owned the token and had not ended it.
    pub(super) fn check_takeovers(&mut self) {
        let takeovers: Vec<_> =
            self.holders().into_iter().filter(|call| call.outcome == Some(Outcome::TookOver)).collect();
        for (at, &takeover) in takeovers.iter().enumerate() {
            let Some(before) = takeover.found.as_deref().filter(|before| *before != "unknown") else {
                continue;
            };
            let named = Named(takeover);
            let begins: Vec<&Call> = self.of_attempt(before).filter(|call| call.op == Op::Begin).collect();
            if begins.is_empty() {
                self.violation(
                    Rule::BadTakeover,
                    format!("{named} took over from {before}, which never began"),
                );
            }
            for begin in begins {
                if takeover.ended < begin.invoked {
                    self.violation(
                        Rule::BadTakeover,
                        format!("{named} took over from an attempt that began later: {}", Named(begin)),
                    );
                }
            }
            if let Some(twice) = takeovers[..at].iter().find(|call| call.found == takeover.found) {
                self.violation(
                    Rule::BadTakeover,
                    format!("{before} was taken over twice: by {} and {named}", Named(twice)),
                );
            }
            self.check_predecessor(takeover, before);
        }
    }

    /// The outcomes of a predecessor's own ends agree with the takeover.
    fn check_predecessor(&mut self, takeover: &'a Call, before: &str) {
        let ends: Vec<&Call> =
            self.of_attempt(before).filter(|call| call.is_ok() && call.op != Op::Resolve).collect();
        for end in ends {
            let late = takeover.ended < end.invoked;
            let early = end.ended < takeover.invoked;
            let what = || format!("{} and {}", Named(takeover), Named(end));
            match end.op {
                Op::Complete | Op::Fail | Op::Hold if late => {
                    self.violation(Rule::LateEnd, format!("ended after it was taken over: {}", what()));
                }
                Op::Complete | Op::Fail | Op::Hold if self.freed_by_operator(end, takeover) => {
                    let why = "an operator released it, and a delayed request of the begin must have arrived after that";
                    let what = format!("taken over from an attempt that had ended; {why}: {}", what());
                    self.say(Severity::Note, Rule::BadTakeover, what);
                }
                Op::Complete | Op::Fail | Op::Hold => {
                    self.violation(
                        Rule::BadTakeover,
                        format!("taken over although it had ended: {}", what()),
                    );
                }
                Op::Release | Op::Extend | Op::ReleaseByOperator if late => {
                    self.violation(Rule::LateEnd, format!("changed after it was taken over: {}", what()));
                }
                Op::Release | Op::ReleaseByOperator if early => {
                    let why = "a delayed request of the begin must have arrived after that";
                    let what =
                        format!("taken over from an attempt that had been released; {why}: {}", what());
                    self.say(Severity::Note, Rule::BadTakeover, what);
                }
                _ => {}
            }
        }
    }

    fn freed_by_operator(&self, end: &Call, takeover: &Call) -> bool {
        let freed = |call: &&&Call| call.op == Op::ReleaseByOperator && call.may_have_happened();
        self.calls.iter().filter(freed).any(|call| self.may_lie_between(call, end.invoked, takeover))
    }

    /// After an operator has resolved or released a token, its former owner cannot end or extend it.
    pub(super) fn check_late_ends(&mut self) {
        let by_operator =
            |call: &&&Call| matches!(call.op, Op::Resolve | Op::ReleaseByOperator) && call.is_ok();
        let acts: Vec<&Call> = self.calls.iter().filter(by_operator).copied().collect();
        for operator in acts {
            let late: Vec<&Call> = self
                .calls
                .iter()
                .copied()
                .filter(|end| {
                    let begin = end.attempt.as_deref().and_then(|attempt| {
                        self.of_attempt(attempt).find(|call| call.outcome.is_some_and(Outcome::holds))
                    });
                    // A release whose reply was lost cannot tell an operator's release from its own.
                    matches!(end.op, Op::Complete | Op::Fail | Op::Hold | Op::Extend)
                        && end.is_ok()
                        && operator.ended < end.invoked
                        && begin.is_some_and(|begin| begin.ended < operator.invoked)
                })
                .collect();
            for end in late {
                let what = format!(
                    "changed after an operator had resolved or released it: {} and {}",
                    Named(operator),
                    Named(end)
                );
                self.violation(Rule::LateEnd, what);
            }
        }
    }

    /// Once an answer is known, no caller acquires the token, takes it over, or is told that it is in progress.
    pub(super) fn check_settled(&mut self) {
        for settled in self.settled() {
            let wrong: Vec<&Call> = self
                .calls
                .iter()
                .copied()
                .filter(|call| {
                    let holds = call.outcome.is_some_and(Outcome::holds);
                    (holds || call.outcome == Some(Outcome::InProgress))
                        && settled.known.ended < call.invoked
                        && call.ended < settled.forgotten
                        && !self.freed_between(settled.since, call, true)
                })
                .collect();
            for call in wrong {
                let word = if call.outcome == Some(Outcome::InProgress) { "in progress" } else { "acquired" };
                let what = format!(
                    "{word} after its answer was known: {} and {}",
                    Named(settled.known),
                    Named(call)
                );
                self.violation(Rule::AfterTheAnswer, what);
            }
        }
    }

    /// An attempt that was told that nothing was written is found by no other call.
    pub(super) fn check_false_no(&mut self) {
        let begins: Vec<&Call> = self
            .calls
            .iter()
            .copied()
            .filter(|call| {
                let no = call.outcome.is_some_and(|outcome| !outcome.holds());
                call.op == Op::Begin && no && !call.is_open()
            })
            .collect();
        for begin in begins {
            let Some(attempt) = begin.attempt.as_deref() else { continue };
            if begin.found.as_deref() == Some(attempt) {
                let what = format!("refused because of its own token: {}", Named(begin));
                self.violation(Rule::FalseNo, what);
                continue;
            }
            let seen = self.calls.iter().copied().find(|call| call.found.as_deref() == Some(attempt));
            let Some(seen) = seen else { continue };
            // A refusal is about the moment it was given: an earlier request of the call may arrive after it.
            let definite = matches!(begin.outcome, Some(Outcome::Unavailable | Outcome::Denied));
            let (severity, why) = if definite {
                (Severity::Violation, "told that nothing was written, but it was")
            } else {
                (Severity::Note, "refused, and a delayed request of the begin must have arrived after that")
            };
            self.say(severity, Rule::FalseNo, format!("{why}: {}; found by {}", Named(begin), Named(seen)));
        }
    }
}
