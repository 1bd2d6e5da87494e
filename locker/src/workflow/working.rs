//! How a once-only step runs, is recorded, and is found out about when it is in doubt.

use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use super::adopt::failed;
use super::attempt::StepAttempt;
use super::definition::Found;
use super::flow::Flow;
use super::once::Once;
use super::starting::{Next, Settled, Starting};
use super::step::later;
use super::stop::{StepFailure, Stop};
use crate::core::answer;
use crate::core::time;
use crate::core::workflow::name;
use crate::core::workflow::record::{StepRecord, StepState};
use crate::error::Error;
use crate::metrics;
use crate::store::workflow::{Guard, Put, record_item};
use crate::token::{Class, Classify};

impl Once<'_> {
    /// Run the work under its start.
    ///
    /// `doubt`: of an earlier start or try nobody knows whether it happened. A later one that did not proves nothing.
    pub(super) async fn work<T, E, F, R>(
        &self,
        mut record: Box<StepRecord>,
        mut doubt: bool,
        work: F,
    ) -> Result<T, Stop>
    where
        T: Serialize + DeserializeOwned,
        E: Classify,
        F: Fn(StepAttempt) -> R,
        R: Future<Output = Result<T, E>>,
    {
        let flow = self.flow;
        let began = Instant::now();
        let mut attempt = self.attempt_of(&record, 1);
        loop {
            let error = match work(attempt.clone()).await {
                Ok(value) => {
                    let Ok(json) = answer::to_json(&value) else {
                        return Err(Stop::invalid(
                            &self.name,
                            "it happened, and its result has no JSON form",
                        ));
                    };
                    self.finish(*record, StepState::Completed, json).await?;
                    return Ok(value);
                }
                Err(error) => error,
            };
            let class = error.class();
            doubt |= class == Class::InDoubt;
            let ends = matches!(class, Class::Permanent | Class::NeedsPerson);
            // While the provider recognises the key, it is sent again.
            if doubt && (ends || !self.is_recognised(&record)) {
                match self.ask(&record).await? {
                    Found::Done(json) => {
                        return Flow::result_of(&self.finish(*record, StepState::Completed, json).await?);
                    }
                    Found::NotDone => doubt = false,
                    Found::Unknown => return Err(self.left_in_doubt(record).await),
                }
            }
            match class {
                Class::Permanent | Class::NeedsPerson => {
                    let failure = StepFailure::of(Some(&self.name), class, &error).map_err(Error::from)?;
                    let json = failure.to_stored().map_err(Error::from)?;
                    let record = self.finish(*record, StepState::Failed, json).await?;
                    return Err(failed(&record));
                }
                Class::InDoubt | Class::Transient => {}
            }
            let asked = error.retry_after();
            let jitter = flow.workflows().jitter();
            let Some(pause) = self.retry.pause(attempt.number, began.elapsed(), asked, jitter) else {
                if doubt {
                    self.left_in_doubt(record).await;
                    return Err(Stop::InDoubt { step: self.name.clone(), resolvable: true });
                }
                self.withdraw(&record).await?;
                return Err(later(flow, &self.name, asked, "its tries are used up"));
            };
            if let Err(stop) = self.pause(&mut record, pause).await {
                // None of its tries happened, and only this call knows.
                if !doubt && !matches!(stop, Stop::Lost) {
                    let _ = self.withdraw(&record).await;
                }
                return Err(stop);
            }
            if doubt && !self.is_recognised(&record) {
                self.left_in_doubt(record).await;
                return Err(Stop::InDoubt { step: self.name.clone(), resolvable: true });
            }
            attempt.number += 1;
        }
    }

    /// Wait for the next try, and hold the step meanwhile.
    async fn pause(&self, record: &mut Box<StepRecord>, pause: Duration) -> Result<(), Stop> {
        if self.flow.is_short_of(pause.saturating_add(self.expected)) {
            return Err(later(self.flow, &self.name, None, "the time of this drive is up"));
        }
        self.prolong(record, pause).await?;
        tokio::time::sleep(pause).await;
        // A machine may be suspended for longer than it meant to sleep.
        self.prolong(record, Duration::ZERO).await
    }

    /// Nobody is at work on it any more, so nobody has to wait for that.
    async fn left_in_doubt(&self, record: Box<StepRecord>) -> Stop {
        let stop = self.in_doubt(&record);
        let flow = self.flow;
        let mut left = record.clone();
        left.due = time::before(flow.now(), flow.workflows().skew());
        left.revision = flow.workflows().new_id();
        if let Ok(None) = self.put(&left, Guard::Revision(&record.revision)).await {
            flow.remember(*left);
        }
        stop
    }

    /// Nobody may take the step over while another try of it is made.
    async fn prolong(&self, record: &mut Box<StepRecord>, pause: Duration) -> Result<(), Stop> {
        let flow = self.flow;
        // Enough for what this write itself takes.
        const SLACK: Duration = Duration::from_secs(1);
        let due = time::after(flow.now(), pause.saturating_add(self.expected));
        if due <= record.due {
            return Ok(());
        }
        let mut next = record.clone();
        next.due = time::after(due, SLACK);
        next.revision = flow.workflows().new_id();
        match self.put(&next, Guard::Revision(&record.revision)).await? {
            None => {
                flow.remember(next.as_ref().clone());
                *record = next;
                Ok(())
            }
            // Another workflow took it over: what it makes of it counts here, too.
            Some(_) if record.started_for.is_some() => {
                Err(later(flow, &self.name, None, "another workflow has taken it over"))
            }
            Some(_) => Err(Stop::Lost),
        }
    }

    /// Record how it ended. The log has it first.
    pub(super) async fn finish(
        &self,
        started: StepRecord,
        state: StepState,
        json: String,
    ) -> Result<StepRecord, Stop> {
        let flow = self.flow;
        tracing::info!(
            workflow.key = flow.workflows().shown(flow.workflow()),
            workflow.step = self.name,
            workflow.outcome = state.as_str(),
            "a step ended"
        );
        let mut record = started.clone();
        record.state = state;
        record.revision = flow.workflows().new_id();
        record.ended = Some(flow.now());
        let encoded = flow.encode(json);
        let told =
            |stop: Stop| Stop::invalid(&self.name, format!("it ended, and that cannot be recorded: {stop}"));
        record.result = Some(encoded.map_err(told)?);
        if record.started_for.is_some() {
            record.ttl = self.retention.ttl(flow.now());
        }
        let store = flow.workflows().store();
        let item = record_item(&record);
        // Nothing else would tell others, so it is worth a try even when time is up.
        let until = flow.until().for_end();
        let guard = Guard::Revision(&started.revision);
        match Box::pin(store.put_item("record the step", &item, guard, until)).await? {
            Put::Done => {
                metrics::count_step(self.kind().as_str(), state.as_str());
                flow.remember(record.clone());
                Ok(record)
            }
            Put::Refused { item, .. } => Err(flow.came_late(&self.name, record, item.as_ref()).await),
        }
    }

    /// Nobody knows whether it happened: find out, or leave it.
    pub(super) async fn resolve(&self, record: StepRecord, start: &Starting) -> Result<Next, Stop> {
        let flow = self.flow;
        metrics::count_step_in_doubt();
        tracing::warn!(
            workflow.key = flow.workflows().shown(flow.workflow()),
            workflow.step = self.name,
            workflow.started = %record.created,
            "nobody knows whether a step happened"
        );
        if self.is_recognised(&record) {
            return self.take_over(record, start, true).await;
        }
        match self.ask(&record).await? {
            Found::Done(json) => {
                let record = self.finish(record, StepState::Completed, json).await?;
                Ok(Next::Settled(Settled::Recorded(Box::new(record))))
            }
            Found::NotDone => self.take_over(record, start, false).await,
            Found::Unknown => Err(self.in_doubt(&record)),
        }
    }

    /// The provider still knows the key, whenever the next try arrives.
    pub(super) fn is_recognised(&self, record: &StepRecord) -> bool {
        let margin = self.flow.workflows().skew().saturating_add(self.expected);
        let until = time::after(record.created, self.recognised.saturating_sub(margin));
        self.recognised > margin && self.flow.now() < until
    }

    pub(super) async fn ask(&self, record: &StepRecord) -> Result<Found, Stop> {
        let Some(probe) = &self.probe else { return Ok(Found::Unknown) };
        let attempt = self.attempt_of(record, 1);
        match probe(attempt).await {
            Ok(found) => Ok(found),
            Err(error) => {
                tracing::warn!(workflow.step = self.name, error, "a probe failed");
                Ok(Found::Unknown)
            }
        }
    }

    pub(super) fn in_doubt(&self, record: &StepRecord) -> Stop {
        let resolvable = self.probe.is_some() || self.is_recognised(record);
        Stop::InDoubt { step: self.name.clone(), resolvable }
    }

    pub(super) fn attempt_of(&self, record: &StepRecord, number: u32) -> StepAttempt {
        let flow = self.flow;
        let step = match self.undoes {
            None => flow.full_name(&self.name),
            Some(false) => format!("{}~undo", self.name),
            Some(true) => format!("{}~undo-late", self.name),
        };
        let idempotency_key = match &self.key {
            Some(Ok(key)) => name::shared_provider_key(key, record.key_version),
            _ => name::provider_key(flow.key(), flow.key_version(), &step, record.key_version),
        };
        StepAttempt { step: self.name.clone(), idempotency_key, number }
    }
}
