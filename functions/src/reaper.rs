//! The reaper: every hour, deletes finished workflows past their retention, and quarantines old unfinished ones.

use std::time::Duration;

use lambda_runtime::{Error, LambdaEvent};
use locker::workflow::{Reaper, ReaperReport};
use serde_json::Value;

use crate::deadline::deadline;

/// Time reserved at the end of an invocation, to report.
const RESERVE: Duration = Duration::from_secs(5);

/// Handle a scheduled event, whatever it holds.
///
/// # Errors
///
/// If nothing could be listed. The schedule tries again.
pub async fn handle(reaper: &Reaper, event: LambdaEvent<Value>) -> Result<ReaperReport, Error> {
    let until = deadline(&event.context, RESERVE);
    Ok(until.into_iter().fold(reaper.clone(), Reaper::deadline).run().await?)
}
