//! What a recorded step is worth to whoever comes upon it.

use serde::de::DeserializeOwned;

use super::flow::Flow;
use super::stop::{StepFailure, Stop};
use crate::core::answer;
use crate::core::fingerprint::Fingerprint;
use crate::core::workflow::record::{StepKind, StepRecord};
use crate::error::Error;
use crate::token::Class;

impl Flow {
    /// A step of that name is recorded: is it this one?
    pub(super) fn check_same(
        &self,
        step: &str,
        record: &StepRecord,
        kind: StepKind,
        input: Option<&Fingerprint>,
    ) -> Result<(), Stop> {
        let changed = |what| Stop::Changed { step: step.to_owned(), what };
        // What a person put there knows neither.
        if record.intervention.is_some() && record.input.is_none() {
            return Ok(());
        }
        if record.kind != kind {
            return Err(changed("kind"));
        }
        match (&record.input, input) {
            (Some(stored), Some(input)) => {
                let same = input.matches(stored, self.workflows().fingerprint_keys()).map_err(Error::from)?;
                if same { Ok(()) } else { Err(changed("input")) }
            }
            (None, None) => Ok(()),
            _ => Err(changed("input")),
        }
    }

    /// The result of a completed step.
    pub(super) fn result_of<T: DeserializeOwned>(record: &StepRecord) -> Result<T, Stop> {
        answer::from_json(&result_json(record)?).map_err(|error| Error::from(error).into())
    }
}

/// The recorded result as JSON text.
pub(super) fn result_json(record: &StepRecord) -> Result<String, Stop> {
    let encoded = record.result.clone().ok_or(Error::from(answer::AnswerError::Missing))?;
    answer::decode(encoded).map_err(|error| Error::from(error).into())
}

/// What a failed step is to the workflow.
pub(super) fn failed(record: &StepRecord) -> Stop {
    let failure = result_json(record)
        .and_then(|json| StepFailure::from_stored(&json).map_err(|error| Stop::Store(Error::from(error))));
    match failure {
        Ok(failure) if failure.class == Class::NeedsPerson => Stop::NeedsPerson(failure),
        Ok(failure) => Stop::Failed(failure),
        Err(stop) => stop,
    }
}
