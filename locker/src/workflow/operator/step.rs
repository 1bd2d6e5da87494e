//! Operator actions on a step: step and workflow in one transaction, conditional on what the operator saw.

use serde::Deserialize as _;
use serde_json::{Value, json};

use super::view::{StepView, View};
use super::workflow::overwritten;
use crate::core::answer;
use crate::core::form::FormMismatch;
use crate::core::time;
use crate::core::token::record::Intervention;
use crate::core::workflow::name;
use crate::core::workflow::step::{RecordId, StepKind, StepRecord, StepState};
use crate::error::Error;
use crate::failure::Class;
use crate::operator::{Intervened, Operator};
use crate::store::{Action, Transacted, header_item, record_item};
use crate::workflow::definition::Compensated;
use crate::workflow::workflows::Workflows;

/// Whether a refusal is on record: a failure that needs an operator says nothing of the provider.
fn is_refused(record: &StepRecord) -> bool {
    record.state == StepState::Failed && record.class == Some(Class::Permanent)
}

/// Completes a record with an operator's result.
fn set_result(record: &mut StepRecord, result: &Value) -> Result<(), Error> {
    if record.kind == StepKind::Compensation && Compensated::deserialize(result).is_err() {
        let expected = r#""done" or "nothing": what the compensation came to"#;
        return Err(FormMismatch::of("the result of a compensation", expected).into());
    }
    record.state = StepState::Completed;
    record.result = Some(answer::encode_for_item(answer::to_json(result)?)?);
    Ok(())
}

impl Workflows {
    /// Retry a step that **failed**, or that is in doubt and **did not happen**, and make its workflow due.
    ///
    /// The step starts under the same idempotency key again, by which the provider recognises what may have happened
    /// after all, for as long as it remembers the key. Only a step that failed permanently starts under the next version
    /// of its key: the provider, which refused the first, would give its refusal again. A step that was cancelled with
    /// another workflow takes [`retry_step_with_new_key`](Self::retry_step_with_new_key): that workflow's compensation
    /// may be on its way.
    ///
    /// # Errors
    ///
    /// Same as [`retry`](Self::retry).
    ///
    /// # Cost
    ///
    /// 1 transaction of 2 items: 4 write units, and 2 for the index. The same for every operator action on a step.
    pub async fn retry_step(
        &self,
        seen: &View,
        step: &str,
        operator: &Operator,
    ) -> Result<Intervened, Error> {
        self.free_step(seen, step, operator, false).await
    }

    /// Retry a step as [`retry_step`](Self::retry_step) does, but always under another idempotency key.
    ///
    /// **This gives up the provider's protection:** if the step did happen, the provider does not recognise it, and it
    /// happens twice. Use it where the provider has forgotten the key, or answers it with an error for ever.
    ///
    /// # Errors
    ///
    /// Same as [`retry`](Self::retry).
    pub async fn retry_step_with_new_key(
        &self,
        seen: &View,
        step: &str,
        operator: &Operator,
    ) -> Result<Intervened, Error> {
        self.free_step(seen, step, operator, true).await
    }

    async fn free_step(
        &self,
        seen: &View,
        step: &str,
        operator: &Operator,
        new_key: bool,
    ) -> Result<Intervened, Error> {
        let Some(view) = seen.step(step) else { return Ok(Intervened::NotPossible) };
        if !self.is_open(view, &[StepState::Failed, StepState::Started]) {
            return Ok(Intervened::NotPossible);
        }
        // Its compensation may be on its way, and would meet what starts under the same key.
        if view.record.state == StepState::Cancelled && !new_key {
            return Ok(Intervened::NotPossible);
        }
        let mut record = self.touched(view, operator);
        record.state = StepState::Freed;
        if new_key || is_refused(&view.record) {
            // A new key is as old as its first start.
            record.created = self.context().now();
        } else {
            // The next start counts up.
            record.key_version = record.key_version.saturating_sub(1);
        }
        self.write_step(seen, Some(view), record, operator).await
    }

    /// Complete a step that is in doubt, failed, or was never recorded, with this result. The workflow resumes from
    /// there.
    ///
    /// # Errors
    ///
    /// Same as [`retry`](Self::retry), and [`Error::Answer`] if the result cannot be stored. [`Error::Form`]: a
    /// compensation comes to `"done"` or `"nothing"`.
    pub async fn resolve_step(
        &self,
        seen: &View,
        step: &str,
        result: &Value,
        operator: &Operator,
    ) -> Result<Intervened, Error> {
        let view = seen.step(step);
        let open = [StepState::Failed, StepState::Started, StepState::Freed];
        if view.is_some_and(|view| !self.is_open(view, &open)) {
            return Ok(Intervened::NotPossible);
        }
        let mut record = match view {
            Some(view) => self.touched(view, operator),
            None => self.given(seen, step, operator)?,
        };
        set_result(&mut record, result)?;
        self.write_step(seen, view, record, operator).await
    }

