//! Claiming a workflow to drive it: a conditional write of the header, then one query.

use std::time::Duration;

use chrono::{DateTime, Utc};

use crate::core::time;
use crate::core::workflow::decide::{self, Standing};
use crate::core::workflow::header::Header;
use crate::error::Error;
use crate::observe::metrics;
use crate::store::{Guard, Put, header_item, header_of};
use crate::workflow::context::Context;
use crate::workflow::ended::Ended;
use crate::workflow::flow::Flow;

/// Maximum attempts to claim a workflow under contention.
const ROUNDS: u32 = 4;

const VERB: &str = "claim the workflow";

/// A request to claim a workflow, or to read its state.
pub(crate) struct Claimer<'a> {
    pub(crate) context: &'a Context,
    /// Owner name, if the caller gave one; the same owner may resume immediately.
    pub(crate) owner: Option<&'a str>,
    pub(crate) expected: Option<Duration>,
    pub(crate) deadline: Option<DateTime<Utc>>,
    /// Whether to claim it, or only to read its state.
    pub(crate) claims: bool,
    /// Claim it even if its attempts are exhausted.
    pub(crate) anyway: bool,
}

pub(crate) enum Claimed {
    Flow(Flow),
    Ended(Ended),
}

impl Claimer<'_> {
    /// Claim the workflow, if no other driver runs it.
    pub(crate) async fn claim(&self, mut stored: Header) -> Result<Claimed, Error> {
        let context = self.context;
        for _ in 0..ROUNDS {
            let same_owner = self.owner.is_some() && stored.locked_by.as_deref() == self.owner;
            let now = context.now();
            let standing = decide::standing(&stored, same_owner, now, context.skew());
            let ended = match standing {
                Standing::Claimable if self.claims => None,
                Standing::Claimable | Standing::Busy => Some(Ended::Waiting(context.waiting(&stored))),
                Standing::Ended => Some(context.ended(&stored, self.deadline).await?),
                Standing::Quarantined => Some(Ended::Quarantined(stored.reason.clone().unwrap_or_default())),
                Standing::Reaping => return Err(Error::Gone { verb: VERB }),
            };
            if let Some(ended) = ended {
                return Ok(Claimed::Ended(ended));
            }
            // Counted when it is claimed, so a workflow that crashes its driver is quarantined in the end, too.
            let used_up = stored.attempts >= context.limits().attempts && !self.anyway;
            let next = if used_up { self.quarantined(&stored) } else { self.claimed(&stored) };
            let item = header_item(&next, context.settings().shards);
            let until = context.until(self.deadline);
            let guard = Guard::Revision(&stored.revision);
            let put = context.store().put_item(VERB, &item, guard, until);
            match Box::pin(put).await? {
                Put::Done if used_up => {
                    context.report_quarantined(&next);
                    return Ok(Claimed::Ended(Ended::Quarantined(next.reason.unwrap_or_default())));
                }
                Put::Done => {
                    metrics::count_workflow(metrics::WORKFLOWS_CLAIMED, &next.name);
                    // The attempt is counted, whatever is read next.
                    return self.resume(next).await.map_err(Error::unsure);
                }
                Put::Refused { item: Some(item), .. } => stored = header_of(&item)?,
                Put::Refused { item: None, .. } => return Err(Error::Gone { verb: VERB }),
            }
        }
        Err(Error::Contended { verb: VERB, tries: ROUNDS })
    }

    /// Read all recorded steps by one query.
    async fn resume(&self, taken: Header) -> Result<Claimed, Error> {
        let context = self.context;
        let until = context.until(self.deadline);
        let all = Box::pin(context.store().read_workflow(&taken.workflow, until)).await?;
        match all.header {
            Some(header) if header.attempt == taken.attempt => {
                Ok(Claimed::Flow(Flow::new(context.clone(), header, all.records, self.deadline)))
            }
            Some(other) => Ok(Claimed::Ended(Ended::Waiting(context.waiting(&other)))),
            None => Err(Error::Gone { verb: VERB }),
        }
    }

    fn claimed(&self, stored: &Header) -> Header {
        let context = self.context;
        let expected = self.expected.unwrap_or(stored.expected);
        let owner = self.owner.unwrap_or(&context.settings().owner);
        Header {
            next_due: time::after(context.now(), expected),
            revision: context.new_id(),
            attempt: context.new_id(),
            locked_by: Some(owner.to_owned()),
            attempts: stored.attempts.saturating_add(1),
            waits_for: None,
            ..stored.clone()
        }
    }

    fn quarantined(&self, stored: &Header) -> Header {
        let context = self.context;
        let last = stored.reason.as_deref().unwrap_or("its drivers crashed or did not finish");
        let reason = format!("{} attempts are exhausted: {last}", stored.attempts);
        let mut header = Header { revision: context.new_id(), ..stored.clone() };
        header.quarantine(context.now(), context.new_id(), reason, None);
        header
    }
}
