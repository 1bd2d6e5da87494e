//! The steps to compensate, their order, and the next act for each step.

use std::time::Duration;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::header::Header;
use super::place::Place;
use super::step::{Placed, StepKind, StepRecord, StepResult, StepState};
use crate::core::{answer, time};

/// The result of a compensation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum Compensated {
    /// The step had happened and is compensated, or it can never happen any more.
    Done,
    /// The step has not happened. If its outcome is recorded or reported later, it is compensated
    /// then; **an unreported effect stays.** While the request may still arrive, make the provider
    /// refuse it, or fail with [`Failure::in_doubt`](crate::Failure::in_doubt).
    Nothing,
}

/// Returns whether a record is of a step of the workflow itself, or of an outcome next to such a
/// step. Steps inside a compensation are not compensated.
pub(crate) fn is_step(record: &StepRecord) -> bool {
    matches!(record.id.place(), Ok(Place::Step(_) | Place::Former { .. }))
}

/// Returns whether a step in this state may have happened. Only for records with a compensation or
/// of a pivot: a step that was cancelled before it started has neither.
fn may_have_happened(state: StepState) -> bool {
    use StepState::{Cancelled, Completed, Held, Late, Started};
    matches!(state, Started | Completed | Cancelled | Late | Held)
}

/// Returns the steps to compensate, latest start first, back to the last pivot.
///
/// The second value is the pivot at which the search stopped. `only_late`: only late steps are
/// compensated, because the workflow had ended or runs forward.
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

/// Returns the reason why a compensation that stopped at this pivot needs an operator.
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

/// Returns the reason of the quarantine of a closed workflow with this late step or event.
pub(crate) fn after_close(late: &str) -> String {
    format!(
        "an operator closed the workflow, and {late} is not compensated: skip each step and event that you \
         repaired manually, then retry the workflow; the retry compensates all others that are late"
    )
}

/// Returns whether an operator recorded the step, and no code has declared how it is compensated.
pub(crate) fn is_undeclared(record: &StepRecord) -> bool {
    record.kind == StepKind::Given && record.is_completed()
}

/// Returns whether an operator must repair an undeclared step before the workflow is compensated.
///
/// If the workflow has ended, only a step that was recorded since then counts.
pub(crate) fn awaits_repair(record: &StepRecord, header: &Header) -> bool {
    let is_later = || match header.closed_after {
        // Clocks differ, and the number shows the order.
        Some(seen) => record.number > seen,
        None => record.ended >= header.ended,
    };
    is_undeclared(record) && is_later()
}

/// Returns the reason why a workflow with this undeclared step is not compensated.
pub(crate) fn undeclared(name: &str) -> String {
    format!(
        "an operator recorded that {name} happened, and the code has not declared its compensation: repair its \
         effect, then skip it, so that the other steps are compensated"
    )
}

/// Merges steps that are the same effect: a workflow may use a step with its own key under
/// several names. The effect has the position of its first name, and the first declared
/// compensation.
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

/// The next act for a step that is compensated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Owed {
    /// No act: the step needs no compensation, or another workflow compensates it.
    Nothing,
    /// Wait until this time: the step may be running.
    Wait(DateTime<Utc>),
    /// Cancel the step, so that an outcome that may still arrive is refused.
    Cancel,
    /// Run the compensation, once under its idempotency key.
    Compensate,
    /// The outcome of the step arrived after the cancel, and a compensation had begun before. First
    /// end that compensation. If it found nothing, run another compensation for the late step.
    EndFirst,
    /// The outcome of the step arrived after the cancel, before a compensation began. Run the
    /// compensation of the late step.
    CompensateLate,
}

/// Returns the next act of the workflow `run` for a step that it compensates.
///
/// `version`: the version of the step's key when the compensation began. `first`: whether a
/// compensation had begun before the outcome came late.
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
        // Its driver may record the outcome in a moment. A cancel would refuse the outcome, and the
        // compensation would have to undo a charge without its id.
        StepState::Started if time::after(record.due, skew) > now => {
            Owed::Wait(time::after(record.due, skew))
        }
        StepState::Started | StepState::Held => Owed::Cancel,
        StepState::Completed | StepState::Cancelled => Owed::Compensate,
        StepState::Late if first => Owed::EndFirst,
        StepState::Late => Owed::CompensateLate,
    }
}

/// Returns the result that the record of a compensation contains. `None`: it is no completed
/// compensation.
pub(crate) fn recorded(record: &StepRecord) -> Option<Compensated> {
    let result = record.result.as_ref().filter(|_| record.is_completed())?;
    (record.kind == StepKind::Compensation).then(|| read(result))?
}

/// Reads the result of a compensation.
pub(crate) fn read(result: &StepResult) -> Option<Compensated> {
    answer::from_json(&answer::decode(result.at_hand()?.clone()).ok()?).ok()
}

/// Returns whether the step is fully compensated. `begun_for`: the state of the step when its
/// compensation began. `came_to`: the result of the compensation.
///
/// If the compensation of a cancelled step found nothing, the outcome of the step may come later.
pub(crate) fn is_settled(begun_for: StepState, came_to: Compensated) -> bool {
    begun_for != StepState::Cancelled || came_to == Compensated::Done
}