    /// Correct the result of a **completed** step of a workflow in quarantine: one that an operator gave, or one that the
    /// code cannot read, as the workflow's reason says. A result of the work that the code can read never changes.
    ///
    /// # Errors
    ///
    /// Same as [`resolve_step`](Self::resolve_step).
    pub async fn correct_step(
        &self,
        seen: &View,
        step: &str,
        result: &Value,
        operator: &Operator,
    ) -> Result<Intervened, Error> {
        let Some(view) = seen.step(step) else { return Ok(Intervened::NotPossible) };
        let record = &view.record;
        let is_unreadable = seen.header.waits_for.as_ref() == Some(&record.id.item);
        let may_change = record.intervention.is_some() || is_unreadable;
        if !seen.header.is_quarantined() || record.state != StepState::Completed || !may_change {
            return Ok(Intervened::NotPossible);
        }
        let mut record = self.touched(view, operator);
        set_result(&mut record, result)?;
        self.write_step(seen, Some(view), record, operator).await
    }

    /// Skip a step: complete it with `null`, which the code must be able to decode as its result. A compensation is
    /// completed as one that found nothing to compensate.
    ///
    /// # Errors
    ///
    /// Same as [`retry`](Self::retry).
    pub async fn skip_step(&self, seen: &View, step: &str, operator: &Operator) -> Result<Intervened, Error> {
        let is_compensation = seen.step(step).is_some_and(|view| view.record.kind == StepKind::Compensation);
        let nothing = if is_compensation { json!(Compensated::Nothing) } else { Value::Null };
        self.resolve_step(seen, step, &nothing, operator).await
    }

    /// Block a step that has not started, by a tombstone that refuses a late start.
    ///
    /// # Errors
    ///
    /// Same as [`retry`](Self::retry).
    pub async fn cancel_step(
        &self,
        seen: &View,
        step: &str,
        operator: &Operator,
    ) -> Result<Intervened, Error> {
        if seen.step(step).is_some() {
            return Ok(Intervened::NotPossible);
        }
        let mut record = self.given(seen, step, operator)?;
        record.state = StepState::Cancelled;
        self.write_step(seen, None, record, operator).await
    }

    /// Whether an operator may change a step: it is in one of these states, and no driver may be running it.
    fn is_open(&self, view: &StepView, states: &[StepState]) -> bool {
        let record = &view.record;
        let early = time::after(record.due, self.context().skew()) > self.context().now();
        let busy = record.state == StepState::Started && early;
        // One with a key of its own that was cancelled in doubt with its workflow blocks other workflows.
        let left = record.state == StepState::Cancelled && record.started_for.is_some();
        !busy && record.kind != StepKind::Pointer && (left || states.contains(&record.state))
    }

    fn touched(&self, view: &StepView, operator: &Operator) -> StepRecord {
        let mut record = view.record.clone().without_pointer();
        record.revision = self.context().new_id();
        // A withdrawn step counts as the version before.
        record.key_version = record.key_version.max(1);
        // The driver that started it is fenced off.
        record.attempt = self.context().new_id();
        record.ended = Some(self.context().now());
        record.intervention = Some(operator.at(self.context().now()));
        record
    }

    /// The record of a step that an operator completes or blocks before it was recorded.
    fn given(&self, seen: &View, step: &str, operator: &Operator) -> Result<StepRecord, Error> {
        name::check(step).map_err(|error| Error::Setting(crate::InvalidSetting::Name(error)))?;
        let now = self.context().now();
        let Intervention { by, .. } = operator.at(now);
        let id = RecordId::step(&seen.header.workflow, step);
        let ids = (self.context().new_id(), self.context().new_id());
        let number = seen.steps.iter().map(|step| step.record.number).max().unwrap_or_default() + 1;
        Ok(StepRecord {
            ended: Some(now),
            intervention: Some(operator.at(now)),
            ..StepRecord::started(id, StepKind::Once, ids, by, number, now)
        })
    }

    /// Write the step and its workflow in one transaction.
    async fn write_step(
        &self,
        seen: &View,
        view: Option<&StepView>,
        record: StepRecord,
        operator: &Operator,
    ) -> Result<Intervened, Error> {
        if seen.header.state.is_final() {
            return Ok(Intervened::NotPossible);
        }
        let header = self.due_now(&seen.header, operator);
        let item = record_item(&record);
        let actions = [
            match view {
                Some(view) => Action::PutOver { item, seen: view.record.revision.clone() },
                None => Action::Put { item, absent: true },
            },
            Action::PutOver {
                item: header_item(&header, self.context().settings().shards),
                seen: seen.header.revision.clone(),
            },
        ];
        let token = self.context().new_id();
        let sent =
            self.context().store().transact("change the step", &actions, &token, self.context().until(None));
        match Box::pin(sent).await? {
            Transacted::Done => Ok(Intervened::Done),
            Transacted::Refused { after_silence: true, .. } => Err(overwritten("change the step")),
            Transacted::Refused { .. } => Ok(Intervened::Changed),
        }
    }
}
