//! The scan: reports overdue tokens in the log and in metrics.

use std::time::Duration;

use chrono::{DateTime, Utc};
use futures_util::stream::{self, StreamExt as _};
use serde::ser::SerializeStruct as _;
use serde::{Serialize, Serializer};

use super::list::TokenSummary;
use super::locker::Locker;
use crate::core::key::Key;
use crate::core::time;
use crate::core::token::record::Record;
use crate::error::Error;
use crate::metrics;
use crate::session::Session;
use crate::session::heartbeat::Machine;
use crate::session::listing::{Count, Cursor, ListBuilder};
use crate::store::Freshness;

/// Overdue tokens in one page of the scan.
const PAGE: usize = 100;

/// Overdue tokens that are read at the same time.
const AT_ONCE: usize = 16;

/// What became of an overdue token that was listed.
enum Look {
    Missing(Box<Record>),
    /// It ended since it was listed.
    Ended,
    Unreadable(Key, Error),
    /// The deadline has passed, and it was not read.
    Late,
}

/// Finds overdue tokens and reports them in the log and in metrics.
///
/// Each overdue token is a line in the log (`lock.token`, `lock.owner`, `lock.since`, `lock.due`); the
/// metrics are [`MISSING_TASKS`](crate::metrics::MISSING_TASKS) and its siblings. Run it every five minutes.
/// Source: seed 004, "Identifying problems with lock token processing".
#[derive(Debug, Clone)]
#[must_use = "a scanner does nothing until it is run"]
pub struct Scanner {
    locker: Locker,
    deadline: Option<DateTime<Utc>>,
    limit: Option<usize>,
    count_to: usize,
}

/// The result of a scan.
#[derive(Debug)]
#[non_exhaustive]
pub struct ScanReport {
    /// Overdue tokens, each read again before it was reported, in the order of their expected completion.
    pub missing: Vec<Record>,
    /// Number of overdue tokens whose records cannot be read. They count as missing too, and need an
    /// operator.
    pub unreadable: usize,
    /// How long the oldest missing token has been overdue.
    pub oldest: Duration,
    /// Number of tokens in progress; `None` if they could not be counted.
    pub in_progress: Option<Count>,
    /// Number of held tokens, which wait for an operator; `None` if they could not be counted.
    pub held: Option<Count>,
    /// Whether everything was read. **If not, more tokens may be missing than were found.**
    pub finished: bool,
    /// The error that stopped the scan, if one did; `None` also if its deadline did.
    pub stopped_by: Option<Error>,
    /// Index entries read to find the missing tokens.
    pub rows_read: u64,
}

impl Scanner {
    /// Create a scanner for this locker's table.
    pub fn new(locker: &Locker) -> Self {
        Self { locker: locker.clone(), deadline: None, limit: None, count_to: 1000 }
    }

    /// Stop at this time, such as shortly before the deadline of a Lambda invocation.
    ///
    /// A scan that stopped has [`ScanReport::finished`] `false`.
    pub fn deadline(mut self, deadline: impl Into<DateTime<Utc>>) -> Self {
        self.deadline = Some(deadline.into());
        self
    }

    /// Sets how many overdue tokens it reads in one run. Default: as many as there are, until its deadline.
    ///
    /// A scan that stopped at the limit has [`ScanReport::finished`] `false`.
    pub const fn limit(mut self, tokens: usize) -> Self {
        self.limit = Some(tokens);
        self
    }

    /// Count tokens in progress and held tokens up to this limit, 1,000 by default.
    ///
    /// Counting reads every entry up to the limit; finding overdue tokens reads only those.
    pub const fn count_to(mut self, limit: usize) -> Self {
        self.count_to = limit;
        self
    }

    /// Run the scan.
    ///
    /// It lists overdue tokens page by page and reads each token again, because the index is eventually
    /// consistent. A token that is still overdue is logged at once, so that a scan that is cut short has
    /// reported what it found. Tokens that cannot be read are logged too.
    ///
    /// # Errors
    ///
    /// Same as [`ListBuilder::fetch`], if nothing at all could be read. Later errors are in
    /// [`ScanReport::stopped_by`].
    ///
    /// # Cost
    ///
    /// 1 request for each shard and 100 overdue tokens, and 1 request and 1 read unit for each overdue token.
    /// Up to 16 of these reads are under way at a time. 1 write unit to write down that it ran, which
    /// [`status`](crate::operator) reads; it needs `dynamodb:PutItem` on the item `locker runs scanner`, and works without. The counts cost half a read unit for each 4 KB of entries, 10 to 20 entries.
    pub async fn run(&self) -> Result<ScanReport, Error> {
        let mut scanned = ScanReport {
            missing: Vec::new(),
            unreadable: 0,
            oldest: Duration::ZERO,
            in_progress: None,
            held: None,
            finished: false,
            stopped_by: None,
            rows_read: 0,
        };
        // The counts are bounded, so they come first: a large backlog must not leave them uncounted.
        let counted = self.count(&mut scanned).await;
        let mut place = None;
        let mut pages = 0;
        let mut left = self.limit.unwrap_or(usize::MAX);
        let listed = loop {
            match self.page(place.take(), &mut left, &mut scanned).await {
                Ok(None) => break Ok(()),
                Ok(next) => place = next,
                Err(error) if pages == 0 && scanned.missing.is_empty() => {
                    metrics::scan_failed();
                    return Err(error);
                }
                Err(error) => break Err(Some(error)),
            }
            pages += 1;
            if self.is_late() || left == 0 {
                break Err(None);
            }
        };
        scanned.finished = listed.is_ok() && counted.is_ok();
        scanned.stopped_by = listed.err().flatten().or(counted.err());
        self.tell(&scanned);
        self.session().ran(Machine::Scanner, scanned.finished, self.deadline).await;
        Ok(scanned)
    }

