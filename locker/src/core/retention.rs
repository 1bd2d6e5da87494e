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

/// The time for which an unlisted token is kept past its expected completion. If no caller returns,
/// the token is not needed.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: i64) -> DateTime<Utc> {
        DateTime::from_timestamp_millis(millis).unwrap()
    }

    #[test]
    fn ttl_is_rounded_up_to_a_later_second() {
        let kept = Retention::For(Duration::from_secs(60));
        assert_eq!([0, 999, 1000].map(|ended| kept.ttl(at(ended))), [Some(61), Some(61), Some(62)]);
        assert_eq!(Retention::Forever.ttl(at(0)), None);
    }

    #[test]
    fn unlisted_token_is_kept_for_a_week_past_due() {
        assert_eq!(unlisted_ttl(at(10_000)), 10 + 604_800 + 1);
    }

    #[test]
    fn longer_of_two_retentions_is_kept() {
        let [short, long] = [1, 2].map(|seconds| Retention::For(Duration::from_secs(seconds)));
        assert_eq!((short.longer(long), long.longer(short)), (long, long));
        for other in [short, Retention::Forever] {
            assert_eq!(Retention::Forever.longer(other), Retention::Forever);
            assert_eq!(other.longer(Retention::Forever), Retention::Forever);
        }
    }
}
