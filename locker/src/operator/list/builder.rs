//! Reading the lists in search of what fits.

use std::collections::HashSet;

use chrono::{DateTime, Utc};
use serde::Serialize;

use super::filter::Filter;
use super::matched::Match;
use crate::core::message::letter::MessageState;
use crate::core::workflow::header::List;
use crate::error::{Error, as_text};
use crate::session::listing::{Cursor, ListBuilder, Listed};
use crate::token::Locker;
use crate::workflow::Workflows;

/// Matches of one search.
const LIMIT: usize = 10_000;
/// Entries that are read of each list.
const MOST_ROWS: u64 = 200_000;
/// Entries of one page.
const PAGE: usize = 1_000;

/// Finds tokens, workflows and messages.
#[derive(Debug, Clone)]
#[must_use = "nothing is read until `read` is called"]
pub struct FindBuilder {
    tokens: Option<Locker>,
    workflows: Option<Workflows>,
    filter: Filter,
    finished: bool,
    archived: bool,
    /// Only messages in these states.
    only: Option<Vec<MessageState>>,
    limit: usize,
    most_rows: u64,
    deadline: Option<DateTime<Utc>>,
}

impl Default for FindBuilder {
    fn default() -> Self {
        Self::new()
    }
}

/// What was found.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Found {
    /// What fits: tokens, then workflows, then messages, each list by its due times.
    pub matches: Vec<Match>,
    /// Whether everything was read. **If not, more may fit.**
    pub finished: bool,
    /// Why not everything was read, other than a limit. [`Error::Expired`]: the deadline.
    #[serde(serialize_with = "as_text", skip_serializing_if = "Option::is_none")]
    pub stopped_by: Option<Error>,
    /// Entries of the index that were read: half a read unit for each 4 KB, 10 to 20 entries.
    pub rows_read: u64,
}

impl FindBuilder {
    /// A search in nothing yet: add [`tokens`](Self::tokens), [`workflows`](Self::workflows), or both.
    pub fn new() -> Self {
        Self {
            tokens: None,
            workflows: None,
            filter: Filter::new(),
            finished: false,
            archived: false,
            only: None,
            limit: LIMIT,
            most_rows: MOST_ROWS,
            deadline: None,
        }
    }

    /// Search the tokens of this table.
    pub fn tokens(mut self, locker: &Locker) -> Self {
        self.tokens = Some(locker.clone());
        self
    }

    /// Search the workflows and messages of this table.
    pub fn workflows(mut self, workflows: &Workflows) -> Self {
        self.workflows = Some(workflows.clone());
        self
    }

    /// Find what fits this.
    pub fn filter(mut self, filter: Filter) -> Self {
        self.filter = filter;
        self
    }

    /// Also search finished workflows, until the reaper deletes them.
    pub const fn finished(mut self) -> Self {
        self.finished = true;
        self
    }

    /// Also search archived messages.
    pub const fn archived(mut self) -> Self {
        self.archived = true;
        self
    }

    /// Search messages in these states, and nothing else: nothing else counts against the [limit](Self::limit).
    pub fn only_messages(mut self, states: impl IntoIterator<Item = MessageState>) -> Self {
        self.only = Some(states.into_iter().collect());
        self
    }

    /// Find at most this many, 10,000 by default.
    pub const fn limit(mut self, matches: usize) -> Self {
        self.limit = matches;
        self
    }

    /// Read at most this many entries of each list, 200,000 by default.
    pub const fn most_rows(mut self, entries: u64) -> Self {
        self.most_rows = entries;
        self
    }

    /// Stop at this time and say so.
    pub fn deadline(mut self, deadline: impl Into<DateTime<Utc>>) -> Self {
        self.deadline = Some(deadline.into());
        self
    }

    /// Read the lists.
    ///
    /// With a [need](Filter::need) only what needs an operator is read; otherwise whatever is in progress is, too.
    ///
    /// # Errors
    ///
    /// Same as [`ListBuilder::fetch`], if nothing could be read. Later errors are in [`Found::stopped_by`].
    ///
    /// # Cost
    ///
    /// 1 request for each list, shard and 100 entries; half a read unit for each 4 KB of entries, whether they fit or not.
    pub async fn read(&self) -> Result<Found, Error> {
        let mut found = Found { finished: true, ..Found::default() };
        if let (Some(locker), true) = (&self.tokens, self.only.is_none() && self.filter.asks_for_tokens()) {
            let now = locker.session().now();
            let list = if self.filter.asks_for_needs() { locker.overdue() } else { locker.in_progress() };
            self.list(list, now, |token| Match::of_token(token, false, now), &mut found).await?;
            self.list(locker.held(), now, |token| Match::of_token(token, true, now), &mut found).await?;
        }
        let with_workflows = self.only.is_none() && self.filter.asks_for_workflows();
        if let (Some(workflows), true) = (&self.workflows, with_workflows) {
            let now = workflows.context().now();
            let finished = self.finished.then_some(List::Finished);
            for list in [List::Quarantine, List::Failing, List::Unfinished].into_iter().chain(finished) {
                let to_match = |workflow| Match::of_workflow(workflow, list, now);
                self.list(workflows.list(list), now, to_match, &mut found).await?;
            }
        }
        if let (Some(workflows), true) = (&self.workflows, self.filter.asks_for_messages()) {
            let now = workflows.context().now();
            for state in self.states() {
                let to_match = |message| Match::of_message(message, state, now);
                self.list(workflows.messages(state), now, to_match, &mut found).await?;
            }
        }
        // What goes from one list to another meanwhile is in both.
        let mut seen = HashSet::new();
        found.matches.retain(|it| seen.insert(it.work.clone()));
        Ok(found)
    }

    /// The states whose messages are searched.
    fn states(&self) -> Vec<MessageState> {
        let all = || {
            let archived = self.archived.then_some(MessageState::Archived);
            let states = [MessageState::Dead, MessageState::Waiting, MessageState::Unsent];
            states.into_iter().chain(archived).collect()
        };
        self.only.clone().unwrap_or_else(all)
    }

    async fn list<T: Listed>(
        &self,
        list: ListBuilder<T>,
        now: DateTime<Utc>,
        to_match: impl Fn(T) -> Match,
        found: &mut Found,
    ) -> Result<(), Error> {
        let (mut place, mut read) = (None::<Cursor>, 0);
        loop {
            if found.stopped_by.is_some() || found.matches.len() >= self.limit || read >= self.most_rows {
                found.finished = false;
                return Ok(());
            }
            let page = self.deadline.into_iter().fold(list.clone().limit(PAGE), ListBuilder::deadline);
            let page = match place.into_iter().fold(page, ListBuilder::from).fetch().await {
                Ok(page) => page,
                Err(error) if found.rows_read == 0 => return Err(error),
                Err(error) => {
                    found.stopped_by = Some(error);
                    found.finished = false;
                    return Ok(());
                }
            };
            found.rows_read += page.rows_read;
            read += page.rows_read;
            let fits = |it: &Match| self.filter.fits(it, now);
            let room = self.limit - found.matches.len();
            let mut fitting = page.items.into_iter().map(&to_match).filter(fits);
            found.matches.extend(fitting.by_ref().take(room));
            if fitting.next().is_some() {
                found.finished = false;
                return Ok(());
            }
            found.stopped_by = page.stopped_by;
            match page.next {
                None if found.stopped_by.is_none() => return Ok(()),
                next => place = next,
            }
        }
    }
}
