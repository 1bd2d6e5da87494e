//! The messages in the table at the begin of a run: the gauges, and the dead ones.

use std::time::Duration;

use chrono::{DateTime, Utc};
use futures_util::future::join;
use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};

use crate::core::message::letter::{MessageState, due_of, waits_after};
use crate::core::message::outlook::{Listed, Stuck};
use crate::core::{shard, time};
use crate::error::Error;
use crate::metrics;
use crate::store::{Layout, Query, Row};
use crate::workflow::context::Context;

/// Rows in one page, and the highest count of a gauge.
const PAGE: usize = 1000;
/// Pages of a list in which the oldest row may be anywhere.
const PAGES: usize = 10;
/// Lists that are read at the same time.
const AT_ONCE: usize = 8;

/// Sets the gauges, and returns the dead messages.
///
/// They are read before the first message is sent. So every run sets the gauges, also a run that
/// uses all of its time, and the age of the oldest message is that before the run. A gauge that
/// cannot be read is not set; the run continues.
pub(super) async fn read(context: &Context, deadline: Option<DateTime<Utc>>) -> Stuck {
    let rows = |status, pages| read_list(context, status, pages, deadline);
    let [unsent, waiting, dead] = [MessageState::Unsent, MessageState::Waiting, MessageState::Dead];
    // Messages that were never tried are listed in the order of their commits, so their first row
    // is the oldest. The others are listed in the order of their next tries: all of them are read.
    // Beyond the last page there may be an older one, and the gauge is a lower bound.
    let never_tried = rows(unsent.as_str(), 1);
    let tried = rows(unsent.also()[0], PAGES);
    let (unsent, (waiting, dead)) = join(
        Box::pin(join(never_tried, tried)),
        Box::pin(join(rows(waiting.as_str(), 1), rows(dead.as_str(), PAGES))),
    )
    .await;
    let now = context.now();
    let age = |oldest: Option<DateTime<Utc>>| oldest.map_or(Duration::ZERO, |it| time::between(it, now));
    // A message waits, or is dead, since it was due.
    let due = |row: &Row| due_of(&row.due);
    let since_due = |rows: &Vec<Row>| (rows.len().min(PAGE), age(rows.iter().filter_map(due).min()));
    let unsent = match unsent {
        (Ok(never_tried), Ok(tried)) => {
            let rows = || never_tried.iter().chain(&tried);
            Some((rows().count().min(PAGE), age(rows().filter_map(|row| row.created).min())))
        }
        _ => None,
    };
    metrics::relayed(unsent, waiting.as_ref().ok().map(since_due), dead.as_ref().ok().map(since_due));
    let mut stuck = Stuck::default();
    dead.iter().flatten().filter_map(listed).for_each(|message| stuck.add(message));
    stuck
}

/// A message as a row of the index shows it.
pub(super) fn listed(row: &Row) -> Option<Listed<'_>> {
    let (partition, subject) = (row.key.as_str(), row.subject.as_deref());
    row.item.as_deref().map(|item| Listed { partition, item, subject })
}

/// The first pages of all shards of a list.
async fn read_list(
    context: &Context,
    status: &str,
    pages: usize,
    deadline: Option<DateTime<Utc>>,
) -> Result<Vec<Row>, Error> {
    let shards = shard::all(status, context.settings().shards);
    let reads = shards.into_iter().map(|status| async {
        let query = Query {
            layout: &Layout::WORKFLOWS,
            statuses: vec![status],
            due_before: None,
            due_from: None,
            between: None,
            waits: false,
        };
        let (mut rows, mut from) = (Vec::new(), None);
        for _ in 0..pages {
            let page = context.store().list(&query, from, PAGE, context.until(deadline));
            let page = Box::pin(page).await?;
            rows.extend(page.rows);
            from = page.next;
            if from.is_none() {
                break;
            }
        }
        // Waiting messages are listed by consumer, so each later consumer may have the oldest one.
        let mut after = from.and_then(|_| rows.last()).and_then(|last| waits_after(&last.due));
        while let Some(between) = after {
            let query = Query { between: Some(between), ..query.clone() };
            let page = context.store().list(&query, None, 1, context.until(deadline));
            let first = Box::pin(page).await?.rows.into_iter().next();
            after = first.as_ref().and_then(|row| waits_after(&row.due));
            rows.extend(first);
        }
        Ok::<_, Error>(rows)
    });
    let reads: Vec<_> = reads.collect();
    let all: Vec<Vec<Row>> = stream::iter(reads).buffer_unordered(AT_ONCE).try_collect().await?;
    Ok(all.into_iter().flatten().collect())
}
