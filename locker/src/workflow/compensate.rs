//! Undoing: in reverse, what completed or is in doubt, down to a pivot.

use super::definition::{Found, Undo, Undone};
use super::drive::Ended;
use super::flow::Flow;
use super::once::Once;
use super::registry::Drive;
use super::stop::Stop;
use crate::core::key::Key;
use crate::core::time;
use crate::core::workflow::decide;
use crate::core::workflow::name;
use crate::core::workflow::record::{Intent, RecordId, STEP, StepRecord, StepState};
use crate::error::Error;
use crate::metrics;
use crate::store::workflow::{Guard, Put, record_item, record_of};

/// How often a record is judged anew that changes under its undoing.
const ROUNDS: usize = 4;

impl Flow {
    /// Undo what is to be undone, and end.
    pub(super) async fn compensate(&self, code: &dyn Drive) -> Result<Ended, Stop> {
        // The header was written first, so whoever starts a step from now on sees that it is not his any more.
        let all = Box::pin(self.workflows().store().read_workflow(self.workflow(), self.until())).await?;
        if all.header.is_none_or(|header| header.attempt != self.attempt()) {
            return Err(Stop::Lost);
        }
        self.remember_all(all.records.clone());
        // The steps of undoings have a `~` in their names.
        let own = |record: &StepRecord| record.id.item.starts_with(STEP) && !record.id.item.contains('~');
        let mut steps = Vec::with_capacity(all.records.len());
        for record in all.records.into_iter().filter(own) {
            steps.extend(self.resolved(record).await?);
        }
        let (undo, pivot) = decide::to_undo(steps);
        for record in undo {
            self.undo(code, record).await?;
        }
        if pivot {
            let why = "it failed or was cancelled past its pivot: what came before the pivot is not undone";
            return self.park(why.to_owned()).await;
        }
        self.end_undone().await
    }

    /// A step with a key of its own: how far it is there. Whoever did it answers for undoing it.
    async fn resolved(&self, record: StepRecord) -> Result<Option<StepRecord>, Stop> {
        let Some(key) = &record.points_to else { return Ok(Some(record)) };
        let id = RecordId::shared(key);
        let shared = Box::pin(self.workflows().store().read_record(&id, self.until())).await?;
        // Not started: whoever starts it from now on sees that the workflow is not his any more.
        let Some(shared) = shared else { return Ok(None) };
        let mine = shared.started_for.as_deref() == Some(self.run_id());
        Ok(Some(StepRecord {
            number: record.number,
            pivot: record.pivot,
            undo: record.undo.filter(|_| mine),
            points_to: Some(record.id.name().to_owned()),
            ..shared
        }))
    }

    async fn undo(&self, code: &dyn Drive, mut record: StepRecord) -> Result<(), Stop> {
        let Some(intent) = record.undo.clone() else { return Ok(()) };
        let step = record.points_to.take().unwrap_or_else(|| record.id.name().to_owned());
        for _ in 0..ROUNDS {
            match record.state {
                StepState::Failed | StepState::Undone | StepState::Freed => return Ok(()),
                StepState::Started => match self.tombstone(&step, &record).await? {
                    Some(next) => record = next,
                    None => return Ok(()),
                },
                StepState::Completed | StepState::Late | StepState::Cancelled => {
                    if record.state == StepState::Late
                        && self.was_undone(code, &step, &intent, &record).await?
                    {
                        self.write_over(&record, StepRecord { state: StepState::Undone, ..record.clone() })
                            .await?;
                        return Ok(());
                    }
                    let undone = self.undo_once(code, &step, &intent, &record).await?;
                    // Should its outcome come later, it is found and undone then.
                    if undone == Undone::Nothing && record.state == StepState::Cancelled {
                        return Ok(());
                    }
                    let mut next = record.clone();
                    next.state = StepState::Undone;
                    match self.write_over(&record, next).await? {
                        (_, true) => return Ok(()),
                        // Its late outcome, of which this undoing has seen the effect.
                        (Some(found), false) if undone == Undone::Done => {
                            let mut next = found.clone();
                            next.state = StepState::Undone;
                            self.write_over(&found, next).await?;
                            return Ok(());
                        }
                        (Some(found), false) => record = found,
                        (None, false) => return Ok(()),
                    }
                }
            }
        }
        Err(super::step::later(self, &step, None, "its record changed under its undoing"))
    }

