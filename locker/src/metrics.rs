//! Metrics, through the `metrics` facade: install the recorder of your choice. On Lambda, flush it
//! after each event, because Lambda then freezes the process.
//!
//! Of lock tokens:
//!
//! | name | kind | labels | counts |
//! |---|---|---|---|
//! | `lockTokensAcquired` | counter | `operation`, `takeover` | begins that acquired the token |
//! | `lockTokensReplayed` | counter | `operation`, `outcome` | begins that got a stored answer or failure |
//! | `lockTokensInProgress` | counter | `operation` | begins refused because another caller's work is in progress |
//! | `lockTokensMismatched` | counter | `operation` | begins with the same key and a different request |
//! | `requestsHeldByRestore` | counter | `operation` | requests that were held because the table was restored |
//! | `lockTokensEnded` | counter | `operation`, `outcome` | tokens ended: `success`, `failure`, `held`, `released`, `resolved`, `closed` |
//! | `lockTokensExtended` | counter | `operation` | expected completions postponed |
//! | `lostOwnership` | counter | `operation` | ends and extensions by an attempt that no longer owned the token |
//! | `unrecordedResults` | counter | `operation` | answers and failures of work that could not be stored |
//! | `inDoubt` | counter | `operation` | work left with an unknown outcome |
//! | `workDuration` | histogram, seconds | `operation`, `outcome` | duration of the work inside `run` |
//! | `requests` | counter | `verb` | requests to DynamoDB, retries included |
//! | `silentRequests` | counter | `verb` | writes without a clear reply |
//! | `missingTasks` | gauge | | overdue tokens found by the last scan |
//! | `oldestMissingTask` | gauge, seconds | | how long the oldest missing task has been overdue |
//! | `tokensInProgress`, `tokensHeld` | gauge | | tokens in that state counted by the last scan, up to its limit |
//! | `scanFinished` | gauge | | 1 if the last scan read everything, 0 if there may be more |
//! | `consumedWriteUnits`, `consumedReadUnits` | histogram | `verb` | units that DynamoDB reported, if [enabled](crate::Settings::consumed_capacity) |
//!
//! Of workflows:
//!
//! | name | kind | labels | counts |
//! |---|---|---|---|
//! | `workflowsStarted` | counter | `workflow` | workflows started |
//! | `workflowsClaimed` | counter | `workflow` | existing workflows claimed by a driver |
//! | `workflowsReplayed` | counter | `workflow` | stored answers and failures replayed |
//! | `workflowsMismatched` | counter | `workflow` | starts with the same key and a different request |
//! | `workflowsEnded` | counter | `workflow`, `outcome` | workflows ended: `completed`, `failed`, `cancelled` |
//! | `workflowsQuarantined` | counter | `workflow` | workflows quarantined for an operator |
//! | `workflowsForgotten` | counter | `workflow` | finished workflows deleted by the reaper |
//! | `events` | counter | `workflow`, `outcome` | events stored: `accepted`, `late`, `surplus` (another event under the name); `unread`: accepted events that the code did not read before the end of the workflow; `undone`: events that the code received and that are compensated, because the workflow failed or was cancelled |
//! | `steps` | counter | `kind`, `outcome` | steps that ended |
//! | `stepsInDoubt` | counter | | steps found started with an unknown outcome |
//! | `stepsNotReached` | counter | | completed effects that the code of a completed workflow did not reach |
//! | `stepsCompensated` | counter | | compensations begun |
//! | `lateOutcomes` | counter | | outcomes refused because their step was cancelled or taken over |
//! | `unfinishedWorkflows` | gauge | | workflows that were due before the last completer run began and are not finished, counted up to its limit |
//! | `failingWorkflows` | gauge | | workflows without progress for an hour (`failing_after`), which are retried; counted by the last completer run |
//! | `workflowsInQuarantine` | gauge | | workflows that wait for an operator, counted by the last completer run |
//! | `lateEvents` | gauge | | late events that are not handled yet, counted by the last completer run, up to its limit |
//! | `workflowsWaiting` | gauge | | workflows that wait for an event or a timer, in the first 1,000 that are not due; counted by the last completer run |
//! | `workflowsWithoutCode` | gauge | | due workflows that the last completer run could not drive: without code and not expected of others, or with older code only |
//! | `completerFinished`, `reaperFinished`, `relayFinished` | gauge | | 1 if the last run saw everything that was due, 0 if there may be more |
//! | `messagesSent`, `messagesDead` | counter | `topic` | messages that their targets have; messages that became dead: they wait for an operator (`topic` is the consumer of a received message) |
//! | `messagesExpired` | counter | `topic` | messages that expired before they were sent, and were deleted |
//! | `targetRefusals` | counter | `topic` | messages refused for a reason of their target: a permission, a disabled key, a missing queue; they are retried |
//! | `unsentMessages` | gauge | | unsent messages, delayed ones included, at the begin of the last relay run, counted up to 1,000 |
//! | `oldestUnsentMessage` | gauge, seconds | | how long the oldest unsent message has been unsent, at the begin of the last relay run; a lower bound if more than 10,000 messages in a shard wait for another try |
//! | `deadMessages` | gauge | | dead messages counted by the last relay run, up to 1,000: outgoing messages, and received messages that their consumers dead-lettered |
//! | `oldestWaitingMessage` | gauge, seconds | | how long the oldest message has waited in the table for its consumer |
//!
//! `operation` is the scope of a composed key, or `-`; `workflow` is the name of the workflow's
//! code. No label contains a key.

