//! Operator actions on a workflow: writes with a reason, conditional on what the operator saw.

use super::view::View;
use crate::core::argument::InvalidSetting;
use crate::core::key::IntoKey;
use crate::core::name;
use crate::core::token::record::Intervention;
use crate::core::token::resolution::Resolution;
use crate::core::workflow::audit::{Deed, WorkflowAudit};
use crate::core::workflow::header::{Header, HeaderEvent, NewWorkflow, OperatorAct};
use crate::core::workflow::step::{StepEvent, StepKind, StepRecord, StepState};
use crate::error::Error;
use crate::session::{Intervened, Operator};
use crate::store::Written;
use crate::workflow::workflows::Workflows;

const CANCEL: &str = "cancel the workflow";

impl Workflows {
    /// Make a workflow due now, from quarantine or before its next attempt. Its attempts are
    /// counted from 0.
    ///
    /// # Errors
    ///
    /// [`Error::Denied`], [`Error::Unavailable`]: nothing was written. [`Error::Unknown`]: read the
    /// workflow again.
    ///
    /// # Cost
    ///
    /// 1 transaction of the workflow and its audit record: 4 write units, and 3 for the index. The
    /// same for every operator action on a workflow.
    pub async fn retry(&self, seen: &View, operator: &Operator) -> Result<Intervened, Error> {
        let deed = Deed::of_workflow(Resolution::Retried);
        self.act("retry the workflow", seen, &[], operator, (OperatorAct::Retry, deed)).await
    }

    /// Compensate an unfinished workflow: its steps that completed or are in doubt, in reverse
    /// order.
    ///
    /// It then ends as `failed` if it failed before, otherwise as `cancelled`. A driver that runs
    /// it is fenced off.
    ///
    /// # Errors
    ///
    /// Same as [`retry`](Self::retry).
    pub async fn compensate(&self, seen: &View, operator: &Operator) -> Result<Intervened, Error> {
        let deed = Deed::of_workflow(Resolution::Compensated);
        self.act("compensate the workflow", seen, &[], operator, (OperatorAct::Compensate, deed)).await
    }

    /// Close a quarantined workflow **as it is**: no step runs and none is compensated.
    ///
    /// Use it for a workflow that was repaired manually, such as one that failed past its pivot. It
    /// ends as `failed` if it failed before, otherwise as `cancelled`. If the outcome of a
    /// cancelled step arrives after that, the workflow is quarantined again. A workflow that is
    /// closed with a step in doubt is never deleted.
    ///
    /// # Errors
    ///
    /// Same as [`retry`](Self::retry).
    ///
    /// # Cost
    ///
    /// 1 transaction of the workflow, its steps in doubt and an audit record: 2 write units each,
    /// and 3 for the index.
    pub async fn close(&self, seen: &View, operator: &Operator) -> Result<Intervened, Error> {
        if !seen.header.is_quarantined() {
            return Ok(Intervened::NotPossible);
        }
        let (context, run) = (self.context(), seen.header.run_id());
        let in_doubt = seen.steps.iter().filter(|step| {
            let record = &step.placed.record;
            record.kind == StepKind::Once && record.state == StepState::Started && step.placed.is_of(&run)
        });
        // Their outcome may still come, and is shown when it does.
        let mut steps = Vec::new();
        for record in in_doubt.map(|step| &step.placed.record) {
            let event = StepEvent::Cancel { seen: record.revision.clone(), anyway: true };
            let Ok(next) = record.on(&event, context.stamp()) else { return Ok(Intervened::NotPossible) };
            steps.push((Some(record), next));
        }
        let deed = Deed::of_workflow(Resolution::Closed);
        // Together, so that none is cancelled in a workflow that another operator has made due
        // meanwhile.
        self.act("close the workflow", seen, &steps, operator, (OperatorAct::Close, deed)).await
    }

    /// Cancel a workflow by its key: compensate it or, if it has not started, leave a tombstone
    /// that refuses a late start.
    ///
    /// # Errors
    ///
    /// Same as [`retry`](Self::retry), and [`Error::Invalid`] if the key is not allowed or
    /// `key_version` is 0.
    pub async fn cancel(
        &self,
        key: impl IntoKey,
        key_version: u32,
        operator: &Operator,
    ) -> Result<Intervened, Error> {
        let key = key.into_key()?;
        if key_version == 0 {
            return Err(InvalidSetting::KeyVersion.into());
        }
        let workflow = name::partition(&key, key_version);
        let context = self.context();
        let settings = context.settings();
        let new = NewWorkflow {
            workflow,
            name: "-".to_owned(),
            key_version,
            owner: None,
            fingerprint: None,
            input: None,
            expected: settings.expect_within,
            retention: settings.retention,
            within: None,
        };
        let by = operator.at(context.now());
        let header = Header::cancelled(new, by.clone(), context.stamp());
        let deed = Deed::of_workflow(Resolution::Cancelled);
        let audit = self.audited(deed, (&header.workflow, None), by);
        let until = context.until(None);
        let store = context.store();
        let headers = (None, &header);
        match Box::pin(store.change_together(CANCEL, &[], headers, Some(&audit), until)).await? {
            Written::Done => Ok(Intervened::Done),
            Written::Refused { found: Some(header), .. } => {
                let seen = View { header: *header, steps: Vec::new(), messages: Vec::new(), result: None };
                self.compensate(&seen, operator).await
            }
            Written::Refused { found: None, .. } => Ok(Intervened::Changed),
        }
    }

    /// Write a workflow, its steps and the audit record of the act in one transaction.
    pub(super) async fn act(
        &self,
        verb: &'static str,
        seen: &View,
        steps: &[(Option<&StepRecord>, StepRecord)],
        operator: &Operator,
        (act, deed): (OperatorAct, Deed<'_>),
    ) -> Result<Intervened, Error> {
        let context = self.context();
        let by = operator.at(context.now());
        let event = HeaderEvent::Operator { seen: seen.header.revision.clone(), by: by.clone(), act };
        let Ok(header) = seen.header.on(&event, context.stamp()) else { return Ok(Intervened::NotPossible) };
        let audit = self.audited(deed, (&header.workflow, Some(&seen.header)), by);
        let headers = (Some(&seen.header), &header);
        let until = context.until(None);
        let changed = context.store().change_together(verb, steps, headers, Some(&audit), until);
        match Box::pin(changed).await? {
            Written::Done => Ok(Intervened::Done),
            // It may have been written and overwritten since.
            Written::Refused { after_silence: true, .. } => Err(overwritten(verb)),
            Written::Refused { .. } => Ok(Intervened::Changed),
        }
    }

    pub(crate) fn audited(
        &self,
        deed: Deed<'_>,
        of: (&str, Option<&Header>),
        by: Intervention,
    ) -> WorkflowAudit {
        let context = self.context();
        let settings = context.settings();
        let ttl = settings.audit_retention.ttl(by.at);
        WorkflowAudit::new(deed, of, by, (&context.new_id(), settings.shards, ttl))
    }
}

fn overwritten(verb: &'static str) -> Error {
    Error::Unknown { verb, tries: 2, source: "it changed after a request whose response was lost".into() }
}
