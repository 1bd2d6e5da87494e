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
use crate::core::workflow::record::{ANSWER, INPUT};
use crate::error::Error;
use crate::metrics;
use crate::store::workflow::{Guard, beside_item};
use crate::token::Class;

/// An answer of so many bytes is compressed where that makes it smaller.
const COMPRESS_FROM: usize = 512;
/// What DynamoDB takes in one item, less what lies beside the answer.
const MOST_ANSWER: usize = 390 * 1024;

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
    let driven = match header.state {
        WorkflowState::Running => match forward(code, flow, &header).await {
            Ok(json) => flow.complete(json).await,
            Err(Stop::Failed(failure)) => flow.fail(code, failure).await,
            Err(stop) => match as_failure(&stop) {
                Some(failure) => flow.fail(code, failure).await,
                None => Err(stop),
            },
        },
        _ => flow.compensate(code).await,
    };
    match driven {
        Ok(ended) => Ok(ended),
        Err(stop) => flow.stopped(stop).await,
    }
}

async fn forward(code: &dyn Drive, flow: &Flow, header: &Header) -> Result<String, Stop> {
    let encoded = match &header.input {
        None => return Err(Error::from(answer::AnswerError::Missing).into()),
        Some(Body::Inline(encoded)) => encoded.clone(),
        Some(Body::Beside { codec, id, .. }) => {
            let item = format!("{INPUT}{id}");
            let store = flow.workflows().store();
            Box::pin(store.read_beside(flow.workflow(), &item, *codec, flow.until())).await?
        }
    };
    let input = answer::decode(encoded).map_err(Error::from)?;
    code.forward(flow, &input).await
}

/// A stop that is a failure for good, though no step failed.
fn as_failure(stop: &Stop) -> Option<StepFailure> {
    let (step, json) = match stop {
        Stop::Refused { step, writes } => (step, format!("{{\"refused\":{writes:?}}}")),
        Stop::Cancelled { step } => (step, "\"cancelled\"".to_owned()),
        _ => return None,
    };
    Some(StepFailure { step: Some(step.clone()), class: Class::Permanent, json })
}

impl Flow {
    async fn complete(&self, json: String) -> Result<Ended, Stop> {
        let result = if json == "null" { None } else { Some(self.store_answer(json.clone()).await?) };
        let now = self.now();
        let ended = self
            .change("end the workflow", |header| {
                end(header, WorkflowState::Completed, now);
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

    /// Keep the first failure, then undo what was done.
    async fn fail(&self, code: &dyn Drive, failure: StepFailure) -> Result<Ended, Stop> {
        let stored = failure.to_stored().map_err(Error::from)?;
        let result = self.store_answer(stored).await?;
        let header = self.header().await;
        let reason = Stop::Failed(failure.clone()).reason();
        let untouched = self.records().iter().all(|record| record.undo.is_none() && !record.pivot);
        // Nobody but this drive can have started a step that is not among its records.
        if untouched && header.attempts == 1 && header.intervention.is_none() {
            let now = self.now();
            self.change("end the workflow", |header| {
                end(header, WorkflowState::Failed, now);
                header.result = Some(result.clone());
            })
            .await?;
            self.tell_ended(WorkflowState::Failed).await;
            return Ok(Ended::Failed(failure));
        }
        // A new attempt, so that nothing that is still on its way for the old one is taken.
        let attempt = self.workflows().new_id();
        self.change("undo the workflow", |header| {
            header.state = WorkflowState::Compensating;
            header.ending = Some(WorkflowState::Failed);
            header.result = Some(result.clone());
            header.attempt.clone_from(&attempt);
            header.reason = Some(reason.clone());
        })
        .await?;
        self.compensate(code).await
    }

    /// An answer lies beside the header, and is written before the header points to it.
    async fn store_answer(&self, json: String) -> Result<Body, Stop> {
        let (encoded, _) = answer::encode(json, COMPRESS_FROM, MOST_ANSWER).map_err(Error::from)?;
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
        let dropped = store.delete_item("drop the answer", self.workflow(), &item, Guard::None, self.until());
        if let Err(error) = Box::pin(dropped).await {
            tracing::debug!(%error, "an unused answer stays behind");
        }
    }

    /// Everything that was to be undone is.
    pub(super) async fn end_undone(&self) -> Result<Ended, Stop> {
        let ending = self.header().await.ending.unwrap_or(WorkflowState::Cancelled);
        let now = self.now();
        self.change("end the workflow", |header| end(header, ending, now)).await?;
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
                // DynamoDB out of reach says nothing about the workflow.
                let _ = self.wait(self.now(), false, reason).await;
                return Err(error);
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
        self.change("leave the workflow", |header| {
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
        let now = self.now();
        self.change("park the workflow", |header| {
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

fn end(header: &mut Header, state: WorkflowState, now: DateTime<Utc>) {
    header.state = state;
    header.ended = Some(now);
    header.locked_by = None;
    header.reason = None;
    (header.listed, header.next_due) = forgotten_at(header.retention, now);
}
