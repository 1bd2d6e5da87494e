//! Compensation: steps that completed or are in doubt, in reverse order, down to a pivot.

use super::code::Drive;
use crate::core::key::Key;
use crate::core::time;
use crate::core::workflow::decide;
use crate::core::workflow::name;
use crate::core::workflow::step::{Intent, RecordId, STEP, StepRecord, StepState};
use crate::error::Error;
use crate::observe::metrics;
use crate::store::{Guard, Put, record_item, record_of};
use crate::workflow::definition::{Compensated, Compensation, ProbeOutcome};
use crate::workflow::ended::Ended;
use crate::workflow::flow::Flow;
use crate::workflow::step::once::Once;
use crate::workflow::stop::Stop;

/// Maximum attempts to compensate a step whose record changes meanwhile.
const ROUNDS: usize = 4;

impl Flow {
    /// Compensate the steps that need it, and end the workflow.
    pub(crate) async fn compensate(&self, code: &dyn Drive) -> Result<Ended, Stop> {
        // The header was written first, so a driver that starts a step from now on sees that it lost the workflow.
        let all = Box::pin(self.context().store().read_workflow(self.workflow(), self.until())).await?;
        if all.header.is_none_or(|header| header.attempt != self.attempt()) {
            return Err(Stop::Lost);
        }
        self.remember_all(all.records.clone());
        // The steps of compensations have a `~` in their names.
        let own = |record: &StepRecord| record.id.item.starts_with(STEP) && !record.id.item.contains('~');
        let mut steps = Vec::with_capacity(all.records.len());
        for record in all.records.into_iter().filter(own) {
            steps.extend(self.resolved(record).await?);
        }
        let only_late = self.header().await.ended.is_some();
        let (compensate, pivot) = decide::to_compensate(steps, only_late);
        for record in compensate {
            self.compensate_step(code, record).await?;
        }
        if pivot {
            let why = "it failed or was cancelled past its pivot: steps before the pivot are not compensated";
            return Ok(self.quarantine(why.to_owned()).await?);
        }
        self.end_compensated().await
    }

    /// Read the state of a step with a key of its own. The workflow that ran it also compensates it.
    async fn resolved(&self, record: StepRecord) -> Result<Option<StepRecord>, Stop> {
        let Some(key) = &record.points_to else { return Ok(Some(record)) };
        let id = RecordId::shared(key);
        let shared = Box::pin(self.context().store().read_record(&id, self.until())).await?;
        // Not started: a driver that starts it from now on sees that it lost the workflow.
        let Some(shared) = shared else { return Ok(None) };
        let mine = shared.started_for.as_deref() == Some(self.run_id());
        Ok(Some(StepRecord {
            number: record.number,
            pivot: record.pivot,
            compensation: record.compensation.filter(|_| mine),
            points_to: Some(record.id.name().to_owned()),
            ..shared
        }))
    }

    async fn compensate_step(&self, code: &dyn Drive, mut record: StepRecord) -> Result<(), Stop> {
        let Some(intent) = record.compensation.clone() else { return Ok(()) };
        let step = record.points_to.take().unwrap_or_else(|| record.id.name().to_owned());
        let version = record.key_version;
        for _ in 0..ROUNDS {
            // Another workflow took it over, or it runs under another key: it is no longer this one's.
            let is_others = record.started_for.as_deref().is_some_and(|run| run != self.run_id());
            if is_others || record.key_version != version {
                return Ok(());
            }
            match record.state {
                StepState::Compensated | StepState::Freed => return Ok(()),
                StepState::Failed if !record.is_held() => return Ok(()),
                StepState::Started | StepState::Failed => match self.tombstone(&step, &record).await? {
                    Some(next) => record = next,
                    None => return Ok(()),
                },
                StepState::Completed | StepState::Late | StepState::Cancelled => {
                    if record.state == StepState::Late
                        && self.was_compensated(code, &step, &intent, &record).await?
                    {
                        self.write_over(
                            &record,
                            StepRecord { state: StepState::Compensated, ..record.clone() },
                        )
                        .await?;
                        return Ok(());
                    }
                    let compensated = self.compensate_once(code, &step, &intent, &record).await?;
                    // If its outcome arrives later, it is found and compensated then.
                    if compensated == Compensated::Nothing && record.state == StepState::Cancelled {
                        return Ok(());
                    }
                    let mut next = record.clone();
                    next.state = StepState::Compensated;
                    match self.write_over(&record, next).await? {
                        (_, true) => return Ok(()),
                        // Its late outcome; this compensation has already dealt with its effect.
                        (Some(found), false)
                            if compensated == Compensated::Done
                                && found.state == StepState::Late
                                && found.key_version == version
                                && found.started_for == record.started_for =>
                        {
                            let mut next = found.clone();
                            next.state = StepState::Compensated;
                            self.write_over(&found, next).await?;
                            return Ok(());
                        }
                        (Some(found), false) => record = found,
                        (None, false) => return Ok(()),
                    }
                }
            }
        }
        Err(crate::workflow::step::step::later(
            self,
            &step,
            None,
            "its record changed during its compensation",
        ))
    }

