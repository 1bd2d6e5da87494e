//! Ids and jitter without chance.

use std::sync::atomic::{AtomicU64, Ordering};

use locker::Ids;

/// The length of an id.
pub(super) const ID_BYTES: usize = "attempt-0-000000000000".len();

/// Numbers the attempts of one client.
#[derive(Debug)]
pub(super) struct Numbered {
    client: usize,
    next: AtomicU64,
}

impl Numbered {
    pub(super) const fn new(client: usize) -> Self {
        Self { client, next: AtomicU64::new(0) }
    }

    /// Begin anew, for another plan. The engine remembers the ids of transactions, so no two plans have the same.
    pub(super) fn begin(&self, plan: u64) {
        self.next.store(plan * OF_A_PLAN, Ordering::Relaxed);
    }
}

/// How many ids a plan has at most.
const OF_A_PLAN: u64 = 1_000_000;

/// The same text, as if it were of the first plan.
pub(super) fn of_any_plan(text: &str, plan: u64) -> String {
    text.replace(&format!("-{plan:06}"), "-000000")
}

impl Ids for Numbered {
    fn attempt(&self) -> String {
        format!("attempt-{}-{:012}", self.client, self.next.fetch_add(1, Ordering::Relaxed))
    }

    fn jitter(&self) -> f64 {
        0.5
    }
}
