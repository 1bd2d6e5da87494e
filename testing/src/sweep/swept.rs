//! What a sweep found.

use std::fmt;

use super::plan::Plan;

/// What a sweep found. Nothing is reported until you look: see
/// [`expect_nothing_wrong`](Self::expect_nothing_wrong).
#[derive(Debug, Default)]
pub struct Swept {
    pub(super) plans: usize,
    pub(super) found: Vec<Found>,
}

/// A play in which something was wrong.
#[derive(Debug, Clone)]
pub struct Found {
    pub(super) plan: Plan,
    pub(super) wrong: Vec<String>,
    pub(super) trace: Vec<String>,
}

impl Swept {
    /// How many plans were played.
    #[must_use]
    pub const fn plans(&self) -> usize {
        self.plans
    }

    /// The plays in which something was wrong, those with the fewest faults first.
    #[must_use]
    pub fn found(&self) -> &[Found] {
        &self.found
    }

    /// Panic with the shortest play in which something was wrong, and how to play it again.
    ///
    /// # Panics
    ///
    /// If something was wrong.
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
    /// What was wrong.
    #[must_use]
    pub fn wrong(&self) -> &[String] {
        &self.wrong
    }

    /// The faults of the play.
    #[must_use]
    pub const fn plan(&self) -> &Plan {
        &self.plan
    }

    /// What happened, a line each.
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
