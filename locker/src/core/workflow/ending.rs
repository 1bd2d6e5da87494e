//! How a run of a workflow ends: a total function of its effects, its needs, and how it returned.
//!
//! The code of a workflow may drop a step, ignore a stop, or take another branch than the run
//! before. None of that makes an unknown outcome known, so the returned value alone never ends a
//! workflow.

use std::time::Duration;

use chrono::{DateTime, Utc};

use super::header::{Awaited, Pause, Waits};
use super::place::Place;
use super::step::{Placed, StepKind, StepState};
use crate::core::time;

/// A `once` step, or a compensation, whose outcome is not known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Effect {
    /// The name of the step that operators see.
    pub(crate) step: String,
    /// The item of the workflow in which the step has its place.
    pub(crate) place: String,
    /// The item of its record.
    pub(crate) item: String,
    pub(crate) outlook: Outlook,
}

/// The source from which the outcome of an effect may become known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outlook {
    /// Only an operator: the step failed and may have happened, or its result cannot be recorded.
    Held,
    /// Its driver, which may be at work until this time.
    AtWork(DateTime<Utc>),
    /// The code of the workflow, if it reaches the step. No driver is at work.
    InDoubt,
}

impl Effect {
    /// Returns the effect of a step. `None`: its outcome is known, or the step has no effect.
    ///
    /// A step with its own key counts even if another workflow compensates it: that workflow
    /// may have ended before this workflow started the step again. `answerer`: the run id of this
    /// workflow, once it is compensated. Then it leaves steps of other workflows to them.
    pub(crate) fn of(
        step: &Placed,
        answerer: Option<&str>,
        now: DateTime<Utc>,
        skew: Duration,
    ) -> Option<Self> {
        let record = &step.record;
        let is_effect = matches!(record.kind, StepKind::Once | StepKind::Compensation);
        if !is_effect || answerer.is_some_and(|run| !step.is_of(run)) {
            return None;
        }
        let free = time::after(record.due, skew);
        let outlook = match record.state {
            StepState::Held => Outlook::Held,
            StepState::Started if free > now => Outlook::AtWork(free),
            StepState::Started => Outlook::InDoubt,
            // A cancelled step never starts. Its compensation or an operator has settled it. A late
            // step is due for its compensation.
            StepState::Completed
            | StepState::Failed
            | StepState::Cancelled
            | StepState::Late
            | StepState::Compensated
            | StepState::Withdrawn
            | StepState::Freed => return None,
        };
        let (place, item) = (step.at.reference(), record.id.reference());
        Some(Self { step: step.name(), place, item, outlook })
    }
}

/// A stop that the run issued, and that no later call of the same step replaced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Need {
    /// The place of the step. `None`: the workflow itself.
    pub(crate) place: Option<String>,
    pub(crate) kind: NeedKind,
    /// For an operator.
    pub(crate) reason: String,
}

impl Need {
    /// Returns the name of the step that operators see.
    fn step(&self) -> Option<String> {
        Some(Place::parse(self.place.as_deref()?).ok()?.shown())
    }
}

/// The reason of a stop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NeedKind {
    /// The workflow was cancelled, taken over, or has ended.
    Lost,
    /// Only an operator can help. `item`: the item of a result that the code cannot read.
    Operator { item: Option<String> },
    /// It is unknown whether the step of this item happened. `resolvable`: the code may find out.
    /// `retry_for`: the time limit that the step sets.
    InDoubt { item: String, resolvable: bool, retry_for: Option<Duration> },
    /// The next run tries again. `counts`: this run counts as an attempt without progress.
    Retry { at: DateTime<Utc>, counts: bool, retry_for: Option<Duration> },
    /// The code waits on purpose. `on`: the event or the timer that it waits for.
    Wait { until: DateTime<Utc>, on: Option<Awaited> },
}

/// How the code of a run returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Returned {
    /// With an answer.
    Completed,
    /// With a permanent failure.
    Failed,
    /// With another stop, which is among the needs.
    Stopped,
    /// It did not return: it panicked, or exceeded its time limit.
    Aborted,
    /// It did not run: earlier runs lost too many drivers, and the type compensates in this case.
    Exhausted,
    /// Every step that has a compensation is compensated.
    Compensated,
    /// A compensation stopped, with a stop that is among the needs.
    Uncompensated,
}

