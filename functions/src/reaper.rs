//! The reaper: every hour, forgets finished workflows, and shows what will never finish.

use std::time::Duration;

use lambda_runtime::{Error, LambdaEvent};
use locker::workflow::{Completer, Reaper};
use serde::Serialize;
use serde_json::Value;

use crate::deadline::deadline;

/// Left at the end of an invocation, to tell.
const RESERVE: Duration = Duration::from_secs(5);

/// What a run did, as the invocation's answer.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// Finished workflows that were forgotten.
    pub forgotten: usize,
    /// Finished workflows that are kept: a step in doubt, or an unsent message.
    pub kept: usize,
    /// Old unfinished workflows that their last attempt finished.
    pub completed: usize,
    /// Old unfinished workflows that were parked.
    pub quarantined: usize,
    /// Workflows that could not be read or written; they stay.
    pub failed: usize,
    /// Whether all that was due was seen.
    pub finished: bool,
}

/// Handle a scheduled event, whatever it holds.
///
/// # Errors
///
/// If nothing could be listed. The schedule tries again.
pub async fn handle(completer: &Completer, event: LambdaEvent<Value>) -> Result<Report, Error> {
    let until = deadline(&event.context, RESERVE);
    let reaped = until.into_iter().fold(Reaper::new(completer), Reaper::deadline).run().await?;
    Ok(Report {
        forgotten: reaped.forgotten,
        kept: reaped.kept,
        completed: reaped.completed,
        quarantined: reaped.quarantined,
        failed: reaped.failed,
        finished: reaped.finished,
    })
}
