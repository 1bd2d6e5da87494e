//! The state machine of a step: the record after each event.

use chrono::{DateTime, Utc};

use super::{
    Begin, End, HolderAct, NewStep, OperatorStep, StepData, StepEvent, StepKind, StepRecord, StepRefusal,
    StepResult, StepState, Versions,
};
use crate::core::time;
use crate::core::token::record::Intervention;
use crate::core::workflow::decide::{self, Found};
use crate::core::workflow::header::Stamp;

impl StepRecord {
    /// Returns the record of a step that begins, unless a stored record prevents it.
    pub(crate) fn begin(
        stored: Option<&Self>,
        new: &NewStep,
        how: &Begin,
        stamp: Stamp,
    ) -> Result<Self, StepRefusal> {
        let now = stamp.now;
        let stored = of_this_life(stored, new)?;
        let mut next = StepData::new(new, &stamp);
        match how {
            Begin::Start { version, due, expired_at } => {
                next.due = *due;
                next.key_version = version.unwrap_or(1).max(1);
                if let Some(stored) = stored {
                    match decide::found(stored, *version, *expired_at, now, stamp.skew) {
                        Found::Free => next.over(stored, new),
                        found => return Err(StepRefusal::Found(found)),
                    }
                }
            }
            Begin::End(end) => {
                if let Some(stored) = stored.filter(|stored| !stored.is_free()) {
                    return Err(StepRefusal::Found(decide::found(stored, None, now, now, stamp.skew)));
                }
                next.key_version = stored.map_or(1, |stored| stored.key_version);
                next.end(end, now);
            }
        }
        Ok(Self(next))
    }

    /// Returns a pointer from a workflow to a step with its own key.
    ///
    /// `seen`: the number of the last step that the operator saw when they closed the workflow. If
    /// the step starts again after the close, the pointer gets a later number, so its effect
    /// counts.
    pub(crate) fn point(
        stored: Option<&Self>,
        new: &NewStep,
        seen: Option<u32>,
        stamp: Stamp,
    ) -> Result<Self, StepRefusal> {
        match of_this_life(stored, new)? {
            Some(pointer) if !pointer.is_closed(seen) => Err(StepRefusal::Changed),
            _ => Ok(Self(StepData::new(new, &stamp))),
        }
    }

    /// Returns whether this is a pointer that the operator saw when they closed the workflow.
    pub(crate) fn is_closed(&self, seen: Option<u32>) -> bool {
        self.kind == StepKind::Pointer
            && self.intervention.is_none()
            && seen.is_some_and(|seen| self.number <= seen)
    }

    /// Returns the record of a step that an operator completes or blocks before it has a record.
    pub(crate) fn given(
        new: &NewStep,
        by: &Intervention,
        act: &OperatorStep,
        stamp: Stamp,
    ) -> Result<Self, StepRefusal> {
        let mut next = StepData::new(new, &stamp);
        next.intervention = Some(by.clone());
        match act {
            OperatorStep::Resolve(result) => next.end(&End::Completed(result.clone()), stamp.now),
            OperatorStep::Block => {
                next.state = StepState::Cancelled;
                next.ended = Some(stamp.now);
            }
            _ => return Err(StepRefusal::NotPossible),
        }
        Ok(Self(next))
    }

    /// Returns the shared record for a result that an operator gave to one workflow.
    ///
    /// A stored record that prevents a start (`how`) prevents this. So does a compensated record,
    /// unless its result differs, and a record whose earlier versions are settled. Each may be the
    /// same effect, which was undone.
    pub(crate) fn share(
        given: &Self,
        stored: Option<&Self>,
        new: &NewStep,
        (how, ttl): (&Begin, Option<i64>),
        stamp: Stamp,
    ) -> Result<Self, StepRefusal> {
        let (now, result) = (stamp.now, given.result.clone().ok_or(StepRefusal::NotPossible)?);
        let has_same_result = |it: &Self| it.result.is_none() || it.has_result_of(given);
        let may_be_undone =
            |it: &Self| !it.settled.is_empty() || (it.state == StepState::Compensated && has_same_result(it));
        let mut next = Self::begin(stored, new, how, stamp)?.0;
        if stored.is_some_and(may_be_undone) {
            return Err(StepRefusal::Found(Found::Cancelled));
        }
        next.end(&End::Completed(result), now);
        next.intervention.clone_from(&given.intervention);
        // The workflow that compensates the step needs its record.
        next.ttl = ttl.filter(|_| next.started_for == new.started_for);
        Ok(Self(next))
    }

