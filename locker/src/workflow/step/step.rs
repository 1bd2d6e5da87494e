//! A step that runs at least once.

use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::attempt::StepAttempt;
use super::attempts::{Attempts, Journal};
use super::once_record::Reads;
use super::recorded::{self, or_failure};
use super::retry::RetryPolicy;
use crate::core::answer::{self, AnswerError, Encoded};
use crate::core::class::Class;
use crate::core::fingerprint::Fingerprint;
use crate::core::name;
use crate::core::retry;
use crate::core::time;
use crate::core::workflow::step::{End, RecordId, StepKind, StepRecord, StepState};
use crate::error::Error;
use crate::failure::{Classify, Failure};
use crate::workflow::flow::{Expected, Flow};
use crate::workflow::stop::{StepFailure, Stop, StopKind};

/// Builds a step that runs at least once. See [`Flow::step`].
#[derive(Debug)]
#[must_use = "a step does nothing until it is run"]
pub struct Step<'a> {
    flow: &'a Flow,
    name: String,
    kind: StepKind,
    input: Option<Result<Fingerprint, StopKind>>,
    expected: Expected,
    retry: RetryPolicy,
}

impl<'a> Step<'a> {
    pub(crate) fn new(flow: &'a Flow, name: String) -> Self {
        let (kind, retry) = (StepKind::Step, RetryPolicy::default());
        Self { flow, name, kind, input: None, expected: Expected::DEFAULT, retry }
    }

    /// A step that only records a time.
    pub(crate) fn timer(flow: &'a Flow, name: String) -> Self {
        let expected = Expected::set(Duration::from_secs(1));
        Self { kind: StepKind::Timer, expected, ..Self::new(flow, name) }
    }

    /// Sets the input of the step. Only a digest is recorded. If a resumed step has another input,
    /// the workflow is quarantined.
    pub fn input(mut self, input: &impl Serialize) -> Self {
        self.input = Some(Flow::fingerprint(&self.name, input));
        self
    }

    /// Sets how long an attempt is expected to take, from 1 second to 366 days. Default: 30
    /// seconds.
    ///
    /// An attempt starts only if this much time is left in the run. If you set no value, half of
    /// the run is enough. While an attempt is within this time, the flow extends its claim of the
    /// workflow, up to [`Limits::longest_run`](crate::workflow::Limits::longest_run).
    pub const fn expect_within(mut self, time: Duration) -> Self {
        self.expected = Expected::set(time);
        self
    }

    /// Sets the retry policy for transient and in-doubt failures.
    pub const fn retry(mut self, retry: RetryPolicy) -> Self {
        self.retry = retry;
        self
    }

    /// Runs the step, unless it is recorded.
    ///
    /// Pass an async closure: `async |attempt| ..`. If the compiler reports E0373 ("async block may
    /// outlive the current function"), the closure is a plain closure: `|attempt| async ..`.
    ///
    /// A permanent failure is recorded, and is then the answer of the step. A failure that needs an
    /// operator is not recorded.
    ///
    /// # Crash window
    ///
    /// If the process dies between the work and its record, the step runs again.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future is the same as a crash: unless its result was recorded, the step runs
    /// again.
    ///
    /// # Errors
    ///
    /// [`Stop`], which determines the next state of the workflow.
    ///
    /// # Cost
    ///
    /// 1 request and 1 write unit for each KB of the record; nothing if the step is recorded.
    ///
    /// - A stored result above 4 KB costs 1 request and 1 write unit more. A later run that reads
    ///   it needs 1 request, and 1 read unit for each 4 KB.
    /// - A step that takes longer than two thirds of the claim extends the claim. Each extension
    ///   costs 1 request, 1 write unit, and 2 for the index.
    /// - A step that begins after the claim ended reads the header: 1 read unit.
    pub async fn run<T, F, R>(self, work: F) -> Result<T, Stop>
    where
        T: Serialize + DeserializeOwned,
        F: Fn(StepAttempt) -> R,
        R: Future<Output = Result<T, Failure>>,
    {
        let (flow, name) = (self.flow, self.name.clone());
        Ok(flow.call(&name, None, Box::pin(self.attempts(work))).await?)
    }

