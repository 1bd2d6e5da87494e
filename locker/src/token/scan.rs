//! The scan: reports overdue tokens in the log and in metrics.

use std::time::Duration;

use chrono::{DateTime, Utc};
use serde::ser::SerializeStruct as _;
use serde::{Serialize, Serializer};

use super::list::TokenSummary;
use super::locker::Locker;
use crate::core::key::Key;
use crate::core::rounds::{Entry, Kind};
use crate::core::time;
use crate::core::token::record::{Record, TokenState};
use crate::error::Error;
use crate::metrics;
use crate::session::Session;
use crate::session::due_work::{
    Counts, DueWork, Lists, Page, Pool, RunReport, Then, Turn, Work, ran_out, scheduled,
};
use crate::session::heartbeat::Machine;
use crate::session::listing::{Count, ListBuilder};
use crate::store::{Freshness, Layout, Positions};

/// Overdue tokens that are read at the same time.
const AT_ONCE: usize = 16;

/// Finds overdue tokens and reports them in the log and in metrics.
///
/// Each overdue token is a line in the log (`lock.token`, `lock.owner`, `lock.since`, `lock.due`);
/// the metrics are [`missingTasks`](crate::metrics) and its siblings. Run it every five minutes.
/// Source: Adrian Hesketh, "Idempotency in Lambda - 2", "Identifying problems with lock token
/// processing".
#[derive(Debug, Clone)]
#[must_use = "a scanner does nothing until it is run"]
pub struct Scanner {
    locker: Locker,
    deadline: Option<DateTime<Utc>>,
    limit: Option<usize>,
    count_to: usize,
}

/// The counts of a scan.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct ScanReport {
    /// Overdue tokens, each read again before it was reported, in the order of their expected
    /// completion.
    pub missing: Vec<Record>,
    /// Number of overdue tokens whose records cannot be read. They count as missing too, and need
    /// an operator.
    pub unreadable: usize,
    /// How long the oldest missing token has been overdue.
    pub oldest: Duration,
    /// Number of tokens in progress; `None` if they could not be counted.
    pub in_progress: Option<Count>,
    /// Number of held tokens, which wait for an operator; `None` if they could not be counted.
    pub held: Option<Count>,
    /// Index entries read to find the missing tokens.
    pub rows_read: u64,
}

impl Scanner {
    /// Creates a scanner for this locker's table.
    pub fn new(locker: &Locker) -> Self {
        Self { locker: locker.clone(), deadline: None, limit: None, count_to: 1000 }
    }

    /// Stops at this time, such as shortly before the deadline of a Lambda invocation.
    ///
    /// A scan that stopped has [`RunReport::finished`] `false`. If it stopped while it counted, it
    /// returns [`Error::Expired`].
    pub fn deadline(mut self, deadline: impl Into<DateTime<Utc>>) -> Self {
        self.deadline = Some(deadline.into());
        self
    }

    /// Sets how many overdue tokens it reads in one run. Default: as many as there are, until its
    /// deadline.
    ///
    /// A scan that stopped at the limit has [`RunReport::finished`] `false`.
    pub const fn limit(mut self, tokens: usize) -> Self {
        self.limit = Some(tokens);
        self
    }

    /// Counts tokens in progress and held tokens up to this limit, 1,000 by default.
    ///
    /// Counting reads every entry up to the limit; finding overdue tokens reads only those.
    pub const fn count_to(mut self, limit: usize) -> Self {
        self.count_to = limit;
        self
    }

    /// Runs the scan.
    ///
    /// It lists overdue tokens and reads each token again, because the index is eventually
    /// consistent. A token that is still overdue is logged at once, so that a scan that is cut
    /// short has reported its findings. Tokens that cannot be read are logged as well.
    ///
    /// # Errors
    ///
    /// Same as [`ListBuilder::fetch`], if nothing at all could be read. Later errors are in
    /// [`RunReport::stopped_by`].
    ///
    /// # Cost
    ///
    /// 1 request for each shard and 100 overdue tokens, and 1 request and 1 read unit for each
    /// overdue token. Up to 16 of these reads are under way at a time. 1 write unit to record the
    /// run, which [`status`](crate::operator) reads. The record needs `dynamodb:PutItem` on the
    /// item `locker runs scanner`; without that permission the scan works, but has no record. The
    /// two counts cost 1 request for each shard, and half a read unit for each 4 KB of entries, 10
    /// to 20 entries.
    pub async fn run(&self) -> Result<RunReport<ScanReport>, Error> {
        scheduled(self.session(), Machine::Scanner, self.deadline, Box::pin(self.scan())).await
    }

