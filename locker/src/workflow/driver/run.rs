//! One run of the completer: due workflows are read, types take turns, each is driven in a task of its own.

mod lanes;

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use chrono::{DateTime, Utc};
use tokio::task::{Id, JoinSet};
use tokio::time::Instant;

use super::completer::Completer;
use super::due::Due;
use super::one::{Driven, TOO_LONG, text_of};
use super::report::CompleterReport;
use crate::core::time;
use crate::core::workflow::header::List;
use crate::error::Error;
use crate::metrics;
use crate::session::heartbeat::Machine;
use crate::store::Row;
use crate::workflow::flow::Flow;
use crate::workflow::outcome::ended::Ended;
use crate::workflow::run_time::GRACE;
use lanes::Lanes;

/// Number of workflows in one page of a listing.
const PAGE: usize = 100;
/// How many pages are read in search of a type of workflow of which none is waiting.
const AHEAD: usize = 20;
/// What releasing workflows takes, after the time to record.
const SLACK: Duration = Duration::from_millis(500);

pub(crate) struct Run<'a> {
    completer: &'a Completer,
    due: Due<'a>,
    lanes: Lanes,
    /// Pages read since none was waiting.
    ahead: usize,
    /// Whether all that is due was read, or reading failed.
    is_read: bool,
    any: bool,
    takes_until: Option<DateTime<Utc>>,
    /// When to go without those that do not even end when they are aborted: their code blocks its thread.
    waits_until: Option<Instant>,
    running: JoinSet<Result<Driven, Error>>,
    tasks: HashMap<Id, Task>,
    done: CompleterReport,
}

struct Task {
    name: String,
    flow: Arc<OnceLock<Flow>>,
}

impl<'a> Run<'a> {
    pub(crate) fn of(completer: &'a Completer) -> Self {
        let (context, deadline) = (&completer.context, completer.deadline);
        let left = deadline.map(|deadline| time::between(context.now(), deadline));
        Self {
            completer,
            // A random shard comes first, so that under a limit no shard starves another.
            due: Due::of(context, &[List::Unfinished, List::Failing], PAGE, deadline),
            lanes: Lanes::default(),
            ahead: 0,
            is_read: false,
            any: false,
            takes_until: completer.takes_until(),
            waits_until: left.and_then(|left| Instant::now().checked_add(left + GRACE + SLACK)),
            running: JoinSet::new(),
            tasks: HashMap::new(),
            done: CompleterReport { finished: true, ..CompleterReport::default() },
        }
    }

    pub(crate) async fn run(mut self) -> Result<CompleterReport, Error> {
        loop {
            self.read().await?;
            let (row, width) = match self.lanes.next() {
                Some(row) => (Some(row), self.completer.concurrency),
                // What may have killed its driver comes last, and has no neighbours.
                None if self.running.is_empty() => (self.lanes.next_alone(), 1),
                None => (None, 1),
            };
            let Some(row) = row else {
                if self.running.is_empty() {
                    break;
                }
                self.join().await;
                continue;
            };
            if self.is_over() {
                self.done.finished = false;
                break;
            }
            self.start(row);
            while self.running.len() >= width {
                self.join().await;
            }
        }
        while !self.running.is_empty() {
            self.join().await;
        }
        self.completer.tell(&self.done).await;
        let (context, deadline) = (&self.completer.context, self.completer.deadline);
        context.ran(Machine::Completer, self.done.finished, deadline).await;
        Ok(self.done)
    }

    fn is_over(&self) -> bool {
        let taken = self.done.claimed + self.running.len();
        self.completer.context.is_past(self.takes_until) || taken >= self.completer.limit
    }