#![cfg_attr(not(feature = "messages"), allow(dead_code, reason = "tokens and workflows use a part"))]

use std::time::Duration;

use metrics::{SharedString, counter, gauge, histogram};

use crate::core::key::Key;
#[cfg(feature = "workflow")]
use crate::core::workflow::event::{EventRecord, LateCause, Signalled};

// The tables above describe them.
pub(crate) const ACQUIRED: &str = "lockTokensAcquired";
pub(crate) const REPLAYED: &str = "lockTokensReplayed";
pub(crate) const IN_PROGRESS: &str = "lockTokensInProgress";
pub(crate) const MISMATCHED: &str = "lockTokensMismatched";
pub(crate) const RESTORED: &str = "requestsHeldByRestore";
pub(crate) const ENDED: &str = "lockTokensEnded";
pub(crate) const EXTENDED: &str = "lockTokensExtended";
pub(crate) const LOST_OWNERSHIP: &str = "lostOwnership";
pub(crate) const UNRECORDED: &str = "unrecordedResults";
pub(crate) const IN_DOUBT: &str = "inDoubt";
pub(crate) const WORK_DURATION: &str = "workDuration";
pub(crate) const REQUESTS: &str = "requests";
pub(crate) const SILENT_REQUESTS: &str = "silentRequests";
pub(crate) const MISSING_TASKS: &str = "missingTasks";
pub(crate) const OLDEST_MISSING_TASK: &str = "oldestMissingTask";
pub(crate) const TOKENS_IN_PROGRESS: &str = "tokensInProgress";
pub(crate) const TOKENS_HELD: &str = "tokensHeld";
pub(crate) const SCAN_FINISHED: &str = "scanFinished";
pub(crate) const CONSUMED_WRITE_UNITS: &str = "consumedWriteUnits";
pub(crate) const CONSUMED_READ_UNITS: &str = "consumedReadUnits";

pub(crate) const WORKFLOWS_STARTED: &str = "workflowsStarted";
pub(crate) const WORKFLOWS_CLAIMED: &str = "workflowsClaimed";
pub(crate) const WORKFLOWS_REPLAYED: &str = "workflowsReplayed";
pub(crate) const WORKFLOWS_MISMATCHED: &str = "workflowsMismatched";
pub(crate) const WORKFLOWS_ENDED: &str = "workflowsEnded";
pub(crate) const WORKFLOWS_QUARANTINED: &str = "workflowsQuarantined";
pub(crate) const WORKFLOWS_FORGOTTEN: &str = "workflowsForgotten";
pub(crate) const EVENTS: &str = "events";
pub(crate) const STEPS: &str = "steps";
pub(crate) const STEPS_IN_DOUBT: &str = "stepsInDoubt";
pub(crate) const STEPS_NOT_REACHED: &str = "stepsNotReached";
pub(crate) const STEPS_COMPENSATED: &str = "stepsCompensated";
pub(crate) const LATE_OUTCOMES: &str = "lateOutcomes";
pub(crate) const UNFINISHED_WORKFLOWS: &str = "unfinishedWorkflows";
pub(crate) const FAILING_WORKFLOWS: &str = "failingWorkflows";
pub(crate) const WORKFLOWS_IN_QUARANTINE: &str = "workflowsInQuarantine";
pub(crate) const LATE_EVENTS: &str = "lateEvents";
pub(crate) const WORKFLOWS_WAITING: &str = "workflowsWaiting";
pub(crate) const WORKFLOWS_WITHOUT_CODE: &str = "workflowsWithoutCode";
pub(crate) const COMPLETER_FINISHED: &str = "completerFinished";
pub(crate) const REAPER_FINISHED: &str = "reaperFinished";