    async fn scan(&self) -> Result<RunReport<ScanReport>, Error> {
        // The counts are bounded, so they come first: a large backlog must not leave them
        // uncounted.
        let mut counts = ScanReport::default();
        let counted = self.count(&mut counts).await;
        self.session().check_deadline("list", self.deadline)?;
        let lists = Lists::of(
            self.session(),
            &Layout::TOKENS,
            &[TokenState::InProgress.status_base()],
            self.deadline,
        )
        .due();
        let work = DueWork {
            pools: vec![Pool { width: AT_ONCE, begins_until: self.deadline }],
            limit: self.limit,
            deadline: self.deadline,
            ..DueWork::new(self.session(), lists.len(), AT_ONCE)
        };
        let mut scanned = work.run(&Scan { scanner: self, lists }).await?;
        scanned.counts.add(counts);
        // Reads end in any order.
        scanned.counts.missing.sort_by_key(Record::expected_completion);
        scanned.finished &= counted.is_ok();
        scanned.stopped_by = scanned.stopped_by.or(counted.err());
        self.tell(&scanned);
        Ok(scanned)
    }

    async fn count(&self, counts: &mut ScanReport) -> Result<(), Error> {
        counts.in_progress = Some(self.bounded(self.locker.in_progress()).count(self.count_to).await?);
        counts.held = Some(self.bounded(self.locker.held()).count(self.count_to).await?);
        Ok(())
    }

    fn bounded(&self, listing: ListBuilder<TokenSummary>) -> ListBuilder<TokenSummary> {
        self.deadline.into_iter().fold(listing, ListBuilder::deadline)
    }

    const fn session(&self) -> &Session {
        self.locker.session()
    }

    fn tell(&self, scanned: &RunReport<ScanReport>) {
        let counted = |count: Option<Count>| count.map(|count| count.at_least);
        metrics::scanned(&metrics::Scanned {
            missing: scanned.missing.len() + scanned.unreadable,
            oldest: scanned.oldest,
            in_progress: counted(scanned.in_progress),
            held: counted(scanned.held),
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

/// One scan: the lanes are shards.
struct Scan<'a> {
    scanner: &'a Scanner,
    lists: Lists<'a>,
}

impl Work for Scan<'_> {
    type Item = Key;
    type Place = Positions;
    type Counts = ScanReport;

    async fn read(
        &self,
        list: usize,
        from: Option<Positions>,
    ) -> Result<Page<Key, Positions, ScanReport>, Error> {
        let page = self.lists.read(list, from).await?;
        let entries = page.rows.into_iter().map(|row| Entry {
            lane: row.status,
            due: row.due,
            kind: Kind::One,
            item: Key::stored(row.key),
        });
        let counts = ScanReport { rows_read: page.rows_read, ..ScanReport::default() };
        Ok(Page { entries: entries.collect(), next: page.next, counts })
    }

    /// Reads a listed token again, since the index is eventually consistent.
    async fn turn(&self, key: &mut Key) -> Turn<ScanReport> {
        let (session, mut counts) = (self.scanner.session(), ScanReport::default());
        let until = session.until(self.scanner.deadline);
        match session.store().read(key.as_str(), Freshness::Strong, until).await {
            Ok(Some(record)) if record.is_overdue(session.now()) => counts.report(record, session),
            Ok(_) => {}
            Err(error @ Error::Record { .. }) => {
                counts.unreadable += 1;
                let key = session.shown(key.as_str());
                tracing::error!(lock.token = key, %error, "an overdue token cannot be read");
            }
            Err(error) if ran_out(&error, self.scanner.deadline, session.now()) => {
                return Turn { counts, is_work: true, then: Then::Cut };
            }
            Err(error) => return Turn { counts, is_work: true, then: Then::Fail(error) },
        }
        Turn::done(counts)
    }

    async fn abandon(&self, _: &Key) -> ScanReport {
        ScanReport::default()
    }
}

impl ScanReport {
    fn report(&mut self, record: Record, session: &Session) {
        let late = time::between(record.expected_completion(), session.now());
        tracing::warn!(
            lock.token = session.shown(record.key().as_str()),
            lock.owner = record.locked_by(),
            lock.since = %record.created(),
            lock.due = %record.expected_completion(),
            lock.overdue_seconds = late.as_secs(),
            "a task is missing"
        );
        self.oldest = late;
        self.missing.push(record);
    }
}

impl Counts for ScanReport {
    fn add(&mut self, part: Self) {
        self.missing.extend(part.missing);
        self.unreadable += part.unreadable;
        self.oldest = self.oldest.max(part.oldest);
        self.in_progress = part.in_progress.or(self.in_progress);
        self.held = part.held.or(self.held);
        self.rows_read += part.rows_read;
    }
}

impl Serialize for ScanReport {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut report = serializer.serialize_struct("ScanReport", 6)?;
        // Like the metric, `missing` includes tokens that cannot be read.
        report.serialize_field("missing", &(self.missing.len() + self.unreadable))?;
        report.serialize_field("unreadable", &self.unreadable)?;
        report.serialize_field("oldestSeconds", &self.oldest.as_secs())?;
        report.serialize_field("inProgress", &self.in_progress)?;
        report.serialize_field("held", &self.held)?;
        report.serialize_field("rowsRead", &self.rows_read)?;
        report.end()
    }
}
