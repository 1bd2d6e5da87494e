//! Operator actions on a workflow: writes with a reason, conditional on what the operator saw.

use chrono::{DateTime, Utc};

use super::view::View;
use crate::core::key::IntoKey;
use crate::core::retention::Retention;
use crate::core::time;
use crate::core::workflow::header::{Header, List, State};
use crate::core::workflow::name;
use crate::core::workflow::step::{StepKind, StepState};
use crate::error::Error;
use crate::operator::{Intervened, Operator};
use crate::store::{Guard, Put, header_item, header_of, record_item};
use crate::workflow::workflows::Workflows;

impl Workflows {
    /// Make a workflow due now, from quarantine or before its next attempt. Its attempts are counted from 0.
    ///
    /// # Errors
    ///
    /// [`Error::Denied`], [`Error::Unavailable`]: nothing was written. [`Error::Unknown`]: read the workflow again.
    ///
    /// # Cost
    ///
    /// 1 request; 1 write unit, and 2 for the index. The same for every operator action on a workflow.
    pub async fn retry(&self, seen: &View, operator: &Operator) -> Result<Intervened, Error> {
        if seen.header.state.is_final() {
            return Ok(Intervened::NotPossible);
        }
        self.write("retry the workflow", &seen.header, self.due_now(&seen.header, operator)).await
    }

    /// Compensate an unfinished workflow: its steps that completed or are in doubt, in reverse order.
    ///
    /// It then ends as `failed` if it failed before, otherwise as `cancelled`. A driver that runs it is fenced off.
    ///
    /// # Errors
    ///
    /// Same as [`retry`](Self::retry).
    pub async fn compensate(&self, seen: &View, operator: &Operator) -> Result<Intervened, Error> {
        if seen.header.state.is_final() {
            return Ok(Intervened::NotPossible);
        }
        let ending = if seen.header.result.is_some() { State::Failed } else { State::Cancelled };
        let mut header = self.due_now(&seen.header, operator);
        header.state = State::Compensating;
        header.ending = Some(header.ending.unwrap_or(ending));
        // Everything, and not only what came after its end.
        header.ended = None;
        self.write("compensate the workflow", &seen.header, header).await
    }

    /// Close a quarantined workflow **as it is**: no step runs and none is compensated.
    ///
    /// Use it for a workflow that was repaired manually, such as one that failed past its pivot. It ends as `failed` if
    /// it failed before, otherwise as `cancelled`. If the outcome of a cancelled step arrives after that, the workflow is
    /// quarantined again. A workflow that is closed with a step in doubt is never deleted.
    ///
    /// # Errors
    ///
    /// Same as [`retry`](Self::retry).
    pub async fn close(&self, seen: &View, operator: &Operator) -> Result<Intervened, Error> {
        if !seen.header.is_quarantined() {
            return Ok(Intervened::NotPossible);
        }
        if !Box::pin(self.cancel_in_doubt(seen)).await? {
            return Ok(Intervened::Changed);
        }
        let now = self.context().now();
        let ending = if seen.header.result.is_some() { State::Failed } else { State::Cancelled };
        let (listed, next_due) = deletable_at(seen.header.retention, now);
        let due = self.due_now(&seen.header, operator);
        let header = Header {
            state: seen.header.ending.unwrap_or(ending),
            listed,
            next_due,
            // The equal times mark a workflow that an operator closed.
            ended: due.intervention.as_ref().map(|operator| operator.at),
            ..due
        };
        self.write("close the workflow", &seen.header, header).await
    }