    /// Returns the record after the event.
    pub(crate) fn on(&self, event: &StepEvent, stamp: Stamp) -> Result<Self, StepRefusal> {
        if self.kind == StepKind::Pointer {
            return Err(StepRefusal::NotPossible);
        }
        let mut next = self.0.clone();
        match event {
            StepEvent::Holder { attempt, act } => {
                // An operator has freed the step, or another run has taken it over, while this
                // attempt worked. Without this, its outcome would replace theirs, and a second
                // charge would stay unseen.
                if self.state != StepState::Started || self.attempt != *attempt {
                    return Err(StepRefusal::Lost);
                }
                next.hold(act, &stamp)?;
            }
            StepEvent::TakeOver { seen, new, due } => {
                self.check(seen)?;
                // Its driver may be at work until then. A takeover before that would send a second
                // request while the first one runs.
                match self.busy_until(stamp.skew) {
                    None => return Err(StepRefusal::Changed),
                    Some(until) if until > stamp.now => return Err(StepRefusal::Busy(until)),
                    Some(_) => {}
                }
                // The holder changes. The first use of the key, the place and the version stay.
                next.due = *due;
                next.attempt = stamp.attempt;
                next.owner.clone_from(&new.owner);
                next.input.clone_from(&new.input);
                next.compensation.clone_from(&new.compensation);
                next.pivot = new.pivot;
                next.answered_by(self, new);
            }
            StepEvent::Cancel { seen, anyway } => {
                self.check(seen)?;
                match (self.state, self.busy_until(stamp.skew)) {
                    (StepState::Started, Some(until)) if until > stamp.now && !anyway => {
                        return Err(StepRefusal::Busy(until));
                    }
                    (StepState::Started | StepState::Held, _) => next.state = StepState::Cancelled,
                    _ => return Err(StepRefusal::NotPossible),
                }
            }
            StepEvent::Disowned { seen } => {
                self.check(seen)?;
                if self.state != StepState::Started {
                    return Err(StepRefusal::NotPossible);
                }
                next.attempt = stamp.attempt;
            }
            // An operator has given the step a new key during the compensation. The record keeps
            // that the earlier version is settled, so that no workflow compensates it again.
            StepEvent::Compensated { seen, version } if *version < self.key_version => {
                self.check(seen)?;
                if self.settled.contains(*version) {
                    return Err(StepRefusal::NotPossible);
                }
                next.settled = std::mem::take(&mut next.settled).with(*version);
            }
            StepEvent::Compensated { seen, .. } => {
                self.check(seen)?;
                if !matches!(self.state, StepState::Completed | StepState::Late | StepState::Cancelled) {
                    return Err(StepRefusal::NotPossible);
                }
                next.state = StepState::Compensated;
            }
            StepEvent::Operator { seen, by, act } => {
                self.check(seen)?;
                next.operate(self, act, &stamp)?;
                next.intervention = Some(by.clone());
            }
            StepEvent::Reached { seen, new } => {
                // An operator may have corrected or skipped the step after this run read it.
                self.check(seen)?;
                if self.kind != StepKind::Given || self.state != StepState::Completed {
                    return Err(StepRefusal::NotPossible);
                }
                if new.kind == StepKind::Pointer {
                    next = StepData::new(new, &stamp);
                } else {
                    (next.kind, next.number, next.pivot) = (new.kind, new.number, new.pivot);
                    next.compensation.clone_from(&new.compensation);
                }
            }
        }
        next.revision = stamp.revision;
        Ok(Self(next))
    }

    /// Returns the time until which its driver may be at work. `None`: the step is not started.
    pub(super) fn busy_until(&self, skew: std::time::Duration) -> Option<DateTime<Utc>> {
        (self.state == StepState::Started).then(|| time::after(self.due, skew))
    }

    fn check(&self, seen: &str) -> Result<(), StepRefusal> {
        if self.revision == seen { Ok(()) } else { Err(StepRefusal::Changed) }
    }
}

/// Returns the stored record, if it is of the same workflow as the new step.
///
/// A record of an earlier workflow with the same key does not count. A record of a later workflow
/// proves that this driver has lost its workflow.
fn of_this_life<'a>(
    stored: Option<&'a StepRecord>,
    new: &NewStep,
) -> Result<Option<&'a StepRecord>, StepRefusal> {
    match (stored.and_then(|stored| stored.run), new.run) {
        (Some(stored), Some(own)) if stored > own => Err(StepRefusal::Lost),
        (Some(stored), Some(own)) if stored < own => Ok(None),
        _ => Ok(stored),
    }
}

impl StepData {
    pub(super) fn new(new: &NewStep, stamp: &Stamp) -> Self {
        Self {
            id: new.id.clone(),
            kind: new.kind,
            state: StepState::Started,
            revision: stamp.revision.clone(),
            attempt: stamp.attempt.clone(),
            owner: new.owner.clone(),
            started_for: new.started_for.clone(),
            run: new.run,
            created: stamp.now,
            due: stamp.now,
            ended: None,
            number: new.number,
            input: new.input.clone(),
            key_version: 1,
            settled: Versions::default(),
            pivot: new.pivot,
            compensation: new.compensation.clone(),
            points_to: new.points_to.clone(),
            result: None,
            ttl: None,
            intervention: None,
        }
    }

