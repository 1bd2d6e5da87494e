//! Operator actions on a workflow: writes with a reason, conditional on what the operator saw.

use super::view::View;
use crate::core::key::IntoKey;
use crate::core::token::record::Intervention;
use crate::core::workflow::header::{Header, HeaderEvent, HeaderRefusal, NewWorkflow, OperatorAct};
use crate::core::workflow::name;
use crate::core::workflow::step::{StepEvent, StepKind, StepRecord, StepState};
use crate::error::Error;
use crate::operator::{Intervened, Operator};
use crate::store::{Changed, Together};
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
        self.on_header("retry the workflow", seen, operator, OperatorAct::Retry).await
    }

    /// Compensate an unfinished workflow: its steps that completed or are in doubt, in reverse order.
    ///
    /// It then ends as `failed` if it failed before, otherwise as `cancelled`. A driver that runs it is fenced off.
    ///
    /// # Errors
    ///
    /// Same as [`retry`](Self::retry).
    pub async fn compensate(&self, seen: &View, operator: &Operator) -> Result<Intervened, Error> {
        self.on_header("compensate the workflow", seen, operator, OperatorAct::Compensate).await
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
    ///
    /// # Cost
    ///
    /// With steps in doubt: 1 transaction of them and the workflow, 2 write units each, and 2 for the index.
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
        if steps.is_empty() {
            return self.on_header("close the workflow", seen, operator, OperatorAct::Close).await;
        }
        // Together, so that none is cancelled in a workflow that another operator has made due meanwhile.
        self.with_steps("close the workflow", seen, &steps, operator, OperatorAct::Close).await
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
        };
        let by = operator.at(context.now());
        let rule = |stored: Option<&Header>| match stored {
            None => Ok(Header::cancelled(new.clone(), by.clone(), context.stamp())),
            Some(_) => Err(()),
        };
        let until = context.until(None);
        match Box::pin(context.store().change("cancel the workflow", None, until, rule)).await? {
            Changed::Done(_) => Ok(Intervened::Done),
            Changed::Refused { stored: Some(header), .. } => {
                let seen = View { header, steps: Vec::new(), messages: Vec::new(), result: None };
                self.compensate(&seen, operator).await
            }
            Changed::Refused { stored: None, .. } | Changed::Gone => Ok(Intervened::Changed),
        }
    }

    /// Write steps and their workflow in one transaction.
    pub(super) async fn with_steps(
        &self,
        verb: &'static str,
        seen: &View,
        steps: &[(Option<&StepRecord>, StepRecord)],
        operator: &Operator,
        act: OperatorAct,
    ) -> Result<Intervened, Error> {
        let context = self.context();
        let event = by_operator(seen, operator.at(context.now()), act);
        let Ok(header) = seen.header.on(&event, context.stamp()) else { return Ok(Intervened::NotPossible) };
        let changed =
            context.store().change_together(verb, steps, (&seen.header, &header), context.until(None));
        match Box::pin(changed).await? {
            Together::Done => Ok(Intervened::Done),
            Together::Changed { after_silence: true } => Err(overwritten(verb)),
            Together::Changed { .. } => Ok(Intervened::Changed),
        }
    }

    async fn on_header(
        &self,
        verb: &'static str,
        seen: &View,
        operator: &Operator,
        act: OperatorAct,
    ) -> Result<Intervened, Error> {
        let context = self.context();
        let event = by_operator(seen, operator.at(context.now()), act);
        let rule =
            |stored: Option<&Header>| stored.ok_or(HeaderRefusal::Changed)?.on(&event, context.stamp());
        let changed = context.store().change(verb, Some(seen.header.clone()), context.until(None), rule);
        Ok(match Box::pin(changed).await? {
            Changed::Done(_) => Intervened::Done,
            Changed::Refused { why: HeaderRefusal::NotPossible, .. } => Intervened::NotPossible,
            // It may have been written and overwritten since.
            Changed::Refused { after_silence: true, .. } => return Err(overwritten(verb)),
            Changed::Refused { .. } | Changed::Gone => Intervened::Changed,
        })
    }
}

/// What an operator does who saw this.
fn by_operator(seen: &View, by: Intervention, act: OperatorAct) -> HeaderEvent {
    HeaderEvent::Operator { seen: seen.header.revision.clone(), by, act }
}

fn overwritten(verb: &'static str) -> Error {
    Error::Unknown { verb, tries: 2, source: "it changed after a request whose response was lost".into() }
}
