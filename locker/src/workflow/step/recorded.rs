//! The result of a recorded step for the code that requests it.

use serde::de::DeserializeOwned;

use crate::core::answer;
use crate::core::fingerprint::Fingerprint;
use crate::core::token::record::StoredFingerprint;
use crate::core::workflow::step::{
    Begin, End, NewStep, StepEvent, StepKind, StepRecord, StepRefusal, StepResult, StepState,
};
use crate::error::Error;
use crate::metrics;
use crate::store::Changed;
use crate::workflow::flow::Flow;
use crate::workflow::step::once_record::on;
use crate::workflow::step::results::json_of;
use crate::workflow::stop::{StepFailure, StopKind};

impl Flow {
    /// Checks that the recorded step of this name has the requested kind and input.
    pub(crate) fn check_same(
        &self,
        step: &str,
        record: &StepRecord,
        kind: StepKind,
        input: Option<&Fingerprint>,
    ) -> Result<(), StopKind> {
        let changed = |what| StopKind::Changed { step: step.to_owned(), what };
        // A record written by an operator has neither kind nor input.
        if record.intervention.is_some() && record.input.is_none() {
            return Ok(());
        }
        if record.kind != kind {
            return Err(changed("kind"));
        }
        match (&record.input, input) {
            (Some(stored), Some(input)) => {
                let same = input
                    .matches(&StoredFingerprint::unchecked(stored), self.context().fingerprint_keys())
                    .map_err(Error::from)?;
                if same { Ok(()) } else { Err(changed("input")) }
            }
            (None, None) => Ok(()),
            _ => Err(changed("input")),
        }
    }

    /// Returns the result of a completed step.
    pub(crate) async fn result_of<T: DeserializeOwned>(&self, record: &StepRecord) -> Result<T, StopKind> {
        let read;
        let record = match &record.result {
            Some(StepResult::Beside(_)) => {
                read = self.context().with_result(record.clone(), self.until()).await?;
                &read
            }
            _ => record,
        };
        answer::from_json(&json_of(record)?).map_err(|error| StopKind::Unreadable {
            step: record.id.shown(),
            error,
            item: record.id.reference(),
        })
    }
}

/// The code reaches a step that has a record. If an operator recorded the result, the record gets
/// the kind, the compensation, the pivot and the number that the code declares. Returns that
/// record.
pub(super) async fn reached(
    flow: &Flow,
    record: &StepRecord,
    new: impl FnOnce() -> Result<NewStep, StopKind>,
) -> Result<Option<StepRecord>, StopKind> {
    if record.kind != StepKind::Given {
        return Ok(None);
    }
    let event = StepEvent::Reached { seen: record.revision.clone(), new: Box::new(new()?) };
    let rule = |stored: Option<&StepRecord>| on(stored, &event, flow.context().stamp());
    let (given, until) = (Some(record.clone()), flow.until_recorded());
    let changed = flow.context().store().change("reach the step", given, until, rule);
    let record = match Box::pin(changed).await? {
        Changed::Done(record) => record,
        // Another run reached it first.
        Changed::Refused { stored: Some(record), .. } if record.kind != StepKind::Given => record,
        Changed::Refused { .. } | Changed::Gone => return Err(StopKind::Lost),
    };
    flow.remember(record.clone());
    Ok(Some(record))
}

/// Records the end of a step that has no record, or whose record allows another start. If another
/// driver recorded an end before, that end counts.
pub(super) async fn end(
    flow: &Flow,
    verb: &'static str,
    known: Option<StepRecord>,
    new: &NewStep,
    end: End,
) -> Result<StepRecord, StopKind> {
    let kept = match &end {
        End::Completed(result @ StepResult::Beside(_)) => Some(result.clone()),
        _ => None,
    };
    let how = Begin::End(end);
    let rule = |stored: Option<&StepRecord>| StepRecord::begin(stored, new, &how, flow.context().stamp());
    let changed = flow.context().store().change(verb, known, flow.until_recorded(), rule);
    let record = match Box::pin(changed).await? {
        Changed::Done(record) => {
            metrics::count_step(record.kind.as_str(), record.state.as_str());
            record
        }
        Changed::Refused { why: StepRefusal::Lost, .. }
        | Changed::Refused { stored: None, .. }
        | Changed::Gone => {
            if let Some(kept) = kept {
                flow.context().drop_result(flow.workflow(), &kept, flow.until().for_end()).await;
            }
            return Err(StopKind::Lost);
        }
        Changed::Refused { stored: Some(stored), .. } => stored,
    };
    flow.remember(record.clone());
    if let Some(kept) = kept {
        flow.drop_unused(&new.id, &kept).await;
    }
    Ok(record)
}

/// Returns the permanent failure of a step as a value.
pub(super) async fn or_failure<T, E: DeserializeOwned>(
    name: &str,
    step: impl Future<Output = Result<T, StopKind>>,
) -> Result<Result<T, E>, StopKind> {
    match step.await {
        // The details of the failure were too large or not JSON, so no value can be read.
        Err(StopKind::Failed(failure)) if answer::is_not_whole(failure.json()) => {
            Err(StopKind::Failed(failure))
        }
        Err(StopKind::Failed(failure)) => failure.error().map(Err).map_err(|error| {
            StopKind::invalid(
                name,
                format!("its recorded failure cannot be read as the type asked for: {error}"),
            )
        }),
        other => other.map(Ok),
    }
}

/// Returns the stop for a recorded failure.
pub(crate) fn failed(record: &StepRecord) -> StopKind {
    let failure =
        json_of(record).and_then(|json| Ok(StepFailure::from_stored(&json)?)).map_err(StopKind::Store);
    match failure {
        Ok(failure) if record.state == StepState::Held => StopKind::NeedsOperator(failure),
        Ok(failure) => StopKind::Failed(failure),
        Err(stop) => stop,
    }
}
