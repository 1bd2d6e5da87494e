//! Listings by the index `byStatus`, for tokens and for workflows.

use std::marker::PhantomData;
use std::time::Duration;

use chrono::{DateTime, Utc};
use serde::Serialize;

use crate::core::{shard, time};
use crate::error::Error;
use crate::session::Session;
use crate::session::due_work::ran_out;
use crate::store::{Layout, Positions, Query, Row};

/// The number of entries that one request asks for.
const PAGE: usize = 100;
/// The default number of tokens or acts in a listing.
pub(crate) const TOKENS_AND_ACTS: usize = 1000;
/// The default number of workflows or messages in a listing.
#[cfg(feature = "workflow")]
pub(crate) const WORKFLOWS_AND_MESSAGES: usize = 100;

/// Lists tokens or workflows, oldest due time first, over all shards.
///
/// `T` is the type of an entry, such as [`TokenSummary`](crate::TokenSummary) or
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
    /// Only entries that have been due for this long.
    due_for: Option<Duration>,
    due_from: Option<DateTime<Utc>>,
    /// Only workflows that wait for an event or a timer.
    waits: bool,
    limit: usize,
    deadline: Option<DateTime<Utc>>,
    from: Option<Cursor>,
    shown: PhantomData<fn() -> T>,
}

// A derived implementation would require `T: Clone`.
impl<T> Clone for ListBuilder<T> {
    fn clone(&self) -> Self {
        Self { session: self.session.clone(), from: self.from.clone(), ..*self }
    }
}

/// The position at which a listing continues. Use it only for a listing of the same kind and with
/// the same number of shards.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cursor(Positions);

/// A page of a listing.
#[derive(Debug)]
#[non_exhaustive]
pub struct Page<T> {
    /// The entries, oldest due time first.
    pub items: Vec<T>,
    /// The position of the next page. `None`: all entries were listed. **Otherwise more entries may
    /// follow**, even after an empty page.
    pub next: Option<Cursor>,
    /// The error that stopped the listing early. `None`: its end, its limit or its deadline stopped
    /// it.
    pub stopped_by: Option<Error>,
    /// The number of entries of the index that DynamoDB read. They cost half a read unit for each
    /// 4 KB, which are 10 to 20 entries.
    pub rows_read: u64,
}

impl<T> Page<T> {
    /// Returns whether all entries were listed.
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
    /// The number of entries that were counted. There are at least this many.
    pub at_least: usize,
    /// Whether there are no more entries.
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

    /// Adds values of `status`.
    #[cfg(feature = "messages")]
    pub(crate) const fn also(mut self, bases: &'static [&'static str]) -> Self {
        self.also = bases;
        self
    }

    /// Selects entries that are due now.
    pub(crate) const fn only_due(self) -> Self {
        self.due_for(Duration::ZERO)
    }

    /// Selects entries that have been due for this long.
    pub(crate) const fn due_for(mut self, time: Duration) -> Self {
        self.due_for = Some(time);
        self
    }

    /// Selects entries that were due at this time or later.
    pub(crate) const fn since(mut self, time: DateTime<Utc>) -> Self {
        self.due_from = Some(time);
        self
    }

    /// Selects workflows that wait for an event or a timer.
    #[cfg(feature = "workflow")]
    pub(crate) const fn that_wait(mut self) -> Self {
        self.waits = true;
        self
    }

    /// Sets the most entries to list. Default: 1,000 tokens or acts, 100 workflows or messages.
    pub const fn limit(mut self, entries: usize) -> Self {
        self.limit = entries;
        self
    }

    /// Sets the time at which the listing stops, such as a little before the deadline of a Lambda
    /// invocation. Then [`Page::next`] is the position at which to continue.
    pub fn deadline(mut self, deadline: impl Into<DateTime<Utc>>) -> Self {
        self.deadline = Some(deadline.into());
        self
    }

    /// Sets the position at which the listing begins: [`Page::next`] of an earlier listing.
    pub fn from(mut self, cursor: Cursor) -> Self {
        self.from = Some(cursor);
        self
    }

    /// Counts the entries, and reads at most `limit` of them. [`limit`](Self::limit) and
    /// [`from`](Self::from) have no effect.
    ///
    /// # Errors
    ///
    /// Same as [`fetch`](Self::fetch). All requests together have
    /// [`Settings::give_up_after`](crate::Settings::give_up_after), so use a small limit.
    ///
    /// # Cost
    ///
    /// 1 request for each shard and 1 MB of entries; half a read unit for each 4 KB of entries.
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
    /// Reads the listing.
    ///
    /// The index is eventually consistent: a change of the table normally arrives within a second.
    /// Up to 8 shards are read at the same time.
    ///
    /// # Errors
    ///
    /// Nothing could be listed:
    ///
    /// - [`Error::Denied`]: check that the index exists, and that the caller has the permission
    ///   `dynamodb:Query` for it.
    /// - [`Error::Unavailable`], [`Error::Expired`].
    ///
    /// A later error is returned as [`Page::stopped_by`].
    ///
    /// # Cost
    ///
    /// 1 request for each shard and 100 entries; half a read unit for each 4 KB of entries.
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
                Err(error) if ran_out(&error, self.deadline, self.session.now()) => {
                    if page.items.is_empty() {
                        return Err(Error::Expired { verb: "list" });
                    }
                    break;
                }
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
