//! A step that runs at least once.

use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use super::attempt::StepAttempt;
use super::recorded::failed;
use super::retry::RetryPolicy;
use crate::core::answer;
use crate::core::class::Class;
use crate::core::fingerprint::Fingerprint;
use crate::core::name;
use crate::core::time;
use crate::core::workflow::step::{
    Begin, End, NewStep, RecordId, StepKind, StepRecord, StepRefusal, StepState,
};
use crate::error::Error;
use crate::failure::Classify;
use crate::metrics;
use crate::store::Changed;
use crate::workflow::flow::{Expected, Flow};
use crate::workflow::stop::{StepFailure, Stop};

/// Builds a step that runs at least once. See [`Flow::step`].
#[derive(Debug)]
#[must_use = "a step does nothing until it is run"]
pub struct Step<'a> {
    flow: &'a Flow,
    name: String,
    input: Option<Result<Fingerprint, Stop>>,
    expected: Expected,
    retry: RetryPolicy,
}

impl<'a> Step<'a> {
    pub(crate) fn new(flow: &'a Flow, name: String) -> Self {
        Self { flow, name, input: None, expected: Expected::DEFAULT, retry: RetryPolicy::default() }
    }

    /// Set the input of the step. Only a digest is recorded; a resumed step with another input is
    /// [`Stop::Changed`].
    pub fn input(mut self, input: &impl Serialize) -> Self {
        self.input = Some(Flow::fingerprint(&self.name, input));
        self
    }

    /// Set how long an attempt is expected to take, from 1 second to 366 days. Default: 30 seconds.
    ///
    /// An attempt starts only if this much time is left in the run; without a value, at most half of
    /// the run. While an attempt is within this time, the flow extends its claim of the workflow, up
    /// to [`Limits::longest_run`](crate::workflow::Limits::longest_run).
    pub const fn expect_within(mut self, time: Duration) -> Self {
        self.expected = Expected::set(time);
        self
    }

    /// Set the retry policy for transient and in-doubt failures.
    pub const fn retry(mut self, retry: RetryPolicy) -> Self {
        self.retry = retry;
        self
    }

    /// Run the step, unless it is recorded.
    ///
    /// A permanent failure is recorded, and is the answer of the step from then on; a failure that
    /// needs an operator is not recorded.
    ///
    /// # Crash window
    ///
    /// Between the work and its record; the step then runs again.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future is the same as a crash: unless its result was recorded, the step runs
    /// again.
    ///
    /// # Errors
    ///
    /// [`Stop`], which says what happens to the workflow.
    ///
    /// # Cost
    ///
    /// 1 request and 1 write unit for each KB of the record; nothing if the step is recorded.
    pub async fn run<T, E, F, R>(self, work: F) -> Result<T, Stop>
    where
        T: Serialize + DeserializeOwned,
        E: Classify,
        F: Fn(StepAttempt) -> R,
        R: Future<Output = Result<T, E>>,
    {
        let (flow, name) = (self.flow, self.name.clone());
        Box::pin(flow.call(&name, None, self.attempts(work))).await
    }

