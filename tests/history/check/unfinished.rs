//! The tokens that a scan has to list.

use super::view::View;
use crate::history::Call;
use crate::history::event::{Op, Outcome};

impl View<'_> {
    pub(super) fn list_unfinished(&mut self) {
        if self.calls.is_empty() || self.is_settled() {
            return;
        }
        if self.holders().iter().any(|holder| self.surely_holds(holder)) {
            self.report.unfinished.push(self.token.to_owned());
        } else if self.calls.iter().any(|call| call.is_open()) {
            self.report.uncertain.push(self.token.to_owned());
        }
    }

    /// Whether an answer is known that no call can have removed.
    fn is_settled(&self) -> bool {
        self.settled().iter().any(|settled| {
            let freed = |call: &&&Call| {
                call.op == Op::ReleaseByOperator && call.may_have_happened() && call.ended >= settled.since
            };
            let begun = |call: &&&Call| call.outcome.is_some_and(Outcome::holds);
            let again = self
                .calls
                .iter()
                .filter(begun)
                .any(|call| call.ended >= settled.forgotten && settled.known.ended < call.invoked);
            !again && !self.calls.iter().any(|call| freed(&call))
        })
    }

    /// Whether nothing can have taken the token from its owner.
    fn surely_holds(&self, holder: &Call) -> bool {
        let Some(attempt) = holder.attempt.as_deref() else { return false };
        !self.calls.iter().any(|call| {
            let own_end =
                call.op.ends() && call.attempt.as_deref() == Some(attempt) && call.may_have_happened();
            let taken = call.outcome == Some(Outcome::TookOver) && call.found.as_deref() == Some(attempt);
            let operator = matches!(call.op, Op::Resolve | Op::Close | Op::ReleaseByOperator)
                && call.may_have_happened()
                && call.ended >= holder.invoked;
            own_end || taken || operator
        })
    }
}
