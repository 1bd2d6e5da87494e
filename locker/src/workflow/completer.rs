//! The completer: drives what others began and did not finish.

use std::collections::HashMap;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use tokio::task::{Id, JoinError, JoinSet};

use super::claim::{Claimed, Claimer};
use super::completed::Completed;
use super::definition::Workflow;
use super::drive::{Ended, drive};
use super::flow::Flow;
use super::registry::Drive;
use super::stop::Stop;
use super::workflows::Workflows;
use crate::core::time;
use crate::core::workflow::header::Listed;
use crate::error::Error;
use crate::metrics;
use crate::store::workflow::{WorkflowCursor, WorkflowRow};

/// How many are listed at a time.
const PAGE: usize = 100;
/// Nothing is taken for which there is less time.
const SHORTEST_DRIVE: std::time::Duration = std::time::Duration::from_secs(5);

/// Drives workflows that are due, each with the code that is registered under its name. Run it every minute or
/// so, in as many places as you like: whoever takes a workflow shuts the others out.
///
/// - It finds what is due by a query of the index, so what is not due costs nothing.
/// - It takes each by a conditional write that **counts the attempt**, so that a workflow that kills its driver
///   comes to its end, too.
/// - Each is driven in a task of its own: a panic, or a workflow that takes for ever, does not stop the others.
/// - What does not come to an end is left with a growing pause, and parked when its attempts are used up, or at
///   once where trying again is no use. Every park that is heard of is an error in the log, and a count of
///   [`WORKFLOWS_QUARANTINED`](crate::metrics::WORKFLOWS_QUARANTINED); one whose reply was lost shows in
///   [`WORKFLOWS_IN_QUARANTINE`](crate::metrics::WORKFLOWS_IN_QUARANTINE).
#[derive(Clone)]
#[must_use = "a completer does nothing until it is run"]
pub struct Completer {
    pub(super) workflows: Workflows,
    pub(super) code: HashMap<&'static str, Arc<dyn Drive>>,
    concurrency: usize,
    limit: usize,
    longest: std::time::Duration,
    pub(super) deadline: Option<DateTime<Utc>>,
}

impl std::fmt::Debug for Completer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Completer").field("code", &self.code.keys()).finish_non_exhaustive()
    }
}

struct Driven {
    ended: Result<Option<Ended>, Error>,
}

