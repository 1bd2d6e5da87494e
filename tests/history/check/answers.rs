//! The answer is the answer: the same for all callers, and one that was stored.

use super::view::View;
use crate::history::Call;
use crate::history::event::{Op, Outcome, Time};
use crate::history::report::{Named, Rule};

/// The answer of one attempt, as first told.
struct Told<'a> {
    attempt: Option<&'a str>,
    first: &'a Call,
}

impl<'a> View<'a> {
    pub(super) fn check_answers(&mut self) {
        let told = self.check_told();
        for pair in told.windows(2) {
            let [one, other] = pair else { continue };
            // An operator may correct an answer that an operator gave, and says so.
            let corrected = other.first.op == Op::Correct || self.is_corrected(other);
            let freed = self.freed_between(one.first.invoked, other.first, true);
            if !corrected && !freed && !self.forgotten(one, other) {
                let what =
                    format!("two attempts have answers: {} and {}", Named(one.first), Named(other.first));
                self.violation(Rule::DifferentAnswers, what);
            }
        }
        self.check_stored();
    }

    /// Each attempt has one answer. Returns the first call that knew it, by time.
    fn check_told(&mut self) -> Vec<Told<'a>> {
        let mut told: Vec<Told<'a>> = Vec::new();
        let mut calls: Vec<&Call> = self.calls.clone();
        calls.sort_by_key(|call| call.ended);
        for call in calls {
            let attempt = match call.op {
                Op::Begin if call.outcome.is_some_and(Outcome::tells_answer) => call.found.as_deref(),
                op if op.answers() && call.is_ok() => call.attempt.as_deref(),
                _ => continue,
            };
            match told.iter().find(|told| told.attempt == attempt) {
                None => told.push(Told { attempt, first: call }),
                Some(before) if before.first.digest != call.digest => {
                    let of = |call: &Call| call.digest.as_deref().unwrap_or("none").to_owned();
                    let (one, other) = (of(before.first), of(call));
                    let what =
                        format!("told {one} to {} and {other} to {}", Named(before.first), Named(call));
                    self.violation(Rule::DifferentAnswers, what);
                }
                Some(_) => {}
            }
        }
        told
    }

    fn is_corrected(&self, told: &Told<'_>) -> bool {
        told.attempt.is_some_and(|attempt| self.of_attempt(attempt).any(|call| call.op == Op::Correct))
    }

    fn forgotten(&self, one: &Told<'_>, other: &Told<'_>) -> bool {
        let Some(attempt) = one.attempt else { return false };
        let ends: Vec<&Call> = self.of_attempt(attempt).filter(|call| call.op.answers()).collect();
        ends.iter().filter_map(|end| end.ttl).any(|ttl| other.first.ended >= Time::of_seconds(ttl))
    }

    /// A replayed answer was stored by the attempt that it names.
    fn check_stored(&mut self) {
        let tells = |outcome: Outcome| outcome.tells_answer() || outcome == Outcome::Held;
        let replays: Vec<&Call> =
            self.calls.iter().copied().filter(|call| call.outcome.is_some_and(tells)).collect();
        for replay in replays {
            let Some(attempt) = replay.found.as_deref() else {
                self.violation(
                    Rule::UnstoredAnswer,
                    format!("replayed an answer that names no attempt: {}", Named(replay)),
                );
                continue;
            };
            let stored = self.of_attempt(attempt).any(|end| {
                (end.op.answers() || end.op == Op::Hold)
                    && end.digest == replay.digest
                    && end.may_have_happened()
                    && replay.ended >= end.invoked
            });
            if stored {
                continue;
            }
            let what =
                format!("replayed an answer that attempt {attempt} cannot have stored: {}", Named(replay));
            self.violation(Rule::UnstoredAnswer, what);
        }
    }
}
