//! The scanner: on a schedule, reports missing tasks.

use std::time::Duration;

use lambda_runtime::{Error, LambdaEvent};
use locker::{Locker, ScanReport, Scanner};
use serde_json::Value;

use crate::deadline::deadline;

/// Time reserved at the end of an invocation, to report.
const RESERVE: Duration = Duration::from_secs(2);

/// Handle a scheduled event, whatever it holds.
///
/// # Errors
///
/// If nothing could be read at all. The schedule tries again.
pub async fn handle(locker: &Locker, event: LambdaEvent<Value>) -> Result<ScanReport, Error> {
    let until = deadline(&event.context, RESERVE);
    Ok(until.into_iter().fold(Scanner::new(locker), Scanner::deadline).run().await?)
}
