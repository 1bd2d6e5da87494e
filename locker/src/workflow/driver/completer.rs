//! The completer: drives workflows that were begun and not finished.

use crate::workflow::ended::Ended;
use crate::workflow::workflows::Workflows;
use std::collections::HashMap;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use tokio::task::{Id, JoinError, JoinSet};

use super::claim::{Claimed, Claimer};
use super::code::Drive;
use super::drive::drive;
use super::due::Due;
use super::report::CompleterReport;
use crate::core::time;
use crate::core::workflow::header::List;
use crate::error::Error;
use crate::listing::{Count, ListBuilder};
use crate::observe::metrics;
use crate::store::Row;
use crate::workflow::context::Context;
use crate::workflow::definition::Workflow;
use crate::workflow::flow::Flow;
use crate::workflow::operator::list::listing;
use crate::workflow::stop::Stop;

/// Number of workflows in one page of a listing.
const PAGE: usize = 100;
/// A workflow is claimed only if at least this much time is left.
const SHORTEST_DRIVE: std::time::Duration = std::time::Duration::from_secs(5);

/// Drives workflows that are due, each with the code registered under its name.
///
/// Run it about once a minute, in as many places as you like: each workflow is claimed by only one of them.
///
/// - It queries the index for due workflows, so those that are not due cost nothing.
/// - It claims each by a conditional write that **counts the attempt**, so a workflow that crashes its driver is
///   quarantined in the end, too.
/// - It drives each in a task of its own: a panic, or a workflow that hangs, does not stop the others.
/// - A workflow that does not finish waits with a growing pause. It is quarantined when its attempts are
///   exhausted, or at once where a retry cannot help. Every quarantine whose write is confirmed is an error in the
///   log and counts in [`WORKFLOWS_QUARANTINED`](crate::metrics::WORKFLOWS_QUARANTINED); one whose response was
///   lost shows in [`WORKFLOWS_IN_QUARANTINE`](crate::metrics::WORKFLOWS_IN_QUARANTINE).
#[derive(Clone)]
#[must_use = "a completer does nothing until it is run"]
pub struct Completer {
    pub(crate) context: Context,
    pub(crate) code: HashMap<&'static str, Arc<dyn Drive>>,
    concurrency: usize,
    limit: usize,
    longest: std::time::Duration,
    pub(crate) deadline: Option<DateTime<Utc>>,
}

impl std::fmt::Debug for Completer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Completer").field("code", &self.code.keys()).finish_non_exhaustive()
    }
}

/// The outcome of claiming and driving one workflow.
pub(crate) enum Driven {
    /// Another driver was first, or it had ended.
    PassedBy,
    Ended(Ended),
    /// It exceeded its time limit.
    BrokenOff,
}

impl Completer {
    /// A completer with no code registered yet.
    pub fn new(workflows: &Workflows) -> Self {
        Self {
            context: workflows.context().clone(),
            code: HashMap::new(),
            concurrency: 8,
            limit: 1000,
            longest: std::time::Duration::from_secs(60),
            deadline: None,
        }
    }

    /// Drive workflows of this name with this code.
    pub fn register<W: Workflow>(mut self, code: W) -> Self {
        self.code.insert(W::NAME, Arc::new(code));
        self
    }

    /// How many workflows it drives concurrently. Default: 8.
    pub fn concurrency(mut self, concurrency: usize) -> Self {
        self.concurrency = concurrency.max(1);
        self
    }

    /// How many workflows it claims in one run. Default: 1,000; with the schedule, this is its rate.
    pub const fn limit(mut self, limit: usize) -> Self {
        self.limit = limit;
        self
    }

    /// How long driving one workflow may take. Default: 1 minute. A once-only step starts only while its expected
    /// duration, or half of this time if that is less, is left.
    pub const fn drive_for(mut self, longest: std::time::Duration) -> Self {
        self.longest = longest;
        self
    }

    /// Abort workflows that are still running at this time, such as shortly before the deadline of a Lambda
    /// invocation.
    ///
    /// No more are claimed once less time is left than the smaller of [`drive_for`](Self::drive_for) and half of what
    /// [`run`](Self::run) had when it was called, or less than 5 seconds.
    pub fn deadline(mut self, deadline: impl Into<DateTime<Utc>>) -> Self {
        self.deadline = Some(deadline.into());
        self
    }

