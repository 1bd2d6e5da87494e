//! Compensates steps that completed or are in doubt, in reverse order, back to the last pivot.

use super::code::Drive;
use super::end::Came;
use crate::core::answer;
use crate::core::key::Key;
use crate::core::name;
use crate::core::private::Private;
use crate::core::workflow::compensation::{self, Owed};
use crate::core::workflow::event::EventAct;
use crate::core::workflow::place::{Effect, Undo};
use crate::core::workflow::step::{Intent, Placed, RecordId, StepEvent, StepRecord, StepState};
use crate::error::Error;
use crate::metrics;
use crate::store::Changed;
use crate::workflow::definition::{Compensated, Compensation, ProbeOutcome};
use crate::workflow::flow::{Flow, outermost};
use crate::workflow::step::once::Once;
use crate::workflow::step::once_record::on;
use crate::workflow::step::results::json_of;
use crate::workflow::step::step::later;
use crate::workflow::stop::StopKind;

/// The most rounds for a step whose record changes while it is compensated.
const ROUNDS: usize = 10;

/// The effect that a compensation undoes, and the values that it receives.
struct Undone<'a> {
    undo: Undo<'a>,
    intent: Intent,
    /// The result as JSON. `None`: it is unknown whether the step happened.
    result: Option<String>,
    /// The idempotency key that the provider received for the step, or the id of the event.
    tried_under: String,
}

impl Flow {
    /// Compensates all steps and late events that need it.
    pub(super) async fn compensate(&self, code: &dyn Drive) -> Result<Came, StopKind> {
        // The header was written first, so any driver that starts a step from now on finds that it
        // has lost the workflow. This driver may also lose the workflow: it is suspended here, a
        // completer quarantines the workflow, and an operator closes it. The writes below are
        // conditional only on the revisions of the steps. Without this check, the driver would
        // cancel a held step of the closed workflow.
        let all = Box::pin(self.context().store().read_workflow(self.workflow(), self.until())).await?;
        if all.header.is_none_or(|header| header.attempt != self.attempt()) {
            return Err(StopKind::Lost);
        }
        let created = self.created();
        let records: Vec<_> = all.records.into_iter().filter(|record| record.is_of(created)).collect();
        self.remember_all(records.clone());
        self.note_events(all.events);
        let mut steps = self.placed(records).await?;
        for step in &mut steps {
            Box::pin(self.settle_earlier(step)).await?;
        }
        let only_late = self.lock_header().ended.is_some();
        // An undeclared step may be a pivot, so no step before it is compensated.
        let waits = |step: &&Placed| compensation::awaits_repair(&step.record, &self.lock_header());
        if let Some(given) = steps.iter().find(waits) {
            return Ok(Came::LeftToOperator(compensation::undeclared(&given.name())));
        }
        let stays = self.uncompensated(&steps);
        let (compensate, pivot) = compensation::to_compensate(steps, only_late);
        let events = self.events().into_iter().filter(|event| event.owed().is_some());
        let late = compensate.iter().map(Placed::name).chain(events.map(|event| event.id.shown())).next();
        if let Some(late) = late.filter(|_| self.lock_header().closed) {
            return Ok(Came::LeftToOperator(compensation::after_close(&late)));
        }
        for step in compensate {
            Box::pin(self.compensate_step(code, step)).await?;
        }
        self.compensate_events(code).await?;
        if let Some(pivot) = pivot {
            return Ok(Came::LeftToOperator(compensation::stopped_at(&pivot)));
        }
        stays.map_or(Ok(Came::Compensated), Err)
    }

    /// Compensates late steps and late events, while the workflow runs forward.
    pub(crate) async fn compensate_late(&self, code: &dyn Drive) -> Result<(), StopKind> {
        let late = self.records_that(|record| record.state == StepState::Late);
        let steps = self.placed(late).await?;
        let stays = self.uncompensated(&steps);
        let (compensate, _) = compensation::to_compensate(steps, true);
        for step in compensate {
            Box::pin(self.compensate_step(code, step)).await?;
        }
        self.compensate_events(code).await?;
        stays.map_or(Ok(()), Err)
    }

