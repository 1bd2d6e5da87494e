//! Driving a workflow as far as possible now, and recording its state then.

use crate::workflow::ended::Ended;
use chrono::{DateTime, Utc};

use super::claim::{Claimed, Claimer};
use super::code::Drive;
use super::fence::Unwritten;
use crate::core::answer::{self, Body};
use crate::core::workflow::header::{Header, State};
use crate::core::workflow::step::{ANSWER, INPUT};
use crate::error::Error;
use crate::failure::Class;
use crate::observe::metrics;
use crate::store::{Guard, beside_item};
use crate::workflow::flow::Flow;
use crate::workflow::operator::workflow::deletable_at;
use crate::workflow::stop::{StepFailure, Stop};

/// Drive a workflow forward, or compensate it, from its present state.
pub(crate) async fn drive(code: &dyn Drive, flow: &Flow) -> Result<Ended, Error> {
    let header = flow.header().await;
    if header.state != State::Running {
        return compensate(code, flow).await;
    }
    let driven = match forward(code, flow, &header).await {
        Ok(json) => flow.complete(json).await,
        Err(stop) => match as_failure(stop) {
            Ok(failure) => match flow.fail(failure).await {
                Ok(Failing::Ended(ended)) => Ok(ended),
                Ok(Failing::Compensate(compensating)) => return compensate(code, &compensating).await,
                Err(stop) => Err(stop),
            },
            Err(stop) => Err(stop),
        },
    };
    match driven {
        Ok(ended) => Ok(ended),
        Err(stop) => flow.stopped(stop).await,
    }
}

async fn compensate(code: &dyn Drive, flow: &Flow) -> Result<Ended, Error> {
    match flow.compensate(code).await {
        Ok(ended) => Ok(ended),
        Err(stop) => flow.stopped(stop).await,
    }
}

/// What a permanent failure leads to.
enum Failing {
    Ended(Ended),
    /// There may be steps to compensate. This run does so under another attempt, so that writes of the forward part
    /// that are still in flight are refused.
    Compensate(Flow),
}

async fn forward(code: &dyn Drive, flow: &Flow, header: &Header) -> Result<String, Stop> {
    let encoded = match &header.input {
        None => return Err(Stop::invalid("-", "the workflow has no input")),
        Some(Body::Inline(encoded)) => encoded.clone(),
        Some(Body::Beside { codec, id, .. }) => {
            let item = format!("{INPUT}{id}");
            let store = flow.context().store();
            let read = store.read_beside(flow.workflow(), &item, *codec, flow.until());
            Box::pin(read).await.map_err(|error| match error {
                Error::Answer(_) => Stop::invalid("-", "the input of the workflow is missing or damaged"),
                error => error.into(),
            })?
        }
    };
    let input = answer::decode(encoded).map_err(Error::from)?;
    code.forward(flow, &input).await
}

/// The permanent failure that a stop amounts to, if it does.
fn as_failure(stop: Stop) -> Result<StepFailure, Stop> {
    let (step, json) = match stop {
        Stop::Failed(failure) => return Ok(failure),
        Stop::Refused { step, writes } => (step, format!("{{\"refused\":{writes:?}}}")),
        Stop::Cancelled { step } => (step, "\"cancelled\"".to_owned()),
        stop => return Err(stop),
    };
    Ok(StepFailure { step: Some(step), class: Class::Permanent, json })
}

impl Flow {
    async fn complete(&self, json: String) -> Result<Ended, Stop> {
        let result = if json == "null" { None } else { Some(self.store_answer(json.clone()).await?) };
        let (now, attempt) = (self.now(), self.context().new_id());
        let ended = self
            .change("end the workflow", |header| {
                end(header, State::Completed, now, &attempt);
                header.result.clone_from(&result);
            })
            .await;
        if let (Err(Unwritten::Lost), Some(unused)) = (&ended, &result) {
            self.drop_answer(unused).await;
        }
        ended?;
        self.report_ended(State::Completed).await;
        Ok(Ended::Completed(json))
    }

