//! Runs and records a once-only step, and resolves it when it is in doubt.

use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::attempt::StepAttempt;
use super::attempts::{Attempts, Journal};
use super::late::Source;
use super::once::Once;
use super::once_record::{Reads, Settled, Starting, on};
use super::recorded::{failed, or_failure};
use super::step::later;
use crate::core::answer::{self, AnswerError};
use crate::core::class::Class;
use crate::core::name;
use crate::core::time;
use crate::core::workflow::step::{End, HolderAct, RecordId, StepEvent, StepRecord, StepRefusal, StepState};
use crate::error::Error;
use crate::failure::{Classify, Failure};
use crate::metrics;
use crate::store::Changed;
use crate::workflow::definition::ProbeOutcome;
use crate::workflow::flow::Flow;
use crate::workflow::stop::{StepFailure, Stop, StopKind};

/// A step whose start is recorded.
struct Started<'a, 'b> {
    once: &'a Once<'b>,
    record: Box<StepRecord>,
    /// Whether an earlier start or attempt may have happened. If a later attempt fails, this proves
    /// nothing about the earlier attempt.
    doubt: bool,
    reads: Reads,
}

impl Journal for Started<'_, '_> {
    /// The start, or the pause before this attempt, has checked the time.
    async fn begin(&mut self) -> Result<(), StopKind> {
        Ok(())
    }

    async fn complete(&mut self, json: Result<String, AnswerError>) -> Result<StepRecord, StopKind> {
        self.once.complete((*self.record).clone(), json, self.reads, Source::Work).await
    }

    async fn fail(&mut self, failure: StepFailure) -> Result<StepRecord, StopKind> {
        let state = match failure.class() {
            Class::Permanent => StepState::Failed,
            _ => StepState::Held,
        };
        let json = failure.to_stored().map_err(Error::from)?;
        self.once.finish((*self.record).clone(), state, self.doubt, json, Source::Work).await
    }

    async fn resolve(&mut self, class: Class, cause: &str) -> Result<Option<StepRecord>, StopKind> {
        self.doubt |= class == Class::InDoubt;
        let ends = matches!(class, Class::Permanent | Class::NeedsOperator);
        // While the provider recognises the key, the request is sent again, which finds out. A
        // failure that ends the step proves nothing about an earlier attempt.
        if !self.doubt || (!ends && self.once.is_recognised(&self.record)) {
            return Ok(None);
        }
        match self.once.ask(&self.record).await? {
            ProbeOutcome::Done(json) => {
                let record = (*self.record).clone();
                self.once.complete(record, Ok(json), self.reads, Source::Probe).await.map(Some)
            }
            ProbeOutcome::NotDone => {
                self.doubt = false;
                Ok(None)
            }
            ProbeOutcome::Unknown => Err(self.once.left_in_doubt(&self.record).await.after(cause)),
        }
    }

    async fn give_up(&mut self, stop: StopKind, cause: &str) -> StopKind {
        if self.doubt && matches!(stop, StopKind::Lost) {
            // The driver that owns the workflow now decides about the record.
            return stop;
        }
        if self.doubt {
            self.once.left_in_doubt(&self.record).await;
            // The next run sends the request again, or asks the probe.
            return self.once.doubtful(&self.record, true).after(cause);
        }
        // None of the attempts happened. Without this write, the next run would find the step in
        // doubt.
        match self.once.withdraw(&self.record, false).await {
            Ok(()) => stop,
            Err(failed) => failed,
        }
    }

    async fn pause(&mut self, pause: Duration) -> Result<(), StopKind> {
        let flow = self.once.flow;
        // Another driver would find the step in doubt if its due time passed during the pause.
        self.once.prolong(&mut self.record, pause).await?;
        tokio::time::sleep(pause).await;
        flow.check_open(&self.once.name)?;
        // The process may be suspended for longer than the pause. Then the step is due again, and
        // the provider may no longer recognise the key of an attempt that happened.
        self.once.prolong(&mut self.record, Duration::ZERO).await?;
        if self.doubt && !self.once.is_recognised(&self.record) {
            return Err(self.once.doubtful(&self.record, true));
        }
        Ok(())
    }
}

