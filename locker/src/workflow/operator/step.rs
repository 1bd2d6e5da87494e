//! Operator actions on a step: step and workflow in one transaction, conditional on the state that
//! the operator read.

use serde::Serialize;
use serde_json::{Value, json};

use super::view::{StepView, View};
use super::workflow::{Prepared, WorkflowAct};
use crate::core::answer::{self, Encoded};
use crate::core::argument::InvalidSetting;
use crate::core::form::FormMismatch;
use crate::core::name;
use crate::core::token::record::Intervention;
use crate::core::token::resolution::Resolution;
use crate::core::workflow::audit::Deed;
use crate::core::workflow::compensation::is_undeclared;
use crate::core::workflow::header::{OperatorAct, State};
use crate::core::workflow::place::Undo;
use crate::core::workflow::step::{
    NewStep, OperatorStep, RecordId, StepEvent, StepKind, StepRecord, StepResult, StepState,
};
use crate::error::Error;
use crate::session::{Intervened, Operator};
use crate::workflow::definition::Compensated;
use crate::workflow::workflows::Workflows;

/// Encodes the result that an operator or a reporter gives to a step of this kind.
pub(in crate::workflow) fn result_of(kind: StepKind, result: &impl Serialize) -> Result<StepResult, Error> {
    let json = answer::to_json(result)?;
    if kind == StepKind::Compensation && answer::from_json::<Compensated>(&json).is_err() {
        let expected = r#""done" or "nothing""#;
        return Err(FormMismatch::of("the result of a compensation", expected).into());
    }
    Ok(answer::encode_for_item(json)?.into())
}

/// The result that an act gives.
fn given(act: &OperatorStep) -> Option<Encoded> {
    match act {
        OperatorStep::Resolve(result)
        | OperatorStep::Late(result)
        | OperatorStep::Answer { result, .. }
        | OperatorStep::Correct { result, .. } => result.at_hand().cloned(),
        OperatorStep::Free { .. } | OperatorStep::Dismiss | OperatorStep::Block => None,
    }
}

/// Returns whether the workflow of this view compensates a step of another workflow, once an
/// operator resolves it.
fn takes_over(view: &StepView) -> bool {
    use StepState::{Cancelled, Failed, Freed, Held, Withdrawn};
    match view.state() {
        Cancelled => true,
        Failed | Held | Freed | Withdrawn => view.placed.compensation.is_some(),
        _ => false,
    }
}

impl Workflows {
    /// Retries a step that **failed**, or that is in doubt and **did not happen**, and makes its
    /// workflow due.
    ///
    /// The step starts under the same idempotency key again, so the provider recognises an earlier
    /// request for as long as it remembers the key. Only a step that failed permanently starts
    /// under the next version of its key: the provider refused the first key, and would return the
    /// refusal again. **Be sure that it did not happen:** the outcome of the next attempt is then
    /// the step's outcome, even if it is a permanent failure. A step that was cancelled with
    /// another workflow takes [`retry_step_with_new_key`](Self::retry_step_with_new_key): that
    /// workflow may be about to compensate it.
    ///
    /// # Errors
    ///
    /// Same as [`retry`](Self::retry).
    ///
    /// # Cost
    ///
    /// 1 transaction of step, workflow and audit record: 6 write units, and 3 for the index. The
    /// same for every operator action on a step.
    pub async fn retry_step(
        &self,
        seen: &View,
        step: &str,
        operator: &Operator,
    ) -> Result<Intervened, Error> {
        self.intervene(seen, WorkflowAct::RetryStep { step, new_key: false }, operator).await
    }

