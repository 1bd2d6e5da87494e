//! Writes the end of a run, as `core::workflow::ending` decides it.

use chrono::{DateTime, Utc};

use super::code::Drive;
use super::fence::Unwritten;
use crate::core::answer::{self, Body};
use crate::core::class::Class;
use crate::core::time;
use crate::core::workflow::compensation;
use crate::core::workflow::decide::{self, Patience};
use crate::core::workflow::ending::{self, Effect, Ending, Need, NeedKind, Outlook, Release, Returned};
use crate::core::workflow::header::{DriverAct, Header, Pause, State};
use crate::core::workflow::place::Place;
use crate::core::workflow::step::{Placed, RecordId, StepKind, StepRecord, StepState};
use crate::error::Error;
use crate::metrics;
use crate::store::{Guard, beside_item};
use crate::workflow::definition::{Exhausted, Unreached};
use crate::workflow::flow::{Flow, Start};
use crate::workflow::outcome::ended::Ended;
use crate::workflow::stop::{StepFailure, StopKind};

/// How the code of a run returned, with its value.
pub(crate) enum Came {
    /// The answer, as JSON.
    Completed(String),
    /// The input of the next version of its key, as JSON.
    Continued(String),
    Failed(StepFailure),
    /// The code did not run, because earlier runs lost too many drivers.
    Exhausted(StepFailure),
    Stopped(StopKind),
    /// The code panicked or exceeded its time limit.
    Aborted(String),
    Compensated,
    /// A compensation stopped.
    Uncompensated(StopKind),
    /// The compensation stopped, and an operator must decide. The text is the reason.
    LeftToOperator(String),
}

impl Came {
    /// Converts a stop that the code returned.
    pub(crate) fn of(stop: StopKind) -> Self {
        let (step, json) = match stop {
            StopKind::Failed(failure) => return Self::Failed(failure),
            StopKind::Continue(input) => return Self::Continued(input.0),
            StopKind::Refused { step, writes } => (step, format!("{{\"refused\":{writes:?}}}")),
            StopKind::Cancelled { step } => (step, "\"cancelled\"".to_owned()),
            stop => return Self::Stopped(stop),
        };
        Self::Failed(StepFailure::new(Some(step), Class::Permanent, json))
    }

    const fn returned(&self) -> Returned {
        match self {
            Self::Completed(_) | Self::Continued(_) => Returned::Completed,
            Self::Failed(_) => Returned::Failed,
            Self::Exhausted(_) => Returned::Exhausted,
            Self::Stopped(_) => Returned::Stopped,
            Self::Aborted(_) => Returned::Aborted,
            Self::Compensated => Returned::Compensated,
            Self::Uncompensated(_) | Self::LeftToOperator(_) => Returned::Uncompensated,
        }
    }

    const fn stop(&self) -> Option<&StopKind> {
        match self {
            Self::Stopped(stop) | Self::Uncompensated(stop) => Some(stop),
            _ => None,
        }
    }

    fn step(&self) -> Option<&str> {
        self.stop().and_then(StopKind::step)
    }

    /// Returns the need of the stop that the code returned.
    fn need(&self) -> Option<Need> {
        if let Self::LeftToOperator(reason) = self {
            let kind = NeedKind::Operator { item: None };
            return Some(Need { place: None, kind, reason: reason.clone() });
        }
        let stop = self.stop()?;
        let kind = match (stop.need(), self) {
            (Some(kind), _) => kind,
            // No code can handle the outcome of a step that a compensation made.
            (None, Self::Uncompensated(_)) => NeedKind::Operator { item: None },
            (None, _) => return None,
        };
        Some(Need { place: None, kind, reason: stop.reason() })
    }

    /// Returns the error of the store that stopped the run, if the workflow waits because of it.
    fn answer(self, next: Next) -> Result<Next, Error> {
        match (self, next) {
            (
                Self::Stopped(StopKind::Store(error)) | Self::Uncompensated(StopKind::Store(error)),
                Next::Ended(Ended::Waiting(_)),
            ) => Err(error),
            (_, next) => Ok(next),
        }
    }
}

