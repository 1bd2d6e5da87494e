//! What a stored header or record means for whoever comes upon it.

use std::time::Duration;

use chrono::{DateTime, Utc};

use super::header::{Header, WorkflowState};
use super::record::{StepRecord, StepState};
use crate::core::time;

/// What somebody who wants a workflow driven comes upon.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It ended.
    Ended,
    /// A person has to look.
    Quarantined,
    /// It may be driven from here.
    Claimable,
    /// Somebody drives it, or its next try is not due.
    Busy,
    /// It is being forgotten.
    Reaping,
}

/// Read a header. `same_owner`: whoever drove it last is the one who asks, and says so.
pub(crate) fn standing(header: &Header, same_owner: bool, now: DateTime<Utc>, skew: Duration) -> Standing {
    match header.state {
        WorkflowState::Reaping => Standing::Reaping,
        state if state.is_final() => Standing::Ended,
        _ if header.is_quarantined() => Standing::Quarantined,
        _ if header.is_claimable(now, skew) => Standing::Claimable,
        // The fence makes it safe, should the former self still be awake.
        _ if same_owner && header.locked_by.is_some() => Standing::Claimable,
        _ => Standing::Busy,
    }
}

/// What a step that is about to run comes upon.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    /// It is done: the recorded result counts.
    Completed,
    /// It failed, and that counts.
    Failed,
    /// It was cancelled, or undone, and may not start.
    Cancelled,
    /// Whoever started it may be at work.
    Busy,
    /// It was started, and nobody knows how it ended.
    InDoubt,
    /// It may be started over this record, under the next version of its key.
    Free,
}

/// Read a record. `version`: of the step's key, as the caller asks for it.
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
        StepState::Failed if newer => Found::Free,
        StepState::Failed => Found::Failed,
        StepState::Freed => Found::Free,
        // Undone under a key of its own: another workflow may do it again.
        StepState::Undone if record.started_for.is_some() => Found::Free,
        StepState::Cancelled | StepState::Late | StepState::Undone => Found::Cancelled,
        StepState::Started if time::after(record.due, skew) > now => Found::Busy,
        StepState::Started => Found::InDoubt,
    }
}

/// Whether a record that knows how to be undone, or cannot be, stands for something that may have
/// happened. What was cancelled before its start knows neither.
pub(crate) const fn may_have_happened(state: StepState) -> bool {
    matches!(state, StepState::Started | StepState::Completed | StepState::Cancelled | StepState::Late)
}

/// What is to be undone, last start first, down to a step that cannot be gone back behind.
///
/// The flag says whether such a step was met.
pub(crate) fn to_undo(mut records: Vec<StepRecord>) -> (Vec<StepRecord>, bool) {
    records.sort_by_key(|record| std::cmp::Reverse(record.number));
    let mut undo = Vec::new();
    for record in records {
        if record.pivot && may_have_happened(record.state) {
            return (undo, true);
        }
        if record.undo.is_some() && may_have_happened(record.state) {
            undo.push(record);
        }
    }
    (undo, false)
}