    /// Store the first failure; then end the workflow, or report that there may be steps to compensate.
    async fn fail(&self, failure: StepFailure) -> Result<Failing, Stop> {
        let stored = failure.to_stored().map_err(Error::from)?;
        let result = self.store_answer(stored).await?;
        let header = self.header().await;
        let reason = Stop::Failed(failure.clone()).reason();
        let attempt = self.context().new_id();
        let recorded = self.records().iter().any(|record| record.compensation.is_some() || record.pivot);
        // Only this run can have begun a step that is not among its records.
        let untouched = !recorded && !self.is_touched();
        if untouched && header.attempts == 1 && header.intervention.is_none() {
            let now = self.now();
            self.change("end the workflow", |header| {
                end(header, State::Failed, now, &attempt);
                header.result = Some(result.clone());
            })
            .await?;
            self.report_ended(State::Failed).await;
            return Ok(Failing::Ended(Ended::Failed(failure)));
        }
        self.change("compensate the workflow", |header| {
            header.state = State::Compensating;
            header.ending = Some(State::Failed);
            header.result = Some(result.clone());
            header.attempt.clone_from(&attempt);
            header.reason = Some(reason.clone());
        })
        .await?;
        let header = self.header().await;
        let compensating = Self::new(self.context().clone(), header, self.records(), self.deadline());
        Ok(Failing::Compensate(compensating.reserving(self.reserve()).lasting(self.longest())))
    }

