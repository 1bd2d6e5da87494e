//! The completer: drives unfinished workflows that are due.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use chrono::{DateTime, Utc};

use super::code::Drive;
use super::report::CompleterReport;
use super::run;
use crate::core::argument::InvalidSetting;
use crate::core::time;
use crate::core::workflow::header::List;
use crate::error::Error;
use crate::metrics::{self, Completed};
use crate::session::due_work::{RunReport, scheduled};
use crate::session::heartbeat::Machine;
use crate::session::listing::{Count, ListBuilder};
use crate::workflow::context::Context;
use crate::workflow::definition::Workflow;
use crate::workflow::operator::list::{late_events, listing, waiting};
use crate::workflow::workflows::Workflows;

/// The longest run that a caller may set. The end of a run is a sum of times, and the sum must not
/// overflow.
const LONGEST_DRIVE: std::time::Duration = std::time::Duration::from_secs(24 * 60 * 60);

/// Drives workflows that are due, each with the code registered under its name.
///
/// Run it about once a minute, in any number of processes. Only one completer claims each workflow.
///
/// - The completer queries the index for due workflows, so workflows that are not due cost nothing.
/// - It claims each workflow by a conditional write that **counts the attempt**. So a workflow that
///   crashes its driver is also quarantined after some attempts.
/// - It drives each workflow in a separate task: a panic, or a workflow that hangs, does not stop
///   the other workflows. If code blocks its thread, other workflows stop, unless the runtime has
///   more threads.
/// - A workflow that lost three drivers in a row may have killed them. It is driven alone at the
///   end of the run.
/// - A workflow that does not finish is retried after a growing pause. It is quarantined if its
///   attempts are exhausted, or at once if a retry cannot help. Each quarantine whose write is
///   confirmed is an error in the log and counts in [`workflowsQuarantined`](crate::metrics). If
///   the response of the write was lost, the gauge [`workflowsInQuarantine`](crate::metrics)
///   contains the workflow.
#[derive(Clone)]
#[must_use = "a completer does nothing until it is run"]
pub struct Completer {
    pub(crate) context: Context,
    pub(crate) code: HashMap<&'static str, Arc<dyn Drive>>,
    /// A name under which two types are registered.
    twice: Option<&'static str>,
    /// Names of workflows that other completers drive.
    pub(crate) others: HashSet<String>,
    pub(crate) concurrency: usize,
    pub(crate) limit: usize,
    pub(crate) longest: std::time::Duration,
    pub(crate) deadline: Option<DateTime<Utc>>,
}

impl std::fmt::Debug for Completer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Completer").field("code", &self.code.keys()).finish_non_exhaustive()
    }
}

impl Completer {
    /// The shortest time that must be left to claim a workflow.
    pub(crate) const LEAST: std::time::Duration = std::time::Duration::from_secs(5);

    /// Returns a completer without registered code.
    pub fn new(workflows: &Workflows) -> Self {
        Self {
            context: workflows.context().clone(),
            code: HashMap::new(),
            twice: None,
            others: HashSet::new(),
            concurrency: 8,
            limit: 1000,
            longest: std::time::Duration::from_secs(60),
            deadline: None,
        }
    }

    /// Registers the code of a type of workflow. [`run`](Self::run) refuses two codes with the same
    /// name.
    pub fn register<W: Workflow>(mut self, code: W) -> Self {
        if self.code.insert(W::NAME, Arc::new(code)).is_some() {
            self.twice = Some(W::NAME);
        }
        self
    }

    /// Sets names of workflows that other completers drive, such as those of another service that
    /// shares the table.
    ///
    /// Due workflows that are neither registered nor expected are reported as
    /// [`CompleterReport::unknown`], because no completer may have their code.
    pub fn also_expect(mut self, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.others.extend(names.into_iter().map(Into::into));
        self
    }

    /// Sets how many workflows are driven at the same time (default: 8).
    ///
    /// The due types of workflow share this number: the next workflow is of the type with the
    /// fewest running workflows. So a type whose provider hangs does not stop the other types.
    pub fn concurrency(mut self, concurrency: usize) -> Self {
        self.concurrency = concurrency.max(1);
        self
    }

    /// Sets how many workflows one run claims (default: 1,000). The number and the schedule
    /// determine the rate.
    pub const fn limit(mut self, limit: usize) -> Self {
        self.limit = limit;
        self
    }

    /// Sets the longest time to drive one workflow, at most a day (default: 1 minute).
    ///
    /// A step starts only if its `expect_within` is left of this time. Without a value, it needs 30
    /// seconds or half of this time, whichever is less. If a step is expected to take longer than
    /// this time, the workflow is left to another driver.
    ///
    /// After this time, no step begins. Known outcomes are recorded, for up to 3 seconds more.
    pub fn drive_for(mut self, longest: std::time::Duration) -> Self {
        self.longest = longest.min(LONGEST_DRIVE);
        self
    }