pub(crate) const MESSAGES_SENT: &str = "messagesSent";
pub(crate) const MESSAGES_EXPIRED: &str = "messagesExpired";
pub(crate) const MESSAGES_DEAD: &str = "messagesDead";
pub(crate) const TARGET_REFUSALS: &str = "targetRefusals";
pub(crate) const UNSENT_MESSAGES: &str = "unsentMessages";
pub(crate) const OLDEST_UNSENT_MESSAGE: &str = "oldestUnsentMessage";
pub(crate) const DEAD_MESSAGES: &str = "deadMessages";
pub(crate) const OLDEST_WAITING_MESSAGE: &str = "oldestWaitingMessage";
pub(crate) const RELAY_FINISHED: &str = "relayFinished";

/// The names of all metrics, for tests that compare a dashboard with the code.
#[doc(hidden)]
pub const ALL: &[&str] = &[
    MISSING_TASKS,
    OLDEST_MISSING_TASK,
    TOKENS_IN_PROGRESS,
    TOKENS_HELD,
    SCAN_FINISHED,
    ACQUIRED,
    REPLAYED,
    IN_PROGRESS,
    MISMATCHED,
    RESTORED,
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
    EVENTS,
    STEPS,
    STEPS_IN_DOUBT,
    STEPS_NOT_REACHED,
    STEPS_COMPENSATED,
    LATE_OUTCOMES,
    UNFINISHED_WORKFLOWS,
    FAILING_WORKFLOWS,
    WORKFLOWS_IN_QUARANTINE,
    LATE_EVENTS,
    WORKFLOWS_WAITING,
    WORKFLOWS_WITHOUT_CODE,
    COMPLETER_FINISHED,
    REAPER_FINISHED,
    MESSAGES_SENT,
    MESSAGES_EXPIRED,
    MESSAGES_DEAD,
    TARGET_REFUSALS,
    UNSENT_MESSAGES,
    OLDEST_UNSENT_MESSAGE,
    DEAD_MESSAGES,
    OLDEST_WAITING_MESSAGE,
    RELAY_FINISHED,
];

