//! How long an answer is kept.

use std::time::Duration;

use chrono::{DateTime, Utc};

use super::time;

/// How long an answer is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retention {
    /// For this long after completion. Then it counts as absent, and DynamoDB deletes it some time later.
    For(Duration),
    /// Indefinitely.
    Forever,
}

impl Retention {
    /// The `ttl` of an answer completed at this time: epoch seconds, rounded up.
    pub(crate) fn ttl(self, ended: DateTime<Utc>) -> Option<i64> {
        match self {
            Self::Forever => None,
            Self::For(kept) => Some(time::after(ended, kept).timestamp().saturating_add(1)),
        }
    }
}