    /// Runs the compensations of late events, each once, in the order in which the events arrived.
    async fn compensate_events(&self, code: &dyn Drive) -> Result<(), StopKind> {
        for event in self.events() {
            let (Some(intent), Some(arrived)) = (event.owed().cloned(), event.arrived.as_ref()) else {
                continue;
            };
            let name = event.id.shown();
            let undone = Undone {
                undo: Undo { effect: Effect { step: &name, version: 1 }, late: true },
                intent,
                result: Some(answer::decode(arrived.identity.value.clone()).map_err(Error::from)?),
                tried_under: arrived.identity.id.clone().unwrap_or_default(),
            };
            Box::pin(self.compensate_once(code, undone)).await?;
            let until = self.until_recorded();
            let changed = self.context().act_on_event("handle the event", event, &EventAct::Handle, until);
            match Box::pin(changed).await? {
                Changed::Done(next) | Changed::Refused { stored: Some(next), .. } => self.note_event(next),
                Changed::Refused { stored: None, .. } | Changed::Gone => {}
            }
        }
        Ok(())
    }

    /// Returns the stop for a late step without a compensation: an operator must repair its effect.
    fn uncompensated(&self, steps: &[Placed]) -> Option<StopKind> {
        let stays = |step: &&Placed| {
            step.record.state == StepState::Late && step.compensation.is_none() && step.is_of(&self.run_id())
        };
        let step = steps.iter().find(stays)?;
        let why = "it happened and should not stand, and has no compensation: repair it, then skip it";
        Some(StopKind::invalid(&step.name(), why))
    }

    /// Returns the steps of this workflow. Reads the shared record of a step with its own key.
    async fn placed(&self, records: Vec<StepRecord>) -> Result<Vec<Placed>, StopKind> {
        let mut steps = Vec::with_capacity(records.len());
        for record in records.into_iter().filter(compensation::is_step) {
            let Some(id) = record.shared() else {
                steps.push(Placed::own(record));
                continue;
            };
            // If the shared record does not exist, the step has not started. Any driver that starts
            // it from now on finds that it has lost the workflow.
            let shared = Box::pin(self.context().store().read_record(&id, self.until())).await?;
            if let Some(shared) = shared {
                self.note(shared.clone());
                let mut step = Placed::through(&record, shared);
                // The workflow that ran it also compensates it.
                if !step.is_of(&self.run_id()) {
                    step.compensation = None;
                }
                steps.push(step);
            }
        }
        Ok(steps)
    }

    async fn compensate_step(&self, code: &dyn Drive, mut step: Placed) -> Result<(), StopKind> {
        let Some(intent) = step.compensation.clone() else { return Ok(()) };
        let version = step.record.key_version;
        let first = RecordId::compensation(self.workflow(), Undo { effect: step.effect(), late: false });
        // A late outcome, an operator or another workflow may change the record between any two
        // writes. Each write is conditional on the revision that was read. If a write is refused,
        // the next round decides again from the stored record.
        for _ in 0..ROUNDS {
            let begun = self.recorded(&first).is_some();
            let (now, skew) = (self.time(), self.context().skew());
            let owed = compensation::owed(&step, &self.run_id(), version, begun, now, skew);
            let begun_for = match owed {
                Owed::Nothing => return self.settle_earlier(&mut step).await,
                Owed::Wait(until) => return Err(StopKind::busy(&step.name(), until)),
                Owed::Cancel => {
                    let event = StepEvent::Cancel { seen: step.record.revision.clone(), anyway: false };
                    if !self.mark(&mut step, &event).await? {
                        return Ok(());
                    }
                    continue;
                }
                Owed::Compensate | Owed::CompensateLate => step.record.state,
                Owed::EndFirst => StepState::Cancelled,
            };
            let came_to = self.compensate_for(code, &step, &intent, begun_for).await?;
            if !compensation::is_settled(begun_for, came_to) {
                if owed == Owed::Compensate {
                    // If the outcome of the step arrives later, the step is late and is compensated
                    // then.
                    return Ok(());
                }
                let begun_for = StepState::Late;
                self.compensate_for(code, &step, &intent, begun_for).await?;
            }
            // If the outcome of a cancelled step has arrived in between, this write is refused. The
            // next round finds the compensation recorded, and marks the step without another call.
            let event = StepEvent::Compensated { seen: step.record.revision.clone(), version };
            if !self.mark(&mut step, &event).await? || step.record.state == StepState::Compensated {
                return Ok(());
            }
        }
        Err(later(self, &step.name(), None, "its record changed during its compensation"))
    }

    /// Records in a shared step that an earlier version of its key is settled, because this
    /// workflow has compensated it.
    ///
    /// An operator may give the step a new key while the compensation runs, and the driver of the
    /// compensation may die before it records this.
    async fn settle_earlier(&self, step: &mut Placed) -> Result<(), StopKind> {
        if step.at == step.record.id {
            return Ok(());
        }
        for _ in 0..ROUNDS {
            let is_open = |version: &u32| {
                !step.record.settled.contains(*version) && self.has_compensated(step, *version)
            };
            let Some(version) = (1..step.record.key_version).find(is_open) else { return Ok(()) };
            let event = StepEvent::Compensated { seen: step.record.revision.clone(), version };
            if !self.mark(step, &event).await? {
                return Ok(());
            }
        }
        Err(later(self, &step.name(), None, "its record changed during its compensation"))
    }

