//! Driving a workflow as far as possible now, and recording its state then.

use crate::workflow::outcome::ended::Ended;
use chrono::{DateTime, Utc};

use super::code::Drive;
use super::fence::Unwritten;
use crate::core::answer::{self, Body};
use crate::core::class::Class;
use crate::core::token::work::Work;
use crate::core::workflow::decide::{self, Patience};
use crate::core::workflow::header::{DriverAct, Header, Pause, State};
use crate::core::workflow::place::Place;
use crate::core::workflow::step::{StepKind, StepState};
use crate::error::Error;
use crate::metrics;
use crate::session;
use crate::store::{Guard, beside_item};
use crate::workflow::definition::Exhausted;
use crate::workflow::flow::Flow;
use crate::workflow::stop::{StepFailure, Stop};

/// Drive a workflow forward, or compensate it, from its present state. What its code begins names
/// it.
pub(crate) async fn drive(code: &dyn Drive, flow: &Flow) -> Result<Ended, Error> {
    let within = Work::Workflow(flow.header().await.workflow.clone());
    Box::pin(session::inside(within, drive_on(code, flow))).await
}

async fn drive_on(code: &dyn Drive, flow: &Flow) -> Result<Ended, Error> {
    let header = flow.header().await;
    if !header.is_forward() {
        return compensate(code, flow).await;
    }
    let forward = forward(code, flow, &header).await;
    // From here on it records what it came to.
    let _recording = flow.run_time().records();
    let driven = match forward {
        Ok(json) => flow.complete(json).await,
        Err(stop) => match flow.failure_of(code, stop).await {
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
    /// There may be steps to compensate. This run does so under another attempt, so that writes of
    /// the forward part that are still in flight are refused.
    Compensate(Flow),
}

async fn forward(code: &dyn Drive, flow: &Flow, header: &Header) -> Result<String, Stop> {
    // What happened and should not stand, before anything builds on it.
    flow.compensate_late(code).await?;
    let encoded = match &header.input {
        None => return Err(Stop::invalid("-", "the workflow has no input")),
        Some(Body::Inline(encoded)) => encoded.clone(),
        Some(Body::Beside { codec, id, .. }) => {
            let item = Place::Input(id).to_string();
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
    Ok(StepFailure::new(Some(step), Class::Permanent, json))
}

impl Flow {
    async fn complete(&self, json: String) -> Result<Ended, Stop> {
        if let Some(stop) = self.not_reached() {
            return Err(stop);
        }
        let result = if json == "null" { None } else { Some(self.store_answer(json.clone()).await?) };
        let act = DriverAct::Complete { result: result.clone() };
        let ended = self.act("end the workflow", act).await;
        if let (Err(Unwritten::Lost), Some(unused)) = (&ended, &result) {
            self.drop_answer(unused).await;
        }
        ended?;
        self.report_ended(State::Completed).await;
        Ok(Ended::Completed(json))
    }

    /// A step that an earlier run left in doubt and that this code does not reach, such as one that
    /// was renamed: it may have happened, and the workflow would end without a word about it.
    fn not_reached(&self) -> Option<Stop> {
        let records = self.records();
        let record = records.iter().find(|record| {
            let is_doubtful = record.kind == StepKind::Once && record.state == StepState::Started;
            // An outcome next to a record is no doubt of its own, and compensations end by
            // themselves.
            let reached = match record.id.place() {
                Ok(Place::Step(name)) => self.has_reached(name),
                _ => true,
            };
            is_doubtful && !reached
        })?;
        Some(Stop::InDoubt {
            step: record.id.step_name().to_owned(),
            resolvable: false,
            cause: "an earlier run started it, and the code does not reach it any more".to_owned(),
            item: record.id.reference(),
        })
    }

    /// Store the first failure; then end the workflow, or report that there may be steps to
    /// compensate.
    async fn fail(&self, failure: StepFailure) -> Result<Failing, Stop> {
        let stored = failure.to_stored().map_err(Error::from)?;
        let result = self.store_answer(stored).await?;
        let header = self.header().await;
        let reason = Stop::Failed(failure.clone()).reason();
        let recorded = self.records().iter().any(|record| record.compensation.is_some() || record.pivot);
        // Only this run can have begun a step that is not among its records.
        let untouched = !recorded && !self.is_touched();
        if untouched && header.attempts == 1 && header.intervention.is_none() {
            self.act("end the workflow", DriverAct::Fail { result }).await?;
            self.report_ended(State::Failed).await;
            return Ok(Failing::Ended(Ended::Failed(failure)));
        }
        self.act("compensate the workflow", DriverAct::Compensate { result, reason }).await?;
        Ok(Failing::Compensate(self.under(self.header().await)))
    }

    /// Store an answer in an item of its own, before the header refers to it.
    async fn store_answer(&self, json: String) -> Result<Body, Stop> {
        let encoded = answer::encode_for_item(json).map_err(Stop::Answer)?;
        let (codec, bytes, id) = (encoded.codec, encoded.bytes.len(), self.context().new_id());
        let item = || beside_item(self.workflow(), &Place::Answer(&id).to_string(), &encoded);
        let until = self.until().for_end();
        let put = self.context().store().put_item("store the answer", item, None, Guard::None, until);
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
        let item = Place::Answer(id).to_string();
        let store = self.context().store();
        // The header may refer to it after all, by a request whose response was lost.
        let used =
            |header: Header| matches!(&header.result, Some(Body::Beside { id: used, .. }) if used == id);
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
        self.act("end the workflow", DriverAct::EndCompensated).await?;
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

    /// The permanent failure that a stop amounts to, if it does. `Err`: it does not.
    async fn failure_of(&self, code: &dyn Drive, stop: Stop) -> Result<StepFailure, Stop> {
        let stop = match as_failure(stop) {
            Err(stop) if code.exhausted() == Exhausted::Compensate => stop,
            other => return other,
        };
        let Some((pause, patience)) = self.patience_with(&stop) else { return Err(stop) };
        let header = self.header().await;
        if !decide::is_exhausted(&header, pause, self.has_progressed(), patience, self.now()) {
            return Err(stop);
        }
        let why = exhausted(&header, self.now(), &stop.reason());
        Ok(StepFailure::of(stop.step(), Class::Permanent, &why))
    }

    /// How a stop ends a run that is tried again, and how long it is. `None`: it is not tried
    /// again.
    fn patience_with(&self, stop: &Stop) -> Option<(Pause, Patience)> {
        let patience = self.limits().patience();
        match stop {
            Stop::Later { counts: true, retry_for, .. } => {
                let retry_for = retry_for.unwrap_or(patience.retry_for);
                Some((Pause::Failed, Patience { retry_for, ..patience }))
            }
            Stop::Later { .. } => Some((Pause::Elsewhere, patience)),
            Stop::Waiting { .. } => Some((Pause::Chosen, patience)),
            Stop::InDoubt { resolvable: true, .. } => Some((Pause::Failed, patience)),
            // That DynamoDB cannot be reached says nothing about the workflow; a refusal may.
            Stop::Store(Error::Denied { .. }) => Some((Pause::Failed, patience)),
            Stop::Store(error) if !is_about_the_workflow(error) => Some((Pause::Elsewhere, patience)),
            _ => None,
        }
    }

    /// Handle a stop: wait, quarantine, or return the state that another driver wrote.
    pub(crate) async fn stopped(&self, stop: Stop) -> Result<Ended, Error> {
        let reason = stop.reason();
        if matches!(stop, Stop::Lost) {
            return self.present_state().await;
        }
        let written = match self.patience_with(&stop) {
            Some((pause, patience)) => {
                let at = stop.not_before().unwrap_or_else(|| self.now());
                self.wait(at, pause, patience, reason).await
            }
            None => self.quarantine_for(reason, stop.item()).await,
        };
        match (written, stop) {
            (Ok(Ended::Waiting(_)), Stop::Store(error)) => Err(error),
            (Ok(ended), _) => Ok(ended),
            (Err(_), Stop::Store(error)) => Err(error),
            (Err(Unwritten::Lost), _) => self.present_state().await,
            (Err(Unwritten::Store(error)), _) => Err(error),
        }
    }

    /// Release the workflow of a run that panicked or exceeded its time limit.
    pub(crate) async fn broken_off(&self, why: &str) -> Result<Ended, Error> {
        let patience = self.limits().patience();
        match self.wait(self.now(), Pause::BrokenOff, patience, why.to_owned()).await {
            Ok(ended) => Ok(ended),
            Err(Unwritten::Lost) => self.present_state().await,
            Err(Unwritten::Store(error)) => Err(error),
        }
    }

    async fn wait(
        &self,
        at: DateTime<Utc>,
        pause: Pause,
        patience: Patience,
        reason: String,
    ) -> Result<Ended, Unwritten> {
        let header = self.header().await;
        let progressed = self.has_progressed();
        if decide::is_exhausted(&header, pause, progressed, patience, self.now()) {
            let reason = match pause {
                Pause::BrokenOff => format!("{} runs in a row were aborted: {reason}", header.crashes),
                _ => exhausted(&header, self.now(), &reason),
            };
            return self.quarantine(reason).await;
        }
        let attempts = if progressed { 1 } else { header.attempts };
        let at = if pause == Pause::Chosen {
            at
        } else {
            at.max(self.context().next_try(attempts, self.limits()))
        };
        let failing_after = self.limits().failing_after;
        let act = DriverAct::Release { at, pause, reason, progressed, failing_after };
        self.act("release the workflow", act).await?;
        let header = self.header().await;
        self.context().report_failing(&header);
        Ok(Ended::Waiting(self.context().waiting(&header)))
    }

    pub(crate) async fn quarantine(&self, reason: String) -> Result<Ended, Unwritten> {
        self.quarantine_for(reason, None).await
    }

    /// `waits_for`: the item of the step for which it is in quarantine.
    async fn quarantine_for(&self, reason: String, waits_for: Option<String>) -> Result<Ended, Unwritten> {
        let act = DriverAct::Quarantine { reason: reason.clone(), waits_for };
        self.act("quarantine the workflow", act).await?;
        let header = self.header().await;
        // What it stopped for was told meanwhile.
        if !header.is_quarantined() {
            return Ok(Ended::Waiting(self.context().waiting(&header)));
        }
        self.context().report_quarantined(&header);
        Ok(Ended::Quarantined(reason))
    }

    async fn present_state(&self) -> Result<Ended, Error> {
        const VERB: &str = "read the workflow";
        let context = self.context();
        let stored = Box::pin(context.store().read_header(self.workflow(), self.until())).await?;
        let mut stored = stored.ok_or(Error::Gone { verb: VERB })?;
        // It was set aside for a step that this run has ended meanwhile.
        if let Some(item) = stored.waits_for.clone().filter(|item| self.has_settled(item)) {
            stored = Box::pin(context.settled(stored, &item, self.until().for_end())).await?;
        }
        context.present(VERB, context.standing(&stored), &stored, None).await
    }
}

/// Whether the error lies in the workflow's own data, so that neither time nor another driver would
/// help.
const fn is_about_the_workflow(error: &Error) -> bool {
    matches!(error, Error::Answer(_) | Error::Record { .. } | Error::Fingerprint { .. } | Error::Invalid(_))
}

/// Why a workflow is not tried any more.
fn exhausted(header: &Header, now: DateTime<Utc>, last: &str) -> String {
    let hours = (now - header.since).num_hours();
    format!("no progress in {hours} hours and {} attempts: {last}", header.attempts)
}
