//! How a once-only step starts: its record is written first, or found.

use std::time::Duration;

use serde::Serialize;

use super::adopt::failed;
use super::once::Once;
use super::step::later;
use super::stop::Stop;
use crate::core::answer;
use crate::core::fingerprint::Fingerprint;
use crate::core::time;
use crate::core::workflow::decide;
use crate::core::workflow::name;
use crate::core::workflow::record::{Intent, RecordId, StepKind, StepRecord, StepState};
use crate::error::Error;
use crate::settings::Retention;
use crate::store::workflow::{Guard, Put, record_item, record_of};

/// How often a start is judged anew that changes under it.
const ROUNDS: usize = 4;

/// A start about to be written.
pub(super) struct Starting {
    pub(super) id: RecordId,
    pub(super) record: StepRecord,
    pub(super) pointer: Option<StepRecord>,
    pub(super) input: Option<Fingerprint>,
}

impl Starting {
    pub(super) fn of(once: &mut Once<'_>) -> Result<Self, Stop> {
        let flow = once.flow;
        if once.undoes.is_none() {
            flow.take_name(&once.name, once.version)?;
        }
        crate::settings::check_expect_within(once.expected).map_err(Error::from)?;
        if once.version == Some(0) {
            return Err(Stop::invalid(&once.name, "versions of a key are counted from 1"));
        }
        let input = once.input.take().transpose()?;
        let undo = once.undo.take().transpose()?;
        let own = match once.undoes {
            None => RecordId::step(flow.workflow(), &flow.full_name(&once.name)),
            Some(late) => RecordId::undo(flow.workflow(), &once.name, late),
        };
        if undo.is_some() || once.pivot {
            flow.touch();
        }
        let own_record = |kind| {
            let mut record = flow.new_record(own.clone(), kind, input.as_ref());
            record.pivot = once.pivot;
            record.undo.clone_from(&undo);
            record
        };
        let key = match &once.key {
            None => {
                let record = own_record(once.kind());
                return Ok(Self { id: own, record, pointer: None, input });
            }
            Some(Ok(key)) => key.clone(),
            Some(Err(error)) => return Err(Error::from(error.clone()).into()),
        };
        crate::settings::check_retention(once.retention).map_err(Error::from)?;
        if undo.is_some() && once.retention != Retention::Forever {
            let reason = "what is to be undone is kept for ever, or nobody would know that it happened";
            return Err(Stop::invalid(&once.name, reason));
        }
        let mut pointer = own_record(StepKind::Pointer);
        pointer.points_to = Some(key.as_str().to_owned());
        let id = RecordId::shared(key.as_str());
        let mut record = flow.new_record(id.clone(), StepKind::Once, input.as_ref());
        record.started_for = Some(flow.run_id().to_owned());
        Ok(Self { id, record, pointer: Some(pointer), input })
    }
}

/// Where a step stands before its work.
pub(super) enum Settled {
    /// It is started, and by this call. The flag: an earlier start of it is in doubt.
    Run(Box<StepRecord>, bool),
    /// It is done.
    Recorded(Box<StepRecord>),
}

pub(super) enum Next {
    Settled(Settled),
    /// Another record is there.
    Judge(Box<StepRecord>),
}

