//! The scan: what should be done by now and is not, told in the log and in metrics.

use std::time::Duration;

use chrono::{DateTime, Utc};

use super::list::{Listing, Place};
use super::locker::Locker;
use crate::core::record::Record;
use crate::core::time;
use crate::error::Error;
use crate::metrics;
use crate::store::Freshness;

/// How many overdue tokens are listed at a time.
const PAGE: usize = 100;

impl Locker {
    /// Find work that should be done by now and is not, and say so: in the log, a line for each token
    /// (`lock.token`, `lock.owner`, `lock.since`, `lock.due`), and in the metrics
    /// [`MISSING_TASKS`](crate::metrics::MISSING_TASKS) and its siblings.
    ///
    /// Run it every five minutes. Source: seed 004, "Identifying problems with lock token processing".
    pub fn scan(&self) -> Scan {
        Scan { locker: self.clone(), deadline: None, count_to: 1000 }
    }
}

/// A scan about to be made.
#[derive(Debug, Clone)]
#[must_use = "a scan does nothing until it is run"]
pub struct Scan {
    locker: Locker,
    deadline: Option<DateTime<Utc>>,
    count_to: usize,
}

/// What a scan found.
#[derive(Debug)]
pub struct Scanned {
    /// Overdue tokens, each read anew before it was told of, oldest due time first.
    pub missing: Vec<Record>,
    /// Overdue tokens whose records cannot be read. They are missing too, and need a person.
    pub unreadable: usize,
    /// How long the oldest of the missing ones is overdue.
    pub oldest: Duration,
    /// Tokens in progress. `None`: they could not be counted.
    pub in_progress: Option<Count>,
    /// Tokens that failed and wait for a person. `None`: they could not be counted.
    pub failed: Option<Count>,
    /// Whether everything was read. **If not, there may be more missing than was found.**
    pub finished: bool,
    /// What stopped the scan, other than its deadline.
    pub stopped_by: Option<Error>,
    /// Entries of the index that were read to find what is missing.
    pub rows_read: u64,
}

/// A number that was counted up to a limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Count {
    /// At least so many.
    pub at_least: usize,
    /// And no more.
    pub exact: bool,
}

impl Scan {
    /// Stop at this time and say so, such as a little before the deadline of a Lambda invocation.
    pub fn deadline(mut self, deadline: impl Into<DateTime<Utc>>) -> Self {
        self.deadline = Some(deadline.into());
        self
    }

    /// Count tokens in progress and failed ones no further than this, 1,000 by default: counting reads
    /// every entry, where finding what is overdue does not.
    pub const fn count_to(mut self, limit: usize) -> Self {
        self.count_to = limit;
        self
    }

    /// Run the scan.
    ///
    /// Of what is overdue, each page is read, each token of it is read anew (the index is
    /// a moment behind), and what is still overdue is logged at once, so that a scan that is cut short
    /// has told what it found. Tokens that cannot be read are told of as well.
    ///
    /// # Errors
    ///
    /// As of [`Listing::fetch`], if nothing at all could be read. After that, [`Scanned::stopped_by`].
    ///
    /// # Cost
    ///
    /// A request for each shard and 100 overdue tokens, and for each overdue token 1 request and 1 read
    /// unit; for the counts, half a read unit for each 4 KB of entries, about 20 entries.
    pub async fn run(self) -> Result<Scanned, Error> {
        let mut scanned = Scanned {
            missing: Vec::new(),
            unreadable: 0,
            oldest: Duration::ZERO,
            in_progress: None,
            failed: None,
            finished: false,
            stopped_by: None,
            rows_read: 0,
        };
        // The counts are bounded, so they come first: a large backlog must not make them look like zero.
        let counted = self.count(&mut scanned).await;
        let mut place = None;
        let mut pages = 0;
        let listed = loop {
            match self.page(place.take(), &mut scanned).await {
                Ok(None) => break Ok(()),
                Ok(next) => place = next,
                Err(error) if pages == 0 && scanned.missing.is_empty() => {
                    metrics::scan_failed();
                    return Err(error);
                }
                Err(error) => break Err(Some(error)),
            }
            pages += 1;
            if self.is_late() {
                break Err(None);
            }
        };
        scanned.finished = listed.is_ok() && counted.is_ok();
        scanned.stopped_by = listed.err().flatten().or(counted.err());
        self.tell(&scanned);
        Ok(scanned)
    }

    /// One page of overdue tokens.
    async fn page(&self, place: Option<Place>, scanned: &mut Scanned) -> Result<Option<Place>, Error> {
        let listing = self.bounded(self.locker.overdue().limit(PAGE));
        let listing = place.into_iter().fold(listing, Listing::from);
        let mut listed = listing.fetch().await?;
        scanned.rows_read += listed.rows_read;
        for summary in &listed.tokens {
            if self.is_late() {
                return Ok(listed.next.or(Some(Place::start())));
            }
            let key = crate::Key::stored(summary.token.clone());
            let until = self.locker.until(self.deadline);
            match self.locker.store().read(key.as_str(), Freshness::Strong, until).await {
                Ok(Some(record)) if record.is_overdue(self.locker.now()) => {
                    let late = time::between(record.expected_completion(), self.locker.now());
                    tracing::warn!(
                        lock.token = self.locker.shown(&key),
                        lock.owner = record.locked_by(),
                        lock.since = %record.created(),
                        lock.due = %record.expected_completion(),
                        lock.overdue_seconds = late.as_secs(),
                        "a task is missing"
                    );
                    scanned.oldest = scanned.oldest.max(late);
                    scanned.missing.push(record);
                }
                // It ended a moment ago.
                Ok(_) => {}
                Err(error @ Error::Record(_)) => {
                    scanned.unreadable += 1;
                    tracing::error!(lock.token = self.locker.shown(&key), %error, "an overdue token cannot be read");
                }
                Err(error) => return Err(error),
            }
        }
        match listed.stopped_by.take() {
            Some(error) => Err(error),
            None => Ok(listed.next),
        }
    }

    async fn count(&self, scanned: &mut Scanned) -> Result<(), Error> {
        scanned.in_progress = Some(self.bounded(self.locker.in_progress()).count(self.count_to).await?);
        scanned.failed = Some(self.bounded(self.locker.failed()).count(self.count_to).await?);
        Ok(())
    }

    fn bounded(&self, listing: Listing) -> Listing {
        self.deadline.into_iter().fold(listing, Listing::deadline)
    }

    fn is_late(&self) -> bool {
        self.locker.is_past(self.deadline)
    }

    fn tell(&self, scanned: &Scanned) {
        metrics::scanned(scanned);
        let counted = |count: Option<Count>| count.map(|count| count.at_least);
        tracing::info!(
            missing = scanned.missing.len(),
            unreadable = scanned.unreadable,
            oldest_seconds = scanned.oldest.as_secs(),
            in_progress = counted(scanned.in_progress),
            failed = counted(scanned.failed),
            finished = scanned.finished,
            stopped_by = scanned.stopped_by.as_ref().map(ToString::to_string),
            "scanned"
        );
    }
}
