//! The deadline of an invocation.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use lambda_runtime::Context;

use crate::clock::{Clock as _, SystemClock};

/// The longest that an invocation can take on AWS Lambda.
const LONGEST: TimeDelta = TimeDelta::minutes(15);

/// The time until which an invocation may work, less a reserve for its response. It has passed if
/// less than the reserve is left. Give it to
/// [`BeginBuilder::deadline`](crate::BeginBuilder::deadline) or
/// [`StartBuilder::deadline`](crate::workflow::StartBuilder::deadline).
///
/// `None` if the runtime reports a time that no invocation of now can have: `cargo lambda watch`
/// reports 600,000 milliseconds, which is ten minutes after midnight in 1970.
///
/// ```no_run
/// # use lambda_runtime::{Error, LambdaEvent};
/// # use locker::{Failure, Locker};
/// # async fn charge() -> Result<String, Failure> { Ok("done".to_owned()) }
/// use std::time::Duration;
///
/// async fn handle(locker: &Locker, event: LambdaEvent<String>) -> Result<String, Error> {
///     let until = locker::lambda::deadline(&event.context, Duration::from_millis(500));
///     let token = locker.token(("order", event.payload)).owner(locker::lambda::owner(&event.context));
///     let token = until.into_iter().fold(token, |token, until| token.deadline(until));
///     Ok(token.run(async |_| charge().await).await?.into_inner())
/// }
/// ```
#[must_use]
pub fn deadline(context: &Context, reserve: Duration) -> Option<DateTime<Utc>> {
    let milliseconds = i64::try_from(context.deadline).ok()?;
    let end = DateTime::from_timestamp_millis(milliseconds)?;
    if end < SystemClock.now() - LONGEST {
        return None;
    }
    let reserve = TimeDelta::from_std(reserve).unwrap_or(TimeDelta::MAX);
    Some(end.checked_sub_signed(reserve).unwrap_or(DateTime::<Utc>::MIN_UTC))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_impossible_deadline_is_none() {
        let mut context = Context::default();
        let later = u64::try_from(SystemClock.now().timestamp_millis()).unwrap() + 60_000;
        for (milliseconds, reserve, is_some) in [
            (later, Duration::ZERO, true),
            (later, Duration::from_secs(59), true),
            (later, Duration::from_secs(61), true),
            (later, Duration::MAX, true),
            (later - 61_000, Duration::ZERO, true),
            (0, Duration::from_secs(2), false),
            (600_000, Duration::ZERO, false),
            (u64::MAX, Duration::ZERO, false),
            (i64::MAX as u64, Duration::ZERO, false),
        ] {
            context.deadline = milliseconds;
            assert_eq!(deadline(&context, reserve).is_some(), is_some, "{milliseconds} less {reserve:?}");
        }
    }

    #[test]
    fn with_less_than_the_reserve_left_the_deadline_has_passed() {
        let mut context = Context::default();
        context.deadline = u64::try_from(SystemClock.now().timestamp_millis()).unwrap() + 60_000;
        for reserve in [Duration::from_secs(61), Duration::MAX] {
            assert!(deadline(&context, reserve).is_some_and(|deadline| deadline < SystemClock.now()));
        }
    }
}