/// The next act after the end of a run.
pub(crate) enum Next {
    Ended(Ended),
    /// Steps may need a compensation. This run compensates them under another attempt, which
    /// refuses later writes of the forward code.
    Compensate(Flow),
}

impl Flow {
    /// Ends the run. Its effects, its needs and its code decide how.
    pub(crate) async fn end(&self, code: &dyn Drive, came: Came) -> Result<Next, Error> {
        // A task that the code did not await begins no step from here on. Otherwise it could begin
        // a charge after the read of the effects, and the workflow would end without its outcome.
        self.close();
        let effects = Box::pin(self.effects(came.returned())).await;
        let mut needs = self.needs();
        needs.extend(came.need());
        let stop = match Box::pin(self.write_end(code, &came, &effects, &needs)).await {
            Ok(next) => return came.answer(next),
            Err(stop) => stop,
        };
        // The end could not be written. Try to release or quarantine the workflow instead.
        let cannot_store = Came::Stopped(stop);
        needs.extend(cannot_store.need());
        let written = Box::pin(self.write_end(code, &cannot_store, &effects, &needs)).await;
        match (cannot_store, written) {
            (came, Ok(next)) => came.answer(next),
            (Came::Stopped(StopKind::Store(error)), Err(_)) | (_, Err(StopKind::Store(error))) => Err(error),
            (_, Err(_)) => Ok(Next::Ended(self.present_state().await?)),
        }
    }

    /// Releases the workflow of a run that panicked or exceeded its time limit. If the workflow
    /// fails because of it, a later run compensates the workflow.
    pub(crate) async fn broken_off(&self, code: &dyn Drive, why: &str) -> Result<Ended, Error> {
        // If the run was compensating, it has another attempt.
        let compensating = self.run_time().compensating().map(|header| self.under(header));
        let flow = compensating.as_ref().unwrap_or(self);
        let flow = match Box::pin(flow.end(code, Came::Aborted(why.to_owned()))).await? {
            Next::Ended(ended) => return Ok(ended),
            Next::Compensate(flow) => flow,
        };
        let release = Release { retry: Some(self.time()), pause: Pause::Elsewhere, ..Release::default() };
        match flow.release(Release { reason: why.to_owned(), ..release }).await {
            Ok(ended) => Ok(ended),
            Err(Unwritten::Lost) => flow.present_state().await,
            Err(Unwritten::Store(error)) => Err(error),
        }
    }

    async fn write_end(
        &self,
        code: &dyn Drive,
        came: &Came,
        effects: &[Effect],
        needs: &[Need],
    ) -> Result<Next, StopKind> {
        let ended = match (ending::ending(effects, needs, came.returned(), self.time()), came) {
            (Ending::Lost, _) => self.present_state().await?,
            (Ending::Quarantine { reason, item }, _) => self.quarantine_for(reason, item).await?,
            (Ending::Release(release), _) => return self.wait(code, came, release, effects).await,
            (Ending::Complete, Came::Completed(_) | Came::Continued(_)) => {
                let unreached = self.unreached();
                if let Some(why) = not_reached(&unreached)
                    && code.unreached() == Unreached::Quarantine
                {
                    return Ok(Next::Ended(self.quarantine(why).await?));
                }
                match came {
                    Came::Continued(input) => self.continue_with(input, &unreached).await?,
                    Came::Completed(json) => self.complete(json.clone(), &unreached).await?,
                    _ => return Err(StopKind::Lost),
                }
            }
            (Ending::Fail, Came::Failed(failure) | Came::Exhausted(failure)) => {
                return self.fail(failure.clone(), effects).await;
            }
            (Ending::EndCompensated, _) => self.end_compensated().await?,
            (Ending::Complete | Ending::Fail, _) => return Err(StopKind::Lost),
        };
        Ok(Next::Ended(ended))
    }