    async fn attempts<T, E, F, R>(self, work: F) -> Result<T, Stop>
    where
        T: Serialize + DeserializeOwned,
        E: Classify,
        F: Fn(StepAttempt) -> R,
        R: Future<Output = Result<T, E>>,
    {
        let Self { flow, name, input, expected, retry } = self;
        crate::settings::check_expect_within(expected.time).map_err(Error::from)?;
        let input = input.transpose()?;
        let id = RecordId::at(flow.workflow(), flow.place_of(&name));
        let known = flow.recorded(&id);
        if let Some(record) = known.as_ref().filter(|record| !record.is_free()) {
            return settled(flow, &name, record, input.as_ref());
        }
        let version = known.as_ref().map_or(1, |record| record.key_version);
        let began = Instant::now();
        let mut attempt = StepAttempt {
            idempotency_key: name::provider_key(
                flow.key(),
                flow.key_version(),
                &flow.place_of(&name).provider_step(),
                version,
            ),
            step: name,
            key_version: version,
            number: 1,
        };
        loop {
            flow.check_open(&attempt.step)?;
            // An attempt that the end of the run cuts off was done in vain.
            flow.check_time(&attempt.step, expected)?;
            flow.check_claim().await?;
            let (done, _recording) = flow.doing(expected, work(attempt.clone())).await;
            let error = match done {
                Ok(value) => {
                    let written = answer::to_json_and_back(&value);
                    let (json, _) = written.map_err(|error| Stop::unrecorded(&attempt.step, &error))?;
                    let new = flow.new_step(id, StepKind::Step, input.as_ref());
                    let end = End::Completed(Flow::encode(&attempt.step, json)?);
                    return record(flow, &attempt.step, known, &new, end, input.as_ref()).await;
                }
                Err(error) => error,
            };
            let class = error.class();
            match class {
                Class::Transient | Class::InDoubt => {
                    let asked = error.retry_after();
                    let jitter = flow.context().jitter();
                    match retry.pause(attempt.number, began.elapsed(), asked, jitter) {
                        // Its caller ends it at the deadline, asleep or not.
                        Some(pause) if flow.is_short_of(pause, expected) => {
                            let why = "too little time is left in this run";
                            return Err(retry.stop(later(flow, &attempt.step, asked, why).after(&error)));
                        }
                        Some(pause) => tokio::time::sleep(pause).await,
                        None => {
                            let why = "its retries are exhausted";
                            return Err(retry.stop(later(flow, &attempt.step, asked, why).after(&error)));
                        }
                    }
                    attempt.number += 1;
                }
                Class::NeedsOperator => {
                    let failure = StepFailure::classified(&attempt.step, &error);
                    return Err(Stop::NeedsOperator(failure));
                }
                Class::Permanent => {
                    let failure = StepFailure::classified(&attempt.step, &error);
                    let json = failure.to_stored().map_err(Error::from)?;
                    let new = flow.new_step(id, StepKind::Step, input.as_ref());
                    let end = End::Failed(Flow::encode(&attempt.step, json)?);
                    return record(flow, &attempt.step, known, &new, end, input.as_ref()).await;
                }
            }
        }
    }
}

/// Stop until the provider allows a retry; the workflow's own pause may be longer.
pub(crate) fn later(flow: &Flow, step: &str, asked: Option<Duration>, cause: &str) -> Stop {
    let at = time::after(flow.now(), asked.unwrap_or_default());
    Stop::Later { step: step.to_owned(), at, cause: cause.to_owned(), counts: true, retry_for: None }
}

/// Record the outcome of the step. If another driver recorded one first, that one counts.
async fn record<T: DeserializeOwned>(
    flow: &Flow,
    name: &str,
    known: Option<StepRecord>,
    new: &NewStep,
    end: End,
    input: Option<&Fingerprint>,
) -> Result<T, Stop> {
    let how = Begin::End(end);
    let rule = |stored: Option<&StepRecord>| StepRecord::begin(stored, new, &how, flow.context().stamp());
    let changed = flow.context().store().change("record the step", known, flow.until_recorded(), rule);
    let record = match Box::pin(changed).await? {
        Changed::Done(record) => {
            metrics::count_step("step", record.state.as_str());
            record
        }
        Changed::Refused { why: StepRefusal::Lost, .. }
        | Changed::Refused { stored: None, .. }
        | Changed::Gone => return Err(Stop::Lost),
        Changed::Refused { stored: Some(stored), .. } => stored,
    };
    flow.remember(record.clone());
    settled(flow, name, &record, input)
}

fn settled<T: DeserializeOwned>(
    flow: &Flow,
    name: &str,
    record: &StepRecord,
    input: Option<&Fingerprint>,
) -> Result<T, Stop> {
    if matches!(record.state, StepState::Cancelled | StepState::Compensated | StepState::Late) {
        return Err(Stop::Cancelled { step: name.to_owned() });
    }
    flow.check_same(name, record, StepKind::Step, input)?;
    match record.state {
        StepState::Completed => Flow::result_of(record),
        StepState::Failed | StepState::Held => Err(failed(record)),
        _ => Err(Stop::invalid(name, "its record has a state that is not valid for a step")),
    }
}
