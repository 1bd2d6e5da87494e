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
    pub in_progress: Option<usize>,
    /// Tokens that wait for a person, counted up to a limit.
    pub failed: Option<usize>,
    /// Whether everything was read.
    pub finished: bool,
    /// What stopped the scan, other than its deadline.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stopped_by: Option<String>,
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
        missing_tasks: scanned.missing.len() + scanned.unreadable,
        in_progress: scanned.in_progress.map(|count| count.at_least),
        failed: scanned.failed.map(|count| count.at_least),
        finished: scanned.finished,
        stopped_by: scanned.stopped_by.map(|error| error.to_string()),
    })
}
