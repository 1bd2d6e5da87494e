//! A step that runs at least once.

use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use super::adopt::failed;
use super::attempt::StepAttempt;
use super::flow::Flow;
use super::retry::RetryPolicy;
use super::stop::{StepFailure, Stop};
use crate::core::answer;
use crate::core::fingerprint::Fingerprint;
use crate::core::time;
use crate::core::workflow::name;
use crate::core::workflow::record::{RecordId, StepKind, StepRecord, StepState};
use crate::error::Error;
use crate::metrics;
use crate::store::workflow::{Guard, Put, record_item, record_of};
use crate::token::{Class, Classify};

/// A step that runs at least once, about to run. See [`Flow::step`].
#[derive(Debug)]
#[must_use = "a step does nothing until it is run"]
pub struct Step<'a> {
    flow: &'a Flow,
    name: String,
    input: Option<Result<Fingerprint, Stop>>,
    retry: RetryPolicy,
}

impl<'a> Step<'a> {
    pub(super) fn new(flow: &'a Flow, name: String) -> Self {
        Self { flow, name, input: None, retry: RetryPolicy::default() }
    }

    /// What it is given. Only a digest is recorded; a resumed step with another input is [`Stop::Changed`].
    pub fn input(mut self, input: &impl Serialize) -> Self {
        self.input = Some(self.flow.fingerprint(input));
        self
    }

    /// Try it again like this while it fails in passing or in doubt.
    pub const fn retry(mut self, retry: RetryPolicy) -> Self {
        self.retry = retry;
        self
    }

    /// Run it, unless it is recorded.
    ///
    /// **Crash window:** between the work and its record; then it runs again. A failure for good is recorded
    /// and is the answer of the step from then on; one that needs a person is not recorded.
    ///
    /// # Errors
    ///
    /// [`Stop`], which says what becomes of the workflow.
    ///
    /// # Cost
    ///
    /// 1 request and 1 write unit for each KB of the record; nothing if it is recorded.
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
                    let jitter = flow.workflows().jitter();
                    match retry.pause(attempt.number, began.elapsed(), asked, jitter) {
                        Some(pause) => tokio::time::sleep(pause).await,
                        None => return Err(later(flow, &attempt.step, asked, "its tries are used up")),
                    }
                    attempt.number += 1;
                }
                Class::NeedsPerson => {
                    let failure = StepFailure::of(Some(&attempt.step), class, &error);
                    return Err(Stop::NeedsPerson(failure.map_err(Error::from)?));
                }
                Class::Permanent => {
                    let failure = StepFailure::of(Some(&attempt.step), class, &error).map_err(Error::from)?;
                    let json = failure.to_stored().map_err(Error::from)?;
                    let mut record = flow.new_record(id, StepKind::Step, input.as_ref());
                    record.state = StepState::Failed;
                    return put::<T>(flow, &attempt.step, record, json, input.as_ref(), freed).await;
                }
            }
        }
    }
}

/// The next try is not before the provider wants it, nor before the workflow's own pause.
pub(super) fn later(flow: &Flow, step: &str, asked: Option<Duration>, cause: &str) -> Stop {
    let at = time::after(flow.now(), asked.unwrap_or_default());
    Stop::Later { step: step.to_owned(), at, cause: cause.to_owned(), counts: true }
}

/// Record how the step ended. Whoever was first decides: then his record is the step's.
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
        let store = flow.workflows().store();
        let guard = over.as_deref().map_or(Guard::Absent, Guard::Revision);
        match Box::pin(store.put_item("record the step", &item, guard, flow.until())).await? {
            Put::Done => {
                metrics::count_step("step", record.state.as_str());
                break;
            }
            Put::Refused { item: None, .. } => return Err(Stop::Lost),
            Put::Refused { item: Some(item), .. } => {
                let found = record_of(&item).map_err(Error::from)?;
                // Older than this workflow, by more than clocks differ: a driver of a former one of this key woke
                // after that was forgotten.
                if time::after(found.created, flow.workflows().skew()) >= flow.created() {
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
    if matches!(record.state, StepState::Cancelled | StepState::Undone | StepState::Late) {
        return Err(Stop::Cancelled { step: name.to_owned() });
    }
    flow.check_same(name, record, StepKind::Step, input)?;
    match record.state {
        StepState::Completed => Flow::result_of(record),
        StepState::Failed => Err(failed(record)),
        _ => Err(Stop::invalid(name, "its record is in a state that a step cannot be in")),
    }
}