    /// Runs the step as [`run`](Self::run) does, and returns its permanent failure as a value, so
    /// that the code can use an alternative.
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
    ///     match flow.step("card").outcome(async |_| card().await).await? {
    ///         Ok(payment) => Ok(payment),
    ///         Err(Refusal::Declined) => flow.step("invoice").run(async |_| invoice().await).await,
    ///     }
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Stop`] if the step has no outcome yet; return it. If the recorded failure cannot be read
    /// as this type, the workflow is quarantined.
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
        let (flow, name, version) = (self.flow, self.name.clone(), None);
        let attempts = Box::pin(self.attempts(work));
        Ok(flow.call(&name, version, Box::pin(or_failure(&name, attempts))).await?)
    }

    async fn attempts<T, E, F, R>(self, work: F) -> Result<T, StopKind>
    where
        T: Serialize + DeserializeOwned,
        E: Classify,
        F: Fn(StepAttempt) -> R,
        R: Future<Output = Result<T, E>>,
    {
        let Self { flow, name, kind, input, expected, retry } = self;
        crate::settings::check_expect_within(expected.time).map_err(Error::from)?;
        let input = input.transpose()?;
        let id = RecordId::at(flow.workflow(), flow.place_of(&name));
        let known = flow.recorded(&id);
        if let Some(record) = known.as_ref().filter(|record| !record.is_free()) {
            check(flow, &name, record, kind, input.as_ref())?;
            let new = || Ok(flow.new_step(id, kind, input.as_ref()));
            let reached = recorded::reached(flow, record, new).await?;
            return flow.outcome(reached.as_ref().unwrap_or(record)).await;
        }
        let version = known.as_ref().map_or(1, |record| record.key_version);
        let provider_step = flow.place_of(&name).provider_step();
        let attempt = StepAttempt {
            idempotency_key: name::provider_key(flow.key(), flow.key_version(), &provider_step, version),
            step: name.clone(),
            key_version: version,
            number: 1,
        };
        let reads = |json: &str| answer::from_json::<T>(json).map(drop);
        let mut journal = Unrecorded { flow, name, kind, id, known, input, expected, reads };
        Attempts { flow, retry, expected }.run(attempt, &mut journal, work).await
    }
}

/// A step whose record is written once an attempt has an outcome.
struct Unrecorded<'a> {
    flow: &'a Flow,
    name: String,
    kind: StepKind,
    id: RecordId,
    /// A record over which the step may start.
    known: Option<StepRecord>,
    input: Option<Fingerprint>,
    expected: Expected,
    reads: Reads,
}

impl Journal for Unrecorded<'_> {
    async fn begin(&mut self) -> Result<(), StopKind> {
        self.flow.check_open(&self.name)?;
        // An attempt that the end of the run cuts off would be repeated.
        self.flow.check_time(&self.name, self.expected)?;
        self.flow.check_claim().await?;
        // The code may have returned, or the time of the run ended, during the read.
        self.flow.check_open(&self.name)
    }

    async fn complete(&mut self, json: Result<String, AnswerError>) -> Result<StepRecord, StopKind> {
        let kept = json.and_then(|json| (self.reads)(&json).map(|()| json));
        let json = kept.map_err(|error| StopKind::unrecorded(&self.name, &error))?;
        self.record(StepState::Completed, Flow::encode(&self.name, json)?).await
    }

    async fn fail(&mut self, failure: StepFailure) -> Result<StepRecord, StopKind> {
        // Its next run may succeed, so that only the workflow is quarantined.
        if failure.class() == Class::NeedsOperator {
            return Err(StopKind::NeedsOperator(failure));
        }
        let json = failure.to_stored().map_err(Error::from)?;
        self.record(StepState::Failed, Flow::encode(&self.name, json)?).await
    }

    /// The step may run twice, so an attempt that may have happened is repeated.
    async fn resolve(&mut self, _: Class, _: &str) -> Result<Option<StepRecord>, StopKind> {
        Ok(None)
    }

    async fn give_up(&mut self, stop: StopKind, _: &str) -> StopKind {
        stop
    }

    async fn pause(&mut self, pause: Duration) -> Result<(), StopKind> {
        tokio::time::sleep(pause).await;
        Ok(())
    }
}

impl Unrecorded<'_> {
    /// Records the outcome of the step. If another driver recorded an outcome first, that outcome
    /// counts.
    async fn record(&mut self, state: StepState, encoded: Encoded) -> Result<StepRecord, StopKind> {
        let flow = self.flow;
        if flow.is_deleted().await {
            return Err(StopKind::Lost);
        }
        let end = match state {
            StepState::Completed => End::Completed(flow.keep(&self.id, encoded).await?),
            _ => End::Failed(encoded.into()),
        };
        let new = flow.new_step(self.id.clone(), self.kind, self.input.as_ref());
        let record = recorded::end(flow, "record the step", self.known.take(), &new, end).await?;
        check(flow, &self.name, &record, self.kind, self.input.as_ref())?;
        Ok(record)
    }
}

/// Stops until the provider allows a retry, but not for longer than the longest pause of the
/// workflow; the workflow's own pause may be longer than the one asked for.
pub(crate) fn later(flow: &Flow, step: &str, asked: Option<Duration>, cause: &str) -> StopKind {
    let pause = retry::heeding(Duration::ZERO, asked, flow.limits().backoff_cap);
    let at = time::after(flow.time(), pause);
    StopKind::Later { step: step.to_owned(), at, cause: cause.to_owned(), counts: true, retry_for: None }
}

/// Whether the record answers the step as its code asks for it now.
fn check(
    flow: &Flow,
    name: &str,
    record: &StepRecord,
    kind: StepKind,
    input: Option<&Fingerprint>,
) -> Result<(), StopKind> {
    if matches!(record.state, StepState::Cancelled | StepState::Compensated | StepState::Late) {
        return Err(StopKind::Cancelled { step: name.to_owned() });
    }
    flow.check_same(name, record, kind, input)?;
    match record.state {
        StepState::Completed | StepState::Failed | StepState::Held => Ok(()),
        _ => Err(StopKind::invalid(name, "its record has a state that is not valid for a step")),
    }
}
