//! Listings through the index `byStatus`: one form for tokens and for workflows.

use std::marker::PhantomData;
use std::time::Duration;

use chrono::{DateTime, Utc};
use serde::Serialize;

use crate::core::{shard, time};
use crate::error::Error;
use crate::session::Session;
use crate::store::{Layout, Positions, Query, Row};

/// How many entries are asked for at a time.
const PAGE: usize = 100;

/// Lists tokens or workflows, oldest due time first, over all shards.
///
/// `T` is what is shown of each: [`TokenSummary`](crate::TokenSummary) or
/// [`workflow::Summary`](crate::workflow::Summary).
#[derive(Debug)]
#[must_use = "a listing does nothing until it is fetched or counted"]
pub struct ListBuilder<T> {
    session: Session,
    layout: &'static Layout,
    /// The value of `status`, without the number of the shard.
    base: &'static str,
    /// Further values of `status`.
    also: &'static [&'static str],
    /// Show only what has been due for this long.
    due_for: Option<Duration>,
    due_from: Option<DateTime<Utc>>,
    /// Show only what waits for an event or a timer.
    waits: bool,
    limit: usize,
    deadline: Option<DateTime<Utc>>,
    from: Option<Cursor>,
    shown: PhantomData<fn() -> T>,
}

// Also of what cannot be cloned itself.
impl<T> Clone for ListBuilder<T> {
    fn clone(&self) -> Self {
        Self { session: self.session.clone(), from: self.from.clone(), ..*self }
    }
}

/// Where a listing continues. It belongs to a listing of the same kind with the same number of
/// shards.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cursor(Positions);

/// A page of a listing.
#[derive(Debug)]
#[non_exhaustive]
pub struct Page<T> {
    /// The entries, oldest due time first.
    pub items: Vec<T>,
    /// Where to continue. `None`: everything was listed. **Otherwise there may be more**, and an
    /// empty page does not mean that there is nothing.
    pub next: Option<Cursor>,
    /// What stopped the listing early, other than its limit or its deadline.
    pub stopped_by: Option<Error>,
    /// Entries of the index that DynamoDB read, so what the listing cost: half a read unit for each
    /// 4 KB, 10 to 20 entries.
    pub rows_read: u64,
}

impl<T> Page<T> {
    /// Whether everything was listed.
    #[must_use]
    pub const fn is_complete(&self) -> bool {
        self.next.is_none()
    }
}

/// A number that was counted up to a limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Count {
    /// There are at least this many.
    pub at_least: usize,
    /// There are no more than that.
    pub exact: bool,
}

/// An entry of a listing. Implemented by the summaries of this crate.
pub trait Listed: Sized {
    #[doc(hidden)]
    fn of(entry: Entry) -> Self;
}

/// An entry of the index, as it was read.
#[doc(hidden)]
#[derive(Debug)]
pub struct Entry(pub(crate) Row);

impl<T> ListBuilder<T> {
    pub(crate) const fn new(
        session: Session,
        layout: &'static Layout,
        base: &'static str,
        limit: usize,
    ) -> Self {
        Self {
            session,
            layout,
            base,
            also: &[],
            due_for: None,
            due_from: None,
            waits: false,
            limit,
            deadline: None,
            from: None,
            shown: PhantomData,
        }
    }

    /// List these values of `status`, too.
    #[cfg(feature = "messages")]
    pub(crate) const fn also(mut self, bases: &'static [&'static str]) -> Self {
        self.also = bases;
        self
    }

    /// Show only what is due by now.
    pub(crate) const fn only_due(self) -> Self {
        self.due_for(Duration::ZERO)
    }

    /// Show only what has been due for this long.
    pub(crate) const fn due_for(mut self, time: Duration) -> Self {
        self.due_for = Some(time);
        self
    }

    /// Show only what has this time or a later one.
    pub(crate) const fn since(mut self, time: DateTime<Utc>) -> Self {
        self.due_from = Some(time);
        self
    }

    /// Show only what waits for an event or a timer.
    #[cfg(feature = "workflow")]
    pub(crate) const fn that_wait(mut self) -> Self {
        self.waits = true;
        self
    }

    /// List at most this many entries.
    pub const fn limit(mut self, entries: usize) -> Self {
        self.limit = entries;
        self
    }

    /// Stop at this time and say so, such as a little before the deadline of a Lambda invocation.
    pub fn deadline(mut self, deadline: impl Into<DateTime<Utc>>) -> Self {
        self.deadline = Some(deadline.into());
        self
    }

    /// Continue where an earlier listing ended.
    pub fn from(mut self, cursor: Cursor) -> Self {
        self.from = Some(cursor);
        self
    }

    /// Count the entries, and read no more than `limit` of them.
    ///
    /// # Errors
    ///
    /// Same as [`fetch`](Self::fetch).
    ///
    /// # Cost
    ///
    /// A request for each shard and 1 MB of entries; half a read unit for each 4 KB of entries.
    pub async fn count(self, limit: usize) -> Result<Count, Error> {
        self.check_deadline()?;
        let until = self.session.until(self.deadline);
        let (at_least, exact) = Box::pin(self.session.store().count(&self.query(), limit, until)).await?;
        Ok(Count { at_least, exact })
    }

    fn check_deadline(&self) -> Result<(), Error> {
        self.session.check_deadline("list", self.deadline)
    }

    fn query(&self) -> Query {
        Query {
            layout: self.layout,
            statuses: shard::all_of(
                std::iter::once(self.base).chain(self.also.iter().copied()),
                self.session.settings().shards,
            ),
            due_before: self.due_for.map(|late| time::before(self.session.now(), late)),
            due_from: self.due_from,
            between: None,
            waits: self.waits,
        }
    }
}

impl<T: Listed> ListBuilder<T> {
    /// Read the listing.
    ///
    /// The index is eventually consistent: it follows the table, normally within a second. With
    /// several shards each is asked in turn.
    ///
    /// # Errors
    ///
    /// [`Error::Denied`] (is the index there, may the caller `Query` it?), [`Error::Unavailable`]
    /// and [`Error::Expired`], if nothing at all could be listed; after that, [`Page::stopped_by`].
    ///
    /// # Cost
    ///
    /// A request for each shard and 100 entries; half a read unit for each 4 KB of entries.
    pub async fn fetch(self) -> Result<Page<T>, Error> {
        self.check_deadline()?;
        let query = self.query();
        let mut page = Page {
            items: Vec::new(),
            next: Some(Cursor(Positions::start(query.statuses.len()))),
            stopped_by: None,
            rows_read: 0,
        };
        let mut from = self.from.clone().map(|cursor| cursor.0);
        while page.items.len() < self.limit {
            let limit = PAGE.min(self.limit - page.items.len());
            let until = self.session.until(self.deadline);
            let read = self.session.store().list(&query, from.clone(), limit, until);
            let rows = match Box::pin(read).await {
                Ok(rows) => rows,
                Err(error) if page.items.is_empty() => return Err(error),
                Err(error) => {
                    page.stopped_by = Some(error);
                    break;
                }
            };
            page.rows_read += rows.rows_read;
            page.items.extend(rows.rows.into_iter().map(|row| T::of(Entry(row))));
            page.next = rows.next.clone().map(Cursor);
            from = rows.next;
            if from.is_none() || self.session.is_past(self.deadline) {
                break;
            }
        }
        Ok(page)
    }
}
