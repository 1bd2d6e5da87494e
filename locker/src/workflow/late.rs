//! An outcome that comes after its step was cancelled or taken over.

use super::flow::Flow;
use super::stop::Stop;
use crate::core::workflow::header::{Header, Listed, WorkflowState};
use crate::core::workflow::record::{StepRecord, StepState};
use crate::error::Error;
use crate::metrics;
use crate::store::workflow::{Action, Item, Transacted, header_item, record_item, record_of};

/// How often the two records are read anew that change under it.
const ROUNDS: usize = 4;

impl Flow {
    /// The outcome of a step was refused. If the step was cancelled, its outcome is stored all the same, and
    /// the workflow is due again to undo it: once, and in one transaction. Source: seed 002.
    pub(super) async fn came_late(&self, step: &str, outcome: StepRecord, found: Option<&Item>) -> Stop {
        metrics::count_late_outcome();
        let mut stored = match found.map(record_of).transpose() {
            Ok(stored) => stored,
            Err(error) => return Stop::Store(Error::from(error)),
        };
        for _ in 0..ROUNDS {
            let Some(cancelled) = stored.take() else { break };
            let mine = cancelled.attempt == outcome.attempt && cancelled.state == StepState::Cancelled;
            if !mine || outcome.state != StepState::Completed {
                break;
            }
            match self.store_late(&cancelled, &outcome).await {
                Ok(true) => {
                    tracing::warn!(
                        workflow.key = self.workflows().shown(self.workflow()),
                        workflow.step = step,
                        "a step happened after it was cancelled; it is to be undone"
                    );
                    return Stop::Lost;
                }
                Ok(false) => {}
                Err(stop) => return stop,
            }
            match Box::pin(self.workflows().store().read_record(&outcome.id, self.until())).await {
                Ok(record) => stored = record,
                Err(error) => return Stop::Store(error),
            }
        }
        tracing::warn!(
            workflow.key = self.workflows().shown(self.workflow()),
            workflow.step = step,
            "the outcome of a step came too late to count"
        );
        if outcome.started_for.is_some() {
            // Another workflow took it over: what it makes of it counts here, too.
            return super::step::later(self, step, None, "another workflow has taken it over");
        }
        Stop::Lost
    }

    async fn store_late(&self, cancelled: &StepRecord, outcome: &StepRecord) -> Result<bool, Stop> {
        let workflows = self.workflows();
        let header = Box::pin(workflows.store().read_header(self.workflow(), self.until())).await?;
        let Some(header) = header.filter(|header| header.state != WorkflowState::Reaping) else {
            return Ok(false);
        };
        let late = StepRecord {
            state: StepState::Late,
            revision: workflows.new_id(),
            result: outcome.result.clone(),
            ended: outcome.ended,
            ..cancelled.clone()
        };
        let due = self.due_again(&header);
        let actions = [
            Action::PutOver { item: record_item(&late), seen: cancelled.revision.clone() },
            Action::PutOver {
                item: header_item(&due, workflows.settings().shards),
                seen: header.revision.clone(),
            },
        ];
        let token = workflows.new_id();
        let sent =
            workflows.store().transact("store a late outcome", &actions, &token, self.until().for_end());
        Ok(matches!(Box::pin(sent).await?, Transacted::Done))
    }

    /// The header of a workflow that has something to undo again.
    fn due_again(&self, header: &Header) -> Header {
        let ending = if header.state.is_final() { Some(header.state) } else { header.ending };
        // A person closed it as it was, and may have put right what would be undone again.
        let person = header.intervention.as_ref().map(|person| person.at);
        let closed = header.state.is_final() && person.is_some() && person == header.ended;
        Header {
            state: WorkflowState::Compensating,
            ending: Some(ending.unwrap_or(WorkflowState::Cancelled)),
            listed: Some(if closed { Listed::Quarantine } else { Listed::Unfinished }),
            next_due: self.now(),
            revision: self.workflows().new_id(),
            attempt: self.workflows().new_id(),
            locked_by: None,
            attempts: 0,
            reason: Some("the outcome of a cancelled step came late".to_owned()),
            ..header.clone()
        }
    }
}
