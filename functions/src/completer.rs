//! The completer: every minute, drives workflows that nobody finished.

use std::collections::BTreeMap;
use std::time::Duration;

use lambda_runtime::{Error, LambdaEvent};
use locker::workflow::Completer;
use serde::Serialize;
use serde_json::Value;

use crate::deadline::deadline;

/// Left at the end of an invocation, to leave what is still driven and to tell.
const RESERVE: Duration = Duration::from_secs(5);

/// What a run did, as the invocation's answer.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// Workflows that it took.
    pub taken: usize,
    /// Came to an answer.
    pub completed: usize,
    /// Failed for good or were cancelled, and are undone.
    pub undone: usize,
    /// Wait for their next try.
    pub waiting: usize,
    /// Were parked for a person.
    pub quarantined: usize,
    /// Were due, and somebody else came first.
    pub passed_by: usize,
    /// Panicked, or took too long.
    pub broken_off: usize,
    /// Could not be driven.
    pub failed: usize,
    /// Due workflows without code here, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub unknown: BTreeMap<String, usize>,
    /// Whether all that was due was seen.
    pub finished: bool,
    /// What stopped it, other than its deadline or its limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stopped_by: Option<String>,
}

/// Handle a scheduled event, whatever it holds.
///
/// # Errors
///
/// If nothing could be listed at all. The schedule tries again.
pub async fn handle(completer: &Completer, event: LambdaEvent<Value>) -> Result<Report, Error> {
    let until = deadline(&event.context, RESERVE);
    let done = until.into_iter().fold(completer.clone(), Completer::deadline).run().await?;
    Ok(Report {
        taken: done.taken,
        completed: done.completed,
        undone: done.undone,
        waiting: done.waiting,
        quarantined: done.quarantined,
        passed_by: done.passed_by,
        broken_off: done.broken_off,
        failed: done.failed,
        unknown: done.unknown,
        finished: done.finished,
        stopped_by: done.stopped_by.map(|error| error.to_string()),
    })
}
