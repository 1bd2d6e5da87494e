//! The scanner: on a schedule, tells of missing tasks.

use std::time::Duration;

use lambda_runtime::{Error, LambdaEvent};
use locker::{Locker, Scan};
use serde::Serialize;
use serde_json::Value;

use crate::deadline::deadline;

/// Left at the end of an invocation, to tell what was found.
const RESERVE: Duration = Duration::from_secs(2);

/// What a scan found, as the invocation's answer.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// Overdue tokens.
    pub missing_tasks: usize,
    /// Tokens in progress, counted up to a limit.
    pub in_progress: usize,
    /// Tokens that wait for a person, counted up to a limit.
    pub failed: usize,
    /// Whether everything was read.
    pub finished: bool,
}

/// Handle a scheduled event, whatever it holds.
///
/// # Errors
///
/// If nothing could be read at all. The schedule tries again.
pub async fn handle(locker: &Locker, event: LambdaEvent<Value>) -> Result<Report, Error> {
    let scan = deadline(&event.context, RESERVE).into_iter().fold(locker.scan(), Scan::deadline);
    let scanned = scan.run().await?;
    Ok(Report {
        missing_tasks: scanned.missing.len(),
        in_progress: scanned.in_progress.at_least,
        failed: scanned.failed.at_least,
        finished: scanned.finished,
    })
}
