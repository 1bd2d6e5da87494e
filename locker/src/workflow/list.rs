//! Listing workflows: unfinished, in quarantine, or finished, oldest due time first.

use chrono::{DateTime, Utc};

use super::workflows::Workflows;
use crate::core::time;
use crate::core::workflow::header::{Listed, WorkflowState};
use crate::error::Error;
use crate::store::workflow::{WorkflowCursor, WorkflowRow};
use crate::token::Count;

/// How many are read at a time.
const PAGE: usize = 100;

impl Workflows {
    /// List workflows through the index, which is a moment behind.
    pub fn list(&self, listed: Listed) -> WorkflowListing {
        WorkflowListing { workflows: self.clone(), listed, due: false, limit: 100, deadline: None }
    }
}

/// A listing about to be made.
#[derive(Debug, Clone)]
#[must_use = "a listing does nothing until it is fetched or counted"]
pub struct WorkflowListing {
    workflows: Workflows,
    listed: Listed,
    due: bool,
    limit: usize,
    deadline: Option<DateTime<Utc>>,
}

/// What a listing shows of a workflow.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct WorkflowSummary {
    /// The key as it is stored: with ` v2` behind it under the second version.
    pub workflow: String,
    /// Which code drives it.
    pub name: Option<String>,
    /// How far it is.
    pub state: Option<WorkflowState>,
    /// When it was started.
    pub created: Option<DateTime<Utc>>,
    /// Unfinished: when it may be driven. In quarantine: since when. Finished: when it may be forgotten.
    pub due: Option<DateTime<Utc>>,
    /// Who drives it.
    pub locked_by: Option<String>,
    /// How often somebody began to drive it.
    pub attempts: Option<u32>,
    /// Why it waits.
    pub reason: Option<String>,
}

/// What was listed.
#[derive(Debug)]
#[non_exhaustive]
pub struct WorkflowsListed {
    /// Oldest due time first.
    pub workflows: Vec<WorkflowSummary>,
    /// Whether that is all.
    pub complete: bool,
}

impl WorkflowListing {
    /// Only what is due by now.
    pub const fn due(mut self) -> Self {
        self.due = true;
        self
    }

    /// No more than so many, 100 by default.
    pub const fn limit(mut self, limit: usize) -> Self {
        self.limit = limit;
        self
    }

    /// Stop asking at this time.
    pub fn deadline(mut self, deadline: impl Into<DateTime<Utc>>) -> Self {
        self.deadline = Some(deadline.into());
        self
    }

    /// Read the listing.
    ///
    /// # Errors
    ///
    /// [`Error::Denied`], [`Error::Unavailable`].
    ///
    /// # Cost
    ///
    /// A request for each shard and 100 workflows; half a read unit for each 4 KB of entries.
    pub async fn fetch(self) -> Result<WorkflowsListed, Error> {
        let due_before = self.due.then(|| self.workflows.now());
        let mut rows = Vec::new();
        let mut complete = self.limit > 0;
        for status in self.workflows.statuses(self.listed) {
            let mut from = None;
            let mut shard = 0;
            // Each shard up to the limit: the oldest may all be in one.
            while shard < self.limit {
                let limit = PAGE.min(self.limit - shard);
                let until = self.workflows.until(self.deadline);
                let store = self.workflows.store();
                let (page, more) =
                    Box::pin(store.list_workflows(&status, due_before, from.as_ref(), limit, until)).await?;
                shard += page.len();
                from = page.last().map(WorkflowCursor::after);
                rows.extend(page);
                if !more {
                    break;
                }
                complete &= shard < self.limit;
            }
        }
        rows.sort_by(|one: &WorkflowRow, other| {
            (&one.next_due, &one.workflow).cmp(&(&other.next_due, &other.workflow))
        });
        complete &= rows.len() <= self.limit;
        rows.truncate(self.limit);
        Ok(WorkflowsListed { workflows: rows.into_iter().map(WorkflowSummary::of).collect(), complete })
    }

    /// Count them, no further than `limit`.
    ///
    /// # Errors
    ///
    /// As of [`fetch`](Self::fetch).
    pub async fn count(self, limit: usize) -> Result<Count, Error> {
        let due_before = self.due.then(|| self.workflows.now());
        let mut at_least = 0;
        for status in self.workflows.statuses(self.listed) {
            let until = self.workflows.until(self.deadline);
            let store = self.workflows.store();
            let left = limit.saturating_sub(at_least);
            let (counted, exact) = Box::pin(store.count_workflows(&status, due_before, left, until)).await?;
            at_least += counted;
            if !exact {
                return Ok(Count { at_least, exact: false });
            }
        }
        Ok(Count { at_least, exact: true })
    }
}

impl WorkflowSummary {
    fn of(row: WorkflowRow) -> Self {
        Self {
            due: time::from_text(&row.next_due),
            state: row.state.as_deref().and_then(WorkflowState::named),
            workflow: row.workflow,
            name: row.name,
            created: row.created,
            locked_by: row.locked_by,
            attempts: row.attempts,
            reason: row.reason,
        }
    }
}
