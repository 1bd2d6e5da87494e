//! The three kinds of step: how each runs and is recorded.

pub(super) mod atomic;
pub(super) mod attempt;
mod attempts;
pub(super) mod intent;
mod late;
pub(super) mod name;
pub(super) mod once;
mod once_attempt;
pub(super) mod once_record;
pub(super) mod recorded;
pub(super) mod report;
pub(super) mod results;
pub(super) mod retry;
#[allow(clippy::module_inception, reason = "one of three kinds, next to once and atomic")]
pub(super) mod step;

use atomic::Atomic;
use name::IntoStepName;
use once::Once;
use step::Step;

use super::flow::Flow;

impl Flow {
    /// A step that runs **at least once**: it runs again if its result may not have been recorded.
    ///
    /// Use it for reads, and for work that may happen twice. Use [`once`](Self::once) for work that
    /// may need compensation.
    pub fn step(&self, name: impl IntoStepName) -> Step<'_> {
        Step::new(self, self.path(name))
    }

    /// A step that runs **at most once**: recorded before it runs, so no driver repeats it without
    /// knowing its outcome.
    ///
    /// Use it for work that changes something outside DynamoDB.
    pub fn once(&self, name: impl IntoStepName) -> Once<'_> {
        Once::new(self, self.path(name))
    }

    /// A step that happens **exactly once**, inside DynamoDB: your rows, its messages and its
    /// record in one transaction.
    pub fn atomic(&self, name: impl IntoStepName) -> Atomic<'_> {
        Atomic::new(self, self.path(name))
    }
}
