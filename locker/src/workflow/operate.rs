//! What a person does to a workflow: each a conditional write, guarded by what the person saw, with a reason.

use chrono::{DateTime, Utc};

use super::view::WorkflowView;
use super::workflows::Workflows;
use crate::core::key::IntoKey;
use crate::core::time;
use crate::core::workflow::header::{Header, Listed, WorkflowState};
use crate::core::workflow::name;
use crate::error::Error;
use crate::settings::Retention;
use crate::store::workflow::{Guard, Put, header_item, header_of};
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
    /// pivot and was put right by hand. Its end is `failed` if it failed before, `cancelled` otherwise. Should the
    /// outcome of a cancelled step come after that, the workflow is in quarantine again. One that is closed with a step in
    /// doubt is never forgotten.
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
        let due = self.due_now(&seen.header, person);
        let header = Header {
            state: seen.header.ending.unwrap_or(ending),
            listed,
            next_due,
            // By this it is known that a person closed it.
            ended: due.intervention.as_ref().map(|person| person.at),
            ..due
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

    /// A header that a completer takes at once, and nobody else holds.
    pub(super) fn due_now(&self, seen: &Header, person: &Person) -> Header {
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
}

pub(super) fn overwritten(verb: &'static str) -> Error {
    Error::Unknown { verb, tries: 2, source: "it changed after a request that nobody heard".into() }
}

/// Where a workflow that ends now is listed, and from when on it may be forgotten.
pub(super) fn forgotten_at(retention: Retention, now: DateTime<Utc>) -> (Option<Listed>, DateTime<Utc>) {
    match retention {
        Retention::For(kept) => (Some(Listed::Finished), time::after(now, kept)),
        Retention::Forever => (None, now),
    }
}