    /// Returns the effects of this workflow whose outcomes are unknown, the earliest start first.
    ///
    /// If the workflow may end now, this reads the records of steps with their own keys that
    /// this run did not reach.
    async fn effects(&self, returned: Returned) -> Vec<Effect> {
        let (now, skew) = (self.time(), self.context().skew());
        let answerer = (returned == Returned::Compensated).then(|| self.run_id());
        // The starts are read before the records. So if the reply of a start arrives during a read
        // below, the start is in the list or in the records.
        let starts = self.starts();
        // An operator who closed a workflow as it was has seen its effects.
        let closed = self.lock_header().closed_after;
        let counts = |record: &StepRecord| {
            matches!(record.state, StepState::Started | StepState::Held)
                && record.id.place() != Ok(Place::Shared)
                && closed.is_none_or(|seen| record.number > seen)
        };
        let mut records = self.records_that(counts);
        records.sort_by_key(|record| record.number);
        let mut effects = Vec::new();
        for record in records {
            let step = match record.shared() {
                None => Placed::own(record),
                Some(id) => match self.look_at(&id, returned.is_through()).await {
                    Ok(Some(shared)) => Placed::through(&record, shared),
                    Ok(None) => continue,
                    // It may have started. The next run looks again.
                    Err(_) => {
                        let (step, place) = (record.id.shown(), record.id.reference());
                        let outlook = Outlook::AtWork(now);
                        effects.push(Effect { step, place, item: id.reference(), outlook });
                        continue;
                    }
                },
            };
            effects.extend(Effect::of(&step, answerer.as_deref(), now, skew));
        }
        let outstanding = self.starts();
        effects.retain(|effect| !starts.iter().any(|(_, start)| start.item == effect.item));
        for (number, Start { item, step, place, due }) in starts {
            let is_known = !outstanding.iter().any(|(other, _)| *other == number)
                && self
                    .records_that(|record| {
                        record.id.reference() == item && record.state != StepState::Started
                    })
                    .len()
                    == 1;
            if !is_known {
                effects.push(Effect { step, place, item, outlook: Outlook::AtWork(due) });
            }
        }
        effects
    }

    /// Returns the record of a step with its own key. `reads`: read the record if this run has
    /// not read it.
    async fn look_at(&self, id: &RecordId, reads: bool) -> Result<Option<StepRecord>, Error> {
        let known = self.recorded(id);
        if known.is_some() || !reads {
            return Ok(known);
        }
        let read = Box::pin(self.context().store().read_record(id, self.until().for_end())).await?;
        if let Some(record) = &read {
            self.note(record.clone());
        }
        Ok(read)
    }

    /// Returns the effects that an earlier run completed and that the code did not reach: it took
    /// another branch, or a deployment renamed the steps.
    fn unreached(&self) -> Vec<String> {
        let mut unreached = self.records_that(|record| {
            let is_effect = matches!(record.kind, StepKind::Once | StepKind::Atomic | StepKind::Pointer);
            // A step that an operator completed was completed by no run.
            is_effect
                && record.intervention.is_none()
                && matches!(record.id.place(), Ok(Place::Step(name)) if !self.has_called(name))
        });
        unreached.retain(|record| match record.shared() {
            Some(id) => self.recorded(&id).is_some_and(|shared| shared.is_completed()),
            None => record.state == StepState::Completed,
        });
        unreached.sort_by_key(|record| record.number);
        unreached.iter().map(|record| record.id.shown()).collect()
    }

    async fn complete(&self, json: String, unreached: &[String]) -> Result<Ended, StopKind> {
        let result = if json == "null" { None } else { Some(self.store_answer(json.clone()).await?) };
        let act = DriverAct::Complete { result: result.clone(), note: not_reached(unreached) };
        let ended = self.end_by("end the workflow", act).await;
        if let (Err(Unwritten::Lost), Some(unused)) = (&ended, &result) {
            self.drop_answer(unused).await;
        }
        ended?;
        self.report_ended(State::Completed);
        self.report_not_reached(unreached);
        Ok(Ended::Completed(json))
    }

    pub(crate) fn report_not_reached(&self, unreached: &[String]) {
        if unreached.is_empty() {
            return;
        }
        metrics::count_steps_not_reached(unreached.len());
        tracing::warn!(
            workflow.key = self.context().shown(self.workflow()),
            workflow.steps = ?unreached,
            "a workflow ended, and its code did not reach steps that an earlier run completed"
        );
    }

