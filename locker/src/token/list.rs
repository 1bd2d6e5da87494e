//! Listings: overdue, in progress, failed.

use chrono::{DateTime, Utc};

use super::locker::Locker;
use super::scan::Count;
use crate::core::record::State;
use crate::core::{shard, time};
use crate::error::Error;
use crate::settings::InvalidSetting;
use crate::store::{Cursor, Query, Row};

/// How many rows are asked for at a time.
const PAGE: usize = 100;

impl Locker {
    /// List work that should be done by now and is not, oldest due time first, over all shards.
    ///
    /// Reads only what is overdue: the index is sorted by due time.
    pub fn overdue(&self) -> Listing {
        Listing::new(self.clone(), State::InProgress, true)
    }

    /// List all work in progress, oldest due time first, over all shards.
    pub fn in_progress(&self) -> Listing {
        Listing::new(self.clone(), State::InProgress, false)
    }

    /// List failed work that waits for a person, oldest due time first, over all shards.
    pub fn failed(&self) -> Listing {
        Listing::new(self.clone(), State::Failed, false)
    }
}

/// A listing about to be made.
#[derive(Debug, Clone)]
#[must_use = "a listing does nothing until it is fetched"]
pub struct Listing {
    locker: Locker,
    state: State,
    overdue: bool,
    limit: usize,
    deadline: Option<DateTime<Utc>>,
    from: Option<Place>,
}

/// Where a listing goes on. It belongs to a listing of the same kind with the same number of shards.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place(Cursor);

impl Place {
    pub(super) const fn start() -> Self {
        Self(Cursor::none())
    }
}

/// A listing.
#[derive(Debug)]
pub struct Listed {
    /// The tokens, oldest due time first.
    pub tokens: Vec<Summary>,
    /// Where to go on. `None`: everything was listed. **Otherwise there may be more**, and an empty
    /// list does not mean that there is nothing.
    pub next: Option<Place>,
    /// What stopped the listing early, other than its limit or its deadline.
    pub stopped_by: Option<Error>,
    /// Entries of the index that DynamoDB read, so what the listing cost: half a read unit for each
    /// 4 KB, about 20 entries.
    pub rows_read: u64,
}

impl Listed {
    /// Whether everything was listed.
    #[must_use]
    pub const fn is_complete(&self) -> bool {
        self.next.is_none()
    }
}

/// An entry of the index: a moment ago this was so. Read the token before you act on it.
#[derive(Clone)]
pub struct Summary {
    /// The key of the token.
    pub token: String,
    /// In progress or failed.
    pub state: State,
    /// Who holds it.
    pub locked_by: Option<String>,
    /// Since when.
    pub created: Option<DateTime<Utc>>,
    /// When it should be done.
    pub expected_completion: Option<DateTime<Utc>>,
}

impl std::fmt::Debug for Summary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Summary")
            .field("token", &format_args!("#{}", crate::core::key::digest_of(&self.token)))
            .field("state", &self.state)
            .field("expected_completion", &self.expected_completion)
            .finish_non_exhaustive()
    }
}

impl Listing {
    const fn new(locker: Locker, state: State, overdue: bool) -> Self {
        Self { locker, state, overdue, limit: 1000, deadline: None, from: None }
    }

    /// At most so many tokens. 1,000 by default.
    pub const fn limit(mut self, tokens: usize) -> Self {
        self.limit = tokens;
        self
    }

    /// Stop at this time and say so, such as a little before the deadline of a Lambda invocation.
    pub fn deadline(mut self, deadline: impl Into<DateTime<Utc>>) -> Self {
        self.deadline = Some(deadline.into());
        self
    }

    /// Go on where an earlier listing ended.
    pub fn from(mut self, place: Place) -> Self {
        self.from = Some(place);
        self
    }

    /// Make the listing.
    ///
    /// The index follows the table, normally within a second. With several shards each is asked in
    /// turn.
    ///
    /// # Errors
    ///
    /// [`Error::Denied`] (is the index there, may the caller `Query` it?) and [`Error::Unavailable`],
    /// if nothing at all could be listed; after that, [`Listed::stopped_by`].
    ///
    /// # Cost
    ///
    /// A request for each shard and 100 tokens; half a read unit for each 4 KB of entries.
    pub async fn fetch(self) -> Result<Listed, Error> {
        self.check_deadline()?;
        let query = self.query();
        let mut listed = Listed {
            tokens: Vec::new(),
            next: Some(Place(Cursor::start(query.statuses.len()))),
            stopped_by: None,
            rows_read: 0,
        };
        let mut from = self.from.clone().map(|place| place.0);
        while listed.tokens.len() < self.limit {
            let limit = PAGE.min(self.limit - listed.tokens.len());
            let until = self.locker.until(self.deadline);
            let page = match Box::pin(self.locker.store().list(&query, from.clone(), limit, until)).await {
                Ok(page) => page,
                Err(error) if listed.tokens.is_empty() => return Err(error),
                Err(error) => {
                    listed.stopped_by = Some(error);
                    break;
                }
            };
            listed.rows_read += page.rows_read;
            listed.tokens.extend(page.rows.into_iter().map(Self::summary));
            listed.next = page.next.clone().map(Place);
            from = page.next;
            let late = self.locker.is_past(self.deadline);
            if from.is_none() || late {
                break;
            }
        }
        Ok(listed)
    }

    /// Count the tokens, no further than `limit`.
    ///
    /// # Errors
    ///
    /// As of [`fetch`](Self::fetch).
    ///
    /// # Cost
    ///
    /// A request for each shard and 1 MB of entries; half a read unit for each 4 KB of entries.
    pub async fn count(self, limit: usize) -> Result<Count, Error> {
        self.check_deadline()?;
        let until = self.locker.until(self.deadline);
        let (at_least, exact) = Box::pin(self.locker.store().count(&self.query(), limit, until)).await?;
        Ok(Count { at_least, exact })
    }

    fn check_deadline(&self) -> Result<(), InvalidSetting> {
        if self.locker.is_past(self.deadline) { Err(InvalidSetting::Deadline) } else { Ok(()) }
    }

    fn query(&self) -> Query {
        let base = if self.state == State::Failed { shard::ERROR } else { shard::IN_PROGRESS };
        Query {
            statuses: shard::all(base, self.locker.settings().shards),
            due_before: self.overdue.then(|| self.locker.now()),
        }
    }

    fn summary(row: Row) -> Summary {
        let failed = shard::base_of(&row.status) == Some(shard::ERROR);
        Summary {
            token: row.token,
            state: if failed { State::Failed } else { State::InProgress },
            locked_by: row.locked_by,
            created: row.created,
            expected_completion: time::from_text(&row.due),
        }
    }
}