    /// Whether a first undoing was begun before the outcome came, and found something to undo. If nobody knows
    /// how it ended, that is found out first.
    async fn was_undone(
        &self,
        code: &dyn Drive,
        step: &str,
        intent: &Intent,
        record: &StepRecord,
    ) -> Result<bool, Stop> {
        if self.recorded(&RecordId::undo(self.workflow(), step, false)).is_none() {
            return Ok(false);
        }
        let before = StepRecord { state: StepState::Cancelled, ..record.clone() };
        Ok(self.undo_once(code, step, intent, &before).await? == Undone::Done)
    }

    /// Refuse whatever outcome may still come of a step in doubt.
    async fn tombstone(&self, step: &str, record: &StepRecord) -> Result<Option<StepRecord>, Stop> {
        let until = time::after(record.due, self.workflows().skew());
        if until > self.now() {
            return Err(Stop::Later {
                step: step.to_owned(),
                at: until,
                cause: "somebody started it and may be at work".to_owned(),
                counts: false,
            });
        }
        let mut next = record.clone();
        next.state = StepState::Cancelled;
        Ok(self.write_over(record, next).await?.0)
    }

    /// Write a record over the one seen. What is there then, and whether it is this.
    async fn write_over(
        &self,
        seen: &StepRecord,
        mut next: StepRecord,
    ) -> Result<(Option<StepRecord>, bool), Stop> {
        next.revision = self.workflows().new_id();
        if next.started_for.is_some() {
            // What its pointer says of it stays there.
            (next.undo, next.pivot, next.points_to) = (None, false, None);
        }
        let item = record_item(&next);
        let store = self.workflows().store();
        let guard = Guard::Revision(&seen.revision);
        match Box::pin(store.put_item("undo the step", &item, guard, self.until())).await? {
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

    /// Undo a step at most once, as a step of its own.
    async fn undo_once(
        &self,
        code: &dyn Drive,
        step: &str,
        intent: &Intent,
        record: &StepRecord,
    ) -> Result<Undone, Stop> {
        let late = record.state == StepState::Late;
        let result = match record.state {
            StepState::Cancelled => None,
            _ => Some(super::adopt::result_json(record)?),
        };
        let tried_under = match record.started_for {
            Some(_) => {
                name::shared_provider_key(&Key::stored(record.id.workflow.clone()), record.key_version)
            }
            None => name::provider_key(self.key(), self.key_version(), step, record.key_version),
        };
        let undo = |idempotency_key: &str| Undo {
            step: step.to_owned(),
            name: intent.name.clone(),
            input: intent.input.clone(),
            result: result.clone(),
            late,
            tried_under: tried_under.clone(),
            idempotency_key: idempotency_key.to_owned(),
        };
        let scoped = self.within(&format!("{}{step}", if late { "undo-late:" } else { "undo:" }));
        metrics::count_undo();
        Once::undoing(self, step.to_owned(), late)
            .recognised_for(std::time::Duration::from_secs(intent.recognised))
            .probe(|attempt| code.probe_undo(undo(attempt.idempotency_key())))
            .run(|attempt| {
                scoped.forget_names();
                code.undo(&scoped, undo(attempt.idempotency_key()))
            })
            .await
            .map_err(|stop| match stop {
                Stop::Failed(failure) | Stop::NeedsPerson(failure) => Stop::UndoFailed(failure),
                stop => stop,
            })
    }
}

impl Found {
    /// An undoing happened.
    #[must_use]
    pub fn undone() -> Self {
        Self::Done("\"done\"".to_owned())
    }
}
