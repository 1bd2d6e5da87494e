//! Once: what really happened, by the books of the provider.

use super::view::View;
use crate::history::report::{Named, Rule};

impl View<'_> {
    pub(super) fn check_effects(&mut self) {
        self.report.effects += self.effects.len();
        let mut holders = self.holders();
        holders.sort_by_key(|call| call.ended);
        let mut repeats = 0;
        for (number, effect) in self.effects.iter().enumerate() {
            // A begin has its outcome in the history before the work starts.
            let before: Vec<_> = holders.iter().filter(|call| effect.at >= call.ended).copied().collect();
            let attempt = effect.attempt.as_deref();
            let by = attempt.map(|attempt| format!(" by {attempt}")).unwrap_or_default();
            let held = before.iter().any(|call| attempt.is_none() || call.attempt.as_deref() == attempt);
            if !held {
                let what = format!("it happened at {}{by}, and no caller owned the token for it", effect.at);
                self.violation(Rule::EffectWithoutHolder, what);
                continue;
            }
            if number == 0 {
                continue;
            }
            let first = &self.effects[0];
            let same =
                attempt.is_some() && self.effects[..number].iter().any(|it| it.attempt.as_deref() == attempt);
            if self.rules.at_most_once || same || before.len() <= number {
                let holders: Vec<_> = before.iter().map(|call| Named(call).to_string()).collect();
                let what = format!(
                    "it happened {} times: at {} and at {}{by}; acquired by {}",
                    number + 1,
                    first.at,
                    effect.at,
                    holders.join(" and ")
                );
                self.violation(Rule::DuplicateEffect, what);
            } else {
                repeats += 1;
            }
        }
        self.report.explained_repeats += repeats;
    }
}