    /// Cancel the steps whose outcome may still come, so that it is shown when it does. `false`: one has changed. If
    /// this stops in between, the workflow is still in quarantine.
    async fn cancel_in_doubt(&self, seen: &View) -> Result<bool, Error> {
        let run = seen.header.run_id();
        for step in &seen.steps {
            let record = &step.record;
            let is_mine = record.started_for.as_ref().is_none_or(|started_for| *started_for == run);
            if record.kind != StepKind::Once || record.state != StepState::Started || !is_mine {
                continue;
            }
            let mut next = record.clone().without_pointer();
            next.state = StepState::Cancelled;
            next.revision = self.context().new_id();
            let item = record_item(&next);
            let guard = Guard::Revision(&record.revision);
            let until = self.context().until(None);
            let put = self.context().store().put_item("close the workflow", &item, guard, until);
            if !matches!(Box::pin(put).await?, Put::Done) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Cancel a workflow by its key: compensate it or, if it has not started, leave a tombstone that refuses a late
    /// start.
    ///
    /// # Errors
    ///
    /// Same as [`retry`](Self::retry), and [`Error::Key`].
    pub async fn cancel(
        &self,
        key: impl IntoKey,
        key_version: u32,
        operator: &Operator,
    ) -> Result<Intervened, Error> {
        let key = key.into_key()?;
        if key_version == 0 {
            return Err(crate::InvalidSetting::KeyVersion.into());
        }
        let workflow = name::partition(&key, key_version);
        let header = self.cancelled(&workflow, key_version, operator);
        let item = header_item(&header, self.context().settings().shards);
        let until = self.context().until(None);
        let put = self.context().store().put_item("cancel the workflow", &item, Guard::Absent, until);
        match Box::pin(put).await? {
            Put::Done => Ok(Intervened::Done),
            Put::Refused { item: None, .. } => Ok(Intervened::Changed),
            Put::Refused { item: Some(item), .. } => {
                let header = header_of(&item)?;
                let seen = View { header, steps: Vec::new(), messages: Vec::new(), result: None };
                self.compensate(&seen, operator).await
            }
        }
    }

    /// A header that no driver owns and that a completer claims at once.
    pub(crate) fn due_now(&self, seen: &Header, operator: &Operator) -> Header {
        Header {
            listed: Some(List::Unfinished),
            next_due: self.context().now(),
            revision: self.context().new_id(),
            attempt: self.context().new_id(),
            locked_by: None,
            attempts: 0,
            waits_for: None,
            intervention: Some(operator.at(self.context().now())),
            ..seen.clone()
        }
    }

    fn cancelled(&self, workflow: &str, key_version: u32, operator: &Operator) -> Header {
        let now = self.context().now();
        let retention = self.context().settings().retention;
        let (listed, next_due) = deletable_at(retention, now);
        Header {
            workflow: workflow.to_owned(),
            name: "-".to_owned(),
            state: State::Cancelled,
            listed,
            next_due,
            revision: self.context().new_id(),
            attempt: self.context().new_id(),
            locked_by: None,
            attempts: 0,
            created: now,
            ended: Some(now),
            fingerprint: None,
            input: None,
            result: None,
            ending: Some(State::Cancelled),
            reason: Some("cancelled before it was started".to_owned()),
            waits_for: None,
            expected: self.context().settings().expect_within,
            retention,
            key_version,
            intervention: Some(operator.at(now)),
        }
    }

    async fn write(&self, verb: &'static str, seen: &Header, next: Header) -> Result<Intervened, Error> {
        let item = header_item(&next, self.context().settings().shards);
        let guard = Guard::Revision(&seen.revision);
        match Box::pin(self.context().store().put_item(verb, &item, guard, self.context().until(None)))
            .await?
        {
            Put::Done => Ok(Intervened::Done),
            // It may have been written and overwritten since.
            Put::Refused { after_silence: true, .. } => Err(overwritten(verb)),
            Put::Refused { .. } => Ok(Intervened::Changed),
        }
    }
}

pub(crate) fn overwritten(verb: &'static str) -> Error {
    Error::Unknown { verb, tries: 2, source: "it changed after a request whose response was lost".into() }
}

/// The list of a workflow that ends now, and the time from which it may be deleted.
pub(crate) fn deletable_at(retention: Retention, now: DateTime<Utc>) -> (Option<List>, DateTime<Utc>) {
    match retention {
        Retention::For(kept) => (Some(List::Finished), time::after(now, kept)),
        Retention::Forever => (None, now),
    }
}
