//! What a person does to a workflow: each a conditional write, guarded by what the person saw, with a reason.

use chrono::{DateTime, Utc};
use serde_json::Value;

use super::view::{StepView, WorkflowView};
use super::workflows::Workflows;
use crate::core::answer;
use crate::core::key::IntoKey;
use crate::core::record::Intervention;
use crate::core::time;
use crate::core::workflow::header::{Header, Listed, WorkflowState};
use crate::core::workflow::name;
use crate::core::workflow::record::{RecordId, StepKind, StepRecord, StepState};
use crate::error::Error;
use crate::settings::Retention;
use crate::store::workflow::{Action, Guard, Put, Transacted, header_item, header_of, record_item};
use crate::token::Person;

/// What a person did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Intervened {
    /// It is done.
    Done,
    /// The workflow or the step has changed since it was read. Nothing was written; look again.
    Changed,
    /// There is nothing of the kind: it has ended, or the step is in no state for it. Nothing was written.
    NotPossible,
}

impl Workflows {
    /// Let a workflow be driven again: out of quarantine, or before its next try is due. Its attempts are
    /// counted anew.
    ///
    /// # Errors
    ///
    /// [`Error::Denied`], [`Error::Unavailable`]: nothing was written. [`Error::Unknown`]: look again.
    ///
    /// # Cost
    ///
    /// 1 request; 1 write unit, and 2 for the index. The same for every verb here that is about a workflow.
    pub async fn retry(&self, seen: &WorkflowView, person: &Person) -> Result<Intervened, Error> {
        if seen.header.state.is_final() {
            return Ok(Intervened::NotPossible);
        }
        self.write("retry the workflow", &seen.header, self.due_now(&seen.header, person)).await
    }

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
        if !self.is_open(seen, view, &[StepState::Failed, StepState::Started]) {
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
        if view.is_some_and(|view| !self.is_open(seen, view, &open)) {
            return Ok(Intervened::NotPossible);
        }
        let mut record = match view {
            Some(view) => self.touched(view, person),
            None => self.given(seen, step, person)?,
        };
        let json = answer::to_json(result)?;
        let (encoded, _) = answer::encode(json, 512, 390 * 1024)?;
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

    /// Undo a workflow that is not finished: what completed or is in doubt, in reverse. Its end is `failed` if it
    /// failed before, `cancelled` otherwise. Whoever drives it is shut out.
    ///
    /// # Errors
    ///
    /// As of [`retry`](Self::retry).
    pub async fn compensate(&self, seen: &WorkflowView, person: &Person) -> Result<Intervened, Error> {
        if seen.header.state.is_final() {
            return Ok(Intervened::NotPossible);
        }
        let ending =
            if seen.header.result.is_some() { WorkflowState::Failed } else { WorkflowState::Cancelled };
        let mut header = self.due_now(&seen.header, person);
        header.state = WorkflowState::Compensating;
        header.ending = Some(header.ending.unwrap_or(ending));
        self.write("undo the workflow", &seen.header, header).await
    }

    /// End a workflow in quarantine **as it is**: nothing more is run and nothing undone, such as one that failed past its
    /// pivot and was put right by hand. Its end is `failed` if it failed before, `cancelled` otherwise.
    ///
    /// # Errors
    ///
    /// As of [`retry`](Self::retry).
    pub async fn close(&self, seen: &WorkflowView, person: &Person) -> Result<Intervened, Error> {
        if !seen.header.is_quarantined() {
            return Ok(Intervened::NotPossible);
        }
        let now = self.now();
        let ending =
            if seen.header.result.is_some() { WorkflowState::Failed } else { WorkflowState::Cancelled };
        let (listed, next_due) = forgotten_at(seen.header.retention, now);
        let header = Header {
            state: seen.header.ending.unwrap_or(ending),
            listed,
            next_due,
            ended: Some(now),
            ..self.due_now(&seen.header, person)
        };
        self.write("close the workflow", &seen.header, header).await
    }

    /// Cancel a workflow by its key: undo what is done of it; or, if it has not been started, leave a tombstone
    /// that refuses a start that comes late.
    ///
    /// # Errors
    ///
    /// As of [`retry`](Self::retry), and [`Error::Key`].
    pub async fn cancel(
        &self,
        key: impl IntoKey,
        key_version: u32,
        person: &Person,
    ) -> Result<Intervened, Error> {
        let key = key.into_key()?;
        if key_version == 0 {
            return Err(crate::InvalidSetting::KeyVersion.into());
        }
        let workflow = name::partition(&key, key_version);
        let header = self.cancelled(&workflow, key_version, person);
        let item = header_item(&header, self.settings().shards);
        let until = self.until(None);
        let put = self.store().put_item("cancel the workflow", &item, Guard::Absent, until);
        match Box::pin(put).await? {
            Put::Done => Ok(Intervened::Done),
            Put::Refused { item: None, .. } => Ok(Intervened::Changed),
            Put::Refused { item: Some(item), .. } => {
                let header = header_of(&item)?;
                let seen = WorkflowView { header, steps: Vec::new(), messages: Vec::new(), result: None };
                self.compensate(&seen, person).await
            }
        }
    }

    /// Whether a person may speak for a step: it is in such a state, and nobody may be at work on it.
    fn is_open(&self, seen: &WorkflowView, view: &StepView, states: &[StepState]) -> bool {
        let record = &view.record;
        let early = time::after(record.due, self.skew()) > self.now();
        // Whoever parked the workflow is not at work any more; another workflow may be.
        let parked = seen.header.is_quarantined() && record.started_for.is_none();
        let busy = record.state == StepState::Started && early && !parked;
        // One with a key of its own, in doubt and cancelled with its workflow, stands in the way of others.
        let left = record.state == StepState::Cancelled && record.started_for.is_some();
        !busy && record.kind != StepKind::Pointer && (left || states.contains(&record.state))
    }

    /// A header that a completer takes at once, and nobody else holds.
    fn due_now(&self, seen: &Header, person: &Person) -> Header {
        Header {
            listed: Some(Listed::Unfinished),
            next_due: self.now(),
            revision: self.new_id(),
            attempt: self.new_id(),
            locked_by: None,
            attempts: 0,
            intervention: Some(person.at(self.now())),
            ..seen.clone()
        }
    }

    fn cancelled(&self, workflow: &str, key_version: u32, person: &Person) -> Header {
        let now = self.now();
        let retention = self.settings().retention;
        let (listed, next_due) = forgotten_at(retention, now);
        Header {
            workflow: workflow.to_owned(),
            name: "-".to_owned(),
            state: WorkflowState::Cancelled,
            listed,
            next_due,
            revision: self.new_id(),
            attempt: self.new_id(),
            locked_by: None,
            attempts: 0,
            created: now,
            ended: Some(now),
            fingerprint: None,
            input: None,
            result: None,
            ending: Some(WorkflowState::Cancelled),
            reason: Some("cancelled before it was started".to_owned()),
            expected: self.settings().expect_within,
            retention,
            key_version,
            intervention: Some(person.at(now)),
        }
    }

    fn touched(&self, view: &StepView, person: &Person) -> StepRecord {
        let mut record = view.record.clone();
        if record.started_for.is_some() {
            // What its pointer says of it stays there.
            (record.points_to, record.undo, record.pivot) = (None, None, false);
        }
        record.revision = self.new_id();
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

    async fn write(&self, verb: &'static str, seen: &Header, next: Header) -> Result<Intervened, Error> {
        let item = header_item(&next, self.settings().shards);
        let guard = Guard::Revision(&seen.revision);
        match Box::pin(self.store().put_item(verb, &item, guard, self.until(None))).await? {
            Put::Done => Ok(Intervened::Done),
            // It may have been written, and be overwritten by now.
            Put::Refused { after_silence: true, .. } => Err(overwritten(verb)),
            Put::Refused { .. } => Ok(Intervened::Changed),
        }
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

fn overwritten(verb: &'static str) -> Error {
    Error::Unknown { verb, tries: 2, source: "it changed after a request that nobody heard".into() }
}

/// Where a workflow that ends now is listed, and from when on it may be forgotten.
pub(super) fn forgotten_at(retention: Retention, now: DateTime<Utc>) -> (Option<Listed>, DateTime<Utc>) {
    match retention {
        Retention::For(kept) => (Some(Listed::Finished), time::after(now, kept)),
        Retention::Forever => (None, now),
    }
}
