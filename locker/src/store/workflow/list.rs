//! Listing workflows through the index: unfinished, in quarantine, or finished, oldest due time first.

use std::collections::HashMap;

use aws_sdk_dynamodb::types::{AttributeValue, Select};
use chrono::{DateTime, Utc};

use super::attribute as w;
use crate::core::time;
use crate::core::workflow::record::HEADER;
use crate::error::Error;
use crate::store::attribute as a;
use crate::store::item::{Item, text};
use crate::store::list::Ask;
use crate::store::{Store, Until};

/// One entry of the index.
#[derive(Debug, Clone)]
pub(crate) struct WorkflowRow {
    pub(crate) workflow: String,
    pub(crate) status: String,
    pub(crate) next_due: String,
    pub(crate) name: Option<String>,
    pub(crate) state: Option<String>,
    pub(crate) created: Option<DateTime<Utc>>,
    pub(crate) locked_by: Option<String>,
    pub(crate) attempts: Option<u32>,
    pub(crate) reason: Option<String>,
}

/// Where a listing of one shard goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WorkflowCursor {
    status: String,
    next_due: String,
    workflow: String,
}

impl WorkflowCursor {
    pub(crate) fn after(row: &WorkflowRow) -> Self {
        Self { status: row.status.clone(), next_due: row.next_due.clone(), workflow: row.workflow.clone() }
    }

    fn key(&self) -> Item {
        HashMap::from([
            (a::STATUS.to_owned(), text(&self.status)),
            (w::NEXT_DUE.to_owned(), text(&self.next_due)),
            (w::WORKFLOW.to_owned(), text(&self.workflow)),
            (w::ITEM.to_owned(), text(HEADER)),
        ])
    }
}

impl Store {
    /// One page of one shard: at most `limit` rows, and whether there may be more.
    pub(crate) async fn list_workflows(
        &self,
        status: &str,
        due_before: Option<DateTime<Utc>>,
        from: Option<&WorkflowCursor>,
        limit: usize,
        until: Until,
    ) -> Result<(Vec<WorkflowRow>, bool), Error> {
        let mut rows = Vec::new();
        let mut start = from.map(WorkflowCursor::key);
        loop {
            let ask = Ask {
                status,
                due: w::NEXT_DUE,
                due_before,
                limit: limit - rows.len(),
                select: Select::AllProjectedAttributes,
            };
            let output = self.query(&ask, start, until).await?;
            rows.extend(output.items.unwrap_or_default().iter().filter_map(to_row));
            start = output.last_evaluated_key;
            if start.is_none() || rows.len() >= limit {
                return Ok((rows, start.is_some()));
            }
        }
    }

    /// How many there are of one shard, counting no further than `limit`, and whether that is all.
    pub(crate) async fn count_workflows(
        &self,
        status: &str,
        due_before: Option<DateTime<Utc>>,
        limit: usize,
        until: Until,
    ) -> Result<(usize, bool), Error> {
        let (mut count, mut start) = (0, None);
        loop {
            if count >= limit {
                return Ok((count, false));
            }
            let select = Select::Count;
            let ask = Ask { status, due: w::NEXT_DUE, due_before, limit: limit - count, select };
            let output = self.query(&ask, start, until).await?;
            count += usize::try_from(output.count).unwrap_or_default();
            start = output.last_evaluated_key;
            if start.is_none() {
                return Ok((count, true));
            }
        }
    }
}

/// The keys of table and index are always there, as text; the rest may be missing or damaged, and a
/// stuck workflow is shown all the same.
fn to_row(item: &Item) -> Option<WorkflowRow> {
    let get = |name: &str| item.get(name).and_then(|value: &AttributeValue| value.as_s().ok()).cloned();
    Some(WorkflowRow {
        workflow: get(w::WORKFLOW)?,
        status: get(a::STATUS)?,
        next_due: get(w::NEXT_DUE)?,
        name: get(w::NAME),
        state: get(w::STATE),
        created: get(a::CREATED).and_then(|text| time::from_text(&text)),
        locked_by: get(a::LOCKED_BY),
        attempts: item.get(w::ATTEMPTS).and_then(|value| value.as_n().ok()?.parse().ok()),
        reason: get(w::REASON),
    })
}