impl Once<'_> {
    /// Start it, or find how it ended.
    pub(super) async fn settle(&self, start: &Starting) -> Result<Settled, Stop> {
        let flow = self.flow;
        let mut known = match &start.pointer {
            None => flow.recorded(&start.id),
            // It may have ended since this workflow read its own records.
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
        Err(later(flow, &self.name, None, "its record changed under every try"))
    }

    /// What a record that is there means.
    pub(super) async fn judge(&self, record: StepRecord, start: &Starting) -> Result<Next, Stop> {
        let flow = self.flow;
        let (expired_at, now, skew) = (flow.workflows().expired_at(), flow.now(), flow.workflows().skew());
        let found = decide::found(&record, self.version, expired_at, now, skew);
        if !matches!(found, decide::Found::Free | decide::Found::Cancelled) {
            flow.check_same(&self.name, &record, self.kind(), start.input.as_ref())?;
        }
        match found {
            decide::Found::Completed => Ok(Next::Settled(Settled::Recorded(Box::new(record)))),
            decide::Found::Failed => Err(failed(&record)),
            // Cancelled in doubt with another workflow, which answers for it, and may be about to undo it.
            decide::Found::Cancelled
                if record.started_for.as_ref().is_some_and(|run| *run != flow.run_id()) =>
            {
                Err(Stop::InDoubt { step: self.name.clone(), resolvable: true })
            }
            decide::Found::Cancelled => Err(Stop::Cancelled { step: self.name.clone() }),
            decide::Found::Busy => Err(Stop::Later {
                step: self.name.clone(),
                at: time::after(record.due, skew),
                cause: "somebody started it and may be at work".to_owned(),
                counts: false,
            }),
            decide::Found::Free => {
                let version = self.version.unwrap_or(1).max(record.key_version.saturating_add(1));
                self.start(start, Some((&record, version))).await
            }
            decide::Found::InDoubt => self.resolve(record, start).await,
        }
    }

    /// Say in the workflow that it has such a step, before the step starts elsewhere. Gives what a person said of
    /// it before that.
    pub(super) async fn point(
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

    /// Write the start, and make sure that this drive still holds the workflow.
    pub(super) async fn start(
        &self,
        start: &Starting,
        over: Option<(&StepRecord, u32)>,
    ) -> Result<Next, Stop> {
        let flow = self.flow;
        self.check_time()?;
        let mut record = start.record.clone();
        record.created = flow.now();
        record.due = time::after(record.created, self.expected);
        // Withdrawn: the provider may have seen its key when it was first tried.
        if let Some((withdrawn, _)) =
            over.filter(|(over, _)| over.state == StepState::Freed && over.intervention.is_none())
        {
            record.created = withdrawn.created;
        }
        record.key_version = over.map_or_else(|| self.version.unwrap_or(1), |(_, version)| version);
        let guard = over.map_or(Guard::Absent, |(over, _)| Guard::Revision(&over.revision));
        if let Some(found) = self.put(&record, guard).await? {
            return Ok(Next::Judge(Box::new(found)));
        }
        self.held(record, false).await
    }

    /// Nothing is started that this drive has no time for. A drive that comes to nothing else counts.
    fn check_time(&self) -> Result<(), Stop> {
        let flow = self.flow;
        if !flow.is_short_of(self.expected) {
            return Ok(());
        }
        Err(Stop::Later {
            step: self.name.clone(),
            at: flow.now(),
            cause: "the time of this drive is up".to_owned(),
            counts: !flow.has_progressed(),
        })
    }

    /// Start it again in the place of whoever started it, and answer for it from now on. `doubt`: that start may
    /// have happened.
    pub(super) async fn take_over(
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
            due: time::after(flow.now(), self.expected),
            ..start.record.clone()
        };
        if let Some(found) = self.put(&again, Guard::Revision(&record.revision)).await? {
            return Ok(Next::Judge(Box::new(found)));
        }
        self.held(again, doubt).await
    }

    pub(super) async fn held(&self, record: StepRecord, doubt: bool) -> Result<Next, Stop> {
        let flow = self.flow;
        let held = match flow.is_held().await {
            Ok(held) => held,
            Err(stop) => {
                // Nobody runs it, and only this call knows.
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
        // Nothing was done under this start; if another before it is in doubt, so is the step.
        if !doubt {
            self.withdraw(&record).await?;
        }
        Err(Stop::Lost)
    }

    /// Nothing was done under this start: let it be started again under the same version of its key. What is
    /// still on its way of this start is refused by what stays.
    pub(super) async fn withdraw(&self, record: &StepRecord) -> Result<(), Stop> {
        let freed = StepRecord {
            state: StepState::Freed,
            revision: self.flow.workflows().new_id(),
            key_version: record.key_version.saturating_sub(1),
            ..record.clone()
        };
        match self.put(&freed, Guard::Revision(&record.revision)).await? {
            None => self.flow.remember(freed),
            Some(found) => self.flow.remember(found),
        }
        Ok(())
    }

    /// Put a record; if another is there, that one.
    pub(super) async fn put(
        &self,
        record: &StepRecord,
        guard: Guard<'_>,
    ) -> Result<Option<StepRecord>, Stop> {
        let item = record_item(record);
        let store = self.flow.workflows().store();
        match Box::pin(store.put_item("start the step", &item, guard, self.flow.until())).await? {
            Put::Done => Ok(None),
            Put::Refused { item: Some(item), .. } => Ok(Some(record_of(&item).map_err(Error::from)?)),
            Put::Refused { item: None, .. } => Err(later(self.flow, &self.name, None, "its record has gone")),
        }
    }
}

pub(super) fn intent(name: String, input: &impl Serialize, recognised: Duration) -> Result<Intent, Stop> {
    name::check(&name).map_err(|error| Stop::name(&name, &error))?;
    let input = answer::to_json(input).map_err(Error::from)?;
    // It lies in the record of the start, and every outcome pays for it.
    const MOST: usize = 4096;
    if input.len() > MOST {
        let reason =
            format!("what undoes it is given {} bytes, {MOST} are allowed; give it a reference", input.len());
        return Err(Stop::invalid(&name, reason));
    }
    Ok(Intent { name, input, recognised: recognised.as_secs() })
}