    /// Stores the first failure. Then ends the workflow, or returns that steps may need a
    /// compensation.
    async fn fail(&self, failure: StepFailure, effects: &[Effect]) -> Result<Next, StopKind> {
        let stored = failure.to_stored().map_err(Error::from)?;
        let result = self.store_answer(stored).await?;
        let reason = StopKind::Failed(failure.clone()).reason();
        let may_owe = |record: &StepRecord| {
            record.compensation.is_some() || record.pivot || compensation::is_undeclared(record)
        };
        let recorded = !self.records_that(may_owe).is_empty();
        // Only this run can have begun a step that is not among its records: an earlier run
        // withdraws a step that it began after the query of this run. An effect in doubt without a
        // compensation is shown at the end of the compensation.
        if !recorded && !self.is_touched() && effects.is_empty() {
            self.end_by("end the workflow", DriverAct::Fail { result }).await?;
            self.report_ended(State::Failed);
            return Ok(Next::Ended(Ended::Failed(failure)));
        }
        self.act("compensate the workflow", DriverAct::Compensate { result, reason }).await?;
        Ok(Next::Compensate(self.under(self.header())))
    }

    /// Stores an answer in a separate item, before the header refers to it.
    async fn store_answer(&self, json: String) -> Result<Body, StopKind> {
        let encoded = answer::encode_for_item(json).map_err(StopKind::Answer)?;
        let (codec, bytes, id) = (encoded.codec, encoded.bytes.len(), self.context().new_id());
        let item = || beside_item(self.workflow(), &Place::Answer(&id).to_string(), &encoded);
        let until = self.until().for_end();
        let put = self.context().store().put_item("store the answer", &item, None, Guard::None, until);
        match put.await {
            Ok(_) => Ok(Body::Beside { codec, id, bytes }),
            // No header refers to the item, so nothing has ended.
            Err(Error::Unknown { verb, tries, source }) => {
                Err(Error::Unavailable { verb, tries, source }.into())
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Deletes an answer to which no header refers. If this fails, the reaper deletes the answer.
    async fn drop_answer(&self, unused: &Body) {
        let Body::Beside { id, .. } = unused else { return };
        let item = Place::Answer(id).to_string();
        let store = self.context().store();
        // A request whose response was lost may have written a header that refers to the answer.
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

    /// Ends a workflow whose steps are all compensated.
    async fn end_compensated(&self) -> Result<Ended, StopKind> {
        let (ending, has_ended) = {
            let header = self.lock_header();
            (header.ending.unwrap_or(State::Cancelled), header.stands)
        };
        self.end_by("end the workflow", DriverAct::EndCompensated).await?;
        if !has_ended {
            self.report_ended(ending);
        }
        Ok(self.context().ended(&self.header(), None).await?)
    }

    pub(crate) fn report_ended(&self, state: State) {
        let header = self.lock_header();
        metrics::count_workflow_ended(&header.name, state.as_str());
        tracing::info!(
            workflow.key = self.context().shown(self.workflow()),
            workflow.name = header.name,
            workflow.outcome = state.as_str(),
            workflow.attempts = header.attempts,
            "a workflow ended"
        );
    }

    /// Releases the workflow until its next run, unless its attempts are exhausted.
    async fn wait(
        &self,
        code: &dyn Drive,
        came: &Came,
        mut release: Release,
        effects: &[Effect],
    ) -> Result<Next, StopKind> {
        let header = self.header();
        if let Came::Aborted(why) = came {
            release.reason.clone_from(why);
        }
        let limits = self.limits().patience();
        // A time limit that a step sets ends the workflow after any number of attempts: a step that
        // must not be late cannot wait for ten attempts.
        let of_step = release.retry_for.filter(|_| release.pause == Pause::Failed);
        let patience = of_step.map_or(limits, |retry_for| Patience { attempts: 1, retry_for, ..limits });
        if !decide::is_exhausted(&header, release.pause, self.has_progressed(), patience, self.time()) {
            return Ok(Next::Ended(self.release(release).await?));
        }
        let why = match release.pause {
            Pause::BrokenOff => {
                format!("{} runs in a row were aborted: {}", header.lost_without_progress, release.reason)
            }
            _ => exhausted(&header, self.time(), &release.reason),
        };
        if header.is_forward() && code.exhausted() == Exhausted::Compensate {
            // A compensation decides about no effect that a driver may still complete.
            if effects.iter().any(|effect| matches!(effect.outlook, Outlook::AtWork(_))) {
                return Ok(Next::Ended(self.release(release).await?));
            }
            // The failure of the code is the first one. Without one, the workflow fails with the
            // step that was exhausted: the stop that the code returned may be of another step.
            let failure = match came {
                Came::Failed(failure) => failure.clone(),
                _ => StepFailure::of(release.step.as_deref().or(came.step()), Class::Permanent, &why),
            };
            return self.fail(failure, effects).await;
        }
        Ok(Next::Ended(self.quarantine_for(why, release.item).await?))
    }

    pub(crate) async fn release(&self, release: Release) -> Result<Ended, Unwritten> {
        let Release { retry, wait, waits, pause, reason, .. } = release;
        let (header, progressed) = (self.header(), self.has_progressed());
        let attempts = if progressed { 1 } else { header.attempts };
        // The backoff delays only retries. A wait of the code ends at its own time.
        let retry = retry.map(|at| at.max(self.context().next_try(attempts, self.limits())));
        let at = retry.into_iter().chain(wait).min().unwrap_or_else(|| self.time());
        let failing_after = self.limits().failing_after;
        let act = DriverAct::Release { at, pause, reason, progressed, failing_after, waits };
        self.act("release the workflow", act).await?;
        let header = self.header();
        self.context().report_failing(&header);
        Ok(Ended::Waiting(self.context().waiting(&header)))
    }

    pub(crate) async fn quarantine(&self, reason: String) -> Result<Ended, Unwritten> {
        self.quarantine_for(reason, None).await
    }

    /// Quarantines the workflow. `waits_for`: the item of the step that is the reason.
    async fn quarantine_for(&self, reason: String, waits_for: Option<String>) -> Result<Ended, Unwritten> {
        let act = DriverAct::Quarantine { reason: reason.clone(), waits_for };
        self.act("quarantine the workflow", act).await?;
        let header = self.header();
        // The outcome that the run waited for was reported in between, so the workflow is due.
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
        let mut stored = stored.ok_or(Error::Deleted { verb: VERB })?;
        // The stored header waits for a step that this run has ended.
        if let Some(item) = stored.waits_for.clone().filter(|item| self.has_settled(item)) {
            stored = Box::pin(context.settled(stored, &item, self.until().for_end())).await?;
        }
        match context.present(VERB, context.standing(&stored), &stored, None).await {
            // This run may have done steps, so it cannot report that nothing was changed.
            Err(Error::Gone { verb }) => Err(Error::Deleted { verb }),
            present => present,
        }
    }
}

/// Returns a note about completed steps that the code did not reach. `None`: it reached all steps.
pub(crate) fn not_reached(steps: &[String]) -> Option<String> {
    const MOST: usize = 5;
    if steps.is_empty() {
        return None;
    }
    let more = if steps.len() > MOST { ", .." } else { "" };
    let steps = steps.iter().take(MOST).cloned().collect::<Vec<_>>().join(", ");
    Some(format!("an earlier run completed {steps}{more}, and the code does not reach that any more"))
}

/// Returns the reason why a workflow is not retried any more.
fn exhausted(header: &Header, now: DateTime<Utc>, last: &str) -> String {
    let seconds = time::between(header.since, now).as_secs();
    let without = match seconds {
        0..120 => format!("{seconds} seconds"),
        120..7200 => format!("{} minutes", seconds / 60),
        _ => format!("{} hours", seconds / 3600),
    };
    format!("no progress in {without} and {} attempts: {last}", header.attempts)
}
