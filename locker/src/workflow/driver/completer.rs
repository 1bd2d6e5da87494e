//! The completer: drives workflows that were begun and not finished.

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

/// A workflow is claimed only if at least this much time is left.
const SHORTEST_DRIVE: std::time::Duration = std::time::Duration::from_secs(5);

/// The longest run that may be asked for. Its end is a sum of times, which must not overflow.
const LONGEST_DRIVE: std::time::Duration = std::time::Duration::from_secs(24 * 60 * 60);

/// Drives workflows that are due, each with the code registered under its name.
///
/// Run it about once a minute, in as many places as you like: each workflow is claimed by only one
/// of them.
///
/// - It queries the index for due workflows, so those that are not due cost nothing.
/// - It claims each by a conditional write that **counts the attempt**, so a workflow that crashes
///   its driver is quarantined in the end, too.
/// - It drives each in a task of its own: a panic, or a workflow that hangs, does not stop the
///   others. Code that blocks its thread does, unless the runtime has more threads.
/// - A workflow that lost three drivers in a row may have killed them. It is driven alone at the
///   end of the run.
/// - A workflow that does not finish waits with a growing pause. It is quarantined when its
///   attempts are exhausted, or at once where a retry cannot help. Every quarantine whose write is
///   confirmed is an error in the log and counts in [`workflowsQuarantined`](crate::metrics). If
///   the response of the write was lost, the workflow shows in
///   [`workflowsInQuarantine`](crate::metrics).
#[derive(Clone)]
#[must_use = "a completer does nothing until it is run"]
pub struct Completer {
    pub(crate) context: Context,
    pub(crate) code: HashMap<&'static str, Arc<dyn Drive>>,
    /// A name under which two types are registered.
    twice: Option<&'static str>,
    /// Names of workflows that others drive.
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
    /// A completer with no code registered yet.
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

    /// Drive workflows of this name with this code. [`run`](Self::run) refuses two codes with one
    /// name.
    pub fn register<W: Workflow>(mut self, code: W) -> Self {
        if self.code.insert(W::NAME, Arc::new(code)).is_some() {
            self.twice = Some(W::NAME);
        }
        self
    }

    /// Expect workflows of these names in the table and leave them to others, such as another
    /// service that shares the table.
    ///
    /// Due workflows that are neither registered nor expected are reported as
    /// [`CompleterReport::unknown`], since there may be no code for them anywhere.
    pub fn also_expect(mut self, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.others.extend(names.into_iter().map(Into::into));
        self
    }

    /// How many workflows it drives concurrently. Default: 8.
    ///
    /// Types of workflow that are due share them: the next one is of the type of which the fewest
    /// run. So a type whose provider hangs leaves room for the others.
    pub fn concurrency(mut self, concurrency: usize) -> Self {
        self.concurrency = concurrency.max(1);
        self
    }

    /// How many workflows it claims in one run. Default: 1,000; with the schedule, this is its
    /// rate.
    pub const fn limit(mut self, limit: usize) -> Self {
        self.limit = limit;
        self
    }

    /// How long driving one workflow may take, at most a day. Default: 1 minute. A step starts only
    /// while its `expect_within` is left or, without a value, 30 seconds or half of this time,
    /// whichever is less. A step that is expected to take longer than this time is left to another
    /// driver.
    ///
    /// When the time is up, no step begins. An outcome that is known by then is recorded, for up to
    /// 3 seconds more.
    pub fn drive_for(mut self, longest: std::time::Duration) -> Self {
        self.longest = longest.min(LONGEST_DRIVE);
        self
    }

    /// Abort workflows that are still running at this time, such as 5 seconds before the deadline
    /// of a Lambda invocation: what they have done is recorded, for up to 3 seconds more, and they
    /// are released. One that does not even end then, since its code blocks its thread, is released
    /// and left behind.
    ///
    /// No more are claimed once less time is left than the smaller of
    /// [`drive_for`](Self::drive_for) and half of what [`run`](Self::run) had when it was called,
    /// or less than 5 seconds.
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
    /// [`Error::Invalid`] if two codes are registered under one name, or a type has
    /// [limits](Workflow::limits) that are not allowed; nothing was sent then. [`Error::Denied`],
    /// [`Error::Unavailable`] if nothing at all could be listed. An error after
    /// that is reported as [`RunReport::stopped_by`].
    ///
    /// # Cost
    ///
    /// 1 request for each shard and 100 due workflows, and 1 for each shard for those that fail.
    /// Lists are read while workflows are driven, up to the limit, and up to 2,000 due workflows
    /// ahead for a registered type of which none is waiting: the same requests earlier, and up to
    /// 20 that a run which is cut short would not have made. For each workflow that it claims: 1
    /// read of 1 unit, 1 write of 1 unit and 2 for the index, 1 query, and its steps; 1 more query
    /// if its former driver was lost, and 1 read for each step with a key of its own if the query
    /// shows no progress. A run that fails: 1 request and 1 write unit for its cause, twice after a
    /// lost driver. 5 counts, each 1 request for each shard, and 1 write unit to write down that it
    /// ran. The count of workflows that wait reads up to 1,000 entries, however many wait.
    pub async fn run(&self) -> Result<RunReport<CompleterReport>, Error> {
        self.check()?;
        let run = async {
            let done = run::all(self).await?;
            self.tell(&done).await;
            Ok(done)
        };
        scheduled(&self.context, Machine::Completer, self.deadline, Box::pin(run)).await
    }

    /// Check the registered code before anything is sent.
    pub(super) fn check(&self) -> Result<(), InvalidSetting> {
        if let Some(name) = self.twice {
            return Err(InvalidSetting::RegisteredTwice { name });
        }
        self.code.values().try_for_each(|code| code.limits(self.context.limits()).map(drop))
    }

    async fn tell(&self, done: &RunReport<CompleterReport>) {
        const COUNT_TO: usize = 1000;
        /// Each count gets one request even when time is up.
        const ONE_TRY: std::time::Duration = std::time::Duration::from_millis(50);
        let soon = time::after(self.context.now(), ONE_TRY);
        let deadline = self.deadline.map(|deadline| deadline.max(soon));
        let count = |list| deadline.into_iter().fold(listing(&self.context, list), ListBuilder::deadline);
        let unfinished = count(List::Unfinished).due().count(COUNT_TO).await.ok();
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

    /// When to stop claiming: a workflow claimed before still has its full time, or half of this
    /// run's.
    pub(crate) fn takes_until(&self) -> Option<DateTime<Utc>> {
        let now = self.context.now();
        self.deadline.map(|deadline| {
            let least = SHORTEST_DRIVE.min(self.longest);
            let reserve = self.longest.min(time::between(now, deadline) / 2);
            time::before(deadline, reserve.max(least))
        })
    }
}