fn operation(key: &Key) -> SharedString {
    key.shared_scope().map_or_else(|| "-".into(), SharedString::from_shared)
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

/// Sets a gauge to a count or a number of seconds. `None` keeps the last value: zero would be
/// wrong.
fn set(name: &'static str, value: Option<f64>) {
    if let Some(value) = value {
        gauge!(name).set(value);
    }
}

#[allow(clippy::cast_precision_loss, reason = "no table holds 2^53 items")]
fn set_count(name: &'static str, count: Option<usize>) {
    set(name, count.map(|count| count as f64));
}

/// Whether the last run of a scheduled function saw everything. A run that failed did not.
pub(crate) fn ran(name: &'static str, finished: bool) {
    set(name, Some(if finished { 1.0 } else { 0.0 }));
}

/// The findings of a scan: overdue tokens, how long the oldest is overdue, and the counts.
#[derive(Debug)]
pub(crate) struct Scanned {
    pub(crate) missing: usize,
    pub(crate) oldest: Duration,
    pub(crate) in_progress: Option<usize>,
    pub(crate) held: Option<usize>,
}

pub(crate) fn scanned(scanned: &Scanned) {
    set_count(MISSING_TASKS, Some(scanned.missing));
    set(OLDEST_MISSING_TASK, Some(scanned.oldest.as_secs_f64()));
    set_count(TOKENS_IN_PROGRESS, scanned.in_progress);
    set_count(TOKENS_HELD, scanned.held);
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

/// An event that was stored. `Duplicate` and `NotStarted` store nothing.
#[cfg(feature = "workflow")]
pub(crate) fn count_event(name: &str, answer: Signalled) {
    let outcome = match answer {
        Signalled::Accepted => "accepted",
        Signalled::Late { .. } => "late",
        Signalled::AlreadyGiven => "surplus",
        Signalled::Duplicate | Signalled::NotStarted => return,
    };
    counter!(EVENTS, "workflow" => name.to_owned(), "outcome" => outcome).increment(1);
}

/// Counts events that became late at the end of their workflow.
#[cfg(feature = "workflow")]
pub(crate) fn count_left_events<'a>(events: impl IntoIterator<Item = &'a EventRecord>) {
    for event in events {
        let outcome = if event.cause == Some(LateCause::Failed) { "undone" } else { "unread" };
        counter!(EVENTS, "workflow" => event.workflow_name.clone(), "outcome" => outcome).increment(1);
    }
}

pub(crate) fn count_steps_not_reached(steps: usize) {
    counter!(STEPS_NOT_REACHED).increment(steps as u64);
}

pub(crate) fn count_step_in_doubt() {
    counter!(STEPS_IN_DOUBT).increment(1);
}

pub(crate) fn count_compensation() {
    counter!(STEPS_COMPENSATED).increment(1);
}

pub(crate) fn count_late_outcome() {
    counter!(LATE_OUTCOMES).increment(1);
}

/// The counts of a completer. `None`: it could not be counted.
#[derive(Debug)]
pub(crate) struct Completed {
    pub(crate) unfinished: Option<usize>,
    pub(crate) failing: Option<usize>,
    pub(crate) quarantined: Option<usize>,
    pub(crate) without_code: usize,
    pub(crate) late_events: Option<usize>,
    pub(crate) waiting: Option<usize>,
}

pub(crate) fn completed(counts: &Completed) {
    set_count(UNFINISHED_WORKFLOWS, counts.unfinished);
    set_count(FAILING_WORKFLOWS, counts.failing);
    set_count(WORKFLOWS_IN_QUARANTINE, counts.quarantined);
    set_count(WORKFLOWS_WITHOUT_CODE, Some(counts.without_code));
    set_count(LATE_EVENTS, counts.late_events);
    set_count(WORKFLOWS_WAITING, counts.waiting);
}

pub(crate) fn count_sent(topic: &str) {
    counter!(MESSAGES_SENT, "topic" => topic.to_owned()).increment(1);
}

pub(crate) fn count_expired(topic: &str) {
    counter!(MESSAGES_EXPIRED, "topic" => topic.to_owned()).increment(1);
}

pub(crate) fn count_target_refusal(topic: &str) {
    counter!(TARGET_REFUSALS, "topic" => topic.to_owned()).increment(1);
}

/// `of`: the topic, or the consumer. Never the type of a received event: any writer of the queue
/// chooses it, and each value of a label costs.
pub(crate) fn count_dead(of: &str) {
    counter!(MESSAGES_DEAD, "topic" => of.to_owned()).increment(1);
}

/// Messages in one state: how many, and how long the oldest has been so.
pub(crate) type Kept = Option<(usize, Duration)>;

pub(crate) fn relayed(unsent: Kept, waiting: Kept, dead: Kept) {
    set_count(UNSENT_MESSAGES, unsent.map(|(count, _)| count));
    set(OLDEST_UNSENT_MESSAGE, unsent.map(|(_, oldest)| oldest.as_secs_f64()));
    set(OLDEST_WAITING_MESSAGE, waiting.map(|(_, oldest)| oldest.as_secs_f64()));
    set_count(DEAD_MESSAGES, dead.map(|(count, _)| count));
}

/// Records consumed units. DynamoDB does not report their kind, so the verb determines it.
pub(crate) fn count_read_units(verb: &'static str, units: Option<f64>) {
    if let Some(units) = units {
        histogram!(CONSUMED_READ_UNITS, "verb" => verb).record(units);
    }
}

pub(crate) fn count_write_units(verb: &'static str, units: Option<f64>) {
    if let Some(units) = units {
        histogram!(CONSUMED_WRITE_UNITS, "verb" => verb).record(units);
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_metric_is_in_the_table() {
        let table = include_str!("metrics.rs");
        for name in super::ALL {
            assert!(
                table.lines().any(|line| line.starts_with("//! |") && line.contains(&format!("`{name}`"))),
                "{name}"
            );
        }
    }
}
