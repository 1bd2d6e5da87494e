//! Results of steps that are too large for their records.
//!
//! A large result is written to a separate item before the record refers to it, so a record never
//! refers to a missing item. If a driver crashes between the two writes, or an operator corrects a
//! result, an item without a record remains. The reaper deletes it together with its workflow.

use crate::core::answer::{AnswerError, Encoded};
use crate::core::workflow::place::Place;
use crate::core::workflow::step::{Apart, RecordId, StepRecord, StepResult};
use crate::error::Error;
use crate::store::{Guard, Until, beside_item};
use crate::workflow::context::Context;
use crate::workflow::flow::Flow;
use crate::workflow::stop::StopKind;

impl Context {
    /// Stores a large result of a step, before its record refers to it.
    ///
    /// A small result stays in the record. A result of a step with its own key stays there as well,
    /// because no resume reads that record.
    pub(crate) async fn keep(
        &self,
        step: &RecordId,
        encoded: Encoded,
        until: Until,
    ) -> Result<StepResult, Error> {
        let id = || self.new_id();
        let Some(apart) = StepResult::beside(&encoded, id).filter(|_| step.place() != Ok(Place::Shared))
        else {
            return Ok(encoded.into());
        };
        let item = || beside_item(&step.workflow, &Place::Result(&apart.id).to_string(), &encoded);
        Box::pin(self.store().put_item("store the result", &item, None, Guard::None, until)).await?;
        Ok(StepResult::Beside(apart))
    }

    /// Returns the record with its result. Every reader of a result must call this first.
    pub(crate) async fn with_result(
        &self,
        mut record: StepRecord,
        until: Until,
    ) -> Result<StepRecord, Error> {
        let Some(StepResult::Beside(apart)) = &record.result else { return Ok(record) };
        if apart.held.is_some() {
            return Ok(record);
        }
        let item = Place::Result(&apart.id).to_string();
        let read = self.store().read_beside(&record.id.workflow, &item, apart.codec, until);
        let held = Some(Box::pin(read).await?);
        let apart = Apart { held, ..apart.clone() };
        record.set_result(StepResult::Beside(apart));
        Ok(record)
    }

    /// Deletes a large result that no record refers to.
    pub(crate) async fn drop_result(&self, workflow: &str, result: &StepResult, until: Until) {
        let StepResult::Beside(apart) = result else { return };
        let item = Place::Result(&apart.id).to_string();
        let dropped = self.store().delete_item("drop the result", workflow, &item, Guard::None, until);
        if let Err(error) = Box::pin(dropped).await {
            tracing::debug!(%error, "an unused result could not be deleted");
        }
    }
}

impl Flow {
    /// Stores a large result of a step, before its record refers to it.
    pub(crate) async fn keep(&self, step: &RecordId, encoded: Encoded) -> Result<StepResult, StopKind> {
        Ok(self.context().keep(step, encoded, self.until_recorded()).await?)
    }

    /// Deletes a large result, unless the record of its step refers to it in the view of this run.
    pub(crate) async fn drop_unused(&self, step: &RecordId, result: &StepResult) {
        let is_apart = matches!(result, StepResult::Beside(_));
        if is_apart && self.recorded(step).is_none_or(|record| !record.refers_to(result)) {
            self.context().drop_result(&step.workflow, result, self.until().for_end()).await;
        }
    }
}

/// Returns the JSON text of a result that [`Context::with_result`] has read.
pub(crate) fn json_of(record: &StepRecord) -> Result<String, Error> {
    let encoded = record.result.as_ref().and_then(StepResult::at_hand).cloned();
    Ok(crate::core::answer::decode(encoded.ok_or(AnswerError::Missing)?)?)
}
