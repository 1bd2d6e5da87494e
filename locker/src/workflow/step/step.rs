//! A step that runs at least once.

use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use super::attempt::StepAttempt;
use super::recorded::failed;
use super::retry::RetryPolicy;
use crate::core::answer;
use crate::core::fingerprint::Fingerprint;
use crate::core::time;
use crate::core::workflow::name;
use crate::core::workflow::step::{RecordId, StepKind, StepRecord, StepState};
use crate::error::Error;
use crate::failure::{Class, Classify};
use crate::observe::metrics;
use crate::store::{Guard, Put, record_item, record_of};
use crate::workflow::flow::{Expected, Flow};
use crate::workflow::stop::{StepFailure, Stop};

/// A step that runs at least once does not say how long it takes.
const UNSAID: Expected = Expected { time: Duration::from_secs(30), is_said: false };

/// Builds a step that runs at least once. See [`Flow::step`].
#[derive(Debug)]
#[must_use = "a step does nothing until it is run"]
pub struct Step<'a> {
    flow: &'a Flow,
    name: String,
    input: Option<Result<Fingerprint, Stop>>,
    retry: RetryPolicy,
}

impl<'a> Step<'a> {
    pub(crate) fn new(flow: &'a Flow, name: String) -> Self {
        Self { flow, name, input: None, retry: RetryPolicy::default() }
    }

    /// Set the input of the step. Only a digest is recorded; a resumed step with another input is [`Stop::Changed`].
    pub fn input(mut self, input: &impl Serialize) -> Self {
        self.input = Some(self.flow.fingerprint(input));
        self
    }

    /// Set the retry policy for transient and in-doubt failures.
    pub const fn retry(mut self, retry: RetryPolicy) -> Self {
        self.retry = retry;
        self
    }

    /// Run the step, unless it is recorded.
    ///
    /// A permanent failure is recorded, and is the answer of the step from then on; a failure that needs an operator
    /// is not recorded.
    ///
    /// # Crash window
    ///
    /// Between the work and its record; the step then runs again.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future is the same as a crash: unless its result was recorded, the step runs again.
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
        let Self { flow, name, input, retry } = self;
        flow.take_name(&name, None)?;
        let input = input.transpose()?;
        let id = RecordId::step(flow.workflow(), &flow.full_name(&name));
        let mut freed = None;
        if let Some(record) = flow.recorded(&id) {
            if record.state != StepState::Freed {
                return settled(flow, &name, &record, input.as_ref());
            }
            freed = Some(record.revision);
        }
        let began = Instant::now();
        let mut attempt = StepAttempt {
            idempotency_key: name::provider_key(flow.key(), flow.key_version(), &flow.full_name(&name), 1),
            step: name,
            number: 1,
        };
        loop {
            let error = match work(attempt.clone()).await {
                Ok(value) => {
                    let json = answer::to_json(&value).map_err(Error::from)?;
                    let mut record = flow.new_record(id, StepKind::Step, input.as_ref());
                    record.state = StepState::Completed;
                    return put(flow, &attempt.step, record, json, input.as_ref(), freed).await;
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
                        Some(pause) if flow.is_short_of(pause, UNSAID) => {
                            return Err(later(
                                flow,
                                &attempt.step,
                                asked,
                                "too little time is left in this run",
                            ));
                        }
                        Some(pause) => tokio::time::sleep(pause).await,
                        None => return Err(later(flow, &attempt.step, asked, "its retries are exhausted")),
                    }
                    attempt.number += 1;
                }
                Class::NeedsOperator => {
                    let failure = StepFailure::of(Some(&attempt.step), class, &error);
                    return Err(Stop::NeedsOperator(failure.map_err(Error::from)?));
                }
                Class::Permanent => {
                    let failure = StepFailure::of(Some(&attempt.step), class, &error).map_err(Error::from)?;
                    let json = failure.to_stored().map_err(Error::from)?;
                    let mut record = flow.new_record(id, StepKind::Step, input.as_ref());
                    record.state = StepState::Failed;
                    record.class = Some(class);
                    return put::<T>(flow, &attempt.step, record, json, input.as_ref(), freed).await;
                }
            }
        }
    }
}

/// Stop until the provider allows a retry; the workflow's own pause may be longer.
pub(crate) fn later(flow: &Flow, step: &str, asked: Option<Duration>, cause: &str) -> Stop {
    let at = time::after(flow.now(), asked.unwrap_or_default());
    Stop::Later { step: step.to_owned(), at, cause: cause.to_owned(), counts: true }
}

/// Record the outcome of the step. If another driver recorded one first, that one counts.
async fn put<T: DeserializeOwned>(
    flow: &Flow,
    name: &str,
    mut record: StepRecord,
    json: String,
    input: Option<&Fingerprint>,
    freed: Option<String>,
) -> Result<T, Stop> {
    record.ended = Some(flow.now());
    record.result = Some(flow.encode(json)?);
    let mut over = freed;
    loop {
        let item = record_item(&record);
        let store = flow.context().store();
        let guard = over.as_deref().map_or(Guard::Absent, Guard::Revision);
        match Box::pin(store.put_item("record the step", &item, guard, flow.until())).await? {
            Put::Done => {
                metrics::count_step("step", record.state.as_str());
                break;
            }
            Put::Refused { item: None, .. } => return Err(Stop::Lost),
            Put::Refused { item: Some(item), .. } => {
                let found = record_of(&item).map_err(Error::from)?;
                // Unless it is older than this workflow by more than clocks may differ: then it was left by a stale
                // driver of an earlier workflow with this key, after the reaper deleted that workflow.
                if time::after(found.created, flow.context().skew()) >= flow.created() {
                    record = found;
                    break;
                }
                over = Some(found.revision);
            }
        }
    }
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
        StepState::Failed => Err(failed(record)),
        _ => Err(Stop::invalid(name, "its record has a state that is not valid for a step")),
    }
}
