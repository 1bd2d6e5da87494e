//! Outcomes that arrive after their step was cancelled or taken over.

use crate::core::workflow::header::{Header, List, State};
use crate::core::workflow::step::{StepRecord, StepState};
use crate::error::Error;
use crate::observe::metrics;
use crate::store::{Action, Item, Transacted, header_item, record_item, record_of};
use crate::workflow::flow::Flow;
use crate::workflow::stop::Stop;

/// Maximum attempts to store a late outcome while its record or header changes.
const ROUNDS: usize = 4;

impl Flow {
    /// Handle an outcome that was refused. If the step was cancelled, its outcome is stored and the workflow
    /// becomes due again to compensate it, once and in one transaction. Source: seed 002.
    pub(crate) async fn came_late(&self, step: &str, outcome: StepRecord, found: Option<&Item>) -> Stop {
        metrics::count_late_outcome();
        let mut stored = match found.map(record_of).transpose() {
            Ok(stored) => stored,
            Err(error) => return Stop::Store(Error::from(error)),
        };
        for _ in 0..ROUNDS {
            let Some(cancelled) = stored.take() else { break };
            // Whoever started it, and whoever had it since: it is the effect under this version of its key.
            let same =
                cancelled.key_version == outcome.key_version && cancelled.state == StepState::Cancelled;
            if !same || outcome.state != StepState::Completed {
                break;
            }
            match self.store_late(&cancelled, &outcome).await {
                Ok(true) => {
                    tracing::warn!(
                        workflow.key = self.context().shown(self.workflow()),
                        workflow.step = step,
                        "a step happened after it was cancelled; it will be compensated"
                    );
                    return Stop::Lost;
                }
                Ok(false) => {}
                Err(stop) => return stop,
            }
            match Box::pin(self.context().store().read_record(&outcome.id, self.until())).await {
                Ok(record) => stored = record,
                Err(error) => return Stop::Store(error),
            }
        }
        tracing::warn!(
            workflow.key = self.context().shown(self.workflow()),
            workflow.step = step,
            "the outcome of a step arrived too late and was discarded"
        );
        if outcome.started_for.is_some() {
            // Another workflow took it over: its outcome there counts here, too.
            return super::step::later(self, step, None, "another workflow took it over");
        }
        Stop::Lost
    }

    async fn store_late(&self, cancelled: &StepRecord, outcome: &StepRecord) -> Result<bool, Stop> {
        let context = self.context();
        // The workflow that has to compensate it, which may have taken it over from this one.
        let run = cancelled.started_for.as_deref().unwrap_or(self.run_id());
        let workflow = run.rsplit_once(' ').map_or(run, |(workflow, _)| workflow);
        let header = Box::pin(context.store().read_header(workflow, self.until())).await?;
        let is_its = |header: &Header| header.run_id() == run && header.state != State::Reaping;
        let Some(header) = header.filter(is_its) else { return Ok(false) };
        let late = StepRecord {
            state: StepState::Late,
            revision: context.new_id(),
            result: outcome.result.clone(),
            ended: outcome.ended,
            ..cancelled.clone()
        };
        let due = self.due_again(&header);
        let actions = [
            Action::PutOver { item: record_item(&late), seen: cancelled.revision.clone() },
            Action::PutOver {
                item: header_item(&due, context.settings().shards),
                seen: header.revision.clone(),
            },
        ];
        let token = context.new_id();
        let sent = context.store().transact("store a late outcome", &actions, &token, self.until().for_end());
        Ok(matches!(Box::pin(sent).await?, Transacted::Done))
    }

    /// The header of a workflow that has something to compensate again.
    fn due_again(&self, header: &Header) -> Header {
        let ending = if header.state.is_final() { Some(header.state) } else { header.ending };
        // An operator closed it as it was, and may have repaired what would be compensated again.
        let operator = header.intervention.as_ref().map(|operator| operator.at);
        let closed = header.state.is_final() && operator.is_some() && operator == header.ended;
        Header {
            state: State::Compensating,
            ending: Some(ending.unwrap_or(State::Cancelled)),
            listed: Some(if closed { List::Quarantine } else { List::Unfinished }),
            next_due: self.now(),
            revision: self.context().new_id(),
            attempt: self.context().new_id(),
            locked_by: None,
            attempts: 0,
            waits_for: None,
            reason: Some("the outcome of a cancelled step arrived late".to_owned()),
            ..header.clone()
        }
    }
}
