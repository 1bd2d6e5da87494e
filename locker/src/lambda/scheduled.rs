//! The functions that run on a schedule, and their remaining time.

use std::time::Duration;

use chrono::{DateTime, Utc};
use lambda_runtime::{Context, Error, LambdaEvent};
use serde_json::Value;

use super::deadline::deadline;
use crate::clock::{Clock as _, SystemClock};
use crate::core::time;
#[cfg(feature = "messages")]
use crate::relay::{Relay, RelayReport};
use crate::session::due_work::RunReport;
use crate::token::{Locker, ScanReport, Scanner};
#[cfg(feature = "workflow")]
use crate::workflow::{Completer, CompleterReport, Reaper, ReaperReport};

/// Time kept at the end of an invocation, to report.
const TO_REPORT: Duration = Duration::from_secs(2);
/// Time kept to stop running workflows and to report.
#[cfg(feature = "workflow")]
const TO_STOP: Duration = Duration::from_secs(5);

/// Returns the time at which a scheduled function must stop: `reserve` before its invocation ends.
///
/// `least`: the shortest time in which a run can begin work.
///
/// # Errors
///
/// If less than `reserve` and `least` together is left: the timeout of the function is too short.
/// Without this error, each run would do nothing and succeed.
pub(super) fn until(
    context: &Context,
    reserve: Duration,
    least: Duration,
) -> Result<Option<DateTime<Utc>>, Error> {
    let until = deadline(context, reserve);
    if until.is_some_and(|until| time::before(until, least) <= SystemClock.now()) {
        let needed = reserve.saturating_add(least);
        return Err(format!(
            "could not begin the run: less than {needed:?} is left to this invocation; raise the timeout of the function"
        )
        .into());
    }
    Ok(until)
}

/// Scans until 2 seconds before the end of the invocation, on any event of a schedule.
///
/// # Errors
///
/// If nothing could be read: the schedule tries again. If less than 2 seconds are left at the
/// start: set the timeout of the function to 60 seconds.
pub async fn scan(locker: &Locker, event: LambdaEvent<Value>) -> Result<RunReport<ScanReport>, Error> {
    let until = until(&event.context, TO_REPORT, Duration::ZERO)?;
    Ok(until.into_iter().fold(Scanner::new(locker), Scanner::deadline).run().await?)
}

/// Drives due workflows until 5 seconds before the end of the invocation, on any event of a
/// schedule.
///
/// Give the function a runtime of several threads, so that code that blocks its thread does not
/// delay other workflows.
///
/// # Errors
///
/// If nothing could be listed: the schedule tries again. If less than 10 seconds are left at the
/// start: set the timeout of the function to 60 seconds.
#[cfg(feature = "workflow")]
pub async fn complete(
    completer: &Completer,
    event: LambdaEvent<Value>,
) -> Result<RunReport<CompleterReport>, Error> {
    let until = until(&event.context, TO_STOP, Completer::LEAST)?;
    Ok(until.into_iter().fold(completer.clone(), Completer::deadline).run().await?)
}

/// Deletes finished workflows until 5 seconds before the end of the invocation, on any event of a
/// schedule.
///
/// # Errors
///
/// If nothing could be listed: the schedule tries again. If less than 7 seconds are left at the
/// start: set the timeout of the function to 60 seconds.
#[cfg(feature = "workflow")]
pub async fn reap(reaper: &Reaper, event: LambdaEvent<Value>) -> Result<RunReport<ReaperReport>, Error> {
    let until = until(&event.context, TO_STOP, Reaper::LEAST)?;
    Ok(until.into_iter().fold(reaper.clone(), Reaper::deadline).run().await?)
}

/// Sends waiting messages until 5 seconds before the end of the invocation, on any event of a
/// schedule.
///
/// # Errors
///
/// If nothing could be listed: the schedule tries again. If less than 7 seconds are left at the
/// start: set the timeout of the function to 60 seconds.
#[cfg(feature = "messages")]
pub async fn relay(relay: &Relay, event: LambdaEvent<Value>) -> Result<RunReport<RelayReport>, Error> {
    let until = until(&event.context, TO_STOP, Relay::LEAST)?;
    Ok(until.into_iter().fold(relay.clone(), Relay::deadline).run().await?)
}

#[cfg(test)]
mod tests {
    use super::*;
    #[cfg(feature = "messages")]
    use crate::{message::Router, workflow::Workflows};

    /// An invocation that has this time.
    fn context(seconds: i64) -> Context {
        let mut context = Context::default();
        let end = SystemClock.now().timestamp_millis() + seconds * 1000;
        context.deadline = u64::try_from(end).unwrap();
        context
    }

    #[test]
    fn invocation_without_time_to_work_fails() {
        let (reserve, least) = (Duration::from_secs(5), Duration::from_secs(300));
        assert!(until(&context(600), reserve, least).is_ok_and(|until| until.is_some()));
        // The reserve is left, but not enough time to begin work.
        let refused = until(&context(240), reserve, least).unwrap_err().to_string();
        assert_eq!(
            refused,
            "could not begin the run: less than 305s is left to this invocation; raise the timeout of the function"
        );
        // A local emulator reports a time of 1970.
        let mut local = context(0);
        local.deadline = 600_000;
        assert_eq!(until(&local, reserve, least).unwrap(), None);
    }

    #[cfg(feature = "messages")]
    #[tokio::test]
    async fn function_fails_if_its_run_would_begin_nothing() {
        let event = |seconds| LambdaEvent::new(Value::Null, context(seconds));
        let config = aws_sdk_dynamodb::Config::builder().behavior_version_latest().build();
        let workflows = Workflows::new(&aws_sdk_dynamodb::Client::from_conf(config), "workflows").unwrap();
        let completer = Completer::new(&workflows);
        let refused = complete(&completer, event(9)).await.unwrap_err().to_string();
        assert!(refused.contains("less than 10s is left"), "{refused}");
        let refused = reap(&Reaper::new(&completer), event(6)).await.unwrap_err().to_string();
        assert!(refused.contains("less than 7s is left"), "{refused}");
        let refused = relay(&Relay::new(&workflows, Router::new()), event(6)).await.unwrap_err().to_string();
        assert!(refused.contains("less than 7s is left"), "{refused}");
    }
}
