//! The meaning of a stored header or step record for the driver that reads it.

use std::time::Duration;

use chrono::{DateTime, Utc};

use super::header::{Header, Pause, State};
use super::step::{StepRecord, StepState};
use crate::core::time;

/// The meaning of a header for a driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    /// The workflow has ended.
    Ended,
    /// The workflow waits in quarantine for an operator.
    Quarantined,
    /// The workflow may be claimed.
    Claimable,
    /// Another driver runs the workflow, or its next run is not due.
    Busy,
    /// The reaper is deleting the workflow.
    Reaping,
}

/// Interprets a header. `same_owner`: the caller states that it is the owner that drove the
/// workflow last.
pub(crate) fn standing(header: &Header, same_owner: bool, now: DateTime<Utc>, skew: Duration) -> Standing {
    match header.state {
        State::Reaping => Standing::Reaping,
        state if state.is_final() => Standing::Ended,
        _ if header.is_quarantined() => Standing::Quarantined,
        _ if header.is_claimable(now, skew) => Standing::Claimable,
        // If the owner's earlier run is still active, the new attempt refuses its writes.
        _ if same_owner && header.locked_by.is_some() => Standing::Claimable,
        _ => Standing::Busy,
    }
}

/// The limits of the attempts of a workflow.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Patience {
    /// The minimum number of failed attempts without progress (1 if a step sets the time limit).
    /// Also the maximum number of runs in a row that lose their driver without progress.
    pub(crate) attempts: u32,
    /// The minimum time without progress.
    pub(crate) retry_for: Duration,
    /// The maximum number of runs that lose their driver, with or without progress.
    pub(crate) crashes: u32,
}

/// Returns whether the run that ends with this pause was the last one.
///
/// A run that failed is the last one after the minimum time and the minimum number of attempts. An
/// aborted run is the last one after the maximum number of lost drivers.
///
/// `progressed`: the run recorded an outcome.
pub(crate) fn is_exhausted(
    header: &Header,
    pause: Pause,
    progressed: bool,
    patience: Patience,
    now: DateTime<Utc>,
) -> bool {
    let Patience { attempts, retry_for, crashes } = patience;
    match pause {
        Pause::Failed if progressed => false,
        Pause::Failed => header.attempts >= attempts && time::after(header.since, retry_for) <= now,
        // The run that ends counts among the lost ones.
        Pause::BrokenOff if header.lost_in_all.saturating_add(1) >= crashes => true,
        Pause::BrokenOff => !progressed && header.lost_without_progress >= attempts,
        Pause::Chosen | Pause::Elsewhere | Pause::NotRun => false,
    }
}

/// The meaning of a step record for the driver that is about to run the step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    /// The step completed: use the recorded result.
    Completed,
    /// The step failed, or is held for an operator: use the recorded failure.
    Failed,
    /// The step was cancelled or compensated, and may not start.
    Cancelled,
    /// The step was started, and its driver may still be at work.
    Busy,
    /// The step was started, and its outcome is unknown.
    InDoubt,
    /// The step may start. Its new record replaces this record.
    Free,
}

/// Interprets a record. `version`: the version of the step's key that the caller requests.
pub(crate) fn found(
    record: &StepRecord,
    version: Option<u32>,
    expired_at: DateTime<Utc>,
    now: DateTime<Utc>,
    skew: Duration,
) -> Found {
    let newer = version.is_some_and(|version| version > record.key_version);
    let expired = record.ttl.is_some_and(|ttl| ttl < expired_at.timestamp());
    match record.state {
        StepState::Completed | StepState::Failed if expired => Found::Free,
        StepState::Completed => Found::Completed,
        // A held step may have happened, so that only an operator frees it.
        StepState::Failed if newer => Found::Free,
        StepState::Failed | StepState::Held => Found::Failed,
        StepState::Withdrawn | StepState::Freed => Found::Free,
        // A compensated step with its own key: another workflow may run it again.
        StepState::Compensated if record.started_for.is_some() => Found::Free,
        StepState::Cancelled | StepState::Late | StepState::Compensated => Found::Cancelled,
        StepState::Started if time::after(record.due, skew) > now => Found::Busy,
        StepState::Started => Found::InDoubt,
    }
}
