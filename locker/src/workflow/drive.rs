//! Driving a workflow as far as it goes now, and writing how far that was.

use chrono::{DateTime, Utc};

use super::claim::{Claimed, Claimer};
use super::flow::Flow;
use super::operate::forgotten_at;
use super::outcome::Waiting;
use super::registry::Drive;
use super::stop::{StepFailure, Stop};
use crate::core::answer::{self, Body};
use crate::core::workflow::header::{Header, Listed, WorkflowState};
use crate::core::workflow::record::{self, ANSWER, INPUT};
use crate::error::Error;
use crate::metrics;
use crate::store::workflow::{Guard, beside_item};
use crate::token::Class;

/// How far a workflow is.
#[derive(Debug)]
pub(super) enum Ended {
    /// With this answer, as JSON.
    Completed(String),
    Failed(StepFailure),
    Cancelled,
    Quarantined(String),
    Waiting(Waiting),
    Mismatch,
}

/// Drive it forward, or undo it, from where it stands.
pub(super) async fn drive(code: &dyn Drive, flow: &Flow) -> Result<Ended, Error> {
    let header = flow.header().await;
    if header.state != WorkflowState::Running {
        return undo(code, flow).await;
    }
    let driven = match forward(code, flow, &header).await {
        Ok(json) => flow.complete(json).await,
        Err(stop) => match as_failure(stop) {
            Ok(failure) => match flow.fail(failure).await {
                Ok(Failing::Ended(ended)) => Ok(ended),
                Ok(Failing::Undo(undoing)) => return undo(code, &undoing).await,
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

async fn undo(code: &dyn Drive, flow: &Flow) -> Result<Ended, Error> {
    match flow.compensate(code).await {
        Ok(ended) => Ok(ended),
        Err(stop) => flow.stopped(stop).await,
    }
}

/// What a failure for good leads to.
enum Failing {
    Ended(Ended),
    /// There may be something to undo, by this drive under another attempt: what is still on its way for the
    /// forward part is refused.
    Undo(Flow),
}

async fn forward(code: &dyn Drive, flow: &Flow, header: &Header) -> Result<String, Stop> {
    let encoded = match &header.input {
        None => return Err(Stop::invalid("-", "the workflow has no input")),
        Some(Body::Inline(encoded)) => encoded.clone(),
        Some(Body::Beside { codec, id, .. }) => {
            let item = format!("{INPUT}{id}");
            let store = flow.workflows().store();
            let read = store.read_beside(flow.workflow(), &item, *codec, flow.until());
            Box::pin(read).await.map_err(|error| match error {
                Error::Answer(_) => Stop::invalid("-", "the input of the workflow is gone or damaged"),
                error => error.into(),
            })?
        }
    };
    let input = answer::decode(encoded).map_err(Error::from)?;
    code.forward(flow, &input).await
}

/// A stop that is a failure for good, though no step failed.
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
        let (now, attempt) = (self.now(), self.workflows().new_id());
        let ended = self
            .change("end the workflow", |header| {
                end(header, WorkflowState::Completed, now, &attempt);
                header.result.clone_from(&result);
            })
            .await;
        if let (Err(Stop::Lost), Some(unused)) = (&ended, &result) {
            self.drop_answer(unused).await;
        }
        ended?;
        self.tell_ended(WorkflowState::Completed).await;
        Ok(Ended::Completed(json))
    }

    /// Keep the first failure, and end, or say that there may be something to undo.
    async fn fail(&self, failure: StepFailure) -> Result<Failing, Stop> {
        let stored = failure.to_stored().map_err(Error::from)?;
        let result = self.store_answer(stored).await?;
        let header = self.header().await;
        let reason = Stop::Failed(failure.clone()).reason();
        let attempt = self.workflows().new_id();
        let recorded = self.records().iter().any(|record| record.undo.is_some() || record.pivot);
        // Nobody but this drive can have begun a step that is not among its records.
        let untouched = !recorded && !self.is_touched();
        if untouched && header.attempts == 1 && header.intervention.is_none() {
            let now = self.now();
            self.change("end the workflow", |header| {
                end(header, WorkflowState::Failed, now, &attempt);
                header.result = Some(result.clone());
            })
            .await?;
            self.tell_ended(WorkflowState::Failed).await;
            return Ok(Failing::Ended(Ended::Failed(failure)));
        }
        self.change("undo the workflow", |header| {
            header.state = WorkflowState::Compensating;
            header.ending = Some(WorkflowState::Failed);
            header.result = Some(result.clone());
            header.attempt.clone_from(&attempt);
            header.reason = Some(reason.clone());
        })
        .await?;
        let header = self.header().await;
        let undoing = Self::new(self.workflows().clone(), header, self.records(), self.deadline());
        Ok(Failing::Undo(undoing.reserving(self.reserve())))
    }

    /// An answer lies beside the header, and is written before the header points to it.
    async fn store_answer(&self, json: String) -> Result<Body, Stop> {
        let encoded = record::encode(json).map_err(Error::from)?;
        let (codec, bytes, id) = (encoded.codec, encoded.bytes.len(), self.workflows().new_id());
        let item = beside_item(self.workflow(), &format!("{ANSWER}{id}"), &encoded);
        let until = self.until().for_end();
        let put = self.workflows().store().put_item("store the answer", &item, Guard::None, until);
        match Box::pin(put).await {
            Ok(_) => Ok(Body::Beside { codec, id, bytes }),
            // Nothing points to it, so nothing ended.
            Err(Error::Unknown { verb, tries, source }) => {
                Err(Error::Unavailable { verb, tries, source }.into())
            }
            Err(error) => Err(error.into()),
        }
    }

    /// No header came to point to it. If that fails, it goes with its workflow.
    async fn drop_answer(&self, unused: &Body) {
        let Body::Beside { id, .. } = unused else { return };
        let item = format!("{ANSWER}{id}");
        let store = self.workflows().store();
        // It may have been, by a request that nobody heard.
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
            tracing::debug!(%error, "an unused answer stays behind");
        }
    }

    /// Everything that was to be undone is.
    pub(super) async fn end_undone(&self) -> Result<Ended, Stop> {
        let ending = self.header().await.ending.unwrap_or(WorkflowState::Cancelled);
        let (now, attempt) = (self.now(), self.workflows().new_id());
        self.change("end the workflow", |header| end(header, ending, now, &attempt)).await?;
        self.tell_ended(ending).await;
        Ok(self.workflows().ended(&self.header().await, None).await?)
    }

    async fn tell_ended(&self, state: WorkflowState) {
        let header = self.header().await;
        metrics::count_workflow_ended(&header.name, state.as_str());
        tracing::info!(
            workflow.key = self.workflows().shown(self.workflow()),
            workflow.name = header.name,
            workflow.outcome = state.as_str(),
            workflow.attempts = header.attempts,
            "a workflow ended"
        );
    }

    /// It does not go on now: wait, park it, or leave it to whoever has it.
    pub(super) async fn stopped(&self, stop: Stop) -> Result<Ended, Error> {
        let reason = stop.reason();
        let written = match stop {
            Stop::Lost => return self.whoever_has_it().await,
            Stop::Later { at, counts, .. } => self.wait(at, counts, reason).await,
            Stop::InDoubt { resolvable: true, .. } => self.wait(self.now(), true, reason).await,
            Stop::InDoubt { .. } | Stop::NeedsPerson(_) | Stop::Changed { .. } | Stop::Invalid { .. } => {
                self.park(reason).await
            }
            Stop::UndoFailed(_) | Stop::Failed(_) | Stop::Refused { .. } | Stop::Cancelled { .. } => {
                self.park(reason).await
            }
            Stop::Store(error) if is_about_the_workflow(&error) => self.park(reason).await,
            Stop::Store(error) => {
                // DynamoDB out of reach says nothing about the workflow; what it refuses may do.
                let counts = matches!(error, Error::Denied { .. });
                match self.wait(self.now(), counts, reason).await {
                    Ok(parked @ Ended::Quarantined(_)) => return Ok(parked),
                    _ => return Err(error),
                }
            }
        };
        match written {
            Ok(ended) => Ok(ended),
            Err(Stop::Lost) => self.whoever_has_it().await,
            Err(Stop::Store(error)) => Err(error),
            Err(stop) => {
                Err(Error::Unavailable { verb: "leave the workflow", tries: 1, source: stop.into() })
            }
        }
    }

    async fn wait(&self, at: DateTime<Utc>, counts: bool, reason: String) -> Result<Ended, Stop> {
        let attempts = self.header().await.attempts;
        if counts && attempts >= self.workflows().limits().attempts {
            return self.park(format!("{attempts} attempts are used up: {reason}")).await;
        }
        let at = at.max(self.workflows().next_try(attempts));
        let attempt = self.workflows().new_id();
        self.change("leave the workflow", |header| {
            header.attempt.clone_from(&attempt);
            header.next_due = at;
            header.locked_by = None;
            header.reason = Some(reason.clone());
            if !counts {
                header.attempts = header.attempts.saturating_sub(1);
            }
        })
        .await?;
        Ok(Ended::Waiting(self.workflows().waiting(&self.header().await)))
    }

    pub(super) async fn park(&self, reason: String) -> Result<Ended, Stop> {
        let (now, attempt) = (self.now(), self.workflows().new_id());
        self.change("park the workflow", |header| {
            header.attempt.clone_from(&attempt);
            header.listed = Some(Listed::Quarantine);
            header.next_due = now;
            header.locked_by = None;
            header.reason = Some(reason.clone());
        })
        .await?;
        self.workflows().tell_parked(&self.header().await);
        Ok(Ended::Quarantined(reason))
    }

    async fn whoever_has_it(&self) -> Result<Ended, Error> {
        let workflows = self.workflows();
        let stored = Box::pin(workflows.store().read_header(self.workflow(), self.until())).await?;
        let gone = || Error::Unavailable {
            verb: "look at the workflow",
            tries: 1,
            source: "it has been forgotten".into(),
        };
        let claimer =
            Claimer { workflows, owner: None, expected: None, deadline: None, claims: false, anyway: false };
        match Box::pin(claimer.claim(stored.ok_or_else(gone)?)).await? {
            Claimed::Ended(ended) => Ok(ended),
            Claimed::Flow(_) => Err(gone()),
        }
    }
}

/// Nothing that time or another driver would mend.
const fn is_about_the_workflow(error: &Error) -> bool {
    matches!(
        error,
        Error::Answer(_) | Error::Record(_) | Error::Fingerprint(_) | Error::Setting(_) | Error::Key(_)
    )
}

/// The attempt is another one: what is still on its way for this drive is refused.
fn end(header: &mut Header, state: WorkflowState, now: DateTime<Utc>, attempt: &str) {
    header.state = state;
    attempt.clone_into(&mut header.attempt);
    header.ended = Some(now);
    header.locked_by = None;
    header.reason = None;
    (header.listed, header.next_due) = forgotten_at(header.retention, now);
}
