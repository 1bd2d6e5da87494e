//! Starts a once-only step: writes its record before its work, or finds its record.

use super::once::Once;
use super::recorded::{self, failed};
use super::step::later;
use crate::core::answer::AnswerError;
use crate::core::fingerprint::Fingerprint;
use crate::core::retention::Retention;
use crate::core::time;
use crate::core::workflow::decide::Found;
use crate::core::workflow::header::Stamp;
use crate::core::workflow::step::{
    Begin, HolderAct, NewStep, RecordId, StepEvent, StepKind, StepRecord, StepRefusal, StepState,
};
use crate::error::Error;
use crate::store::{Changed, Written};
use crate::workflow::flow::Start;
use crate::workflow::stop::StopKind;

/// The most attempts to start a step whose record changes in between.
const ROUNDS: usize = 4;

/// The records to write before a step starts.
pub(crate) struct Starting {
    pub(crate) new: NewStep,
    pub(crate) pointer: Option<NewStep>,
    pub(crate) input: Option<Fingerprint>,
    pub(crate) reads: Reads,
}

/// Checks that the code can read a result. Only a readable result is recorded.
pub(crate) type Reads = fn(&str) -> Result<(), AnswerError>;

/// Refuses a pivot with a compensation, which would never run.
pub(super) fn check_pivot(step: &str, is_pivot: bool, is_compensated: bool) -> Result<(), StopKind> {
    if is_pivot && is_compensated {
        return Err(StopKind::invalid(
            step,
            "a pivot is never compensated; remove its compensation, or `pivot`",
        ));
    }
    Ok(())
}

impl Starting {
    pub(crate) fn of(once: &mut Once<'_>, reads: Reads) -> Result<Self, StopKind> {
        let flow = once.flow;
        crate::settings::check_expect_within(once.expected.time).map_err(Error::from)?;
        if once.version == Some(0) {
            return Err(StopKind::invalid(&once.name, "the version of its key must be at least 1, got 0"));
        }
        let input = once.input.take().transpose()?;
        let compensation = once.compensation.take().transpose()?;
        check_pivot(&once.name, once.pivot, compensation.is_some())?;
        let own = RecordId::at(flow.workflow(), once.place());
        if compensation.is_some() || once.pivot {
            flow.touch();
        }
        let own_step = |kind| {
            let mut new = flow.new_step(own.clone(), kind, input.as_ref());
            new.pivot = once.pivot;
            new.compensation.clone_from(&compensation);
            new
        };
        let key = match &once.key {
            None => {
                let new = own_step(once.kind());
                return Ok(Self { new, pointer: None, input, reads });
            }
            Some(Ok(key)) => key.clone(),
            Some(Err(error)) => return Err(Error::from(error.clone()).into()),
        };
        crate::settings::check_retention(once.retention).map_err(Error::from)?;
        if (compensation.is_some() || once.pivot) && once.retention != Retention::Forever {
            let reason = "the record of a pivot, or of a step with a compensation, cannot expire; use \
                          `Retention::Forever`";
            return Err(StopKind::invalid(&once.name, reason));
        }
        let mut pointer = own_step(StepKind::Pointer);
        pointer.points_to = Some(key.as_str().to_owned());
        let mut new = flow.new_step(RecordId::shared(key.as_str()), StepKind::Once, input.as_ref());
        new.started_for = Some(flow.run_id());
        new.answers = compensation.is_some();
        new.run = None;
        Ok(Self { new, pointer: Some(pointer), input, reads })
    }
}

/// The state of a step before its work.
pub(crate) enum Settled {
    /// This call has started the step. The flag: an earlier start is in doubt.
    Run(Box<StepRecord>, bool),
    /// The step has completed, with this record.
    Recorded(Box<StepRecord>),
}

