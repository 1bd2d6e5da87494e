//! Listing what is due, and working on many workflows at a time.

use std::collections::{HashSet, VecDeque};
use std::time::Duration;

use chrono::{DateTime, Utc};
use futures_util::stream::{self, StreamExt as _};

use super::batcher::Batcher;
use super::partition::Partition;
use super::relay::{Relay, RelayReport};
use crate::core::message::letter::MessageState;
use crate::core::{shard, time};
use crate::error::Error;
use crate::store::{Layout, Query, Row};
use crate::workflow::context::Context;

/// Due messages in one page of the listing.
const PAGE: usize = 100;
/// What is unsent is counted up to this.
const COUNT_TO: usize = 1000;
/// Nothing is begun so shortly before the deadline. A target has half of it to reply.
pub(super) const RESERVE: Duration = Duration::from_secs(2);

pub(super) async fn all(relay: &Relay) -> Result<RelayReport, Error> {
    let context = &relay.context;
    let ends = relay.deadline.map(|deadline| time::before(deadline, RESERVE));
    let batcher = Batcher::new(context, &relay.router, ends);
    let query = in_state(context, MessageState::Unsent, Some(context.now()));
    let (mut done, mut seen) = (RelayReport::default(), HashSet::new());
    let (mut from, mut worked_on) = (None, 0);
    loop {
        let page = match context.store().list(&query, from, PAGE, context.until(relay.deadline)).await {
            Ok(page) => page,
            Err(error) if seen.is_empty() => return Err(error),
            Err(error) => {
                done.stopped_by = Some(error);
                return Ok(done);
            }
        };
        let due = page.rows.into_iter().map(|row| row.key);
        let mut due: VecDeque<_> = due.filter(|key| seen.insert(key.clone())).collect();
        let mut all_taken = true;
        // Those that wait for an operator are the oldest, and come first each time: they use up no limit.
        while all_taken && !due.is_empty() {
            let most = relay.limit.map_or(usize::MAX, |limit| limit.saturating_sub(worked_on));
            if most == 0 {
                all_taken = false;
            }
            let begun = due.drain(..most.min(due.len()));
            let work = begun.map(|workflow| {
                let (router, batcher) = (&relay.router, &batcher);
                async move {
                    if context.is_past(ends) {
                        return None;
                    }
                    Some(Partition { context, router, batcher, ends, workflow }.relay().await)
                }
            });
            let mut work = stream::iter(work).buffer_unordered(relay.concurrency);
            while let Some(part) = work.next().await {
                match part {
                    Some(part) => {
                        worked_on += usize::from(part.has_any());
                        done.add(part);
                    }
                    None => all_taken = false,
                }
            }
        }
        from = page.next;
        if from.is_none() || !all_taken {
            done.finished = from.is_none() && all_taken && !context.is_past(ends);
            return Ok(done);
        }
    }
}

/// How many messages are in a state, and how long the oldest has been so.
pub(super) async fn kept(
    context: &Context,
    state: MessageState,
    deadline: Option<DateTime<Utc>>,
) -> Result<(usize, Duration), Error> {
    let query = in_state(context, state, None);
    let page = context.store().list(&query, None, COUNT_TO, context.until(deadline)).await?;
    // One that waits, or is dead, has been so since it was due.
    let since = |row: &Row| match state {
        MessageState::Unsent => row.created,
        _ => time::from_text(&row.due),
    };
    let oldest = page.rows.iter().filter_map(since).min();
    let age = oldest.map_or(Duration::ZERO, |oldest| time::between(oldest, context.now()));
    Ok((page.rows.len(), age))
}

fn in_state(context: &Context, state: MessageState, due_before: Option<DateTime<Utc>>) -> Query {
    Query {
        layout: &Layout::WORKFLOWS,
        statuses: shard::all(state.as_str(), context.settings().shards),
        due_before,
        due_from: None,
    }
}

impl RelayReport {
    /// Whether anything was tried.
    const fn has_any(&self) -> bool {
        self.sent + self.waiting + self.dead + self.passed_by + self.failed + self.left_alone > 0
    }

    pub(super) fn add(&mut self, part: Self) {
        self.sent += part.sent;
        self.waiting += part.waiting;
        self.dead += part.dead;
        self.passed_by += part.passed_by;
        self.failed += part.failed;
        self.left_alone += part.left_alone;
        for (topic, count) in part.unknown {
            *self.unknown.entry(topic).or_default() += count;
        }
    }
}
