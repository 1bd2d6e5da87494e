//! The functions that run on a schedule, and their remaining time.

use std::time::Duration;

use lambda_runtime::{Error, LambdaEvent};
use serde_json::Value;

use super::deadline::deadline;
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

/// Scans until 2 seconds before the end of the invocation, on any event of a schedule.
///
/// # Errors
///
/// If nothing could be read. The schedule tries again.
pub async fn scan(locker: &Locker, event: LambdaEvent<Value>) -> Result<RunReport<ScanReport>, Error> {
    let until = deadline(&event.context, TO_REPORT);
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
/// If nothing could be listed. The schedule tries again.
#[cfg(feature = "workflow")]
pub async fn complete(
    completer: &Completer,
    event: LambdaEvent<Value>,
) -> Result<RunReport<CompleterReport>, Error> {
    let until = deadline(&event.context, TO_STOP);
    Ok(until.into_iter().fold(completer.clone(), Completer::deadline).run().await?)
}

/// Deletes finished workflows until 5 seconds before the end of the invocation, on any event of a
/// schedule.
///
/// # Errors
///
/// If nothing could be listed. The schedule tries again.
#[cfg(feature = "workflow")]
pub async fn reap(reaper: &Reaper, event: LambdaEvent<Value>) -> Result<RunReport<ReaperReport>, Error> {
    let until = deadline(&event.context, TO_STOP);
    Ok(until.into_iter().fold(reaper.clone(), Reaper::deadline).run().await?)
}

/// Sends waiting messages until 5 seconds before the end of the invocation, on any event of a
/// schedule.
///
/// # Errors
///
/// If nothing could be listed. The schedule tries again.
#[cfg(feature = "messages")]
pub async fn relay(relay: &Relay, event: LambdaEvent<Value>) -> Result<RunReport<RelayReport>, Error> {
    let until = deadline(&event.context, TO_STOP);
    Ok(until.into_iter().fold(relay.clone(), Relay::deadline).run().await?)
}
