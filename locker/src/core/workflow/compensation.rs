//! What is compensated, in which order, and what is to be done to one step.

use std::time::Duration;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::place::Place;
use super::step::{Placed, StepRecord, StepState};
use crate::core::time;

/// The result of a compensation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum Compensated {
    /// The step had happened and is compensated, or it can never happen any more.
    Done,
    /// The step has not happened. If its outcome is recorded or reported later, it is compensated
    /// then; **an effect that nobody reports stays.** While the request may still arrive, make the
    /// provider refuse it, or fail with [`Failure::in_doubt`](crate::Failure::in_doubt).
    Nothing,
}

/// Whether a record is of a step of the workflow itself, or of an outcome next to such a step. The
/// steps that a compensation makes are not compensated themselves.
pub(crate) fn is_step(record: &StepRecord) -> bool {
    matches!(record.id.place(), Ok(Place::Step(_) | Place::Former { .. }))
}

/// Whether a step in this state may have happened, if its record has a compensation or is a pivot.
/// A step that was cancelled before it started has neither.
fn may_have_happened(state: StepState) -> bool {
    use StepState::{Cancelled, Completed, Held, Late, Started};
    matches!(state, Started | Completed | Cancelled | Late | Held)
}

/// The steps to compensate, latest start first, back to the last pivot.
///
/// The second value is the pivot at which the search stopped. `only_late`: the workflow had ended
/// or runs forward, so that only what came late is compensated.
pub(crate) fn to_compensate(steps: Vec<Placed>, only_late: bool) -> (Vec<Placed>, Option<Placed>) {
    let mut steps = each_effect_once(steps);
    if only_late {
        steps.retain(|step| step.record.state == StepState::Late);
    }
    steps.sort_by_key(|step| std::cmp::Reverse(step.number));
    let mut compensate = Vec::new();
    for step in steps {
        let happened = may_have_happened(step.record.state);
        if step.pivot && happened {
            return (compensate, Some(step));
        }
        if step.compensation.is_some() && happened {
            compensate.push(step);
        }
    }
    (compensate, None)
}

/// Why a compensation that stopped at this pivot needs an operator.
pub(crate) fn stopped_at(pivot: &Placed) -> String {
    let name = pivot.name();
    match pivot.record.state {
        StepState::Completed | StepState::Late => {
            format!("it failed or was cancelled past its pivot {name}: steps before it are not compensated")
        }
        _ => format!(
            "it failed or was cancelled, and it is unknown whether its pivot {name} happened: steps before it \
             are not compensated until an operator resolves or retries that step"
        ),
    }
}

/// A step with a key of its own may stand under several names in one workflow: it is one effect,
/// with the place in the order and the compensation of the name that came first with one.
fn each_effect_once(mut steps: Vec<Placed>) -> Vec<Placed> {
    steps.sort_by_key(|step| step.number);
    let mut effects: Vec<Placed> = Vec::with_capacity(steps.len());
    for step in steps {
        let Some(known) = effects.iter_mut().find(|known| known.record.id == step.record.id) else {
            effects.push(step);
            continue;
        };
        let pivot = known.pivot || step.pivot;
        if known.compensation.is_none() && step.compensation.is_some() {
            *known = Placed { number: known.number, ..step };
        }
        known.pivot = pivot;
    }
    effects
}

/// What is to be done to a step that is compensated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Owed {
    /// Nothing is left of it, or it is no longer this workflow's.
    Nothing,
    /// It may be running until then.
    Wait(DateTime<Utc>),
    /// An outcome that may still arrive is to be refused first.
    Cancel,
    /// Its compensation runs, once under its idempotency key.
    Compensate,
    /// It happened after it was cancelled. The compensation that was begun before that ends first.
    EndFirst,
    /// It happened after its compensation had found nothing: another compensation runs.
    CompensateLate,
}

/// What this workflow, `run`, owes to a step that it began to compensate under `version` of the
/// step's key. `first`: whether a compensation was begun before its outcome came late.
pub(crate) fn owed(
    step: &Placed,
    run: &str,
    version: u32,
    first: bool,
    now: DateTime<Utc>,
    skew: Duration,
) -> Owed {
    let record = &step.record;
    if !step.is_of(run) || record.key_version != version {
        return Owed::Nothing;
    }
    match record.state {
        StepState::Compensated | StepState::Freed | StepState::Withdrawn | StepState::Failed => Owed::Nothing,
        StepState::Started if time::after(record.due, skew) > now => {
            Owed::Wait(time::after(record.due, skew))
        }
        StepState::Started | StepState::Held => Owed::Cancel,
        StepState::Completed | StepState::Cancelled => Owed::Compensate,
        StepState::Late if first => Owed::EndFirst,
        StepState::Late => Owed::CompensateLate,
    }
}

/// Whether nothing of a step is left, after a compensation that was begun for this state came to
/// this. One that found nothing has looked too early if the outcome comes later.
pub(crate) fn is_settled(begun_for: StepState, came_to: Compensated) -> bool {
    begun_for != StepState::Cancelled || came_to == Compensated::Done
}
