//! Every rule broken once: proof that the explorer bites.

use locker::mutants::{Mutant, switch};

use super::choices::Plan;
use super::explore::explore;
use super::fate::ALL;
use super::invariant::Violation;
use super::play::Bounds;
use super::scenario::{Scenario, Verb};

/// A mutant, and the first plan that shows it.
#[derive(Debug)]
pub struct Caught {
    /// The depth that it took.
    pub depth: usize,
    /// What was done.
    pub scenario: Scenario,
    /// The plan.
    pub plan: Plan,
    /// What it broke.
    pub violation: Violation,
}

/// Look for a plan that shows a mutant, in growing depth, in the scenario where the broken rule matters.
#[must_use]
pub fn hunt(mutant: Mutant, deepest: usize) -> Option<Caught> {
    let scenario = matters_in(mutant);
    (0..=deepest).find_map(|depth| {
        let bounds = Bounds { depth, fates: ALL };
        let explored = explore(&[scenario], bounds, true, || switch(Some(mutant)), |_| ()).pop()?;
        explored.broken.map(|(plan, violation)| Caught { depth, scenario, plan, violation })
    })
}

const fn matters_in(mutant: Mutant) -> Scenario {
    use Mutant as M;
    let (clients, verb, take_over) = match mutant {
        M::NoAttemptCheck | M::TakeOverUnseen | M::RefusedIsDone => (2, Verb::Complete, true),
        M::UnconditionalRelease => (2, Verb::Release, true),
        M::UnconditionalBegin | M::ConflictIsAnAnswer => (2, Verb::Complete, false),
        M::TtlOnFailed => (1, Verb::Fail, false),
        M::TakeOverWithoutMargin => (1, Verb::Complete, true),
        M::ConflictIsRefusal => (1, Verb::Release, false),
        M::OneAnswerKey => (2, Verb::CompleteLarge, true),
        M::SilenceIsStored | M::DropAnswerInDoubt => (1, Verb::CompleteLarge, false),
        _ => (1, Verb::Complete, false),
    };
    Scenario { clients, verb, take_over }
}