impl Once<'_> {
    /// Starts the step, or finds its outcome.
    ///
    /// If no time is left for the work after the start, the start is withdrawn. Without this write,
    /// the next run would find the step in doubt, although nothing was done.
    pub(crate) async fn settle_in_time(&self, start: &Starting) -> Result<Settled, StopKind> {
        let _starting = self.flow.run_time().records();
        let settled = self.settle(start).await?;
        if let Settled::Run(record, doubt) = &settled
            && let Err(stop) = self.flow.check_open(&self.name)
        {
            self.withdraw(record, *doubt).await?;
            return Err(stop);
        }
        match settled {
            // A machine may be suspended between the look at the clock and the start.
            Settled::Run(record, true) if !self.is_recognised(&record) => {
                Err(self.left_in_doubt(&record).await)
            }
            settled => Ok(settled),
        }
    }

    /// Starts the step, or finds its outcome.
    async fn settle(&self, start: &Starting) -> Result<Settled, StopKind> {
        let flow = self.flow;
        let mut known = match &start.pointer {
            None => flow.recorded(&start.new.id),
            // Another workflow may have ended the step since this run read its own records.
            Some(pointer) => {
                if let Some(given) = self.point(pointer, start).await? {
                    return Ok(Settled::Recorded(Box::new(given)));
                }
                None
            }
        };
        // Each start is a put over the record that was read. If another driver has written in
        // between, the put is refused and returns the stored record. That record decides the next
        // act of this driver.
        for _ in 0..ROUNDS {
            let (found, record) = match self.start(start, known.take()).await? {
                Started::Now(settled) => return Ok(settled),
                Started::Found(found, record) => (found, record),
            };
            flow.note((*record).clone());
            if found != Found::Cancelled {
                flow.check_same(&self.name, &record, self.kind(), start.input.as_ref())?;
            }
            match found {
                Found::Completed => {
                    let reached = recorded::reached(flow, &record, || Ok(start.new.clone())).await?;
                    return Ok(Settled::Recorded(reached.map_or(record, Box::new)));
                }
                Found::Failed => return Err(failed(&record)),
                Found::Cancelled => return Err(self.cancelled(&record)),
                Found::Busy => {
                    let at = time::after(record.due, flow.context().skew());
                    return Err(StopKind::busy(&self.name, at));
                }
                Found::InDoubt => match Box::pin(self.resolve(*record, start)).await? {
                    Some(settled) => return Ok(settled),
                    // Another driver came first.
                    None => {
                        let id = &start.new.id;
                        known = Box::pin(flow.context().store().read_record(id, flow.until())).await?;
                    }
                },
                Found::Free => known = Some(*record),
            }
        }
        Err(later(flow, &self.name, None, "its record changed on every attempt to start it"))
    }

    /// Returns the stop for a cancelled step. If another workflow compensates the step, the step is
    /// in doubt: that workflow may be about to compensate it.
    fn cancelled(&self, record: &StepRecord) -> StopKind {
        if record.started_for.as_ref().is_some_and(|run| *run != self.flow.run_id()) {
            return self.doubtful(record, true);
        }
        StopKind::Cancelled { step: self.name.clone() }
    }

    /// Writes a pointer into the workflow before a step with its own key starts. If an
    /// operator has written a record in the place of the pointer, returns this record.
    async fn point(&self, pointer: &NewStep, start: &Starting) -> Result<Option<StepRecord>, StopKind> {
        let flow = self.flow;
        let seen = flow.lock_header().closed_after;
        let known = match flow.recorded(&pointer.id) {
            Some(known) if !known.is_closed(seen) => known,
            known => {
                let stamp = || flow.context().stamp();
                let rule = |stored: Option<&StepRecord>| StepRecord::point(stored, pointer, seen, stamp());
                match self.change(known, rule).await? {
                    Changed::Done(written) => {
                        flow.remember(written);
                        return Ok(None);
                    }
                    Changed::Refused { why: StepRefusal::Lost, .. } => return Err(StopKind::Lost),
                    Changed::Refused { stored: Some(other), .. } => {
                        flow.remember(other.clone());
                        other
                    }
                    Changed::Refused { stored: None, .. } | Changed::Gone => return Err(self.deleted()),
                }
            }
        };
        if known.state == StepState::Cancelled {
            return Err(StopKind::Cancelled { step: self.name.clone() });
        }
        if known.kind == StepKind::Given {
            self.share(&known, pointer, start).await?;
            return Ok(None);
        }
        if known.state == StepState::Completed && known.intervention.is_some() {
            return Ok(Some(known));
        }
        flow.check_same(&self.name, &known, StepKind::Pointer, start.input.as_ref())?;
        if known.points_to.as_deref() != Some(start.new.id.workflow.as_str()) {
            return Err(StopKind::Changed { step: self.name.clone(), what: "key" });
        }
        Ok(None)
    }

    /// Stores the operator's result under the key of the step, so that no other workflow runs the
    /// step, and replaces the given record by a pointer.
    ///
    /// Both writes are one transaction, which also checks that this driver owns the workflow.
    /// Otherwise an operator could skip the given record between the writes, and other workflows
    /// would find a charge that was refunded.
    ///
    /// Another record under the key may be of the same effect or of another one: an operator
    /// decides, unless the results are equal.
    async fn share(&self, given: &StepRecord, pointer: &NewStep, start: &Starting) -> Result<(), StopKind> {
        let (flow, until) = (self.flow, self.flow.until_recorded());
        let (context, store) = (flow.context(), flow.context().store());
        let reached = StepEvent::Reached { seen: given.revision.clone(), new: Box::new(pointer.clone()) };
        for _ in 0..ROUNDS {
            let stored = Box::pin(store.read_record(&start.new.id, until)).await?;
            let shared = self.shared(given, stored.as_ref(), start)?;
            let Ok(pointer) = given.on(&reached, context.stamp()) else { return Err(StopKind::Lost) };
            let over = store.over(Some(given), &pointer);
            let actions = [over, flow.still_drives(), store.over(stored.as_ref(), &shared)];
            let token = context.new_id();
            match Box::pin(store.transact("share the step", &actions, &token, until)).await? {
                Written::Done => {
                    flow.remember(pointer);
                    flow.note(shared);
                    return Ok(());
                }
                // Another workflow has written under the key.
                Written::Refused { found, .. } if found.iter().all(|(place, _)| *place > 1) => {}
                Written::Refused { .. } => return Err(StopKind::Lost),
            }
        }
        Err(later(flow, &self.name, None, "the record under its key changed on every attempt to share it"))
    }

    /// Returns the shared record for the operator's result. If the stored record has this result,
    /// it is written unchanged: otherwise it could be compensated between the read and the write.
    fn shared(
        &self,
        given: &StepRecord,
        stored: Option<&StepRecord>,
        start: &Starting,
    ) -> Result<StepRecord, StopKind> {
        let (flow, context) = (self.flow, self.flow.context());
        let stamp = context.stamp();
        let expired_at = context.expired_at(stamp.now);
        let how = Begin::Start { version: self.version, due: stamp.now, expired_at };
        let ttl = self.retention.ttl(flow.time());
        match (StepRecord::share(given, stored, &start.new, (&how, ttl), stamp), stored) {
            (Ok(shared), _) => Ok(shared),
            (Err(StepRefusal::Found(Found::Busy)), Some(stored)) => {
                Err(StopKind::busy(&self.name, time::after(stored.due, context.skew())))
            }
            (Err(StepRefusal::Found(Found::Completed)), Some(stored)) if stored.has_result_of(given) => {
                Ok(stored.clone())
            }
            (Err(_), Some(stored)) => {
                let state = stored.state.as_str();
                let settled = match stored.settled.is_empty() {
                    true => String::new(),
                    false => format!(", and its earlier versions ({}) are settled", stored.settled),
                };
                let why = format!(
                    "an operator recorded its result, and the record under its key is {state}{settled}: compare \
                     both with the provider, then close the workflow"
                );
                Err(StopKind::invalid(&self.name, why))
            }
            (Err(_), None) => Err(self.deleted()),
        }
    }

    /// Writes the start, and checks that this driver still owns the workflow.
    async fn start(&self, start: &Starting, known: Option<StepRecord>) -> Result<Started, StopKind> {
        let flow = self.flow;
        let context = flow.context();
        // A recorded outcome is returned even if no time is left to begin the step.
        let has_time = flow.check_time(&self.name, self.expected);
        let rule = |stored: Option<&StepRecord>| {
            let stamp = context.stamp();
            let due = time::after(stamp.now, self.expected.time);
            let how = Begin::Start { version: self.version, due, expired_at: context.expired_at(stamp.now) };
            let begun = StepRecord::begin(stored, &start.new, &how, stamp).map_err(NotBegun::Refused)?;
            if has_time.is_ok() { Ok(begun) } else { Err(NotBegun::NoTime) }
        };
        match self.announced(start, self.change(known, rule)).await? {
            Changed::Done(record) => Ok(Started::Now(self.held(record, false).await?)),
            Changed::Refused {
                why: NotBegun::Refused(StepRefusal::Found(found)),
                stored: Some(stored),
                ..
            } => Ok(Started::Found(found, Box::new(stored))),
            Changed::Refused { why: NotBegun::NoTime, .. } => {
                has_time?;
                Err(self.deleted())
            }
            Changed::Refused { why: NotBegun::Refused(StepRefusal::Lost), .. } => Err(StopKind::Lost),
            Changed::Refused { .. } | Changed::Gone => Err(self.deleted()),
        }
    }

    /// Takes over the step from its previous driver, and starts it again. `doubt`: the previous
    /// start may have happened. `None`: the record has changed in between.
    pub(crate) async fn take_over(
        &self,
        record: StepRecord,
        start: &Starting,
        doubt: bool,
    ) -> Result<Option<Settled>, StopKind> {
        let context = self.flow.context();
        self.flow.check_time(&self.name, self.expected)?;
        let (seen, new) = (record.revision.clone(), Box::new(start.new.clone()));
        let due = time::after(context.now(), self.expected.time);
        let event = StepEvent::TakeOver { seen, new, due };
        if start.pointer.is_some() {
            return self.take_over_shared(&record, start, &event, doubt).await;
        }
        let change = self.change(Some(record), |stored| on(stored, &event, context.stamp()));
        match self.announced(start, change).await? {
            Changed::Done(record) => Ok(Some(self.held(record, doubt).await?)),
            Changed::Refused { .. } => Ok(None),
            Changed::Gone => Err(self.deleted()),
        }
    }

    /// Takes over a step with its own key, and checks in the same transaction that this driver owns
    /// the workflow.
    ///
    /// The takeover makes this workflow compensate the step. If this workflow has ended, no
    /// workflow compensates it. The revision of the record cannot show that: the end of a workflow
    /// does not change the record of a step that another workflow compensates.
    async fn take_over_shared(
        &self,
        seen: &StepRecord,
        start: &Starting,
        event: &StepEvent,
        doubt: bool,
    ) -> Result<Option<Settled>, StopKind> {
        let flow = self.flow;
        let (context, store) = (flow.context(), flow.context().store());
        let Ok(next) = seen.on(event, context.stamp()) else { return Ok(None) };
        let actions = [store.over(Some(seen), &next), flow.still_drives()];
        let token = context.new_id();
        let write = async {
            let written = Box::pin(store.transact("start the step", &actions, &token, flow.until())).await?;
            Ok(match written {
                Written::Done => Changed::Done(next),
                Written::Refused { found, .. } if found.iter().any(|(place, _)| *place == 1) => {
                    Changed::Refused { why: StepRefusal::Lost, stored: None }
                }
                Written::Refused { .. } => Changed::Refused { why: StepRefusal::Changed, stored: None },
            })
        };
        match self.announced(start, write).await? {
            Changed::Done(record) => Ok(Some(Settled::Run(Box::new(record), doubt))),
            Changed::Refused { why: StepRefusal::Lost, .. } => Err(StopKind::Lost),
            Changed::Refused { .. } | Changed::Gone => Ok(None),
        }
    }

    /// Checks after the write of a start that this driver still owns the workflow.
    async fn held(&self, record: StepRecord, doubt: bool) -> Result<Settled, StopKind> {
        let flow = self.flow;
        let lost = match flow.is_held().await {
            Ok(true) => return Ok(Settled::Run(Box::new(record), doubt)),
            Ok(false) => StopKind::Lost,
            Err(stop) => stop,
        };
        // This start did nothing. If an earlier start is in doubt, the step stays in doubt.
        match self.withdraw(&record, doubt).await {
            Err(failed) if matches!(lost, StopKind::Lost) => Err(failed),
            _ => Err(lost),
        }
    }

    /// Withdraws a start that did nothing: the step may start again under the same version of its
    /// key. The record stays, and refuses later writes of this start.
    pub(crate) async fn withdraw(&self, record: &StepRecord, doubt: bool) -> Result<(), StopKind> {
        match self.hold(record, HolderAct::Withdraw { doubt }).await? {
            Changed::Done(record) => self.flow.remember(record),
            Changed::Refused { stored: Some(found), .. } => self.flow.remember(found),
            Changed::Refused { stored: None, .. } | Changed::Gone => {}
        }
        Ok(())
    }

    /// Applies an act of the attempt that started the step to its record.
    pub(crate) async fn hold(
        &self,
        record: &StepRecord,
        act: HolderAct,
    ) -> Result<Changed<StepRecord, StepRefusal>, StopKind> {
        let event = StepEvent::Holder { attempt: record.attempt.clone(), act };
        let context = self.flow.context();
        self.change(Some(record.clone()), |stored| on(stored, &event, context.stamp())).await
    }

    async fn change<R>(
        &self,
        known: Option<StepRecord>,
        rule: impl Fn(Option<&StepRecord>) -> Result<StepRecord, R>,
    ) -> Result<Changed<StepRecord, R>, StopKind> {
        let flow = self.flow;
        let changed = flow.context().store().change("start the step", known, flow.until(), rule);
        Ok(Box::pin(changed).await?)
    }

    /// Writes a start. The code may drop this future before the reply arrives, or the reply may be
    /// lost. Then the step counts as started, as long as its driver may be at work.
    async fn announced<R>(
        &self,
        start: &Starting,
        write: impl Future<Output = Result<Changed<StepRecord, R>, StopKind>>,
    ) -> Result<Changed<StepRecord, R>, StopKind> {
        let flow = self.flow;
        let item = start.new.id.reference();
        let at = RecordId::at(flow.workflow(), self.place());
        let due = time::after(time::after(flow.time(), self.expected.time), flow.context().skew());
        let Some(announced) = flow.announce(Start { item, step: at.shown(), place: at.reference(), due })
        else {
            return Err(flow.returned(&self.name));
        };
        let written = write.await;
        if let Ok(Changed::Done(record)) = &written {
            flow.remember(record.clone());
        }
        if !matches!(written, Err(StopKind::Store(Error::Unknown { .. }))) {
            flow.answered(announced);
        }
        written
    }

    fn deleted(&self) -> StopKind {
        later(self.flow, &self.name, None, "its record was deleted")
    }
}

/// Returns the record after the event. Without a record, the driver has lost the step.
pub(crate) fn on(
    stored: Option<&StepRecord>,
    event: &StepEvent,
    stamp: Stamp,
) -> Result<StepRecord, StepRefusal> {
    stored.ok_or(StepRefusal::Lost)?.on(event, stamp)
}

/// The outcome of an attempt to start.
enum Started {
    Now(Settled),
    Found(Found, Box<StepRecord>),
}

enum NotBegun {
    Refused(StepRefusal),
    /// The step may begin, but this run has too little time left.
    NoTime,
}
