//! The attempts of a step: one loop for steps that may run twice and for steps that may not.

use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use super::attempt::StepAttempt;
use super::recorded::failed;
use super::retry::RetryPolicy;
use super::step::later;
use crate::core::answer::{self, AnswerError};
use crate::core::class::Class;
use crate::core::workflow::step::StepRecord;
use crate::failure::{self, Classify};
use crate::workflow::flow::{Expected, Flow};
use crate::workflow::stop::{StepFailure, StopKind};

/// The record of a step while its attempts run.
///
/// A `step` writes its record after an attempt, so a crash before that repeats the attempt. A
/// `once` writes its record before the first attempt, so a crash leaves it in doubt.
pub(super) trait Journal {
    /// Whether an attempt may begin.
    async fn begin(&mut self) -> Result<(), StopKind>;

    /// Records the result of an attempt. The record may have another outcome that came first.
    async fn complete(&mut self, json: Result<String, AnswerError>) -> Result<StepRecord, StopKind>;

    /// Records that the step failed and is not tried again.
    async fn fail(&mut self, failure: StepFailure) -> Result<StepRecord, StopKind>;

    /// Finds out whether an attempt happened that failed in this class, before anything is decided
    /// from its failure. `Some`: it did, and is recorded.
    async fn resolve(&mut self, class: Class, cause: &str) -> Result<Option<StepRecord>, StopKind>;

    /// Leaves the record for the next run, which tries again.
    async fn give_up(&mut self, stop: StopKind, cause: &str) -> StopKind;

    /// Pauses before the next attempt.
    async fn pause(&mut self, pause: Duration) -> Result<(), StopKind>;
}

/// The settings that the attempts of a step share.
pub(super) struct Attempts<'a> {
    pub(super) flow: &'a Flow,
    pub(super) retry: RetryPolicy,
    pub(super) expected: Expected,
}

impl Attempts<'_> {
    /// Runs attempts until one has an outcome, or this run has to stop.
    pub(super) async fn run<T, E, F, R>(
        &self,
        mut attempt: StepAttempt,
        journal: &mut impl Journal,
        work: F,
    ) -> Result<T, StopKind>
    where
        T: Serialize + DeserializeOwned,
        E: Classify,
        F: Fn(StepAttempt) -> R,
        R: Future<Output = Result<T, E>>,
    {
        let (flow, step) = (self.flow, attempt.step.clone());
        let began = Instant::now();
        loop {
            journal.begin().await?;
            // If the time of the run ends here, the guard keeps the run alive until the outcome is
            // recorded: no other record of it exists.
            let (done, _recording) = flow.doing(self.expected, flow.in_step(work(attempt.clone()))).await;
            let error = match done {
                // This run continues with what later runs will read, and not with the value itself.
                Ok(value) => return flow.outcome(&journal.complete(answer::to_json(&value)).await?).await,
                Err(error) => error,
            };
            let (class, cause) = (error.class(), failure::said(&error));
            if let Some(record) = journal.resolve(class, &cause).await? {
                return flow.outcome(&record).await;
            }
            if matches!(class, Class::Permanent | Class::NeedsOperator) {
                return flow.outcome(&journal.fail(StepFailure::classified(&step, &error)).await?).await;
            }
            let asked = error.retry_after();
            let stop = |why| self.retry.stop(later(flow, &step, asked, why).after(&cause));
            let jitter = flow.context().jitter();
            let Some(pause) = self.retry.pause(attempt.number, began.elapsed(), asked, jitter) else {
                return Err(journal.give_up(stop("its retries are exhausted"), &cause).await);
            };
            // Its caller cuts the run off at the deadline, asleep or not.
            let paused = match flow.is_short_of(pause, self.expected) {
                true => Err(stop("too little time is left in this run")),
                false => journal.pause(pause).await.map_err(|stop| stop.after(&cause)),
            };
            if let Err(stop) = paused {
                return Err(journal.give_up(stop, &cause).await);
            }
            attempt.number += 1;
        }
    }
}

impl Flow {
    /// The outcome of a step, as it is recorded.
    pub(super) async fn outcome<T: DeserializeOwned>(&self, record: &StepRecord) -> Result<T, StopKind> {
        if record.is_completed() { self.result_of(record).await } else { Err(failed(record)) }
    }
}