    /// Retries a step as [`retry_step`](Self::retry_step) does, but always under another
    /// idempotency key.
    ///
    /// **This gives up the provider's protection:** if the step did happen, the provider does not
    /// recognise it, and it happens twice. Use it where the provider has forgotten the key, or
    /// answers it with an error for ever.
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
        self.intervene(seen, WorkflowAct::RetryStep { step, new_key: true }, operator).await
    }

    /// Completes a step that is in doubt, failed, or was never recorded, with this result. The
    /// workflow resumes from there.
    ///
    /// The code declares the compensation and the key of a step that was never recorded when it
    /// reaches the step. If the workflow is compensated earlier, it is quarantined, because the
    /// compensation is unknown. A step of this workflow that was cancelled in doubt is compensated.
    /// If an operator closed the workflow, it is compensated after a [`retry`](Self::retry).
    ///
    /// # Errors
    ///
    /// Same as [`retry`](Self::retry), and [`Error::Answer`] if the result cannot be stored.
    /// [`Error::Form`]: the result of a compensation is not `"done"` or `"nothing"`.
    pub async fn resolve_step(
        &self,
        seen: &View,
        step: &str,
        result: &Value,
        operator: &Operator,
    ) -> Result<Intervened, Error> {
        self.intervene(seen, WorkflowAct::ResolveStep { step, result }, operator).await
    }

    pub(super) fn retry_of_step<'a>(
        &self,
        seen: &'a View,
        step: &str,
        new_key: bool,
        operator: &Operator,
    ) -> Result<Option<Prepared<'a>>, Error> {
        let resolution = if new_key { Resolution::RetriedWithNewKey } else { Resolution::Retried };
        self.on_step(seen, step, operator, (resolution, OperatorStep::Free { new_key }))
    }

    pub(super) fn give<'a>(
        &self,
        seen: &'a View,
        step: &str,
        result: &Value,
        operator: &Operator,
        resolution: Resolution,
    ) -> Result<Option<Prepared<'a>>, Error> {
        let kind = seen.step(step).map_or(StepKind::Once, StepView::kind);
        let result = result_of(kind, result)?;
        let run = seen.header.run_id();
        let act = match seen.step(step) {
            // Another workflow started the step, and may have ended. The workflow that continues
            // with the step compensates it.
            Some(view) if !view.placed.is_of(&run) && takes_over(view) => {
                OperatorStep::Answer { result, run }
            }
            Some(view) if view.is_cancelled_in_doubt(&run) => OperatorStep::Late(result),
            _ => OperatorStep::Resolve(result),
        };
        self.on_step(seen, step, operator, (resolution, act))
    }

    /// Corrects the result of a **completed** step of a workflow in quarantine.
    ///
    /// An operator can correct a result that an operator gave, or a result that the code cannot
    /// read, as the workflow's reason states. A result of the work that the code can read never
    /// changes.
    ///
    /// `event:NAME` is an event that the code cannot read. If its sender gave no id and sends the
    /// event again, that is a second event: its value differs.
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
        self.intervene(seen, WorkflowAct::CorrectStep { step, result }, operator).await
    }

    pub(super) fn correction<'a>(
        &self,
        seen: &'a View,
        step: &str,
        result: &Value,
        operator: &Operator,
    ) -> Result<Option<Prepared<'a>>, Error> {
        let Some(view) = seen.step(step).filter(|_| seen.header.is_quarantined()) else { return Ok(None) };
        let unreadable = seen.header.waits_for == Some(view.placed.record.id.reference());
        let result = result_of(view.kind(), result)?;
        let act = OperatorStep::Correct { result, unreadable };
        self.on_step(seen, step, operator, (Resolution::Corrected, act))
    }

    /// Skips a step, or handles a late event.
    ///
    /// A step is completed with `null`, which the code must be able to decode as its result. A
    /// compensation is completed with the result that there was nothing to compensate.
    ///
    /// A **late** step counts as compensated: skip it when you have repaired it yourself, or if its
    /// late outcome is no separate effect. If the step is in doubt and its workflow is being
    /// **compensated**, skipping it confirms that no effect was found. If its outcome arrives
    /// later, it is compensated then.
    ///
    /// The result is [`NotPossible`](Intervened::NotPossible) if there is nothing to compensate,
    /// such as for a step that failed. It is the same for a step with its own key that another
    /// workflow compensates.
    ///
    /// `event:NAME` is a late event, and `event:NAME DIGEST` a further event under a name that has
    /// its event. It is no longer listed, and its compensation does not run. If a driver may be
    /// running the compensation, or it has begun, the result is
    /// [`NotPossible`](Intervened::NotPossible): decide about the compensation, which is a step.
    ///
    /// # Errors
    ///
    /// Same as [`retry`](Self::retry).
    ///
    /// # Cost
    ///
    /// Of an event: 1 transaction of the event and its audit record, 4 write units and 2 for the
    /// index; 2 and 2 more for the workflow, if a compensation was to run. Of an event with a
    /// compensation whose workflow was closed: 2 more write units.
    pub async fn skip_step(&self, seen: &View, step: &str, operator: &Operator) -> Result<Intervened, Error> {
        self.intervene(seen, WorkflowAct::SkipStep { step }, operator).await
    }

    pub(super) fn skip<'a>(
        &self,
        seen: &'a View,
        step: &str,
        operator: &Operator,
    ) -> Result<Option<Prepared<'a>>, Error> {
        let is_compensation = seen.step(step).is_some_and(|view| view.kind() == StepKind::Compensation);
        let compensates = seen.header.state == State::Compensating && !is_compensation;
        if let Some(view) = seen.step(step).filter(|view| compensates || view.state() == StepState::Late) {
            if !view.placed.is_of(&seen.header.run_id()) {
                return Ok(None);
            }
            if view.state() == StepState::Late || is_undeclared(&view.placed.record) {
                return self.on_step(seen, step, operator, (Resolution::Skipped, OperatorStep::Dismiss));
            }
            return self.skip_compensation(seen, view, operator);
        }
        let nothing = if is_compensation { json!(Compensated::Nothing) } else { Value::Null };
        self.give(seen, step, &nothing, operator, Resolution::Skipped)
    }

    /// A step in doubt has nothing to compensate: the same as if its compensation had found
    /// nothing. If its outcome arrives later, it is compensated then.
    fn skip_compensation<'a>(
        &self,
        seen: &'a View,
        step: &'a StepView,
        operator: &Operator,
    ) -> Result<Option<Prepared<'a>>, Error> {
        let (context, placed) = (self.context(), &step.placed);
        let by = operator.at(context.now());
        let undo = Undo { effect: placed.effect(), late: false };
        let id = RecordId::compensation(&seen.header.workflow, undo);
        if seen.step(&id.shown()).is_some() {
            return Ok(None);
        }
        let cancel = StepEvent::Cancel { seen: placed.record.revision.clone(), anyway: false };
        let Ok(cancelled) = placed.record.on(&cancel, context.stamp()) else { return Ok(None) };
        let deed = Deed::of_step(Resolution::Skipped, &step.name, Some(step.state().as_str()));
        if placed.compensation.is_none() {
            let steps = vec![(Some(&placed.record), cancelled)];
            return Ok(self.prepared("skip the step", seen, steps, operator, (OperatorAct::Decide, deed)));
        }
        let new = NewStep { id, kind: StepKind::Compensation, ..self.unrecorded(seen, &placed.name(), &by)? };
        let nothing = OperatorStep::Resolve(result_of(StepKind::Compensation, &json!(Compensated::Nothing))?);
        let Ok(found) = StepRecord::given(&new, &by, &nothing, context.stamp()) else { return Ok(None) };
        let steps = vec![(Some(&placed.record), cancelled), (None, found)];
        Ok(self.prepared("skip the step", seen, steps, operator, (OperatorAct::Decide, deed)))
    }

    /// Blocks a step that has not started, by a tombstone that refuses a late start.
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
        self.intervene(seen, WorkflowAct::BlockStep { step }, operator).await
    }

    pub(super) fn blocked<'a>(
        &self,
        seen: &'a View,
        step: &str,
        operator: &Operator,
    ) -> Result<Option<Prepared<'a>>, Error> {
        if seen.step(step).is_some() {
            return Ok(None);
        }
        self.on_step(seen, step, operator, (Resolution::Cancelled, OperatorStep::Block))
    }

    fn on_step<'a>(
        &self,
        seen: &'a View,
        step: &str,
        operator: &Operator,
        (resolution, act): (Resolution, OperatorStep),
    ) -> Result<Option<Prepared<'a>>, Error> {
        let by = operator.at(self.context().now());
        let stamp = self.context().stamp();
        let known = seen.step(step).map(|view| &view.placed.record);
        let found = known.map(|record| record.state.as_str());
        let deed = Deed { given: given(&act), ..Deed::of_step(resolution, step, found) };
        let next = match known {
            Some(record) => {
                let event = StepEvent::Operator { seen: record.revision.clone(), by, act };
                record.on(&event, stamp)
            }
            None => {
                let new = self.unrecorded(seen, step, &by)?;
                // A skipped step has no effect, so it needs no compensation.
                let kind = if resolution == Resolution::Resolved { StepKind::Given } else { new.kind };
                StepRecord::given(&NewStep { kind, ..new }, &by, &act, stamp)
            }
        };
        let Ok(next) = next else { return Ok(None) };
        let steps = vec![(known, next)];
        Ok(self.prepared("change the step", seen, steps, operator, (OperatorAct::Decide, deed)))
    }

    /// A step that an operator completes or blocks before it is recorded.
    fn unrecorded(&self, seen: &View, step: &str, by: &Intervention) -> Result<NewStep, Error> {
        name::check(step).map_err(InvalidSetting::Name)?;
        let number = seen.steps.iter().map(|step| step.placed.number).max().unwrap_or_default() + 1;
        let id = RecordId::step(&seen.header.workflow, step);
        Ok(NewStep::of(id, StepKind::Once, by.by.clone(), seen.header.created, number))
    }
}
