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
}

impl Ids for Numbered {
    fn attempt(&self) -> String {
        format!("attempt-{}-{:012}", self.client, self.next.fetch_add(1, Ordering::Relaxed))
    }

    fn jitter(&self) -> f64 {
        0.5
    }
}