    /// Drive the workflows that are due.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future aborts the workflows it drives. Each stays claimed until it is overdue.
    ///
    /// # Errors
    ///
    /// [`Error::Denied`], [`Error::Unavailable`] if nothing at all could be listed. An error after that is reported as
    /// [`CompleterReport::stopped_by`].
    ///
    /// # Cost
    ///
    /// 1 request for each shard and 100 due workflows. For each that it claims: 1 read of 1 unit, 1 write of 1 unit and
    /// 2 for the index, 1 query, and its steps. 1 request for each shard and count.
    pub async fn run(&self) -> Result<CompleterReport, Error> {
        let mut done = CompleterReport { finished: true, ..CompleterReport::default() };
        let mut tasks = Tasks::default();
        let takes_until = self.takes_until();
        let mut due = Due::of(&self.context, List::Unfinished, PAGE, self.deadline);
        let mut any = false;
        // A random shard comes first, so that under a limit no shard starves another.
        'due: loop {
            let rows = match due.page().await {
                Ok(Some(rows)) => rows,
                Ok(None) => break,
                Err(error) if !any => {
                    metrics::completed(None, None, false);
                    return Err(error);
                }
                Err(error) => {
                    done.stopped_by = Some(error);
                    done.finished = false;
                    break;
                }
            };
            any = true;
            for row in rows {
                let over = self.context.is_past(takes_until);
                if over || done.claimed + tasks.running.len() >= self.limit {
                    done.finished = false;
                    break 'due;
                }
                self.start(row, &mut tasks, &mut done);
                while tasks.running.len() >= self.concurrency {
                    self.join(&mut tasks, &mut done).await;
                }
            }
        }
        while !tasks.running.is_empty() {
            self.join(&mut tasks, &mut done).await;
        }
        self.tell(&done).await;
        Ok(done)
    }

    fn start(&self, row: Row, tasks: &mut Tasks, done: &mut CompleterReport) {
        let name = row.name.unwrap_or_default();
        let Some(code) = self.code.get(name.as_str()) else {
            *done.unknown.entry(name).or_default() += 1;
            return;
        };
        let (completer, code) = (self.clone(), Arc::clone(code));
        let flow = Arc::new(std::sync::OnceLock::new());
        let known = Arc::clone(&flow);
        let task = tasks
            .running
            .spawn(async move { completer.take_and_drive(&*code, &row.key, false, &known).await });
        tasks.flows.insert(task.id(), flow);
    }

    /// Claim a workflow, and drive it. `None`: another driver came first, or it ended.
    pub(crate) async fn take_and_drive(
        &self,
        code: &dyn Drive,
        workflow: &str,
        anyway: bool,
        known: &std::sync::OnceLock<Flow>,
    ) -> Result<Driven, Error> {
        let until = self.context.until(self.deadline);
        let Some(header) = Box::pin(self.context.store().read_header(workflow, until)).await? else {
            return Ok(Driven::PassedBy);
        };
        let left = self.time_left();
        let claimer = Claimer {
            context: &self.context,
            owner: None,
            expected: None,
            // No step starts for which too little time is left.
            deadline: Some(time::after(self.context.now(), left)),
            claims: true,
            anyway,
        };
        let flow = match Box::pin(claimer.claim(header)).await? {
            Claimed::Flow(flow) => flow.reserving(left / 2).lasting(Some(self.longest)),
            Claimed::Ended(ended @ Ended::Quarantined(_)) => return Ok(Driven::Ended(ended)),
            Claimed::Ended(_) => return Ok(Driven::PassedBy),
        };
        let flow = known.get_or_init(|| flow);
        match tokio::time::timeout(left, Box::pin(drive(code, flow))).await {
            Ok(ended) => ended.map(Driven::Ended),
            Err(_) => Ok(Driven::BrokenOff),
        }
    }

    /// Claim a workflow whatever its attempts, and drive it in a task of its own.
    pub(crate) async fn drive_alone(&self, code: &Arc<dyn Drive>, workflow: &str) -> Result<Alone, Error> {
        let known = Arc::new(std::sync::OnceLock::new());
        let (completer, code, flow) = (self.clone(), Arc::clone(code), Arc::clone(&known));
        let workflow = workflow.to_owned();
        let mut task = JoinSet::new();
        task.spawn(async move { completer.take_and_drive(&*code, &workflow, true, &flow).await });
        let Some(joined) = task.join_next().await else { return Ok(Alone::Driven(Driven::PassedBy)) };
        let why = match joined {
            Ok(Ok(Driven::BrokenOff)) => TOO_LONG.to_owned(),
            Ok(driven) => return driven.map(Alone::Driven),
            Err(panic) => text_of(panic),
        };
        // Without a flow it was aborted before it was claimed.
        Ok(known.get().map_or(Alone::Driven(Driven::PassedBy), |flow| Alone::Aborted(flow.clone(), why)))
    }

    fn time_left(&self) -> std::time::Duration {
        let now = self.context.now();
        self.deadline.map_or(self.longest, |deadline| time::between(now, deadline).min(self.longest))
    }

    async fn join(&self, tasks: &mut Tasks, done: &mut CompleterReport) {
        let Some(joined) = tasks.running.join_next_with_id().await else { return };
        let (id, ended) = match joined {
            Ok((id, driven)) => (id, Ok(driven)),
            Err(error) => (error.id(), Err(error)),
        };
        let flow = tasks.flows.remove(&id).and_then(|known| known.get().cloned());
        if flow.is_some() {
            done.claimed += 1;
        }
        match ended {
            Ok(Ok(Driven::PassedBy)) => done.passed_by += 1,
            Ok(Ok(Driven::Ended(ended))) => done.count(&ended),
            Ok(Ok(Driven::BrokenOff)) => self.leave(flow, TOO_LONG, done).await,
            Ok(Err(error)) => {
                done.failed += 1;
                tracing::error!(%error, "a workflow could not be driven");
            }
            Err(panic) => self.leave(flow, &text_of(panic), done).await,
        }
    }

    /// Release the workflow of an aborted run, so that the next driver need not wait until it is overdue.
    async fn leave(&self, flow: Option<Flow>, why: &str, done: &mut CompleterReport) {
        done.broken_off += 1;
        let Some(flow) = flow else { return };
        tracing::error!(
            workflow.key = self.context.shown(flow.workflow()),
            why,
            "a run of a workflow was aborted"
        );
        let stop =
            Stop::Later { step: "-".to_owned(), at: self.context.now(), cause: why.to_owned(), counts: true };
        match flow.stopped(stop).await {
            Ok(Ended::Quarantined(_)) => done.quarantined += 1,
            Ok(_) => {}
            // It is claimable again once it is overdue.
            Err(error) => tracing::warn!(%error, "the workflow of an aborted run could not be released"),
        }
    }

    pub(crate) async fn tell(&self, done: &CompleterReport) {
        const COUNT_TO: usize = 1000;
        /// Each count gets one request even when time is up.
        const ONE_TRY: std::time::Duration = std::time::Duration::from_millis(50);
        let soon = time::after(self.context.now(), ONE_TRY);
        let deadline = self.deadline.map(|deadline| deadline.max(soon));
        let count = |list| deadline.into_iter().fold(listing(&self.context, list), ListBuilder::deadline);
        let unfinished = count(List::Unfinished).due().count(COUNT_TO).await.ok();
        let quarantine = count(List::Quarantine).count(COUNT_TO).await.ok();
        let counted = |count: Option<Count>| count.map(|count| count.at_least);
        let finished = done.finished && done.unknown.is_empty();
        metrics::completed(counted(unfinished), counted(quarantine), finished);
        for (name, count) in &done.unknown {
            tracing::error!(workflow.name = name, count, "due workflows have no code here");
        }
        tracing::info!(
            claimed = done.claimed,
            completed = done.completed,
            compensated = done.compensated,
            waiting = done.waiting,
            quarantined = done.quarantined,
            broken_off = done.broken_off,
            failed = done.failed,
            unfinished = counted(unfinished),
            in_quarantine = counted(quarantine),
            finished,
            "completed what was due"
        );
    }

    /// When to stop claiming: a workflow claimed before still has its full time, or half of this run's.
    fn takes_until(&self) -> Option<DateTime<Utc>> {
        let now = self.context.now();
        self.deadline.map(|deadline| {
            let least = SHORTEST_DRIVE.min(self.longest);
            let reserve = self.longest.min(time::between(now, deadline) / 2);
            time::before(deadline, reserve.max(least))
        })
    }
}

/// What became of a workflow that was driven alone.
pub(crate) enum Alone {
    Driven(Driven),
    /// It panicked or hung, as the text says; this run still owns it.
    Aborted(Flow, String),
}

const TOO_LONG: &str = "it exceeded its time limit";

#[derive(Default)]
struct Tasks {
    running: JoinSet<Result<Driven, Error>>,
    flows: HashMap<Id, Arc<std::sync::OnceLock<Flow>>>,
}

fn text_of(error: JoinError) -> String {
    let Ok(panic) = error.try_into_panic() else { return "its task was cancelled".to_owned() };
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    format!("it panicked: {}", text.unwrap_or_else(|| "without a message".to_owned()))
}