    /// One page of overdue tokens.
    async fn page(
        &self,
        place: Option<Cursor>,
        left: &mut usize,
        scanned: &mut ScanReport,
    ) -> Result<Option<Cursor>, Error> {
        let listing = self.bounded(self.locker.overdue().limit(PAGE.min(*left)));
        let listing = place.into_iter().fold(listing, ListBuilder::from);
        let mut listed = listing.fetch().await?;
        scanned.rows_read += listed.rows_read;
        *left = left.saturating_sub(listed.items.len());
        // In order, whichever is answered first: what is reported is always the oldest of what there is.
        let mut looks = stream::iter(std::mem::take(&mut listed.items))
            .map(|summary| self.look(summary))
            .buffered(AT_ONCE);
        while let Some(look) = looks.next().await {
            match look? {
                Look::Missing(record) => self.report(*record, scanned),
                Look::Ended => {}
                Look::Unreadable(key, error) => {
                    scanned.unreadable += 1;
                    tracing::error!(lock.token = self.session().shown(key.as_str()), %error, "an overdue token cannot be read");
                }
                Look::Late => return Ok(listed.next.take().or(Some(Cursor::start()))),
            }
        }
        drop(looks);
        match listed.stopped_by.take() {
            Some(error) => Err(error),
            None => Ok(listed.next),
        }
    }

    /// Read a listed token again, since the index is a moment behind.
    async fn look(&self, summary: TokenSummary) -> Result<Look, Error> {
        if self.is_late() {
            return Ok(Look::Late);
        }
        let key = Key::stored(summary.token);
        let until = self.session().until(self.deadline);
        match self.session().store().read(key.as_str(), Freshness::Strong, until).await {
            Ok(Some(record)) if record.is_overdue(self.session().now()) => {
                Ok(Look::Missing(Box::new(record)))
            }
            Ok(_) => Ok(Look::Ended),
            Err(error @ Error::Record(_)) => Ok(Look::Unreadable(key, error)),
            Err(error) => Err(error),
        }
    }

    fn report(&self, record: Record, scanned: &mut ScanReport) {
        let late = time::between(record.expected_completion(), self.session().now());
        tracing::warn!(
            lock.token = self.session().shown(record.key().as_str()),
            lock.owner = record.locked_by(),
            lock.since = %record.created(),
            lock.due = %record.expected_completion(),
            lock.overdue_seconds = late.as_secs(),
            "a task is missing"
        );
        scanned.oldest = scanned.oldest.max(late);
        scanned.missing.push(record);
    }

    async fn count(&self, scanned: &mut ScanReport) -> Result<(), Error> {
        scanned.in_progress = Some(self.bounded(self.locker.in_progress()).count(self.count_to).await?);
        scanned.held = Some(self.bounded(self.locker.held()).count(self.count_to).await?);
        Ok(())
    }

    fn bounded(&self, listing: ListBuilder<TokenSummary>) -> ListBuilder<TokenSummary> {
        self.deadline.into_iter().fold(listing, ListBuilder::deadline)
    }

    const fn session(&self) -> &Session {
        self.locker.session()
    }

    fn is_late(&self) -> bool {
        self.session().is_past(self.deadline)
    }

    fn tell(&self, scanned: &ScanReport) {
        let counted = |count: Option<Count>| count.map(|count| count.at_least);
        metrics::scanned(&metrics::Scanned {
            missing: scanned.missing.len() + scanned.unreadable,
            oldest: scanned.oldest,
            in_progress: counted(scanned.in_progress),
            held: counted(scanned.held),
            finished: scanned.finished,
        });
        tracing::info!(
            missing = scanned.missing.len(),
            unreadable = scanned.unreadable,
            oldest_seconds = scanned.oldest.as_secs(),
            in_progress = counted(scanned.in_progress),
            held = counted(scanned.held),
            finished = scanned.finished,
            stopped_by = scanned.stopped_by.as_ref().map(ToString::to_string),
            "scanned"
        );
    }
}

impl Serialize for ScanReport {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut report = serializer.serialize_struct("ScanReport", 8)?;
        // As the metric has it: what cannot be read is missing, too.
        report.serialize_field("missing", &(self.missing.len() + self.unreadable))?;
        report.serialize_field("unreadable", &self.unreadable)?;
        report.serialize_field("oldestSeconds", &self.oldest.as_secs())?;
        report.serialize_field("inProgress", &self.in_progress)?;
        report.serialize_field("held", &self.held)?;
        report.serialize_field("finished", &self.finished)?;
        report.serialize_field("rowsRead", &self.rows_read)?;
        match &self.stopped_by {
            Some(error) => report.serialize_field("stoppedBy", &error.to_string())?,
            None => report.skip_field("stoppedBy")?,
        }
        report.end()
    }
}