impl Returned {
    /// Returns whether the code or the compensation reached its end. No later run would reach
    /// another step.
    pub(crate) const fn is_through(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Compensated)
    }
}

/// How a run ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Another driver decides. Nothing is written.
    Lost,
    /// An operator decides. `item`: the item of the step whose outcome makes the workflow due
    /// again.
    Quarantine {
        reason: String,
        item: Option<String>,
    },
    /// The workflow failed. If steps need a compensation, it is compensated first.
    Fail,
    /// A later run continues.
    Release(Release),
    Complete,
    EndCompensated,
}

/// A pause until the next run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Release {
    /// The earliest time of a retry, if a retry is needed. The backoff may delay it.
    pub(crate) retry: Option<DateTime<Utc>>,
    /// The earliest end of a chosen wait.
    pub(crate) wait: Option<DateTime<Utc>>,
    /// The event or the timer of the wait that ends first.
    pub(crate) waits: Option<Waits>,
    pub(crate) pause: Pause,
    pub(crate) reason: String,
    /// The name of the step that needs the retry.
    pub(crate) step: Option<String>,
    /// The item of the step that needs the retry, if its outcome is unknown.
    pub(crate) item: Option<String>,
    /// The shortest time limit of the steps that are retried.
    pub(crate) retry_for: Option<Duration>,
}

/// Decides how a run ends. The first rule that applies decides.
pub(crate) fn ending(effects: &[Effect], needs: &[Need], returned: Returned, now: DateTime<Utc>) -> Ending {
    // The attempt of this run is no longer in the header, so each of its writes would be refused.
    if needs.iter().any(|need| need.kind == NeedKind::Lost) {
        return Ending::Lost;
    }
    // The compensations of other steps continue. The effects decide at the end of them all.
    let effects = if returned == Returned::Uncompensated { &[] } else { effects };
    if let Some(ending) = for_an_operator(effects, needs, returned) {
        return ending;
    }
    // The policy of the type decides about an effect in doubt, but not about an effect at work.
    if returned == Returned::Exhausted
        && !effects.iter().any(|effect| matches!(effect.outlook, Outlook::AtWork(_)))
    {
        return Ending::Fail;
    }
    // A compensation must not decide about an effect that a driver may still complete, or that the
    // code may still resolve.
    let unknown =
        !effects.is_empty() || needs.iter().any(|need| matches!(need.kind, NeedKind::InDoubt { .. }));
    if returned == Returned::Failed && !unknown {
        return Ending::Fail;
    }
    let mut release = Release::default();
    for effect in effects.iter().filter(|effect| !has_need(effect, needs)) {
        if let Outlook::AtWork(until) = effect.outlook {
            let reason = format!("step {} may still be running", effect.step);
            // A run without code is no proof that the workflow loses no further driver.
            let pause = if returned == Returned::Exhausted { Pause::NotRun } else { Pause::Failed };
            release.retry(until, pause, (&reason, Some(&effect.step)), Some(&effect.item));
        }
    }
    for need in needs {
        release.need(need, now);
    }
    release.waits = waits(needs);
    match returned {
        Returned::Aborted => release.retry(now, Pause::BrokenOff, ("its run was aborted", None), None),
        Returned::Stopped | Returned::Uncompensated if release.is_empty() => {
            release.retry(now, Pause::Failed, ("it stopped", None), None)
        }
        _ => {}
    }
    if !release.is_empty() {
        return Ending::Release(release);
    }
    match returned {
        Returned::Completed => Ending::Complete,
        Returned::Compensated => Ending::EndCompensated,
        _ => Ending::Fail,
    }
}

/// Returns the wait that ends first, and the number of other waits.
///
/// If the code returned the stop of a wait, the needs contain it twice. It counts once.
fn waits(needs: &[Need]) -> Option<Waits> {
    let mut waits: Vec<&Awaited> = Vec::new();
    for need in needs {
        if let NeedKind::Wait { on: Some(on), .. } = &need.kind
            && !waits.iter().any(|known| known.name == on.name)
        {
            waits.push(on);
        }
    }
    let others = u32::try_from(waits.len().saturating_sub(1)).unwrap_or(u32::MAX);
    let on = waits.into_iter().min_by_key(|on| on.until)?;
    Some(Waits { on: on.clone(), others })
}