    /// Store an answer in an item of its own, before the header refers to it.
    async fn store_answer(&self, json: String) -> Result<Body, Stop> {
        let encoded = answer::encode_for_item(json).map_err(Error::from)?;
        let (codec, bytes, id) = (encoded.codec, encoded.bytes.len(), self.context().new_id());
        let item = beside_item(self.workflow(), &format!("{ANSWER}{id}"), &encoded);
        let until = self.until().for_end();
        let put = self.context().store().put_item("store the answer", &item, Guard::None, until);
        match Box::pin(put).await {
            Ok(_) => Ok(Body::Beside { codec, id, bytes }),
            // No header refers to it, so nothing has ended.
            Err(Error::Unknown { verb, tries, source }) => {
                Err(Error::Unavailable { verb, tries, source }.into())
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Delete an answer that no header refers to. If that fails, it is deleted with its workflow.
    async fn drop_answer(&self, unused: &Body) {
        let Body::Beside { id, .. } = unused else { return };
        let item = format!("{ANSWER}{id}");
        let store = self.context().store();
        // The header may refer to it after all, by a request whose response was lost.
        let used =
            |header: Header| matches!(header.result, Some(Body::Beside { id: used, .. }) if used == *id);
        match Box::pin(store.read_header(self.workflow(), self.until())).await {
            Ok(header) => {
                if header.is_some_and(used) {
                    return;
                }
            }
            Err(_) => return,
        }
        let dropped = store.delete_item("drop the answer", self.workflow(), &item, Guard::None, self.until());
        if let Err(error) = Box::pin(dropped).await {
            tracing::debug!(%error, "an unused answer could not be deleted");
        }
    }

    /// End a workflow whose steps are all compensated.
    pub(crate) async fn end_compensated(&self) -> Result<Ended, Stop> {
        let ending = self.header().await.ending.unwrap_or(State::Cancelled);
        let (now, attempt) = (self.now(), self.context().new_id());
        self.change("end the workflow", |header| end(header, ending, now, &attempt)).await?;
        self.report_ended(ending).await;
        Ok(self.context().ended(&self.header().await, None).await?)
    }

    async fn report_ended(&self, state: State) {
        let header = self.header().await;
        metrics::count_workflow_ended(&header.name, state.as_str());
        tracing::info!(
            workflow.key = self.context().shown(self.workflow()),
            workflow.name = header.name,
            workflow.outcome = state.as_str(),
            workflow.attempts = header.attempts,
            "a workflow ended"
        );
    }

    /// Handle a stop: wait, quarantine, or return the state that another driver wrote.
    pub(crate) async fn stopped(&self, stop: Stop) -> Result<Ended, Error> {
        let reason = stop.reason();
        let written = match stop {
            Stop::Lost => return self.present_state().await,
            Stop::Later { at, counts, .. } => self.wait(at, counts, reason).await,
            Stop::InDoubt { resolvable: true, .. } => self.wait(self.now(), true, reason).await,
            Stop::Unreadable { item, .. } => self.quarantine_for(reason, Some(item)).await,
            Stop::InDoubt { .. } | Stop::NeedsOperator(_) | Stop::Changed { .. } | Stop::Invalid { .. } => {
                self.quarantine(reason).await
            }
            Stop::CompensationFailed(_) | Stop::Failed(_) | Stop::Refused { .. } | Stop::Cancelled { .. } => {
                self.quarantine(reason).await
            }
            Stop::Store(error) if is_about_the_workflow(&error) => self.quarantine(reason).await,
            Stop::Store(error) => {
                // That DynamoDB cannot be reached says nothing about the workflow; a refusal may.
                let counts = matches!(error, Error::Denied { .. });
                match self.wait(self.now(), counts, reason).await {
                    Ok(quarantined @ Ended::Quarantined(_)) => return Ok(quarantined),
                    _ => return Err(error),
                }
            }
        };
        match written {
            Ok(ended) => Ok(ended),
            Err(Unwritten::Lost) => self.present_state().await,
            Err(Unwritten::Store(error)) => Err(error),
        }
    }

    async fn wait(&self, at: DateTime<Utc>, counts: bool, reason: String) -> Result<Ended, Unwritten> {
        let attempts = self.header().await.attempts;
        if counts && attempts >= self.context().limits().attempts {
            return self.quarantine(format!("{attempts} attempts are exhausted: {reason}")).await;
        }
        let at = at.max(self.context().next_try(attempts));
        let attempt = self.context().new_id();
        self.change("release the workflow", |header| {
            header.attempt.clone_from(&attempt);
            header.next_due = at;
            header.locked_by = None;
            header.reason = Some(reason.clone());
            if !counts {
                header.attempts = header.attempts.saturating_sub(1);
            }
        })
        .await?;
        Ok(Ended::Waiting(self.context().waiting(&self.header().await)))
    }

    pub(crate) async fn quarantine(&self, reason: String) -> Result<Ended, Unwritten> {
        self.quarantine_for(reason, None).await
    }

    /// `waits_for`: the item of the step whose result cannot be read.
    async fn quarantine_for(&self, reason: String, waits_for: Option<String>) -> Result<Ended, Unwritten> {
        let (now, attempt) = (self.now(), self.context().new_id());
        self.change("quarantine the workflow", |header| {
            header.quarantine(now, attempt.clone(), reason.clone(), waits_for.clone());
        })
        .await?;
        self.context().report_quarantined(&self.header().await);
        Ok(Ended::Quarantined(reason))
    }

    async fn present_state(&self) -> Result<Ended, Error> {
        let context = self.context();
        let stored = Box::pin(context.store().read_header(self.workflow(), self.until())).await?;
        let gone = || Error::Gone { verb: "read the workflow" };
        let claimer =
            Claimer { context, owner: None, expected: None, deadline: None, claims: false, anyway: false };
        match Box::pin(claimer.claim(stored.ok_or_else(gone)?)).await? {
            Claimed::Ended(ended) => Ok(ended),
            Claimed::Flow(_) => Err(gone()),
        }
    }
}

/// Whether the error lies in the workflow's own data, so that neither time nor another driver would help.
const fn is_about_the_workflow(error: &Error) -> bool {
    matches!(
        error,
        Error::Answer(_) | Error::Record(_) | Error::Fingerprint(_) | Error::Setting(_) | Error::Key(_)
    )
}

/// End a workflow under another attempt, so that writes of this run that are still in flight are refused.
fn end(header: &mut Header, state: State, now: DateTime<Utc>, attempt: &str) {
    header.state = state;
    attempt.clone_into(&mut header.attempt);
    header.ended = Some(now);
    header.locked_by = None;
    header.reason = None;
    (header.listed, header.next_due) = deletable_at(header.retention, now);
}
