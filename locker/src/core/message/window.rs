//! For how long a message is remembered.

use std::time::Duration;

use chrono::{DateTime, Utc};

use crate::core::time;

/// Longer than a message may be in a queue (14 days), in its dead-letter queue (14 days), and on
/// its way back.
pub(crate) const WINDOW: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// Returns until when a message of this time is remembered: at least until every clock refuses it
/// as too old. Its age is counted from the sender's time, and the sender's clock may be ahead.
pub(crate) fn remembered_until(
    now: DateTime<Utc>,
    time: Option<DateTime<Utc>>,
    window: Duration,
    skew: Duration,
) -> DateTime<Utc> {
    let from = time.map_or(now, |time| time.max(now));
    time::after(time::after(from, window), skew)
}

#[cfg(test)]
mod tests {
    use chrono::TimeDelta;

    use super::*;

    #[test]
    fn a_message_is_remembered_until_it_is_too_old() {
        let now = DateTime::from_timestamp(1_795_420_800, 0).unwrap();
        let kept = |ahead: Option<i64>| {
            let time = ahead.map(|days| now + TimeDelta::days(days));
            let until = remembered_until(now, time, WINDOW, Duration::from_secs(5));
            (until - TimeDelta::seconds(5) - now).num_days()
        };
        let cases = [(None, 30), (Some(-20), 30), (Some(0), 30), (Some(2), 32), (Some(400), 430)];
        for (ahead, days) in cases {
            assert_eq!(kept(ahead), days, "{ahead:?}");
        }
        assert_eq!(kept(Some(800)), 830);
    }
}
