//! The due workflows, page by page, for the completer and the reaper.

use std::collections::VecDeque;

use chrono::{DateTime, Utc};

use crate::core::workflow::header::List;
use crate::error::Error;
use crate::store::{Layout, Positions, Query, Row};
use crate::workflow::context::Context;

/// Reads one shard after another, from another one each time, so that none starves the others under a limit.
pub(crate) struct Due<'a> {
    context: &'a Context,
    statuses: VecDeque<String>,
    due_before: DateTime<Utc>,
    from: Option<Positions>,
    page: usize,
    deadline: Option<DateTime<Utc>>,
}

impl<'a> Due<'a> {
    /// `page`: how many entries are read at a time.
    pub(crate) fn of(
        context: &'a Context,
        lists: &[List],
        page: usize,
        deadline: Option<DateTime<Utc>>,
    ) -> Self {
        let statuses = lists.iter().flat_map(|list| context.statuses_from_any(*list)).collect();
        Self { context, statuses, due_before: context.now(), from: None, page, deadline }
    }

    /// The next page. `None`: everything that is due was read.
    pub(crate) async fn page(&mut self) -> Result<Option<Vec<Row>>, Error> {
        let Some(status) = self.statuses.front() else { return Ok(None) };
        let query = Query {
            layout: &Layout::WORKFLOWS,
            statuses: vec![status.clone()],
            due_before: Some(self.due_before),
            due_from: None,
        };
        let until = self.context.until(self.deadline);
        let page = Box::pin(self.context.store().list(&query, self.from.take(), self.page, until)).await?;
        self.from = page.next;
        if self.from.is_none() {
            self.statuses.pop_front();
        }
        Ok(Some(page.rows))
    }
}