    /// Whether a first compensation was begun before the outcome arrived, and had something to compensate. If it is
    /// in doubt, that is resolved first.
    async fn was_compensated(
        &self,
        code: &dyn Drive,
        step: &str,
        intent: &Intent,
        record: &StepRecord,
    ) -> Result<bool, Stop> {
        if self.recorded(&RecordId::compensation(self.workflow(), step, false)).is_none() {
            return Ok(false);
        }
        let before = StepRecord { state: StepState::Cancelled, ..record.clone() };
        Ok(self.compensate_once(code, step, intent, &before).await? == Compensated::Done)
    }

    /// Refuse an outcome of a step in doubt that may still arrive.
    async fn tombstone(&self, step: &str, record: &StepRecord) -> Result<Option<StepRecord>, Stop> {
        let until = time::after(record.due, self.context().skew());
        if until > self.now() {
            return Err(Stop::Later {
                step: step.to_owned(),
                at: until,
                cause: "it was started and may still be running".to_owned(),
                counts: false,
            });
        }
        let mut next = record.clone();
        next.state = StepState::Cancelled;
        Ok(self.write_over(record, next).await?.0)
    }

    /// Write a record over the one seen. Return the stored record, and whether it is this one.
    async fn write_over(
        &self,
        seen: &StepRecord,
        mut next: StepRecord,
    ) -> Result<(Option<StepRecord>, bool), Stop> {
        next.revision = self.context().new_id();
        let next = next.without_pointer();
        let item = record_item(&next);
        let store = self.context().store();
        let guard = Guard::Revision(&seen.revision);
        match Box::pin(store.put_item("compensate the step", &item, guard, self.until())).await? {
            Put::Done => {
                self.remember(next.clone());
                Ok((Some(next), true))
            }
            Put::Refused { item: None, .. } => Ok((None, false)),
            Put::Refused { item: Some(item), .. } => {
                Ok((Some(record_of(&item).map_err(Error::from)?), false))
            }
        }
    }

    /// Compensate a step at most once, as a step of its own.
    async fn compensate_once(
        &self,
        code: &dyn Drive,
        step: &str,
        intent: &Intent,
        record: &StepRecord,
    ) -> Result<Compensated, Stop> {
        let late = record.state == StepState::Late;
        let result = match record.state {
            StepState::Cancelled => None,
            _ => Some(crate::workflow::step::recorded::result_json(record)?),
        };
        let tried_under = match record.started_for {
            Some(_) => {
                name::shared_provider_key(&Key::stored(record.id.workflow.clone()), record.key_version)
            }
            None => name::provider_key(self.key(), self.key_version(), step, record.key_version),
        };
        let compensation = |idempotency_key: &str| Compensation {
            step: step.to_owned(),
            name: intent.name.clone(),
            input: intent.input.clone(),
            result: result.clone(),
            late,
            tried_under: tried_under.clone(),
            idempotency_key: idempotency_key.to_owned(),
        };
        let scoped =
            self.within(&format!("{}{step}", if late { "compensation-late:" } else { "compensation:" }));
        metrics::count_compensation();
        Once::compensating(self, step.to_owned(), late)
            .recognised_for(std::time::Duration::from_secs(intent.recognised))
            .probe(|attempt| code.probe_compensation(compensation(attempt.idempotency_key())))
            .run(|attempt| {
                scoped.forget_names();
                code.compensate(&scoped, compensation(attempt.idempotency_key()))
            })
            .await
            .map_err(|stop| match stop {
                Stop::Failed(failure) | Stop::NeedsOperator(failure) => Stop::CompensationFailed(failure),
                stop => stop,
            })
    }
}

impl ProbeOutcome {
    /// The compensation happened.
    #[must_use]
    pub fn compensated() -> Self {
        Self::Done("\"done\"".to_owned())
    }
}
