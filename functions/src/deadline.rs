//! The deadline of an invocation.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use lambda_runtime::Context;
use locker::{Clock as _, SystemClock};

/// The time until which an invocation may work, less a reserve for its response.
///
/// `None` if the runtime reports a time in the past: no invocation starts after its end, and
/// `cargo lambda watch` reports 600,000 milliseconds, which is ten minutes after midnight in 1970.
#[must_use]
pub fn deadline(context: &Context, reserve: Duration) -> Option<DateTime<Utc>> {
    let milliseconds = i64::try_from(context.deadline).ok()?;
    let deadline = DateTime::from_timestamp_millis(milliseconds)?;
    let deadline = deadline.checked_sub_signed(TimeDelta::from_std(reserve).ok()?)?;
    (deadline > SystemClock.now()).then_some(deadline)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_impossible_deadline_is_none() {
        let mut context = Context::default();
        let later = u64::try_from(SystemClock.now().timestamp_millis()).unwrap() + 60_000;
        for (milliseconds, reserve, is_some) in [
            (later, Duration::ZERO, true),
            (later, Duration::from_secs(59), true),
            (later, Duration::from_secs(61), false),
            (later, Duration::MAX, false),
            (0, Duration::from_secs(2), false),
            (600_000, Duration::ZERO, false),
            (u64::MAX, Duration::ZERO, false),
            (i64::MAX as u64, Duration::ZERO, false),
        ] {
            context.deadline = milliseconds;
            assert_eq!(deadline(&context, reserve).is_some(), is_some, "{milliseconds} less {reserve:?}");
        }
    }
}
