//! One run of the reaper: both lists at once, and many workflows side by side.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use chrono::{DateTime, Utc};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::{Reaper, ReaperReport};
use crate::core::time;
use crate::core::workflow::header::List;
use crate::error::Error;
use crate::workflow::driver::due::Due;
use crate::workflow::run_time::GRACE;

/// Number of workflows in one page of a listing.
const PAGE: usize = 100;
/// What deleting one workflow may take: one that is cut short keeps its key busy until the next run.
const DELETION: Duration = Duration::from_secs(2);
/// What quarantining a workflow takes, after the time to record.
const SLACK: Duration = Duration::from_millis(500);

const FINISHED: &[List] = &[List::Finished];
const UNFINISHED: &[List] = &[List::Unfinished, List::Failing];

/// Neither list keeps the other waiting: a backlog of deletions, or last attempts that hang.
pub(super) async fn all(reaper: &Reaper) -> Result<ReaperReport, Error> {
    let left = AtomicUsize::new(reaper.limit.unwrap_or(usize::MAX));
    let (deleted, driven) = tokio::join!(each(reaper, FINISHED, &left), each(reaper, UNFINISHED, &left));
    let mut all = deleted?;
    all.add(driven?);
    Ok(all)
}

async fn each(reaper: &Reaper, lists: &'static [List], left: &AtomicUsize) -> Result<ReaperReport, Error> {
    let mut side_by_side = SideBySide::of(reaper, lists == FINISHED);
    let mut due = Due::of(&reaper.context, lists, PAGE, reaper.deadline);
    let listing = loop {
        let rows = match due.page().await {
            Ok(Some(rows)) => rows,
            Ok(None) => break Ok(()),
            Err(error) => break Err(error),
        };
        let mut rows = rows.into_iter();
        let begun = loop {
            let Some(row) = rows.next() else { break true };
            side_by_side.make_room().await;
            let one_less = |left: usize| left.checked_sub(1);
            let is_over = reaper.context.is_past(side_by_side.begins_until)
                || left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less).is_err();
            if is_over {
                break false;
            }
            let reaper = reaper.clone();
            side_by_side.tasks.spawn(async move { Box::pin(reaper.one(lists == FINISHED, &row)).await });
        };
        if !begun {
            side_by_side.reaped.finished = false;
            break Ok(());
        }
    };
    // Whatever the listing came to, what was begun ends.
    let reaped = side_by_side.end().await;
    listing.map(|()| reaped)
}

struct SideBySide {
    tasks: JoinSet<ReaperReport>,
    width: usize,
    begins_until: Option<DateTime<Utc>>,
    /// When to go without those that do not even end when they are aborted: their code blocks its thread.
    waits_until: Option<Instant>,
    reaped: ReaperReport,
}

impl SideBySide {
    fn of(reaper: &Reaper, finished: bool) -> Self {
        let left = reaper.deadline.map(|deadline| time::between(reaper.context.now(), deadline));
        let deletes = |deadline| time::before(deadline, DELETION.min(left.unwrap_or_default() / 4));
        let (width, begins_until) = match finished {
            true => (reaper.concurrency, reaper.deadline.map(deletes)),
            false => (reaper.completer.concurrency, reaper.completer.takes_until()),
        };
        Self {
            tasks: JoinSet::new(),
            width,
            begins_until,
            waits_until: left.and_then(|left| Instant::now().checked_add(left + GRACE + SLACK)),
            reaped: ReaperReport { finished: true, ..ReaperReport::default() },
        }
    }

    async fn make_room(&mut self) {
        while self.tasks.len() >= self.width {
            self.join().await;
        }
    }

    async fn end(mut self) -> ReaperReport {
        while !self.tasks.is_empty() {
            self.join().await;
        }
        self.reaped
    }

    async fn join(&mut self) {
        let next = self.tasks.join_next();
        let joined = match self.waits_until {
            None => next.await,
            Some(until) => match tokio::time::timeout_at(until, next).await {
                Ok(joined) => joined,
                Err(_) => {
                    self.reaped.failed += self.tasks.len();
                    self.reaped.finished = false;
                    // Dropping them does not wait for them.
                    self.tasks = JoinSet::new();
                    tracing::error!("workflows whose code blocks its thread were left behind");
                    return;
                }
            },
        };
        match joined {
            None => {}
            Some(Ok(reaped)) => self.reaped.add(reaped),
            Some(Err(error)) => {
                self.reaped.failed += 1;
                tracing::error!(%error, "a workflow could not be reaped");
            }
        }
    }
}

impl ReaperReport {
    /// Take in what became of others.
    fn add(&mut self, other: Self) {
        self.deleted += other.deleted;
        self.kept += other.kept;
        self.completed += other.completed;
        self.quarantined += other.quarantined;
        self.failed += other.failed;
        for (name, count) in other.unknown {
            *self.unknown.entry(name).or_default() += count;
        }
    }
}