    /// Takes over the data of the record that this start replaces.
    fn over(&mut self, stored: &StepRecord, new: &NewStep) {
        let least = match stored.state {
            StepState::Withdrawn | StepState::Freed => stored.key_version,
            _ => stored.key_version.saturating_add(1),
        };
        self.key_version = self.key_version.max(least);
        self.settled.clone_from(&stored.settled);
        // A completed step is started again only if its record has expired.
        if matches!(stored.state, StepState::Compensated | StepState::Completed) {
            self.settled = std::mem::take(&mut self.settled).with(stored.key_version);
        }
        if stored.is_free() && self.key_version == stored.key_version {
            // The provider may have seen the key before.
            self.created = stored.created;
            // A withdrawn step has no effect, so no workflow has to compensate it. A new key has no
            // effect either: it was created when the step was freed.
            if stored.state == StepState::Freed && stored.ended != Some(stored.created) {
                self.answered_by(stored, new);
            }
        }
    }

    /// Sets the workflow that compensates a shared step: the last workflow that started the step
    /// with a compensation. If no workflow did, the first one.
    fn answered_by(&mut self, before: &StepRecord, new: &NewStep) {
        let mine = new.started_for.clone();
        self.started_for = if new.answers { mine } else { before.started_for.clone().or(mine) };
    }

    fn hold(&mut self, act: &HolderAct, stamp: &Stamp) -> Result<(), StepRefusal> {
        match act {
            HolderAct::Prolong(due) => self.due = self.due.max(*due),
            HolderAct::Leave => self.due = time::before(stamp.now, stamp.skew),
            HolderAct::Withdraw { doubt: true } => return Err(StepRefusal::InDoubt),
            HolderAct::Withdraw { doubt: false } => self.state = StepState::Withdrawn,
            // A later attempt that failed proves nothing about an earlier one.
            HolderAct::End { end: End::Failed(_) | End::Held(_), doubt: true, .. } => {
                return Err(StepRefusal::InDoubt);
            }
            HolderAct::End { end, ttl, by, .. } => {
                self.end(end, stamp.now);
                self.owner.clone_from(by);
                // DynamoDB would delete a held record, and the step would run again.
                self.ttl = ttl.filter(|_| !matches!(end, End::Held(_)));
            }
        }
        Ok(())
    }

    fn operate(&mut self, stored: &StepRecord, act: &OperatorStep, stamp: &Stamp) -> Result<(), StepRefusal> {
        use StepState::{Cancelled, Completed, Failed, Freed, Held, Late, Started, Withdrawn};
        // Its driver may be at work. An operator who freed the step now would have it run twice.
        if let Some(until) = stored.busy_until(stamp.skew).filter(|until| *until > stamp.now) {
            return Err(StepRefusal::Busy(until));
        }
        // A step with its own key, cancelled in doubt with its workflow, blocks other
        // workflows.
        let left = stored.state == Cancelled && stored.started_for.is_some();
        match act {
            // The compensation of the cancelled step may still arrive. A start under the same key
            // would meet it.
            OperatorStep::Free { new_key } if left && *new_key => self.free(true, stamp),
            OperatorStep::Free { new_key } if matches!(stored.state, Started | Failed | Held) => {
                // After a failure the key must change: the provider would repeat its refusal.
                self.free(*new_key || stored.state == Failed, stamp);
            }
            OperatorStep::Late(result) if stored.state == Cancelled => {
                self.end(&End::Completed(result.clone()), stamp.now);
                self.state = Late;
            }
            OperatorStep::Answer { result, run }
                if stored.started_for.is_some()
                    && matches!(stored.state, Cancelled | Failed | Held | Freed | Withdrawn) =>
            {
                self.end(&End::Completed(result.clone()), stamp.now);
                self.started_for = Some(run.clone());
            }
            OperatorStep::Resolve(result)
                if left || matches!(stored.state, Started | Failed | Held | Freed | Withdrawn) =>
            {
                self.end(&End::Completed(result.clone()), stamp.now);
            }
            // The operator has repaired the effect, or it is the effect of another step.
            OperatorStep::Dismiss if stored.state == Late || stored.kind == StepKind::Given => {
                self.state = StepState::Compensated;
            }
            OperatorStep::Correct { result, unreadable }
                if stored.state == Completed && (*unreadable || stored.intervention.is_some()) =>
            {
                self.end(&End::Completed(result.clone()), stamp.now);
            }
            _ => return Err(StepRefusal::NotPossible),
        }
        // The record has the retention of its failure. Without the record, the step would run again
        // under the first version of its key.
        if stored.state != Completed {
            self.ttl = None;
        }
        // The new attempt refuses later writes of the driver that started the step.
        self.attempt.clone_from(&stamp.attempt);
        Ok(())
    }

    fn free(&mut self, new_key: bool, stamp: &Stamp) {
        self.state = StepState::Freed;
        self.ended = Some(stamp.now);
        if new_key {
            // The new key was not used before. Its first use is later than this time, so the time
            // in which the provider recognises the key ends early and never late.
            self.key_version = self.key_version.saturating_add(1);
            self.created = stamp.now;
        }
    }

    fn end(&mut self, end: &End, now: DateTime<Utc>) {
        let (state, result): (_, &StepResult) = match end {
            End::Completed(result) => (StepState::Completed, result),
            End::Failed(result) => (StepState::Failed, result),
            End::Held(result) => (StepState::Held, result),
        };
        self.state = state;
        self.result = Some(result.clone());
        self.ended = Some(now);
    }
}
