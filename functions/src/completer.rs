//! The completer: every minute, drives due workflows that are not finished.

use std::time::Duration;

use lambda_runtime::{Error, LambdaEvent};
use locker::workflow::{Completer, CompleterReport};
use serde_json::Value;

use crate::deadline::deadline;

/// Time reserved at the end of an invocation, to stop running workflows and to report.
const RESERVE: Duration = Duration::from_secs(5);

/// Handle a scheduled event, whatever it holds.
///
/// # Errors
///
/// If nothing could be listed at all. The schedule tries again.
pub async fn handle(completer: &Completer, event: LambdaEvent<Value>) -> Result<CompleterReport, Error> {
    let until = deadline(&event.context, RESERVE);
    Ok(until.into_iter().fold(completer.clone(), Completer::deadline).run().await?)
}
