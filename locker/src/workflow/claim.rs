//! Taking a workflow to drive it: a conditional write of the header, then one query.

use std::time::Duration;

use chrono::{DateTime, Utc};

use super::drive::Ended;
use super::flow::Flow;
use super::outcome::Waiting;
use super::start::unsure;
use super::stop::StepFailure;
use super::workflows::Workflows;
use crate::core::answer::{self, Body};
use crate::core::time;
use crate::core::workflow::decide::{self, Standing};
use crate::core::workflow::header::{Header, Listed, WorkflowState};
use crate::core::workflow::record::ANSWER;
use crate::error::Error;
use crate::metrics;
use crate::store::workflow::{Guard, Put, header_item, header_of};

/// How often a claim is tried that somebody else comes before.
const ROUNDS: usize = 4;

/// Somebody who wants to drive a workflow.
pub(super) struct Claimer<'a> {
    pub(super) workflows: &'a Workflows,
    /// Who, if the caller named himself: he goes on at once with what he held.
    pub(super) owner: Option<&'a str>,
    pub(super) expected: Option<Duration>,
    pub(super) deadline: Option<DateTime<Utc>>,
    /// Whether he wants to, or only to know how it is.
    pub(super) claims: bool,
    /// Even if its attempts are used up.
    pub(super) anyway: bool,
}

pub(super) enum Claimed {
    Flow(Flow),
    Ended(Ended),
}

impl Claimer<'_> {
    /// Take it, if nobody drives it.
    pub(super) async fn claim(&self, mut stored: Header) -> Result<Claimed, Error> {
        let workflows = self.workflows;
        for _ in 0..ROUNDS {
            let same_owner = self.owner.is_some() && stored.locked_by.as_deref() == self.owner;
            let now = workflows.now();
            let standing = decide::standing(&stored, same_owner, now, workflows.skew());
            let ended = match standing {
                Standing::Claimable if self.claims => None,
                Standing::Claimable | Standing::Busy => Some(Ended::Waiting(workflows.waiting(&stored))),
                Standing::Ended => Some(workflows.ended(&stored, self.deadline).await?),
                Standing::Quarantined => Some(Ended::Quarantined(stored.reason.clone().unwrap_or_default())),
                Standing::Reaping => return Err(being("forgotten")),
            };
            if let Some(ended) = ended {
                return Ok(Claimed::Ended(ended));
            }
            // Counted when it is taken: one that kills its driver comes to its end as well.
            let used_up = stored.attempts >= workflows.limits().attempts && !self.anyway;
            let next = if used_up { self.parked(&stored) } else { self.taken(&stored) };
            let item = header_item(&next, workflows.settings().shards);
            let until = workflows.until(self.deadline);
            let guard = Guard::Revision(&stored.revision);
            let put = workflows.store().put_item("take the workflow", &item, guard, until);
            match Box::pin(put).await? {
                Put::Done if used_up => {
                    workflows.tell_parked(&next);
                    return Ok(Claimed::Ended(Ended::Quarantined(next.reason.unwrap_or_default())));
                }
                Put::Done => {
                    metrics::count_workflow(metrics::WORKFLOWS_CLAIMED, &next.name);
                    // It is counted as an attempt, whatever is read next.
                    return self.resume(next).await.map_err(unsure);
                }
                Put::Refused { item: Some(item), .. } => stored = header_of(&item)?,
                Put::Refused { item: None, .. } => return Err(being("forgotten")),
            }
        }
        Err(being("changed under every try"))
    }

    /// One query reads all recovery points.
    async fn resume(&self, taken: Header) -> Result<Claimed, Error> {
        let workflows = self.workflows;
        let until = workflows.until(self.deadline);
        let all = Box::pin(workflows.store().read_workflow(&taken.workflow, until)).await?;
        match all.header {
            Some(header) if header.attempt == taken.attempt => {
                Ok(Claimed::Flow(Flow::new(workflows.clone(), header, all.records, self.deadline)))
            }
            Some(other) => Ok(Claimed::Ended(Ended::Waiting(workflows.waiting(&other)))),
            None => Err(being("forgotten")),
        }
    }

    fn taken(&self, stored: &Header) -> Header {
        let workflows = self.workflows;
        let expected = self.expected.unwrap_or(stored.expected);
        let owner = self.owner.unwrap_or(&workflows.settings().owner);
        Header {
            next_due: time::after(workflows.now(), expected),
            revision: workflows.new_id(),
            attempt: workflows.new_id(),
            locked_by: Some(owner.to_owned()),
            attempts: stored.attempts.saturating_add(1),
            ..stored.clone()
        }
    }

    fn parked(&self, stored: &Header) -> Header {
        let workflows = self.workflows;
        let last = stored.reason.as_deref().unwrap_or("its drivers died, or did not come to an end");
        Header {
            listed: Some(Listed::Quarantine),
            next_due: workflows.now(),
            revision: workflows.new_id(),
            attempt: workflows.new_id(),
            locked_by: None,
            reason: Some(format!("{} attempts are used up: {last}", stored.attempts)),
            ..stored.clone()
        }
    }
}

fn being(what: &str) -> Error {
    let source = format!("the workflow is being {what}").into();
    Error::Unavailable { verb: "take the workflow", tries: 1, source }
}

impl Workflows {
    pub(super) fn waiting(&self, header: &Header) -> Waiting {
        let after = time::between(self.now(), header.next_due);
        Waiting {
            locked_by: header.locked_by.clone(),
            due: header.next_due,
            after: after.clamp(Duration::from_secs(1), Duration::from_secs(60)),
            reason: header.reason.clone(),
        }
    }

    /// How a workflow ended.
    pub(super) async fn ended(
        &self,
        header: &Header,
        deadline: Option<DateTime<Utc>>,
    ) -> Result<Ended, Error> {
        match header.state {
            WorkflowState::Completed => {
                metrics::count_workflow(metrics::WORKFLOWS_REPLAYED, &header.name);
                Ok(Ended::Completed(
                    self.result(header, deadline).await?.unwrap_or_else(|| "null".to_owned()),
                ))
            }
            WorkflowState::Failed => {
                metrics::count_workflow(metrics::WORKFLOWS_REPLAYED, &header.name);
                let json = self.result(header, deadline).await?.ok_or(answer::AnswerError::Missing)?;
                Ok(Ended::Failed(StepFailure::from_stored(&json)?))
            }
            _ => Ok(Ended::Cancelled),
        }
    }

    /// The stored answer or first failure, as JSON text.
    pub(super) async fn result(
        &self,
        header: &Header,
        deadline: Option<DateTime<Utc>>,
    ) -> Result<Option<String>, Error> {
        let Some(Body::Beside { codec, id, .. }) = &header.result else { return Ok(None) };
        let item = format!("{ANSWER}{id}");
        let read = self.store().read_beside(&header.workflow, &item, *codec, self.until(deadline));
        Ok(Some(answer::decode(Box::pin(read).await?)?))
    }

    /// Somebody has to look: said in the log and counted.
    pub(super) fn tell_parked(&self, header: &Header) {
        metrics::count_workflow(metrics::WORKFLOWS_QUARANTINED, &header.name);
        tracing::error!(
            workflow.key = self.shown(&header.workflow),
            workflow.name = header.name,
            workflow.attempts = header.attempts,
            workflow.reason = header.reason,
            "a workflow is in quarantine"
        );
    }
}
