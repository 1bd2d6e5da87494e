//! An outcome of this driver that the record refused: its step was cancelled, taken over or freed
//! before the outcome was recorded.

use chrono::{DateTime, Utc};

use super::once::Once;
use super::step::later;
use crate::core::workflow::step::{Happened, Outcome, RecordId, Report, Reported, StepRecord, StepResult};
use crate::workflow::stop::StopKind;

/// How a driver knows that a step happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    /// It did the work.
    Work,
    /// It asked the probe.
    Probe,
    /// It did the work, whose result cannot be recorded.
    Unrecorded,
}

impl Once<'_> {
    /// Reports an outcome that was refused.
    pub(crate) async fn came_late(
        &self,
        started: &StepRecord,
        result: StepResult,
        ended: DateTime<Utc>,
        source: Source,
    ) -> Result<StepRecord, StopKind> {
        let flow = self.flow;
        let place = RecordId::at(flow.workflow(), self.place());
        let compensation = flow.recorded(&place).and_then(|place| place.compensation.clone());
        let outcome = Outcome {
            version: started.key_version,
            is_version_named: true,
            happened: Happened::Yes(result),
            ended,
            compensation: started.compensation.clone().or(compensation),
            waits: false,
            is_unrecorded: source == Source::Unrecorded,
            is_same_effect: source == Source::Probe || self.is_recognised(started),
        };
        let mut place = flow.new_step(place, self.kind(), None);
        place.number = started.number;
        place.input.clone_from(&started.input);
        place.points_to = started.started_for.as_ref().map(|_| started.id.workflow.clone());
        let report = Report { step: started.id.clone(), run: flow.run_id(), place, outcome };
        let context = flow.context();
        let reported = Box::pin(context.report_outcome(&report, flow.until().for_end())).await?;
        let (key, step) = (context.shown(flow.workflow()), &self.name);
        match reported {
            // A compensation changes further steps, and those writes do not check the workflow.
            (_, Some(_)) if self.compensates.is_some() && !flow.is_held().await? => {
                return Err(StopKind::Lost);
            }
            (_, Some(record)) => {
                flow.remember(record.clone());
                return Ok(record);
            }
            (Reported::Compensates, _) => tracing::warn!(
                workflow.key = key,
                workflow.step = step,
                "a step happened that should not stand; it is to be compensated"
            ),
            (Reported::Twice, _) => tracing::error!(
                workflow.key = key,
                workflow.step = step,
                "a step happened twice; its workflow is in quarantine"
            ),
            (Reported::Busy(_) | Reported::Unknown | Reported::NotAnEffect, _) => tracing::error!(
                workflow.key = key,
                workflow.step = step,
                "the outcome of a step has no workflow any more that could take it in: compensate it by hand"
            ),
            (Reported::Recorded | Reported::Known | Reported::Contradicts, _) => {}
        }
        Err(self.superseded(started).await)
    }

    /// Another attempt has the step.
    pub(crate) async fn superseded(&self, started: &StepRecord) -> StopKind {
        if started.started_for.is_some() {
            // Another workflow took it over: its outcome there counts here as well.
            return later(self.flow, &self.name, None, "another workflow took it over");
        }
        match self.flow.is_held().await {
            // Its outcome has been reported since. The next run reads it.
            Ok(true) => later(self.flow, &self.name, None, "another outcome of it was recorded"),
            Ok(false) => StopKind::Lost,
            Err(stop) => stop,
        }
    }
}