impl Once<'_> {
    /// Runs the step, unless it is recorded.
    ///
    /// Pass an async closure: `async |attempt| ..`. If the compiler reports E0373 ("async block may
    /// outlive the current function"), you passed a plain closure: `|attempt| async ..`.
    ///
    /// # Crash window
    ///
    /// Between its start and its outcome, the step is in doubt. It runs again only while the
    /// provider recognises the key, or if the probe returns
    /// [`NotDone`](crate::workflow::ProbeOutcome::NotDone). Otherwise an operator decides.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future after the start was written is the same as a crash: the step is in
    /// doubt.
    ///
    /// # Errors
    ///
    /// [`Stop`], which determines the next state of the workflow. Return it.
    ///
    /// # Cost
    ///
    /// 3 requests: 2 writes, of 1 write unit and of 1 for each KB of the record, and 1 read of 1
    /// unit. If the step is recorded: nothing, or 1 request and 1 write unit if it has its own key.
    ///
    /// - A result above 4 KB, as stored: 1 request and 1 write unit more. A later run that reads
    ///   it: 1 request, and 1 read unit for each 4 KB. A step with its own key has its result
    ///   in its record.
    /// - An attempt that may end after the due time of the first attempt: 1 more write. So no other
    ///   driver takes the step over during this attempt.
    /// - A step that is longer than two thirds of the claim extends the claim: each time 1 request,
    ///   1 write unit, and 2 for the index.
    pub async fn run<T, F, R>(self, work: F) -> Result<T, Stop>
    where
        T: Serialize + DeserializeOwned,
        F: Fn(StepAttempt) -> R,
        R: Future<Output = Result<T, Failure>>,
    {
        let (flow, name, version) = (self.flow, self.name.clone(), self.version);
        Ok(flow.call(&name, version, Box::pin(self.attempts(work))).await?)
    }

    /// Runs the step like [`run`](Self::run), and returns its permanent failure as a value.
    ///
    /// So the code can take another branch after the failure:
    ///
    /// ```
    /// # use locker::workflow::{Flow, Stop};
    /// # use locker::{Class, Classify};
    /// # use serde::{Deserialize, Serialize};
    /// #[derive(Debug, Serialize, Deserialize)]
    /// enum Refusal {
    ///     Declined,
    /// }
    ///
    /// impl Classify for Refusal {
    ///     fn class(&self) -> Class {
    ///         Class::Permanent
    ///     }
    /// }
    ///
    /// # async fn card() -> Result<u64, Refusal> { Err(Refusal::Declined) }
    /// # async fn invoice() -> Result<u64, locker::Failure> { Ok(1) }
    /// async fn pay(flow: &Flow) -> Result<u64, Stop> {
    ///     match flow.once("card").outcome(async |_| card().await).await? {
    ///         Ok(payment) => Ok(payment),
    ///         Err(Refusal::Declined) => flow.once("invoice").run(async |_| invoice().await).await,
    ///     }
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Stop`], if the step has neither completed nor failed permanently. Return it. If the
    /// recorded failure cannot be read as this type, the workflow is quarantined.
    ///
    /// # Cost
    ///
    /// Same as [`run`](Self::run).
    pub async fn outcome<T, E, F, R>(self, work: F) -> Result<Result<T, E>, Stop>
    where
        T: Serialize + DeserializeOwned,
        E: Classify,
        F: Fn(StepAttempt) -> R,
        R: Future<Output = Result<T, E>>,
    {
        let (flow, name, version) = (self.flow, self.name.clone(), self.version);
        let attempts = Box::pin(self.attempts(work));
        Ok(flow.call(&name, version, Box::pin(or_failure(&name, attempts))).await?)
    }

    pub(crate) async fn attempts<T, E, F, R>(mut self, work: F) -> Result<T, StopKind>
    where
        T: Serialize + DeserializeOwned,
        E: Classify,
        F: Fn(StepAttempt) -> R,
        R: Future<Output = Result<T, E>>,
    {
        let start = Starting::of(&mut self, |json| answer::from_json::<T>(json).map(drop))?;
        match self.settle_in_time(&start).await? {
            Settled::Recorded(record) => self.flow.result_of(&record).await,
            Settled::Run(record, doubt) => {
                let attempt = self.attempt_of(&record, 1);
                let attempts =
                    Attempts { flow: self.flow, retry: self.retry.clone(), expected: self.expected };
                let mut journal = Started { once: &self, record, doubt, reads: start.reads };
                attempts.run(attempt, &mut journal, work).await
            }
        }
    }

    /// Marks the step as no longer running, so that no other driver waits for it.
    pub(super) async fn left_in_doubt(&self, record: &StepRecord) -> StopKind {
        let stop = self.in_doubt(record);
        if let Ok(Changed::Done(left)) = self.hold(record, HolderAct::Leave).await {
            self.flow.remember(left);
        }
        stop
    }

    /// Extends the due time of the step, so that no other driver takes it over during the next
    /// attempt.
    async fn prolong(&self, record: &mut Box<StepRecord>, pause: Duration) -> Result<(), StopKind> {
        let flow = self.flow;
        // Enough for the duration of this write itself.
        const SLACK: Duration = Duration::from_secs(1);
        let due = time::after(flow.time(), pause.saturating_add(self.expected.time));
        if due <= record.due {
            return Ok(());
        }
        match self.hold(record, HolderAct::Prolong(time::after(due, SLACK))).await? {
            Changed::Done(next) => {
                flow.remember(next.clone());
                **record = next;
                Ok(())
            }
            // Another workflow took the step over. The outcome there also counts here.
            _ if record.started_for.is_some() => {
                Err(later(flow, &self.name, None, "another workflow took it over"))
            }
            _ => Err(self.superseded(record).await),
        }
    }

    /// Records that the step happened. If its result cannot be stored, or if the code cannot read
    /// the result back, the step is held for an operator.
    async fn complete(
        &self,
        started: StepRecord,
        json: Result<String, AnswerError>,
        reads: Reads,
        source: Source,
    ) -> Result<StepRecord, StopKind> {
        let kept = json.and_then(|json| {
            reads(&json)?;
            answer::encode_for_item(json.clone())?;
            Ok(json)
        });
        let error = match kept {
            Ok(json) => return self.finish(started, StepState::Completed, false, json, source).await,
            Err(error) => error,
        };
        let why = answer::unrecorded(&error);
        let failure = StepFailure::of(Some(&self.name), Class::NeedsOperator, &why);
        let json = failure.to_stored().map_err(Error::from)?;
        Err(failed(&self.finish(started, StepState::Held, false, json, Source::Unrecorded).await?))
    }

    /// Returns whether the record may be deleted. A record stays if another workflow compensates
    /// the step, or if the pointer is a pivot or has a compensation. The pointer may be of older
    /// code.
    fn may_expire(&self, started: &StepRecord) -> bool {
        let flow = self.flow;
        // Most steps have no other workflow: for them, no id is built.
        if started.started_for.is_none() || started.started_for != Some(flow.run_id()) {
            return false;
        }
        let pointer = flow.recorded(&RecordId::at(flow.workflow(), self.place()));
        !pointer.is_some_and(|it| it.pivot || it.compensation.is_some())
    }

    /// Logs the outcome, then records it.
    ///
    /// `doubt`: an earlier start may have happened.
    async fn finish(
        &self,
        started: StepRecord,
        state: StepState,
        doubt: bool,
        json: String,
        source: Source,
    ) -> Result<StepRecord, StopKind> {
        let flow = self.flow;
        tracing::info!(
            workflow.key = flow.context().shown(flow.workflow()),
            workflow.step = self.name,
            workflow.outcome = state.as_str(),
            "a step ended"
        );
        let encoded = Flow::encode(&self.name, json)?;
        let end = match state {
            StepState::Completed => End::Completed(flow.keep(&started.id, encoded).await?),
            StepState::Held => End::Held(encoded.into()),
            _ => End::Failed(encoded.into()),
        };
        let now = flow.time();
        let ttl = if self.may_expire(&started) { self.retention.ttl(now) } else { None };
        let attempt = started.attempt.clone();
        let completed = match &end {
            End::Completed(result) => Some(result.clone()),
            // The step happened. If the write below is refused, the outcome is reported as late.
            End::Held(why) if source == Source::Unrecorded => Some(why.clone()),
            _ => None,
        };
        let act = HolderAct::End { end, doubt, ttl, by: flow.attempt().to_owned() };
        let event = StepEvent::Holder { attempt, act };
        let context = flow.context();
        // No other record of the outcome exists, so the write is tried even after the deadline.
        let until = flow.until_recorded();
        let rule = |stored: Option<&StepRecord>| on(stored, &event, context.stamp());
        let changed = context.store().change("record the step", Some(started.clone()), until, rule);
        match Box::pin(changed).await? {
            Changed::Done(record) => {
                metrics::count_step(self.kind().as_str(), state.as_str());
                flow.remember(record.clone());
                Ok(record)
            }
            Changed::Refused { why: StepRefusal::InDoubt, .. } => Err(self.in_doubt(&started)),
            Changed::Refused { .. } | Changed::Gone => match completed {
                Some(result) => Box::pin(self.came_late(&started, result, now, source)).await,
                None => Err(self.superseded(&started).await),
            },
        }
    }

    /// Resolves a step in doubt: takes it over under a recognised key, asks the probe, or leaves it
    /// in doubt. `None`: the record has changed in between.
    pub(crate) async fn resolve(
        &self,
        record: StepRecord,
        start: &Starting,
    ) -> Result<Option<Settled>, StopKind> {
        let flow = self.flow;
        metrics::count_step_in_doubt();
        tracing::warn!(
            workflow.key = flow.context().shown(flow.workflow()),
            workflow.step = self.name,
            workflow.started = %record.created,
            "a step is in doubt: it may or may not have happened"
        );
        if self.is_recognised(&record) {
            return self.take_over(record, start, true).await;
        }
        match self.ask(&record).await? {
            ProbeOutcome::Done(json) => {
                let record = self.complete(record, Ok(json), start.reads, Source::Probe).await?;
                Ok(Some(Settled::Recorded(Box::new(record))))
            }
            ProbeOutcome::NotDone => self.take_over(record, start, false).await,
            ProbeOutcome::Unknown => Err(self.in_doubt(&record)),
        }
    }

    /// Returns whether the provider still recognises the key when the next attempt arrives.
    ///
    /// The clock of the first use may be fast, and the next attempt may arrive at the end of its
    /// expected time. Without the margin, the provider forgets the key in between, and charges
    /// twice.
    ///
    /// After a restore, the table may have forgotten an earlier attempt of work that an operator
    /// allowed, and any workflow may use the same key. So the age of such a key is unknown.
    pub(crate) fn is_recognised(&self, record: &StepRecord) -> bool {
        let context = self.flow.context();
        let may_be_older = self.key.is_some() || self.flow.lock_header().opened.is_some();
        if context.restored().is_some() && may_be_older {
            return false;
        }
        let margin = context.skew().saturating_add(self.expected.time);
        let until = time::after(record.created, self.recognised.saturating_sub(margin));
        self.recognised > margin && self.flow.time() < until
    }

    pub(crate) async fn ask(&self, record: &StepRecord) -> Result<ProbeOutcome, StopKind> {
        let Some(probe) = &*self.probe else { return Ok(ProbeOutcome::Unknown) };
        let attempt = self.attempt_of(record, 1);
        match probe(attempt).await {
            Ok(found) => Ok(found),
            Err(error) => {
                tracing::warn!(workflow.step = self.name, error, "a probe failed");
                Ok(ProbeOutcome::Unknown)
            }
        }
    }

    pub(crate) fn in_doubt(&self, record: &StepRecord) -> StopKind {
        self.doubtful(record, self.probe.is_some() || self.is_recognised(record))
    }

    pub(crate) fn doubtful(&self, record: &StepRecord, resolvable: bool) -> StopKind {
        self.retry.stop(StopKind::InDoubt {
            step: self.name.clone(),
            resolvable,
            cause: String::new(),
            item: record.id.reference(),
            retry_for: None,
        })
    }

    pub(crate) fn attempt_of(&self, record: &StepRecord, number: u32) -> StepAttempt {
        let flow = self.flow;
        let idempotency_key = match &self.key {
            Some(Ok(key)) => name::shared_provider_key(key, record.key_version),
            _ => {
                let step = self.place().provider_step();
                name::provider_key(flow.key(), flow.key_version(), &step, record.key_version)
            }
        };
        StepAttempt { step: self.name.clone(), idempotency_key, number, key_version: record.key_version }
    }
}
