//! The one loop that reads lists of the index: by limit, deadline and filter.

#![cfg_attr(not(feature = "messages"), allow(dead_code, reason = "tokens and workflows use a part"))]

use std::time::Duration;

use chrono::{DateTime, Utc};

#[cfg(feature = "messages")]
use super::subject::messages;
use super::subject::tokens;
use super::subject::tokens::TokenList;
#[cfg(feature = "workflow")]
use super::subject::workflows;
use super::{Console, Filter, LastRun, Machine, Match};
use crate::core::listed::List;
use crate::core::listed::MessageState;
use crate::error::Error;
use crate::session::Session;
use crate::session::listing::{Cursor, ListBuilder, Listed};

/// Entries of one page.
const PAGE: usize = 1_000;

/// The lists that a verb asks for.
#[derive(Debug, Default)]
pub(super) struct Lists {
    pub(super) tokens: Vec<TokenList>,
    pub(super) workflows: Vec<List>,
    /// Read only the unfinished workflows that have been due for this long.
    pub(super) unfinished_due_for: Option<Duration>,
    /// Late events that are not handled.
    pub(super) late_events: bool,
    pub(super) messages: Vec<MessageState>,
    /// Read the last run of each scheduled function of the tables.
    pub(super) runs: bool,
}

/// The bounds of a reading, and how far it came.
#[derive(Debug)]
pub(super) struct Reading<'a> {
    /// Only matches that fit are kept.
    pub(super) filter: Option<&'a Filter>,
    pub(super) deadline: Option<DateTime<Utc>>,
    /// Items that are kept of all lists together, at most.
    pub(super) most: usize,
    /// Entries that are returned of each list, at most.
    pub(super) entries: usize,
    /// Entries that are read of each list, at most.
    ///
    /// With several shards, more entries are read than returned.
    pub(super) rows: u64,
    /// The last runs that were read, at most one for each scheduled function of a table.
    pub(super) runs: Vec<LastRun>,
    /// Items that were kept.
    pub(super) kept: usize,
    /// Whether everything was read.
    pub(super) finished: bool,
    /// Why not everything was read, other than a limit.
    pub(super) stopped_by: Option<Error>,
    /// Entries of the index that were read.
    pub(super) rows_read: u64,
    /// Whether a request succeeded: a later error leaves a result, and is a part of it.
    pub(super) any: bool,
}

impl Default for Reading<'_> {
    fn default() -> Self {
        Self {
            filter: None,
            deadline: None,
            most: usize::MAX,
            entries: usize::MAX,
            rows: u64::MAX,
            runs: Vec::new(),
            kept: 0,
            finished: true,
            stopped_by: None,
            rows_read: 0,
            any: false,
        }
    }
}

impl Reading<'_> {
    /// Passes on items up to the limit. Returns whether it passed on all.
    pub(super) fn keep<M>(&mut self, items: impl IntoIterator<Item = M>, mut take: impl FnMut(M)) -> bool {
        for it in items {
            if self.kept >= self.most {
                self.finished = false;
                return false;
            }
            self.kept += 1;
            take(it);
        }
        true
    }

    /// Passes on a record that cannot be read, so that a plan names the reason.
    ///
    /// Only its key is known. It does not count against the limit: a redact of all results is
    /// repeated until it erases none, and the same unreadable records would fill each of its plans.
    pub(super) fn name_unread(&self, unread: Match, now: DateTime<Utc>, take: impl FnOnce(Match)) {
        if fits(self.filter.map(Filter::for_keys).as_ref(), &unread, now) {
            take(unread);
        }
    }

    /// Passes on the value of a request. An error after a success stops the reading and is kept.
    pub(super) fn value<T>(&mut self, read: Result<T, Error>) -> Result<Option<T>, Error> {
        match read {
            Ok(value) => {
                self.any = true;
                Ok(Some(value))
            }
            Err(error) if self.any => {
                (self.stopped_by, self.finished) = (Some(error), false);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Reads one list and passes on the entries that fit the filter.
    pub(super) async fn matches<T: Listed>(
        &mut self,
        list: ListBuilder<T>,
        now: DateTime<Utc>,
        to_match: impl Fn(T) -> Match,
        take: impl FnMut(Match),
    ) -> Result<(), Error> {
        let filter = self.filter;
        let fitting = |item| Some(to_match(item)).filter(|it| fits(filter, it, now));
        self.list(list, fitting, take).await
    }

    /// Reads one list to its end, or to one of the bounds.
    pub(super) async fn list<T: Listed, M>(
        &mut self,
        list: ListBuilder<T>,
        fitting: impl Fn(T) -> Option<M>,
        mut take: impl FnMut(M),
    ) -> Result<(), Error> {
        let list = self.deadline.into_iter().fold(list, ListBuilder::deadline);
        let (mut from, mut entries, mut rows) = (None::<Cursor>, 0, 0);
        loop {
            let is_full = self.kept >= self.most || entries >= self.entries || rows >= self.rows;
            if is_full || self.stopped_by.is_some() {
                self.finished = false;
                return Ok(());
            }
            let page = list.clone().limit(PAGE.min(self.entries - entries));
            let page = from.take().into_iter().fold(page, ListBuilder::from).fetch().await;
            let Some(page) = self.value(page)? else { return Ok(()) };
            entries += page.items.len();
            rows += page.rows_read;
            self.rows_read += page.rows_read;
            if !self.keep(page.items.into_iter().filter_map(&fitting), &mut take) {
                return Ok(());
            }
            self.stopped_by = page.stopped_by;
            match page.next {
                None if self.stopped_by.is_none() => return Ok(()),
                next => from = next,
            }
        }
    }

    async fn last_runs(&mut self, session: &Session, machines: &[Machine]) -> Result<(), Error> {
        for machine in machines {
            if self.stopped_by.is_none() {
                let run = session.last_run(*machine, self.deadline).await;
                let run = self.value(run)?;
                self.runs.extend(run);
            }
        }
        Ok(())
    }
}

/// Whether an item fits the filter, if there is one.
pub(super) fn fits(filter: Option<&Filter>, it: &Match, now: DateTime<Utc>) -> bool {
    filter.is_none_or(|filter| filter.fits(it, now))
}

impl Console {
    /// Reads all lists that are asked for, of the tables that are set.
    ///
    /// The lists of tokens are read first, so an unreadable table of workflows hides no token.
    pub(super) async fn read(
        &self,
        asked: &Lists,
        reading: &mut Reading<'_>,
        mut take: impl FnMut(Match),
    ) -> Result<(), Error> {
        if let Some(locker) = &self.tokens {
            if asked.runs {
                reading.last_runs(locker.session(), &[Machine::Scanner]).await?;
            }
            tokens::read(locker, asked, reading, &mut take).await?;
        }
        #[cfg(feature = "workflow")]
        if let Some(workflows) = &self.workflows {
            if asked.runs {
                reading.last_runs(workflows.context(), &Machine::OF_WORKFLOWS).await?;
            }
            workflows::read(workflows, asked, reading, &mut take).await?;
            #[cfg(feature = "messages")]
            messages::read(workflows, asked, reading, &mut take).await?;
        }
        Ok(())
    }
}
