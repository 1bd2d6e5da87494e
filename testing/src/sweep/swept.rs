//! The results of a sweep.

use std::fmt;

use super::plan::Plan;

/// The results of a sweep. To report failures, call
/// [`expect_nothing_wrong`](Self::expect_nothing_wrong).
#[derive(Debug, Default)]
pub struct Swept {
    pub(super) plans: usize,
    pub(super) found: Vec<Found>,
}

/// A play that failed.
#[derive(Debug, Clone)]
pub struct Found {
    pub(super) plan: Plan,
    pub(super) wrong: Vec<String>,
    pub(super) trace: Vec<String>,
}

impl Swept {
    /// Returns the number of plans that were played.
    #[must_use]
    pub const fn plans(&self) -> usize {
        self.plans
    }

    /// Returns the plays that failed, those with the fewest faults first.
    #[must_use]
    pub fn found(&self) -> &[Found] {
        &self.found
    }

    /// Panics with the shortest play that failed, and how to play it again.
    ///
    /// # Panics
    ///
    /// A play failed.
    #[allow(clippy::panic, reason = "it is an assertion")]
    pub fn expect_nothing_wrong(self) -> Self {
        assert!(self.plans > 0, "no plan was played");
        if let Some(found) = self.found.first() {
            let thread = std::thread::current();
            let test = thread.name().unwrap_or("main");
            let plan = &found.plan;
            panic!(
                "{} of {} plans went wrong. The shortest:\n{found}play only it: LOCKER_SWEEP={plan} cargo test {test} -- --nocapture",
                self.found.len(),
                self.plans
            );
        }
        self
    }
}

impl Found {
    /// Returns the errors that the check or the sweep found.
    #[must_use]
    pub fn wrong(&self) -> &[String] {
        &self.wrong
    }

    /// Returns the faults of the play.
    #[must_use]
    pub const fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Returns the trace, one line per event.
    #[must_use]
    pub fn trace(&self) -> &[String] {
        &self.trace
    }
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "plan {}: play it again with LOCKER_SWEEP={}", self.plan, self.plan)?;
        for line in &self.trace {
            writeln!(f, "    {line}")?;
        }
        for wrong in &self.wrong {
            writeln!(f, "WRONG {wrong}")?;
        }
        Ok(())
    }
}