    fn has_compensated(&self, step: &Placed, version: u32) -> bool {
        let effect = Effect { version, ..step.effect() };
        [false, true].into_iter().any(|late| {
            let id = RecordId::compensation(self.workflow(), Undo { effect, late });
            let recorded = self.recorded(&id).and_then(|record| compensation::recorded(&record));
            recorded == Some(Compensated::Done)
        })
    }

    /// Writes the record after the event. If the write is refused, sets the stored record instead.
    /// `false`: the record was deleted.
    async fn mark(&self, step: &mut Placed, event: &StepEvent) -> Result<bool, StopKind> {
        let context = self.context();
        let rule = |stored: Option<&StepRecord>| on(stored, event, context.stamp());
        let seen = Some(step.record.clone());
        let changed = context.store().change("compensate the step", seen, self.until_recorded(), rule);
        step.record = match Box::pin(changed).await? {
            Changed::Done(next) => {
                self.remember(next.clone());
                next
            }
            Changed::Refused { stored: Some(stored), .. } => {
                self.note(stored.clone());
                stored
            }
            Changed::Refused { stored: None, .. } | Changed::Gone => return Ok(false),
        };
        Ok(true)
    }

    /// Compensates a step. `begun_for`: the state of the step when the compensation begins.
    async fn compensate_for(
        &self,
        code: &dyn Drive,
        placed: &Placed,
        intent: &Intent,
        begun_for: StepState,
    ) -> Result<Compensated, StopKind> {
        let (effect, record) = (placed.effect(), &placed.record);
        let late = begun_for == StepState::Late;
        let undo = Undo { effect, late };
        let result = match begun_for {
            StepState::Cancelled => None,
            _ => {
                let record = self.context().with_result(record.clone(), self.until()).await?;
                Some(json_of(&record)?)
            }
        };
        let name = effect.step;
        let shared = match &record.points_to {
            Some(key) => Some(key.clone()),
            None => record.started_for.as_ref().map(|_| record.id.workflow.clone()),
        };
        let tried_under = match shared {
            Some(key) => name::shared_provider_key(&Key::stored(key), record.key_version),
            None => name::provider_key(self.key(), self.key_version(), name, record.key_version),
        };
        let undone = Undone { undo, intent: intent.clone(), result, tried_under };
        self.compensate_once(code, undone).await
    }

    /// Runs a compensation at most once, as a separate step.
    async fn compensate_once(&self, code: &dyn Drive, undone: Undone<'_>) -> Result<Compensated, StopKind> {
        let Undone { undo, intent, result, tried_under } = undone;
        let compensation = |idempotency_key: &str| Compensation {
            step: undo.effect.step.to_owned(),
            name: intent.name.clone(),
            input: intent.input.clone(),
            result: Private(result.clone()),
            late: undo.late,
            tried_under: Private(tried_under.clone()),
            idempotency_key: Private(idempotency_key.to_owned()),
        };
        let scoped = self.within(undo);
        metrics::count_compensation();
        Once::compensating(self, undo)
            .recognised_for(std::time::Duration::from_secs(intent.recognised))
            .probe(|attempt| code.probe_compensation(compensation(attempt.idempotency_key())))
            // The driver receives each stop of a compensation itself.
            .attempts(|attempt| {
                scoped.forget_names();
                outermost(code.compensate(&scoped, compensation(attempt.idempotency_key())))
            })
            .await
            .map_err(|stop| match (stop, scoped.waits_within()) {
                // Its steps wait on purpose, so that the compensation waits and does not fail.
                (StopKind::Later { .. }, Some(until)) => StopKind::Waiting { until },
                (StopKind::Later { step, at, cause, retry_for, .. }, None) => {
                    let counts = !scoped.leaves_to_others();
                    StopKind::Later { step, at, cause, counts, retry_for }
                }
                (StopKind::Failed(failure) | StopKind::NeedsOperator(failure), _) => {
                    StopKind::CompensationFailed(failure)
                }
                (stop, _) => stop,
            })
    }
}

impl ProbeOutcome {
    /// Returns the outcome of a probe that found the compensation complete.
    #[must_use]
    pub fn compensated() -> Self {
        Self::Done("\"done\"".to_owned())
    }
}
