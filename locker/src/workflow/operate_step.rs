//! What a person does to a step: it and its workflow in one transaction, guarded by what the person saw.

use serde_json::Value;

use super::operate::{Intervened, overwritten};
use super::view::{StepView, WorkflowView};
use super::workflows::Workflows;
use crate::core::answer;
use crate::core::record::Intervention;
use crate::core::time;
use crate::core::workflow::name;
use crate::core::workflow::record::{self, RecordId, StepKind, StepRecord, StepState};
use crate::error::Error;
use crate::store::workflow::{Action, Transacted, header_item, record_item};
use crate::token::Person;

impl Workflows {
    /// Let a step start again that **failed**, or is in doubt and **did not happen**, under the next version of its key,
    /// so with another idempotency key for the provider; and let the workflow be driven again.
    ///
    /// # Errors
    ///
    /// As of [`retry`](Self::retry).
    ///
    /// # Cost
    ///
    /// 1 transaction of 2 items: 4 write units, and 2 for the index. The same for every verb here that is about a step.
    pub async fn retry_step(
        &self,
        seen: &WorkflowView,
        step: &str,
        person: &Person,
    ) -> Result<Intervened, Error> {
        let Some(view) = seen.step(step) else { return Ok(Intervened::NotPossible) };
        if !self.is_open(view, &[StepState::Failed, StepState::Started]) {
            return Ok(Intervened::NotPossible);
        }
        let mut record = self.touched(view, person);
        record.state = StepState::Freed;
        self.write_step(seen, Some(view), record, person).await
    }

    /// Say how a step ended that is in doubt, failed, or was never recorded: with this result. The workflow goes on
    /// from there.
    ///
    /// # Errors
    ///
    /// As of [`retry`](Self::retry), and [`Error::Answer`] if the result cannot be stored.
    pub async fn resolve_step(
        &self,
        seen: &WorkflowView,
        step: &str,
        result: &Value,
        person: &Person,
    ) -> Result<Intervened, Error> {
        let view = seen.step(step);
        let open = [StepState::Failed, StepState::Started, StepState::Freed];
        if view.is_some_and(|view| !self.is_open(view, &open)) {
            return Ok(Intervened::NotPossible);
        }
        let mut record = match view {
            Some(view) => self.touched(view, person),
            None => self.given(seen, step, person)?,
        };
        let json = answer::to_json(result)?;
        let encoded = record::encode(json)?;
        record.state = StepState::Completed;
        record.result = Some(encoded);
        self.write_step(seen, view, record, person).await
    }

    /// Go on without a step, as if its result were `null`. The code has to take `null` for it.
    ///
    /// # Errors
    ///
    /// As of [`retry`](Self::retry).
    pub async fn skip_step(
        &self,
        seen: &WorkflowView,
        step: &str,
        person: &Person,
    ) -> Result<Intervened, Error> {
        self.resolve_step(seen, step, &Value::Null, person).await
    }

    /// Refuse a step that has not started: a start that comes late finds a tombstone.
    ///
    /// # Errors
    ///
    /// As of [`retry`](Self::retry).
    pub async fn cancel_step(
        &self,
        seen: &WorkflowView,
        step: &str,
        person: &Person,
    ) -> Result<Intervened, Error> {
        if seen.step(step).is_some() {
            return Ok(Intervened::NotPossible);
        }
        let mut record = self.given(seen, step, person)?;
        record.state = StepState::Cancelled;
        self.write_step(seen, None, record, person).await
    }

    /// Whether a person may speak for a step: it is in such a state, and nobody may be at work on it.
    fn is_open(&self, view: &StepView, states: &[StepState]) -> bool {
        let record = &view.record;
        let early = time::after(record.due, self.skew()) > self.now();
        let busy = record.state == StepState::Started && early;
        // One with a key of its own, in doubt and cancelled with its workflow, stands in the way of others.
        let left = record.state == StepState::Cancelled && record.started_for.is_some();
        !busy && record.kind != StepKind::Pointer && (left || states.contains(&record.state))
    }

    fn touched(&self, view: &StepView, person: &Person) -> StepRecord {
        let mut record = view.record.clone();
        if record.started_for.is_some() {
            // What its pointer says of it stays there.
            (record.points_to, record.undo, record.pivot) = (None, None, false);
        }
        record.revision = self.new_id();
        // One that was withdrawn counts as the version before.
        record.key_version = record.key_version.max(1);
        // Whoever started it is shut out.
        record.attempt = self.new_id();
        record.ended = Some(self.now());
        record.intervention = Some(person.at(self.now()));
        record
    }

    /// The record of a step that a person speaks for before it was recorded.
    fn given(&self, seen: &WorkflowView, step: &str, person: &Person) -> Result<StepRecord, Error> {
        name::check(step).map_err(|error| Error::Setting(crate::InvalidSetting::Name(error)))?;
        let now = self.now();
        let Intervention { by, .. } = person.at(now);
        Ok(StepRecord {
            id: RecordId::step(&seen.header.workflow, step),
            kind: StepKind::Once,
            state: StepState::Started,
            revision: self.new_id(),
            attempt: self.new_id(),
            owner: by,
            started_for: None,
            created: now,
            due: now,
            ended: Some(now),
            number: seen.steps.iter().map(|step| step.record.number).max().unwrap_or_default() + 1,
            input: None,
            key_version: 1,
            pivot: false,
            undo: None,
            points_to: None,
            result: None,
            ttl: None,
            intervention: Some(person.at(now)),
        })
    }

    /// The step and its workflow, in one transaction.
    async fn write_step(
        &self,
        seen: &WorkflowView,
        view: Option<&StepView>,
        record: StepRecord,
        person: &Person,
    ) -> Result<Intervened, Error> {
        if seen.header.state.is_final() {
            return Ok(Intervened::NotPossible);
        }
        let header = self.due_now(&seen.header, person);
        let item = record_item(&record);
        let actions = [
            match view {
                Some(view) => Action::PutOver { item, seen: view.record.revision.clone() },
                None => Action::Put { item, absent: true },
            },
            Action::PutOver {
                item: header_item(&header, self.settings().shards),
                seen: seen.header.revision.clone(),
            },
        ];
        let token = self.new_id();
        let sent = self.store().transact("change the step", &actions, &token, self.until(None));
        match Box::pin(sent).await? {
            Transacted::Done => Ok(Intervened::Done),
            Transacted::Refused { after_silence: true, .. } => Err(overwritten("change the step")),
            Transacted::Refused { .. } => Ok(Intervened::Changed),
        }
    }
}
