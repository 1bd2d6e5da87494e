//! Starting a once-only step: its record is written first, or found.

use std::time::Duration;

use super::once::Once;
use super::recorded::failed;
use super::step::later;
use crate::core::answer::AnswerError;
use crate::core::fingerprint::Fingerprint;
use crate::core::retention::Retention;
use crate::core::time;
use crate::core::workflow::decide;
use crate::core::workflow::step::{RecordId, StepKind, StepRecord, StepState};
use crate::error::Error;
use crate::store::{Guard, Put, record_item, record_of};
use crate::workflow::stop::Stop;

/// Maximum attempts to start a step whose record changes meanwhile.
const ROUNDS: usize = 4;

/// The records to write before a step starts.
pub(crate) struct Starting {
    pub(crate) id: RecordId,
    pub(crate) record: StepRecord,
    pub(crate) pointer: Option<StepRecord>,
    pub(crate) input: Option<Fingerprint>,
    pub(crate) reads: Reads,
}

/// Whether the code can read a result, so that only such a one is recorded.
pub(crate) type Reads = fn(&str) -> Result<(), AnswerError>;

impl Starting {
    pub(crate) fn of(once: &mut Once<'_>, reads: Reads) -> Result<Self, Stop> {
        let flow = once.flow;
        if once.compensates.is_none() {
            flow.take_name(&once.name, once.version)?;
        }
        crate::settings::check_expect_within(once.expected.time).map_err(Error::from)?;
        if once.version == Some(0) {
            return Err(Stop::invalid(&once.name, "the version of its key must be at least 1, got 0"));
        }
        let input = once.input.take().transpose()?;
        let compensation = once.compensation.take().transpose()?;
        let own = match once.compensates {
            None => RecordId::step(flow.workflow(), &flow.full_name(&once.name)),
            Some(late) => RecordId::compensation(flow.workflow(), &once.name, late),
        };
        if compensation.is_some() || once.pivot {
            flow.touch();
        }
        let own_record = |kind| {
            let mut record = flow.new_record(own.clone(), kind, input.as_ref());
            record.pivot = once.pivot;
            record.compensation.clone_from(&compensation);
            record
        };
        let key = match &once.key {
            None => {
                let record = own_record(once.kind());
                return Ok(Self { id: own, record, pointer: None, input, reads });
            }
            Some(Ok(key)) => key.clone(),
            Some(Err(error)) => return Err(Error::from(error.clone()).into()),
        };
        crate::settings::check_retention(once.retention).map_err(Error::from)?;
        if compensation.is_some() && once.retention != Retention::Forever {
            let reason = "the record of a step with a compensation cannot expire; use `Retention::Forever`";
            return Err(Stop::invalid(&once.name, reason));
        }
        let mut pointer = own_record(StepKind::Pointer);
        pointer.points_to = Some(key.as_str().to_owned());
        let id = RecordId::shared(key.as_str());
        let mut record = flow.new_record(id.clone(), StepKind::Once, input.as_ref());
        record.started_for = Some(flow.run_id().to_owned());
        Ok(Self { id, record, pointer: Some(pointer), input, reads })
    }
}

/// The state of a step before its work.
pub(crate) enum Settled {
    /// Started by this call. The flag says that an earlier start of it is in doubt.
    Run(Box<StepRecord>, bool),
    /// Completed, with this record.
    Recorded(Box<StepRecord>),
}

pub(crate) enum Next {
    Settled(Settled),
    /// Another record exists, and is to be judged.
    Judge(Box<StepRecord>),
}

