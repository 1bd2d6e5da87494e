//! What a stored header or step record means for the driver that reads it.

use std::time::Duration;

use chrono::{DateTime, Utc};

use super::header::{Header, Pause, State};
use super::step::{StepRecord, StepState};
use crate::core::time;

/// Whether a workflow can be driven now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It has ended.
    Ended,
    /// It waits in quarantine for an operator.
    Quarantined,
    /// It may be claimed.
    Claimable,
    /// Another driver runs it, or its next run is not due.
    Busy,
    /// The reaper is deleting it.
    Reaping,
}

/// Interpret a header. `same_owner`: the caller states that it is the owner that drove it last.
pub(crate) fn standing(header: &Header, same_owner: bool, now: DateTime<Utc>, skew: Duration) -> Standing {
    match header.state {
        State::Reaping => Standing::Reaping,
        state if state.is_final() => Standing::Ended,
        _ if header.is_quarantined() => Standing::Quarantined,
        _ if header.is_claimable(now, skew) => Standing::Claimable,
        // The fence keeps this safe if the owner's earlier run is still active.
        _ if same_owner && header.locked_by.is_some() => Standing::Claimable,
        _ => Standing::Busy,
    }
}

/// How long a workflow is tried.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Patience {
    /// At least this many attempts (1 if a step sets the time), and at most as many that kill or
    /// hang their driver.
    pub(crate) attempts: u32,
    /// At least this long without progress.
    pub(crate) retry_for: Duration,
    /// At most as many runs that kill or hang their driver, with or without progress.
    pub(crate) crashes: u32,
}

/// Whether a run that ends so was the last one. Time counts, and not how often it was tried
/// meanwhile; only runs that did not come back are counted.
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

/// What the record of a step means for the driver that is about to run the step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    /// It completed: use the recorded result.
    Completed,
    /// It failed, or is held for an operator: use the recorded failure.
    Failed,
    /// It was cancelled or compensated, and may not start.
    Cancelled,
    /// It was started, and its driver may still be at work.
    Busy,
    /// It was started, and its outcome is unknown.
    InDoubt,
    /// It may be started over this record.
    Free,
}

/// Interpret a record. `version`: the version of the step's key that the caller asks for.
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