impl Completer {
    /// A completer without code.
    pub fn new(workflows: &Workflows) -> Self {
        Self {
            workflows: workflows.clone(),
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

    /// How many it drives side by side, 8 by default.
    pub fn concurrency(mut self, concurrency: usize) -> Self {
        self.concurrency = concurrency.max(1);
        self
    }

    /// How many it takes in one run, 1,000 by default: with the schedule, that is its rate.
    pub const fn limit(mut self, limit: usize) -> Self {
        self.limit = limit;
        self
    }

    /// How long one drive may take, a minute by default. A once-only step is started only while there is as much time
    /// left as it expects, or half of the drive's.
    pub const fn drive_for(mut self, longest: std::time::Duration) -> Self {
        self.longest = longest;
        self
    }

    /// Break off at this time what is still driven, such as a little before the deadline of a Lambda invocation. Nothing
    /// more is taken from half of the time until then on, or from the time of one drive before it; nor with less than
    /// 5 seconds left.
    pub fn deadline(mut self, deadline: impl Into<DateTime<Utc>>) -> Self {
        self.deadline = Some(deadline.into());
        self
    }

    /// Drive what is due.
    ///
    /// # Errors
    ///
    /// [`Error::Denied`], [`Error::Unavailable`] if nothing at all could be listed. After that,
    /// [`Completed::stopped_by`].
    ///
    /// # Cost
    ///
    /// A request for each shard and 100 due workflows. For each that it takes: 1 read of 1 unit, 1 write of 1 unit and 2 for
    /// the index, 1 query, and its steps. 1 request for each shard and count.
    pub async fn run(&self) -> Result<Completed, Error> {
        let mut done = Completed { finished: true, ..Completed::default() };
        let mut tasks = Tasks::default();
        let due_before = self.workflows.now();
        let takes_until = self.takes_until();
        let mut any = false;
        // From another shard each time, so that none starves another under a limit.
        'shards: for status in self.workflows.statuses_from_any(Listed::Unfinished) {
            let mut from = None;
            loop {
                let page = self.page(&status, due_before, from.as_ref()).await;
                let (rows, more) = match page {
                    Ok(page) => page,
                    Err(error) if !any => {
                        metrics::completed(None, None, false);
                        return Err(error);
                    }
                    Err(error) => {
                        done.stopped_by = Some(error);
                        done.finished = false;
                        break 'shards;
                    }
                };
                any = true;
                from = rows.last().map(WorkflowCursor::after);
                for row in rows {
                    let over = self.workflows.is_past(takes_until);
                    if over || done.taken + tasks.running.len() >= self.limit {
                        done.finished = false;
                        break 'shards;
                    }
                    self.start(row, &mut tasks, &mut done);
                    while tasks.running.len() >= self.concurrency {
                        self.join(&mut tasks, &mut done).await;
                    }
                }
                if !more {
                    break;
                }
            }
        }
        while !tasks.running.is_empty() {
            self.join(&mut tasks, &mut done).await;
        }
        self.tell(&done).await;
        Ok(done)
    }

    async fn page(
        &self,
        status: &str,
        due_before: DateTime<Utc>,
        from: Option<&WorkflowCursor>,
    ) -> Result<(Vec<WorkflowRow>, bool), Error> {
        let until = self.workflows.until(self.deadline);
        Box::pin(self.workflows.store().list_workflows(status, Some(due_before), from, PAGE, until)).await
    }

    fn start(&self, row: WorkflowRow, tasks: &mut Tasks, done: &mut Completed) {
        let name = row.name.unwrap_or_default();
        let Some(code) = self.code.get(name.as_str()) else {
            *done.unknown.entry(name).or_default() += 1;
            return;
        };
        let (completer, code) = (self.clone(), Arc::clone(code));
        let flow = Arc::new(std::sync::OnceLock::new());
        let known = Arc::clone(&flow);
        let task = tasks.running.spawn(async move {
            Driven { ended: completer.take_and_drive(&*code, &row.workflow, false, &known).await }
        });
        tasks.flows.insert(task.id(), flow);
    }

    /// Take a workflow, and drive it. `None`: somebody else came first, or it ended.
    pub(super) async fn take_and_drive(
        &self,
        code: &dyn Drive,
        workflow: &str,
        anyway: bool,
        known: &std::sync::OnceLock<Flow>,
    ) -> Result<Option<Ended>, Error> {
        let until = self.workflows.until(self.deadline);
        let Some(header) = Box::pin(self.workflows.store().read_header(workflow, until)).await? else {
            return Ok(None);
        };
        let left = self.time_left();
        let claimer = Claimer {
            workflows: &self.workflows,
            owner: None,
            expected: None,
            // Nothing is started that this drive has no time for.
            deadline: Some(time::after(self.workflows.now(), left)),
            claims: true,
            anyway,
        };
        let flow = match Box::pin(claimer.claim(header)).await? {
            Claimed::Flow(flow) => flow.reserving(left / 2),
            Claimed::Ended(ended @ Ended::Quarantined(_)) => return Ok(Some(ended)),
            Claimed::Ended(_) => return Ok(None),
        };
        let flow = known.get_or_init(|| flow);
        match tokio::time::timeout(left, Box::pin(drive(code, flow))).await {
            Ok(ended) => ended.map(Some),
            Err(_) => Err(broken_off()),
        }
    }

    fn time_left(&self) -> std::time::Duration {
        let now = self.workflows.now();
        self.deadline.map_or(self.longest, |deadline| time::between(now, deadline).min(self.longest))
    }

    async fn join(&self, tasks: &mut Tasks, done: &mut Completed) {
        let Some(joined) = tasks.running.join_next_with_id().await else { return };
        let (id, ended) = match joined {
            Ok((id, driven)) => (id, Ok(driven.ended)),
            Err(error) => (error.id(), Err(error)),
        };
        let flow = tasks.flows.remove(&id).and_then(|known| known.get().cloned());
        if flow.is_some() {
            done.taken += 1;
        }
        match ended {
            Ok(Ok(None)) => done.passed_by += 1,
            Ok(Ok(Some(ended))) => done.count(&ended),
            Ok(Err(error)) if is_broken_off(&error) => self.leave(flow, "it took too long", done).await,
            Ok(Err(error)) => {
                done.failed += 1;
                tracing::error!(%error, "a workflow could not be driven");
            }
            Err(panic) => self.leave(flow, &text_of(panic), done).await,
        }
    }

    /// A drive that broke off: its workflow is left, so that nobody has to wait until it is due.
    async fn leave(&self, flow: Option<Flow>, why: &str, done: &mut Completed) {
        done.broken_off += 1;
        let Some(flow) = flow else { return };
        tracing::error!(
            workflow.key = self.workflows.shown(flow.workflow()),
            why,
            "a drive of a workflow broke off"
        );
        let stop = Stop::Later {
            step: "-".to_owned(),
            at: self.workflows.now(),
            cause: why.to_owned(),
            counts: true,
        };
        match flow.stopped(stop).await {
            Ok(Ended::Quarantined(_)) => done.quarantined += 1,
            Ok(_) => {}
            // It is due again when its time is up.
            Err(error) => tracing::warn!(%error, "a workflow could not be left"),
        }
    }

    /// Until when it takes more: what it takes then still has the time of a drive, or half of the run's.
    fn takes_until(&self) -> Option<DateTime<Utc>> {
        let now = self.workflows.now();
        self.deadline.map(|deadline| {
            let least = SHORTEST_DRIVE.min(self.longest);
            let reserve = self.longest.min(time::between(now, deadline) / 2);
            time::before(deadline, reserve.max(least))
        })
    }
}

#[derive(Default)]
struct Tasks {
    running: JoinSet<Driven>,
    flows: HashMap<Id, Arc<std::sync::OnceLock<Flow>>>,
}

const BROKEN_OFF: &str = "drive the workflow to its end";

fn broken_off() -> Error {
    Error::Unavailable { verb: BROKEN_OFF, tries: 1, source: "it took too long".into() }
}

fn is_broken_off(error: &Error) -> bool {
    matches!(error, Error::Unavailable { verb: BROKEN_OFF, .. })
}

fn text_of(error: JoinError) -> String {
    let Ok(panic) = error.try_into_panic() else { return "its task was cancelled".to_owned() };
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    format!("it panicked: {}", text.unwrap_or_else(|| "without a text".to_owned()))
}