    /// Sets the deadline of the run, such as 5 seconds before the deadline of a Lambda invocation.
    ///
    /// Workflows that are still running at this time are aborted. Known outcomes are recorded, for
    /// up to 3 seconds more, and the workflows are released. A workflow whose code blocks its
    /// thread is also released, although its code still runs.
    ///
    /// No more workflows are claimed if less than 5 seconds are left, or less than the smaller of
    /// [`drive_for`](Self::drive_for) and half of the time at the call of [`run`](Self::run).
    pub fn deadline(mut self, deadline: impl Into<DateTime<Utc>>) -> Self {
        self.deadline = Some(deadline.into());
        self
    }

    /// Drives the workflows that are due.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future aborts the workflows it drives. Each stays claimed until it is overdue.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`]: two codes are registered under one name, or a type has invalid
    /// [limits](Workflow::limits). Nothing was sent. [`Error::Denied`], [`Error::Unavailable`]:
    /// nothing could be listed. A later error is reported as [`RunReport::stopped_by`].
    ///
    /// # Cost
    ///
    /// - Lists: 1 request for each shard and 100 due workflows, and 1 for each shard for failing
    ///   workflows. Lists are read while workflows are driven, up to the limit. If a registered
    ///   type has no workflow in the queue, up to 2,000 due workflows are read ahead. These are the
    ///   same requests earlier, but up to 20 more requests if the run is cut short.
    /// - Each claimed workflow: 1 read of 1 unit, 1 write of 1 unit and 2 for the index, 1 query,
    ///   and its steps. If its former driver was lost: 1 more query, and if the query shows no
    ///   progress, 1 read for each step with its own key.
    /// - Each failed run of a workflow: 1 request and 1 write unit for its cause, twice after a
    ///   lost driver.
    /// - 5 counts, each 1 request for each shard. The count of waiting workflows reads up to 1,000
    ///   entries, even if fewer of them wait.
    /// - 1 write unit to record the time of the run.
    pub async fn run(&self) -> Result<RunReport<CompleterReport>, Error> {
        self.check()?;
        let begun = self.context.now();
        let run = async {
            let done = run::all(self).await?;
            self.tell(&done, begun).await;
            Ok(done)
        };
        scheduled(&self.context, Machine::Completer, self.deadline, Box::pin(run)).await
    }

    /// Checks the registered code before a request is sent.
    pub(super) fn check(&self) -> Result<(), InvalidSetting> {
        if let Some(name) = self.twice {
            return Err(InvalidSetting::RegisteredTwice { name });
        }
        self.code.values().try_for_each(|code| code.limits(self.context.limits()).map(drop))
    }

    /// `begun`: the start of the run. Workflows that became due later are left to the next run, and
    /// are not counted.
    async fn tell(&self, done: &RunReport<CompleterReport>, begun: DateTime<Utc>) {
        const COUNT_TO: usize = 1000;
        /// Each count gets one request even when time is up.
        const ONE_TRY: std::time::Duration = std::time::Duration::from_millis(50);
        let soon = time::after(self.context.now(), ONE_TRY);
        let deadline = self.deadline.map(|deadline| deadline.max(soon));
        let count = |list| deadline.into_iter().fold(listing(&self.context, list), ListBuilder::deadline);
        let run = time::between(begun, self.context.now());
        let unfinished = count(List::Unfinished).due_for(run).count(COUNT_TO).await.ok();
        let failing = count(List::Failing).count(COUNT_TO).await.ok();
        let quarantine = count(List::Quarantine).count(COUNT_TO).await.ok();
        let late = deadline.into_iter().fold(late_events(&self.context), ListBuilder::deadline);
        let late = late.count(COUNT_TO).await.ok();
        let waiting = deadline.into_iter().fold(waiting(&self.context), ListBuilder::deadline);
        let waiting = waiting.count(COUNT_TO).await.ok();
        let counted = |count: Option<Count>| count.map(|count| count.at_least);
        let unknown = done.unknown.values().sum();
        metrics::completed(&Completed {
            unfinished: counted(unfinished),
            failing: counted(failing),
            quarantined: counted(quarantine),
            without_code: unknown,
            late_events: counted(late),
            waiting: counted(waiting),
        });
        if unknown > 0 {
            tracing::info!(names = ?done.unknown, "due workflows have no code here, and are not expected");
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
            failing = counted(failing),
            in_quarantine = counted(quarantine),
            late_events = counted(late),
            waits = counted(waiting),
            unknown,
            finished = done.finished,
            "completed what was due"
        );
    }

    /// Returns the time after which no workflow is claimed. A workflow that is claimed before has
    /// its full time, or half of the time of this run.
    pub(crate) fn takes_until(&self) -> Option<DateTime<Utc>> {
        let now = self.context.now();
        self.deadline.map(|deadline| {
            let least = Self::LEAST.min(self.longest);
            let reserve = self.longest.min(time::between(now, deadline) / 2);
            time::before(deadline, reserve.max(least))
        })
    }
}
