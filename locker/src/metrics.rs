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
//! | `workflowsStarted` | counter | `workflow` | workflows begun |
//! | `workflowsClaimed` | counter | `workflow` | drives of a workflow that somebody else began |
//! | `workflowsReplayed` | counter | `workflow` | stored answers and failures given again |
//! | `workflowsMismatched` | counter | `workflow` | starts with the same key and another request |
//! | `workflowsEnded` | counter | `workflow`, `outcome` | workflows ended: `completed`, `failed`, `cancelled` |
//! | `workflowsQuarantined` | counter | `workflow` | workflows parked for a person |
//! | `workflowsForgotten` | counter | `workflow` | finished workflows that the reaper forgot |
//! | `steps` | counter | `kind`, `outcome` | steps that ended |
//! | `stepsInDoubt` | counter | | steps found started, of which nobody knew how they ended |
//! | `stepsUndone` | counter | | undoings begun |
//! | `lateOutcomes` | counter | | outcomes refused because their step was cancelled or taken over |
//! | `unfinishedWorkflows` | gauge | | due and not finished, as the last completer counted them, up to its limit |
//! | `workflowsInQuarantine` | gauge | | waiting for a person, as the last completer counted them |
//! | `completerFinished`, `reaperFinished` | gauge | | 1 if the last run saw everything that was due, 0 if there may be more |
//!
//! `operation` is the scope of a composed key, or `-`; `workflow` the name of its code. No label ever holds a key.

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

/// Workflows begun.
pub const WORKFLOWS_STARTED: &str = "workflowsStarted";
/// Drives of a workflow that somebody else began.
pub const WORKFLOWS_CLAIMED: &str = "workflowsClaimed";
/// Stored answers and failures of workflows given again.
pub const WORKFLOWS_REPLAYED: &str = "workflowsReplayed";
/// Starts with the same key and another request.
pub const WORKFLOWS_MISMATCHED: &str = "workflowsMismatched";
/// Workflows ended.
pub const WORKFLOWS_ENDED: &str = "workflowsEnded";
/// Workflows parked for a person.
pub const WORKFLOWS_QUARANTINED: &str = "workflowsQuarantined";
/// Finished workflows that the reaper forgot.
pub const WORKFLOWS_FORGOTTEN: &str = "workflowsForgotten";
/// Steps that ended.
pub const STEPS: &str = "steps";
/// Steps found started, of which nobody knew how they ended.
pub const STEPS_IN_DOUBT: &str = "stepsInDoubt";
/// Undoings begun.
pub const STEPS_UNDONE: &str = "stepsUndone";
/// Outcomes refused because their step was cancelled or taken over.
pub const LATE_OUTCOMES: &str = "lateOutcomes";
/// Due and not finished, as the last completer counted them.
pub const UNFINISHED_WORKFLOWS: &str = "unfinishedWorkflows";
/// Waiting for a person, as the last completer counted them.
pub const WORKFLOWS_IN_QUARANTINE: &str = "workflowsInQuarantine";
/// 1 if the last completer saw everything that was due, 0 if there may be more.
pub const COMPLETER_FINISHED: &str = "completerFinished";
/// 1 if the last reaper saw everything that was due, 0 if there may be more.
pub const REAPER_FINISHED: &str = "reaperFinished";

/// Every name, for a test that compares a dashboard with the code.
pub const ALL: [&str; 34] = [
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
    WORKFLOWS_STARTED,
    WORKFLOWS_CLAIMED,
    WORKFLOWS_REPLAYED,
    WORKFLOWS_MISMATCHED,
    WORKFLOWS_ENDED,
    WORKFLOWS_QUARANTINED,
    WORKFLOWS_FORGOTTEN,
    STEPS,
    STEPS_IN_DOUBT,
    STEPS_UNDONE,
    LATE_OUTCOMES,
    UNFINISHED_WORKFLOWS,
    WORKFLOWS_IN_QUARANTINE,
    COMPLETER_FINISHED,
    REAPER_FINISHED,
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

pub(crate) fn count_workflow(metric: &'static str, name: &str) {
    counter!(metric, "workflow" => name.to_owned()).increment(1);
}

pub(crate) fn count_workflow_ended(name: &str, outcome: &'static str) {
    counter!(WORKFLOWS_ENDED, "workflow" => name.to_owned(), "outcome" => outcome).increment(1);
}

pub(crate) fn count_step(kind: &'static str, outcome: &'static str) {
    counter!(STEPS, "kind" => kind, "outcome" => outcome).increment(1);
}

pub(crate) fn count_step_in_doubt() {
    counter!(STEPS_IN_DOUBT).increment(1);
}

pub(crate) fn count_undo() {
    counter!(STEPS_UNDONE).increment(1);
}

pub(crate) fn count_late_outcome() {
    counter!(LATE_OUTCOMES).increment(1);
}

#[allow(clippy::cast_precision_loss, reason = "no table holds 2^53 workflows")]
pub(crate) fn completed(unfinished: Option<usize>, quarantine: Option<usize>, finished: bool) {
    // What was not counted keeps its last value: zero would be a lie.
    if let Some(count) = unfinished {
        gauge!(UNFINISHED_WORKFLOWS).set(count as f64);
    }
    if let Some(count) = quarantine {
        gauge!(WORKFLOWS_IN_QUARANTINE).set(count as f64);
    }
    gauge!(COMPLETER_FINISHED).set(if finished { 1.0 } else { 0.0 });
}

pub(crate) fn reaped(finished: bool) {
    gauge!(REAPER_FINISHED).set(if finished { 1.0 } else { 0.0 });
}

/// DynamoDB reports units without saying which kind; the verb knows.
pub(crate) fn count_units(verb: &'static str, units: Option<f64>) {
    let Some(units) = units else { return };
    let name = match verb {
        "read the token" | "read the answer" | "read the workflow" | "list" => CONSUMED_READ_UNITS,
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
