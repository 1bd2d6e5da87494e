//! Metrics, through the `metrics` facade: install the recorder of your choice.
//!
//! | name | kind | labels | counts |
//! |---|---|---|---|
//! | `lockTokensAcquired` | counter | `operation`, `takeover` | begins that got the token |
//! | `lockTokensReplayed` | counter | `operation`, `outcome` | begins that got a stored answer or failure |
//! | `lockTokensInProgress` | counter | `operation` | begins refused because somebody is at work |
//! | `lockTokensMismatched` | counter | `operation` | begins with the same key and another request |
//! | `lockTokensEnded` | counter | `operation`, `outcome` | tokens ended: `success`, `failure`, `error`, `released` |
//! | `lockTokensExtended` | counter | `operation` | due times moved back |
//! | `lostOwnership` | counter | `operation` | ends by an attempt that no longer held the token |
//! | `unrecordedResults` | counter | `operation` | work that succeeded and could not be saved |
//! | `inDoubt` | counter | `operation` | work of which nobody knows whether it happened |
//! | `workDuration` | histogram, seconds | `operation`, `outcome` | the work inside `run` |
//! | `requests` | counter | `verb` | requests to DynamoDB, every try |
//! | `silentRequests` | counter | `verb` | writes without a clear reply |
//! | `missingTasks` | gauge | | overdue tokens that the last scan found |
//! | `oldestMissingTask` | gauge, seconds | | how long the oldest of them is overdue |
//! | `tokensInProgress`, `tokensFailed` | gauge | | as the last scan counted them, up to its limit |
//! | `scanFinished` | gauge | | 1 if the last scan read everything, 0 if there may be more |
//! | `consumedWriteUnits`, `consumedReadUnits` | histogram | `verb` | what DynamoDB said, if asked to |
//!
//! `operation` is the scope of a composed key, or `-`. No label ever holds a key.

use metrics::{counter, gauge, histogram};

use crate::core::key::Key;
use crate::token::Scanned;

/// Begins that got the token.
pub const ACQUIRED: &str = "lockTokensAcquired";
/// Begins that got a stored answer or failure.
pub const REPLAYED: &str = "lockTokensReplayed";
/// Begins refused because somebody is at work.
pub const IN_PROGRESS: &str = "lockTokensInProgress";
/// Begins with the same key and another request.
pub const MISMATCHED: &str = "lockTokensMismatched";
/// Tokens ended.
pub const ENDED: &str = "lockTokensEnded";
/// Due times moved back.
pub const EXTENDED: &str = "lockTokensExtended";
/// Ends by an attempt that no longer held the token.
pub const LOST_OWNERSHIP: &str = "lostOwnership";
/// Work that succeeded and could not be saved.
pub const UNRECORDED: &str = "unrecordedResults";
/// Work of which nobody knows whether it happened.
pub const IN_DOUBT: &str = "inDoubt";
/// How long the work inside `run` took, in seconds.
pub const WORK_DURATION: &str = "workDuration";
/// Requests to DynamoDB, every try.
pub const REQUESTS: &str = "requests";
/// Writes without a clear reply.
pub const SILENT_REQUESTS: &str = "silentRequests";
/// Overdue tokens that the last scan found. Seed 004's name.
pub const MISSING_TASKS: &str = "missingTasks";
/// How long the oldest of them is overdue, in seconds.
pub const OLDEST_MISSING_TASK: &str = "oldestMissingTask";
/// Tokens in progress, as the last scan counted them.
pub const TOKENS_IN_PROGRESS: &str = "tokensInProgress";
/// Tokens that wait for a person, as the last scan counted them.
pub const TOKENS_FAILED: &str = "tokensFailed";
/// 1 if the last scan read everything, 0 if there may be more.
pub const SCAN_FINISHED: &str = "scanFinished";
/// Write units that DynamoDB said it charged.
pub const CONSUMED_WRITE_UNITS: &str = "consumedWriteUnits";
/// Read units that DynamoDB said it charged.
pub const CONSUMED_READ_UNITS: &str = "consumedReadUnits";

/// Every name, for a test that compares a dashboard with the code.
pub const ALL: [&str; 19] = [
    MISSING_TASKS,
    OLDEST_MISSING_TASK,
    TOKENS_IN_PROGRESS,
    TOKENS_FAILED,
    SCAN_FINISHED,
    ACQUIRED,
    REPLAYED,
    IN_PROGRESS,
    MISMATCHED,
    ENDED,
    EXTENDED,
    LOST_OWNERSHIP,
    UNRECORDED,
    IN_DOUBT,
    WORK_DURATION,
    REQUESTS,
    SILENT_REQUESTS,
    CONSUMED_WRITE_UNITS,
    CONSUMED_READ_UNITS,
];

fn operation(key: &Key) -> String {
    key.scope().unwrap_or("-").to_owned()
}

pub(crate) fn count(name: &'static str, key: &Key) {
    counter!(name, "operation" => operation(key)).increment(1);
}

pub(crate) fn count_outcome(name: &'static str, key: &Key, outcome: &'static str) {
    counter!(name, "operation" => operation(key), "outcome" => outcome).increment(1);
}

pub(crate) fn count_acquired(key: &Key, takeover: bool) {
    let takeover = if takeover { "true" } else { "false" };
    counter!(ACQUIRED, "operation" => operation(key), "takeover" => takeover).increment(1);
}

pub(crate) fn work_took(key: &Key, outcome: &'static str, seconds: f64) {
    histogram!(WORK_DURATION, "operation" => operation(key), "outcome" => outcome).record(seconds);
}

#[allow(clippy::cast_precision_loss, reason = "no table holds 2^53 tokens")]
pub(crate) fn scanned(scanned: &Scanned) {
    gauge!(MISSING_TASKS).set((scanned.missing.len() + scanned.unreadable) as f64);
    gauge!(OLDEST_MISSING_TASK).set(scanned.oldest.as_secs_f64());
    // What was not counted keeps its last value: zero would be a lie.
    if let Some(count) = scanned.in_progress {
        gauge!(TOKENS_IN_PROGRESS).set(count.at_least as f64);
    }
    if let Some(count) = scanned.failed {
        gauge!(TOKENS_FAILED).set(count.at_least as f64);
    }
    gauge!(SCAN_FINISHED).set(if scanned.finished { 1.0 } else { 0.0 });
}

/// Nothing could be read. A gauge keeps its last value, so this has to be said.
pub(crate) fn scan_failed() {
    gauge!(SCAN_FINISHED).set(0.0);
}

pub(crate) fn count_request(verb: &'static str) {
    counter!(REQUESTS, "verb" => verb).increment(1);
}

pub(crate) fn count_silence(verb: &'static str) {
    counter!(SILENT_REQUESTS, "verb" => verb).increment(1);
}

/// DynamoDB reports units without saying which kind; the verb knows.
pub(crate) fn count_units(verb: &'static str, units: Option<f64>) {
    let Some(units) = units else { return };
    let name = match verb {
        "read the token" | "read the answer" | "list" => CONSUMED_READ_UNITS,
        _ => CONSUMED_WRITE_UNITS,
    };
    histogram!(name, "verb" => verb).record(units);
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_metric_stands_in_the_table() {
        let table = include_str!("metrics.rs");
        for name in super::ALL {
            assert!(
                table.lines().any(|line| line.starts_with("//! |") && line.contains(&format!("`{name}`"))),
                "{name}"
            );
        }
    }
}