impl Once<'_> {
    /// Start the step, or find its outcome.
    pub(crate) async fn settle(&self, start: &Starting) -> Result<Settled, Stop> {
        let flow = self.flow;
        let mut known = match &start.pointer {
            None => flow.recorded(&start.id),
            // Another workflow may have ended it since this one read its own records.
            Some(pointer) => {
                if let Some(given) = self.point(pointer, start).await? {
                    return Ok(Settled::Recorded(Box::new(given)));
                }
                None
            }
        };
        for _ in 0..ROUNDS {
            let next = match known.take() {
                None => self.start(start, None).await?,
                Some(record) => self.judge(record, start).await?,
            };
            match next {
                Next::Settled(settled) => return Ok(settled),
                Next::Judge(record) => known = Some(*record),
            }
        }
        Err(later(flow, &self.name, None, "its record changed on every attempt to start it"))
    }

    /// Decide what an existing record means.
    pub(crate) async fn judge(&self, record: StepRecord, start: &Starting) -> Result<Next, Stop> {
        let flow = self.flow;
        let (expired_at, now, skew) = (flow.context().expired_at(), flow.now(), flow.context().skew());
        let found = decide::found(&record, self.version, expired_at, now, skew);
        if !matches!(found, decide::Found::Free | decide::Found::Cancelled) {
            flow.check_same(&self.name, &record, self.kind(), start.input.as_ref())?;
        }
        match found {
            decide::Found::Completed => Ok(Next::Settled(Settled::Recorded(Box::new(record)))),
            decide::Found::Failed => Err(failed(&record)),
            // Cancelled in doubt with another workflow, which is responsible for it and may be about to compensate it.
            decide::Found::Cancelled
                if record.started_for.as_ref().is_some_and(|run| *run != flow.run_id()) =>
            {
                Err(Stop::InDoubt { step: self.name.clone(), resolvable: true })
            }
            decide::Found::Cancelled => Err(Stop::Cancelled { step: self.name.clone() }),
            decide::Found::Busy => Err(Stop::Later {
                step: self.name.clone(),
                at: time::after(record.due, skew),
                cause: "it was started and may still be running".to_owned(),
                counts: false,
            }),
            decide::Found::Free => {
                let version = self.version.unwrap_or(1).max(record.key_version.saturating_add(1));
                self.start(start, Some((&record, version))).await
            }
            decide::Found::InDoubt => Box::pin(self.resolve(record, start)).await,
        }
    }

    /// Write a pointer into the workflow before a step with a key of its own starts there. Return the record that
    /// an operator wrote in its place, if any.
    pub(crate) async fn point(
        &self,
        pointer: &StepRecord,
        start: &Starting,
    ) -> Result<Option<StepRecord>, Stop> {
        let flow = self.flow;
        if let Some(known) = flow.recorded(&pointer.id) {
            if known.state == StepState::Cancelled {
                return Err(Stop::Cancelled { step: self.name.clone() });
            }
            if known.state == StepState::Completed && known.intervention.is_some() {
                return Ok(Some(known));
            }
            flow.check_same(&self.name, &known, StepKind::Pointer, start.input.as_ref())?;
            if known.points_to.as_deref() != Some(start.id.workflow.as_str()) {
                return Err(Stop::Changed { step: self.name.clone(), what: "key" });
            }
            return Ok(None);
        }
        match self.put(pointer, Guard::Absent).await? {
            None => {
                flow.remember(pointer.clone());
                Ok(None)
            }
            Some(other) => {
                flow.remember(other);
                Box::pin(self.point(pointer, start)).await
            }
        }
    }

    /// Write the start, and check that this driver still owns the workflow.
    pub(crate) async fn start(
        &self,
        start: &Starting,
        over: Option<(&StepRecord, u32)>,
    ) -> Result<Next, Stop> {
        let flow = self.flow;
        self.check_time()?;
        let mut record = start.record.clone();
        record.created = flow.now();
        record.due = time::after(record.created, self.expected.time);
        // The provider may have seen the key on an attempt before.
        if let Some((freed, _)) = over.filter(|(over, _)| over.state == StepState::Freed) {
            record.created = freed.created;
            record.started_for = self.answerer(start, freed);
        }
        record.key_version = over.map_or_else(|| self.version.unwrap_or(1), |(_, version)| version);
        let guard = over.map_or(Guard::Absent, |(over, _)| Guard::Revision(&over.revision));
        if let Some(found) = self.put(&record, guard).await? {
            return Ok(Next::Judge(Box::new(found)));
        }
        self.held(record, false).await
    }

    /// Refuse to start a step for which too little time is left. That counts as an attempt if the run recorded
    /// nothing else.
    fn check_time(&self) -> Result<(), Stop> {
        let flow = self.flow;
        if let Some(longest) =
            flow.longest().filter(|longest| self.expected.is_said && self.expected.time > *longest)
        {
            let reason = format!(
                "it is expected to take {} s, and a run of this completer takes at most {} s; raise `drive_for`",
                self.expected.time.as_secs(),
                longest.as_secs()
            );
            return Err(Stop::invalid(&self.name, reason));
        }
        if !flow.is_short_of(Duration::ZERO, self.expected) {
            return Ok(());
        }
        Err(Stop::Later {
            step: self.name.clone(),
            at: flow.now(),
            cause: "too little time is left in this run".to_owned(),
            counts: !flow.has_progressed(),
        })
    }

    /// Take over the step from its previous driver and start it again. `doubt`: the previous start may have
    /// happened.
    pub(crate) async fn take_over(
        &self,
        record: StepRecord,
        start: &Starting,
        doubt: bool,
    ) -> Result<Next, Stop> {
        let flow = self.flow;
        self.check_time()?;
        let again = StepRecord {
            created: record.created,
            number: record.number,
            key_version: record.key_version,
            due: time::after(flow.now(), self.expected.time),
            started_for: self.answerer(start, &record),
            ..start.record.clone()
        };
        if let Some(found) = self.put(&again, Guard::Revision(&record.revision)).await? {
            return Ok(Next::Judge(Box::new(found)));
        }
        self.held(again, doubt).await
    }

    /// The workflow that compensates a shared step: the last one that started it with a compensation, so that one
    /// without leaves it to the one before.
    fn answerer(&self, start: &Starting, before: &StepRecord) -> Option<String> {
        let has_compensation = start.pointer.as_ref().is_some_and(|pointer| pointer.compensation.is_some());
        let mine = start.record.started_for.clone();
        if has_compensation { mine } else { before.started_for.clone().or(mine) }
    }

    pub(crate) async fn held(&self, record: StepRecord, doubt: bool) -> Result<Next, Stop> {
        let flow = self.flow;
        let held = match flow.is_held().await {
            Ok(held) => held,
            Err(stop) => {
                // It does not run, which only this call knows.
                if !doubt {
                    let _ = self.withdraw(&record).await;
                }
                return Err(stop);
            }
        };
        if held {
            flow.remember(record.clone());
            return Ok(Next::Settled(Settled::Run(Box::new(record), doubt)));
        }
        // Nothing was done under this start; if an earlier one is in doubt, so is the step.
        if !doubt {
            self.withdraw(&record).await?;
        }
        Err(Stop::Lost)
    }

    /// Nothing was done under this start: allow another start under the same version of its key. The record that
    /// remains refuses writes of this start that are still in flight.
    pub(crate) async fn withdraw(&self, record: &StepRecord) -> Result<(), Stop> {
        let freed = StepRecord {
            state: StepState::Freed,
            revision: self.flow.context().new_id(),
            key_version: record.key_version.saturating_sub(1),
            ..record.clone()
        };
        match self.put(&freed, Guard::Revision(&record.revision)).await? {
            None => self.flow.remember(freed),
            Some(found) => self.flow.remember(found),
        }
        Ok(())
    }

    /// Put a record; if another is stored, return that one.
    pub(crate) async fn put(
        &self,
        record: &StepRecord,
        guard: Guard<'_>,
    ) -> Result<Option<StepRecord>, Stop> {
        let item = record_item(record);
        let store = self.flow.context().store();
        match Box::pin(store.put_item("start the step", &item, guard, self.flow.until())).await? {
            Put::Done => Ok(None),
            Put::Refused { item: Some(item), .. } => Ok(Some(record_of(&item).map_err(Error::from)?)),
            Put::Refused { item: None, .. } => {
                Err(later(self.flow, &self.name, None, "its record was deleted"))
            }
        }
    }
}