/// Returns the quarantine for the first effect or need that only an operator can settle.
fn for_an_operator(effects: &[Effect], needs: &[Need], returned: Returned) -> Option<Ending> {
    // A later run would not see a held step if the code took another branch.
    if let Some(held) = effects.iter().find(|effect| effect.outlook == Outlook::Held) {
        let reason = match needs.iter().find(|need| need.place.as_ref() == Some(&held.place)) {
            Some(need) => need.reason.clone(),
            None => format!("step {} failed and needs an operator", held.step),
        };
        return Some(Ending::Quarantine { reason, item: Some(held.item.clone()) });
    }
    for need in needs {
        if let NeedKind::Operator { item } = &need.kind {
            return Some(Ending::Quarantine { reason: need.reason.clone(), item: item.clone() });
        }
    }
    // A run that stopped earlier may not have reached the step. The next run may find out.
    for effect in effects.iter().filter(|effect| effect.outlook == Outlook::InDoubt) {
        if returned.is_through() && !has_need(effect, needs) {
            let reason = format!(
                "step {} is in doubt: it was started, and the code drops it or does not reach it any more",
                effect.step
            );
            return Some(Ending::Quarantine { reason, item: Some(effect.item.clone()) });
        }
    }
    for need in needs {
        if let NeedKind::InDoubt { item, resolvable: false, .. } = &need.kind {
            return Some(Ending::Quarantine { reason: need.reason.clone(), item: Some(item.clone()) });
        }
    }
    None
}

/// Returns whether the step of this effect returned a stop. Then the stop decides how the run waits
/// for the outcome.
fn has_need(effect: &Effect, needs: &[Need]) -> bool {
    needs.iter().any(|need| need.place.as_ref() == Some(&effect.place))
}

impl Release {
    const fn is_empty(&self) -> bool {
        self.retry.is_none() && self.wait.is_none()
    }

    fn need(&mut self, need: &Need, now: DateTime<Utc>) {
        match &need.kind {
            NeedKind::Wait { until, .. } => {
                if self.wait.is_none_or(|wait| *until < wait) {
                    self.wait = Some(*until);
                    if self.retry.is_none() {
                        self.reason.clone_from(&need.reason);
                    }
                }
            }
            NeedKind::Retry { at, counts, retry_for } => {
                let pause = if *counts { Pause::Failed } else { Pause::Elsewhere };
                self.retry(*at, pause, (&need.reason, need.step().as_deref()), None);
                self.retry_for = self.retry_for.into_iter().chain(*retry_for).min();
            }
            NeedKind::InDoubt { item, retry_for, .. } => {
                self.retry(now, Pause::Failed, (&need.reason, need.step().as_deref()), Some(item));
                self.retry_for = self.retry_for.into_iter().chain(*retry_for).min();
            }
            // Other rules have decided about these before.
            NeedKind::Lost | NeedKind::Operator { .. } => {}
        }
    }

    /// Requests a retry, not before this time. A run that failed counts as an attempt, even if it
    /// also waits for other reasons. `why`: the reason and the step.
    fn retry(&mut self, at: DateTime<Utc>, pause: Pause, why: (&str, Option<&str>), item: Option<&str>) {
        let counts = |pause| matches!(pause, Pause::Failed | Pause::BrokenOff);
        let decides = self.retry.is_none() || (counts(pause) && !counts(self.pause));
        if decides || pause == Pause::BrokenOff {
            self.pause = pause;
            why.0.clone_into(&mut self.reason);
            self.step = why.1.map(str::to_owned);
            self.item = item.map(str::to_owned);
        }
        self.retry = Some(self.retry.map_or(at, |known| known.min(at)));
    }
}

impl Default for Release {
    fn default() -> Self {
        Self {
            retry: None,
            wait: None,
            waits: None,
            pause: Pause::Chosen,
            reason: String::new(),
            step: None,
            item: None,
            retry_for: None,
        }
    }
}
