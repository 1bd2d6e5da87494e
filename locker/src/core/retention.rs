//! How long an answer is kept.

use std::time::Duration;

use chrono::{DateTime, Utc};

use super::time;

/// How long an answer is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retention {
    /// For this long after completion. Then it counts as absent, and DynamoDB deletes it some time
    /// later.
    For(Duration),
    /// Indefinitely.
    Forever,
}

/// How long past its expected completion an unlisted token is kept: nobody looks at it if no caller
/// returns.
const UNLISTED: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// The `ttl` of an unlisted token that is due at this time.
pub(crate) fn unlisted_ttl(due: DateTime<Utc>) -> i64 {
    seconds(due, UNLISTED)
}

fn seconds(from: DateTime<Utc>, kept: Duration) -> i64 {
    time::after(from, kept).timestamp().saturating_add(1)
}

impl Retention {
    /// The longer of two.
    pub(crate) fn longer(self, other: Self) -> Self {
        match (self, other) {
            (Self::For(one), Self::For(two)) => Self::For(one.max(two)),
            _ => Self::Forever,
        }
    }

    /// The `ttl` of an answer completed at this time: epoch seconds, rounded up.
    pub(crate) fn ttl(self, ended: DateTime<Utc>) -> Option<i64> {
        match self {
            Self::Forever => None,
            Self::For(kept) => Some(seconds(ended, kept)),
        }
    }
}