    /// Read due workflows: until one is waiting, and further if one of some other type may be behind it.
    async fn read(&mut self) -> Result<(), Error> {
        if self.lanes.is_empty() {
            self.ahead = 0;
        }
        while !self.is_read && (self.lanes.is_empty() || self.looks_ahead()) {
            let rows = match self.due.page().await {
                Ok(Some(rows)) => rows,
                Ok(None) => {
                    self.is_read = true;
                    break;
                }
                Err(error) if !self.any => {
                    metrics::completed([None; 4], false);
                    return Err(error);
                }
                Err(error) => {
                    self.done.stopped_by = Some(error);
                    self.done.finished = false;
                    self.is_read = true;
                    break;
                }
            };
            self.any = true;
            self.ahead += 1;
            let more = !rows.is_empty();
            for row in rows {
                self.take_in(row);
            }
            if more && self.is_over() {
                self.done.finished = false;
                self.is_read = true;
            }
        }
        Ok(())
    }

    fn looks_ahead(&self) -> bool {
        self.ahead < AHEAD && !self.lanes.has_each(self.completer.code.keys().copied())
    }

    fn take_in(&mut self, row: Row) {
        let name = row.name.clone().unwrap_or_default();
        if self.completer.code.contains_key(name.as_str()) {
            self.lanes.add(&name, row);
        } else if !self.completer.others.contains(&name) {
            *self.done.unknown.entry(name).or_default() += 1;
        }
    }

    fn start(&mut self, row: Row) {
        let name = row.name.unwrap_or_default();
        let Some(code) = self.completer.code.get(name.as_str()) else { return };
        let (completer, code) = (self.completer.clone(), Arc::clone(code));
        let flow = Arc::new(OnceLock::new());
        let known = Arc::clone(&flow);
        let task = self
            .running
            .spawn(async move { completer.take_and_drive(&*code, &row.key, false, &known).await });
        self.tasks.insert(task.id(), Task { name, flow });
    }

    /// Wait for one to end, but not for ever.
    async fn join(&mut self) {
        let next = self.running.join_next_with_id();
        let joined = match self.waits_until {
            None => next.await,
            Some(until) => match tokio::time::timeout_at(until, next).await {
                Ok(joined) => joined,
                Err(_) => return self.abandon().await,
            },
        };
        let Some(joined) = joined else { return };
        let (id, ended) = match joined {
            Ok((id, driven)) => (id, Ok(driven)),
            Err(error) => (error.id(), Err(error)),
        };
        let task = self.tasks.remove(&id);
        if let Some(task) = &task {
            self.lanes.ended(&task.name);
        }
        let flow = task.and_then(|task| task.flow.get().cloned());
        if flow.is_some() {
            self.done.claimed += 1;
        }
        match ended {
            Ok(Ok(Driven::PassedBy)) => self.done.passed_by += 1,
            Ok(Ok(Driven::Ended(ended))) => self.done.count(&ended),
            Ok(Ok(Driven::BrokenOff)) => self.leave(flow, TOO_LONG).await,
            Ok(Err(error)) => {
                self.done.failed += 1;
                tracing::error!(%error, "a workflow could not be driven");
            }
            Err(panic) => self.leave(flow, &text_of(panic)).await,
        }
    }

    /// Release those whose code blocks its thread. If it ever ends, its writes are refused.
    async fn abandon(&mut self) {
        // Dropping them does not wait for them.
        self.running = JoinSet::new();
        for (_, task) in std::mem::take(&mut self.tasks) {
            let flow = task.flow.get().cloned();
            self.done.claimed += usize::from(flow.is_some());
            self.leave(flow, "it blocked its thread").await;
        }
    }

    /// Release the workflow of an aborted run, so that the next driver need not wait until it is overdue.
    async fn leave(&mut self, flow: Option<Flow>, why: &str) {
        self.done.broken_off += 1;
        let Some(flow) = flow else { return };
        let context = &self.completer.context;
        tracing::error!(
            workflow.key = context.shown(flow.workflow()),
            why,
            "a run of a workflow was aborted"
        );
        match flow.broken_off(why).await {
            Ok(Ended::Quarantined(_)) => self.done.quarantined += 1,
            Ok(_) => {}
            // It is claimable again once it is overdue.
            Err(error) => tracing::warn!(%error, "the workflow of an aborted run could not be released"),
        }
    }
}
