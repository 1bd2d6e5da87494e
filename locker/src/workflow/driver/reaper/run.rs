//! One run of the reaper: both kinds of due workflows at once, and many workflows side by side.

use super::{Reaper, ReaperReport};
use crate::core::rounds::{Entry, Kind};
use crate::core::time;
use crate::core::workflow::header::List;
use crate::error::Error;
use crate::session::due_work::{Counts, DueWork, Lists, Page, Pool, RunReport, Turn, Work, in_own_task};
use crate::store::{Layout, Positions, Row};
use crate::workflow::driver::run::PATIENCE;

/// The pools: neither keeps the other waiting, neither by a backlog of deletions nor by last
/// attempts that hang.
const FINISHED: usize = 0;
const UNFINISHED: usize = 1;

struct Reaps<'a> {
    reaper: &'a Reaper,
    finished: Lists<'a>,
    unfinished: Lists<'a>,
}

pub(super) async fn all(reaper: &Reaper) -> Result<RunReport<ReaperReport>, Error> {
    let (context, deadline) = (&reaper.context, reaper.deadline);
    let lists = |bases: &[&str]| Lists::of(context, &Layout::WORKFLOWS, bases, deadline).due();
    let finished = lists(&[List::Finished.base()]);
    let unfinished = lists(&[List::Unfinished, List::Failing].map(List::base));
    let left = deadline.map(|deadline| time::between(context.now(), deadline));
    let deletes = |deadline| time::before(deadline, Reaper::LEAST.min(left.unwrap_or_default() / 4));
    let of_finished = std::iter::repeat_n(FINISHED, finished.len());
    let work = DueWork {
        pools: vec![
            Pool { width: reaper.concurrency, begins_until: deadline.map(deletes) },
            Pool { width: reaper.completer.concurrency, begins_until: reaper.completer.takes_until() },
        ],
        lists: of_finished.chain(std::iter::repeat_n(UNFINISHED, unfinished.len())).collect(),
        limit: reaper.limit,
        deadline,
        patience: PATIENCE,
        ..DueWork::new(context, 0, 0)
    };
    work.run(&Reaps { reaper, finished, unfinished }).await
}

impl Work for Reaps<'_> {
    /// Whether it is finished, and its entry in the index.
    type Item = (bool, Row);
    type Place = Positions;
    type Counts = ReaperReport;

    async fn read(
        &self,
        list: usize,
        from: Option<Positions>,
    ) -> Result<Page<(bool, Row), Positions, ReaperReport>, Error> {
        let (is_finished, page) = match list.checked_sub(self.finished.len()) {
            None => (true, self.finished.read(list, from).await?),
            Some(list) => (false, self.unfinished.read(list, from).await?),
        };
        let entries = page.rows.into_iter().map(|row| Entry {
            lane: row.name.clone().unwrap_or_default(),
            due: row.due.clone(),
            kind: Kind::One,
            item: (is_finished, row),
        });
        Ok(Page { entries: entries.collect(), next: page.next, counts: ReaperReport::default() })
    }

    async fn turn(&self, (is_finished, row): &mut (bool, Row)) -> Turn<ReaperReport> {
        let (reaper, is_finished, row) = (self.reaper.clone(), *is_finished, row.clone());
        let reaping = async move { reaper.one(is_finished, &row).await };
        let reaped = in_own_task(Box::pin(reaping)).await;
        Turn::done(reaped.unwrap_or_else(|why| {
            tracing::error!(why, "a workflow could not be reaped");
            ReaperReport { failed: 1, ..ReaperReport::default() }
        }))
    }

    async fn abandon(&self, (_, row): &(bool, Row)) -> ReaperReport {
        let key = self.reaper.context.shown(&row.key);
        tracing::error!(
            workflow.key = key,
            "the run ended during its work on a workflow; the workflow may or may not be deleted"
        );
        ReaperReport { failed: 1, ..ReaperReport::default() }
    }
}

impl Counts for ReaperReport {
    fn add(&mut self, part: Self) {
        self.deleted += part.deleted;
        self.kept += part.kept;
        self.completed += part.completed;
        self.quarantined += part.quarantined;
        self.failed += part.failed;
        for (name, count) in part.unknown {
            *self.unknown.entry(name).or_default() += count;
        }
    }
}
