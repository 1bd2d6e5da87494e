//! What a stored header or step record means for the driver that reads it.

use std::time::Duration;

use chrono::{DateTime, Utc};

use super::header::{Header, State};
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

/// What the record of a step means for the driver that is about to run the step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    /// It completed: use the recorded result.
    Completed,
    /// It failed: use the recorded failure.
    Failed,
    /// It was cancelled or compensated, and may not start.
    Cancelled,
    /// It was started, and its driver may still be at work.
    Busy,
    /// It was started, and its outcome is unknown.
    InDoubt,
    /// It may be started over this record, under the next version of its key.
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
        StepState::Failed if newer => Found::Free,
        StepState::Failed => Found::Failed,
        StepState::Freed => Found::Free,
        // A compensated step with its own key: another workflow may run it again.
        StepState::Compensated if record.started_for.is_some() => Found::Free,
        StepState::Cancelled | StepState::Late | StepState::Compensated => Found::Cancelled,
        StepState::Started if time::after(record.due, skew) > now => Found::Busy,
        StepState::Started => Found::InDoubt,
    }
}

/// Whether a step in this state may have happened, if its record has a compensation or is a pivot. A
/// step that was cancelled before it started has neither.
pub(crate) fn may_have_happened(record: &StepRecord) -> bool {
    use StepState::{Cancelled, Completed, Late, Started};
    matches!(record.state, Started | Completed | Cancelled | Late) || record.is_held()
}

/// The steps to compensate, latest start first, back to the last pivot.
///
/// The flag says whether the search stopped at a pivot. `only_late`: the workflow had ended, so that only what came
/// after that is compensated.
pub(crate) fn to_compensate(records: Vec<StepRecord>, only_late: bool) -> (Vec<StepRecord>, bool) {
    let mut records = each_effect_once(records);
    if only_late {
        records.retain(|record| record.state == StepState::Late);
    }
    records.sort_by_key(|record| std::cmp::Reverse(record.number));
    let mut compensate = Vec::new();
    for record in records {
        if record.pivot && may_have_happened(&record) {
            return (compensate, true);
        }
        if record.compensation.is_some() && may_have_happened(&record) {
            compensate.push(record);
        }
    }
    (compensate, false)
}

/// A step with a key of its own may stand under several names in one workflow: it is one effect, with the place in the
/// order and the compensation of the name that came first with one.
fn each_effect_once(mut records: Vec<StepRecord>) -> Vec<StepRecord> {
    records.sort_by_key(|record| record.number);
    let mut effects: Vec<StepRecord> = Vec::with_capacity(records.len());
    for record in records {
        let Some(known) = effects.iter_mut().find(|known| known.id == record.id) else {
            effects.push(record);
            continue;
        };
        let pivot = known.pivot || record.pivot;
        if known.compensation.is_none() && record.compensation.is_some() {
            *known = StepRecord { number: known.number, ..record };
        }
        known.pivot = pivot;
    }
    effects
}
