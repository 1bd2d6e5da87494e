//! What a recorded step means to the code that asks for it.

use serde::de::DeserializeOwned;

use crate::core::answer;
use crate::core::fingerprint::Fingerprint;
use crate::core::token::record::StoredFingerprint;
use crate::core::workflow::step::{StepKind, StepRecord, StepState};
use crate::error::Error;
use crate::workflow::flow::Flow;
use crate::workflow::stop::{StepFailure, Stop};

impl Flow {
    /// Check that the recorded step of this name is the one that is asked for.
    pub(crate) fn check_same(
        &self,
        step: &str,
        record: &StepRecord,
        kind: StepKind,
        input: Option<&Fingerprint>,
    ) -> Result<(), Stop> {
        let changed = |what| Stop::Changed { step: step.to_owned(), what };
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

    /// The result of a completed step.
    pub(crate) fn result_of<T: DeserializeOwned>(record: &StepRecord) -> Result<T, Stop> {
        answer::from_json(&result_json(record)?).map_err(|error| Stop::Unreadable {
            step: record.id.shown(),
            error,
            item: record.id.reference(),
        })
    }
}

/// The recorded result as JSON text.
pub(crate) fn result_json(record: &StepRecord) -> Result<String, Stop> {
    let encoded = record.result.clone().ok_or(Error::from(answer::AnswerError::Missing))?;
    answer::decode(encoded).map_err(|error| Error::from(error).into())
}

/// The stop that a recorded failure leads to.
pub(crate) fn failed(record: &StepRecord) -> Stop {
    let failure = result_json(record)
        .and_then(|json| StepFailure::from_stored(&json).map_err(|error| Stop::Store(Error::from(error))));
    match failure {
        Ok(failure) if record.state == StepState::Held => Stop::NeedsOperator(failure),
        Ok(failure) => Stop::Failed(failure),
        Err(stop) => stop,
    }
}
