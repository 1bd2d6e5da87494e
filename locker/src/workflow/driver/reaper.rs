//! The reaper: deletes finished workflows, and quarantines workflows that never finish.

mod erase;
mod run;

use std::collections::BTreeMap;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use serde::Serialize;
use tokio::sync::Semaphore;

use super::completer::Completer;
use super::fence::Unwritten;
use super::one::{Alone, Driven};
use crate::core::argument::InvalidSetting;
use crate::core::name;
use crate::core::retention::Retention;
use crate::core::time;
use crate::core::workflow::event::{EventRecord, EventState};
use crate::core::workflow::header::{Header, HeaderEvent, HeaderRefusal, ReaperAct, State};
use crate::core::workflow::step::StepState;
use crate::error::Error;
use crate::metrics;
use crate::session::due_work::{RunReport, scheduled};
use crate::session::heartbeat::Machine;
use crate::store::{Changed, Everything, Row};
use crate::workflow::context::Context;
use crate::workflow::limits::Limits;
use crate::workflow::outcome::ended::Ended;

/// The bounds of the pause until a kept workflow is checked again. Within them, the pause is the
/// time for which the workflow has been due.
const LOOK_AGAIN: [std::time::Duration; 2] =
    [std::time::Duration::from_secs(24 * 60 * 60), std::time::Duration::from_secs(30 * 24 * 60 * 60)];
/// The time after which another run continues the deletion of a workflow.
const DELETING: std::time::Duration = std::time::Duration::from_secs(5 * 60);

/// Deletes finished workflows past their retention, and gives old unfinished ones one last attempt.
///
/// Run it about once an hour. It works on many workflows concurrently. An error of one workflow
/// does not stop the others.
///
/// - Only **finished** workflows are ever deleted. A compact ledger record of each remains: key,
///   name, times, attempts, outcome, and the operator who acted on it.
/// - Evidence is not deleted. A finished workflow is evidence if it has a step that is `started`,
///   `held` or `late`, a late event, or an unsent message. (A step that was cancelled in doubt and
///   whose compensation found nothing is not evidence.)
/// - If the first version of a workflow that has continued is evidence or unfinished, its latest
///   version is kept as well.
/// - A workflow without progress for
///   [`Limits::last_chance_after`](crate::workflow::Limits::last_chance_after) gets one last
///   attempt with the completer's code. If the attempt brings no progress and begins no wait, the
///   workflow is quarantined. If the completer does not have its code, the workflow is skipped.
#[derive(Debug, Clone)]
#[must_use = "a reaper does nothing until it is run"]
pub struct Reaper {
    context: Context,
    completer: Completer,
    concurrency: usize,
    limit: Option<usize>,
    deadline: Option<DateTime<Utc>>,
    /// The permits for requests that delete a record.
    pub(crate) turns: Arc<Semaphore>,
}

/// The counts of a run of the reaper.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ReaperReport {
    /// Finished workflows that were deleted.
    pub deleted: usize,
    /// Finished workflows that are kept because of a step in doubt, a late event or an unsent
    /// message.
    pub kept: usize,
    /// Old unfinished workflows that finished in their last attempt.
    pub completed: usize,
    /// Old unfinished workflows that were quarantined.
    pub quarantined: usize,
    /// Workflows that could not be read or written. They are kept.
    pub failed: usize,
    /// Old unfinished workflows whose code is neither registered here nor
    /// [expected](Completer::also_expect), by name. A reaper with their code handles them.
    pub unknown: BTreeMap<String, usize>,
}

impl Reaper {
    /// The time for deleting one workflow. With less time before its deadline, the reaper begins
    /// nothing. A deletion that is cut short keeps its key busy until the next run.
    pub(crate) const LEAST: std::time::Duration = std::time::Duration::from_secs(2);

    /// Returns a reaper with the workflows and the code of a completer.
    pub fn new(completer: &Completer) -> Self {
        Self {
            context: completer.context.clone(),
            completer: completer.clone(),
            concurrency: 0,
            limit: None,
            deadline: None,
            turns: Arc::new(Semaphore::new(0)),
        }
        .concurrency(32)
    }

    /// Sets how many finished workflows are deleted at the same time (default: 32).
    ///
    /// The same number limits the records of steps that are deleted at the same time, over all
    /// workflows. The [completer](Completer::concurrency) limits the last attempts.
    pub fn concurrency(mut self, concurrency: usize) -> Self {
        self.concurrency = concurrency.clamp(1, Semaphore::MAX_PERMITS);
        self.turns = Arc::new(Semaphore::new(self.concurrency));
        self
    }

    /// Sets how many workflows one run checks (default: all that are due, until its deadline).
    pub const fn limit(mut self, limit: usize) -> Self {
        self.limit = Some(limit);
        self
    }

    /// Sets the deadline of the run, such as 5 seconds before the deadline of a Lambda invocation.
    ///
    /// No deletion begins in the last 2 seconds, or in the last quarter of a shorter run. A last
    /// attempt begins only if the [completer](Completer::deadline) would still claim a workflow.
    pub fn deadline(mut self, deadline: impl Into<DateTime<Utc>>) -> Self {
        let deadline = deadline.into();
        self.deadline = Some(deadline);
        self.completer = self.completer.deadline(deadline);
        self
    }

    /// Deletes finished workflows that are due, and gives old unfinished workflows a last attempt.
    ///
    /// # Cancel safety
    ///
    /// If you drop the future, the next run continues a deletion that has begun.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`]: the code of the completer is refused ([`Completer::run`]).
    /// [`Error::Denied`], [`Error::Unavailable`]: nothing could be listed. A later error is
    /// reported as [`RunReport::stopped_by`].
    ///
    /// # Cost
    ///
    /// - Each deleted workflow: 1 query, 3 writes of the header and the ledger including the index,
    ///   and 1 write unit for each KB of each of its items. 1 request for each step, concurrently,
    ///   and 1 for its answers. 1 read for each step with its own key.
    /// - Each kept workflow: 1 query and 1 write of the header, after 1 day, 2, 4, 8, 16, and then
    ///   every 30 days.
    /// - The latest version of a workflow that has continued: 1 more query, of the first version.
    /// - 1 write unit to record the time of the run.
    pub async fn run(&self) -> Result<RunReport<ReaperReport>, Error> {
        self.completer.check()?;
        let run = async {
            let reaped = run::all(self).await?;
            tell(&reaped);
            Ok(reaped)
        };
        scheduled(&self.context, Machine::Reaper, self.deadline, Box::pin(run)).await
    }

    /// Deletes or drives one workflow that is due.
    async fn one(&self, finished: bool, row: &Row) -> ReaperReport {
        let mut reaped = ReaperReport::default();
        let looked_at = if finished {
            Box::pin(self.delete_finished(&row.key, &mut reaped)).await
        } else {
            Box::pin(self.last_chance(row, &mut reaped)).await
        };
        if let Err(error) = looked_at {
            reaped.failed += 1;
            let key = self.context.shown(&row.key);
            tracing::error!(workflow.key = key, %error, "a workflow could not be reaped");
        }
        reaped
    }

    async fn delete_finished(&self, workflow: &str, reaped: &mut ReaperReport) -> Result<(), Error> {
        let context = &self.context;
        let until = context.until(self.deadline);
        let all = Box::pin(context.store().read_whole_workflow(workflow, until)).await?;
        let Some(header) = &all.header else { return Ok(()) };
        // The index is eventually consistent, so its entry may be outdated.
        if !header.state.is_final() || header.next_due > context.now() {
            return Ok(());
        }
        // A start and a signal find the latest version of a key by the header of the first version.
        let is_followed = header.continued_as.is_some()
            && header.continues.is_none()
            && header.state != State::Reaping
            && context.latest(header.clone(), until).await?.is_some();
        if is_followed {
            self.write(header, ReaperAct::Keep(look_again(header, context.now()))).await?;
            return Ok(());
        }
        let is_kept = header.state != State::Reaping
            && (self.has_evidence(header, &all).await? || self.has_first(header).await?);
        if is_kept {
            reaped.kept += 1;
            self.write(header, ReaperAct::Keep(look_again(header, context.now()))).await?;
            return Ok(());
        }
        // After this write, no operator and no driver changes the workflow, and a later run of the
        // reaper continues the deletion.
        let act = ReaperAct::Delete(time::after(context.now(), DELETING));
        let Some(reaping) = self.write(header, act).await? else { return Ok(()) };
        self.erase(&reaping, &all).await?;
        reaped.deleted += 1;
        metrics::count_workflow(metrics::WORKFLOWS_FORGOTTEN, &reaping.name);
        if let Some(first) = reaping.continues.filter(|_| reaping.continued_as.is_none()) {
            self.look_at_first(&reaping, first).await?;
        }
        Ok(())
    }

    /// Returns whether this is the latest version of a workflow whose first version is evidence or
    /// unfinished. Without the latest version, callers would not receive the outcome.
    async fn has_first(&self, latest: &Header) -> Result<bool, Error> {
        let (context, until) = (&self.context, self.context.until(self.deadline));
        let Some(first) = latest.continues.filter(|_| latest.continued_as.is_none()) else {
            return Ok(false);
        };
        let workflow = name::partition(&latest.key(), first);
        let all = Box::pin(context.store().read_whole_workflow(&workflow, until)).await?;
        let Some(first) = &all.header else { return Ok(false) };
        let is_its = first.continued_as == Some(latest.key_version) && first.state != State::Reaping;
        Ok(is_its && (!first.state.is_final() || self.has_evidence(first, &all).await?))
    }

    /// Makes the first version due, after the latest version was deleted.
    async fn look_at_first(&self, latest: &Header, first: u32) -> Result<(), Error> {
        let (context, until) = (&self.context, self.context.until(self.deadline));
        let workflow = name::partition(&latest.key(), first);
        let Some(header) = Box::pin(context.store().read_header(&workflow, until)).await? else {
            return Ok(());
        };
        // The first version may be deleted and its key used again since. Without this, the reaper
        // would delete that workflow before the end of its retention.
        if header.continued_as == Some(latest.key_version) {
            self.write(&header, ReaperAct::Keep(context.now())).await?;
        }
        Ok(())
    }

    /// The limits of a type, or those of the session if the code of the type is not registered.
    fn limits_of(&self, name: &str) -> Result<Limits, InvalidSetting> {
        let limits = self.context.limits();
        self.completer.code.get(name).map_or_else(|| Ok(limits.clone()), |code| code.limits(limits))
    }

    async fn last_chance(&self, row: &Row, reaped: &mut ReaperReport) -> Result<(), Error> {
        let context = &self.context;
        let name = row.name.as_deref().unwrap_or_default();
        let limits = self.limits_of(name)?;
        let is_old = |since| time::after(since, limits.last_chance_after) <= context.now();
        if !row.created.is_some_and(is_old) {
            return Ok(());
        }
        let Some(code) = self.completer.code.get(name) else {
            if !self.completer.others.contains(name) {
                *reaped.unknown.entry(name.to_owned()).or_default() += 1;
            }
            return Ok(());
        };
        let until = || context.until(self.deadline);
        let Some(header) = Box::pin(context.store().read_header(&row.key, until())).await? else {
            return Ok(());
        };
        // The time counts from the last progress, wait of the code, or act of an operator.
        let since = header.since;
        if !is_old(since) {
            return Ok(());
        }
        match Box::pin(self.completer.drive_alone(code, &row.key)).await? {
            Alone::Driven(Driven::Ended(
                Ended::Completed(_) | Ended::Failed(_) | Ended::Cancelled | Ended::Erased(_),
            )) => {
                reaped.completed += 1;
                return Ok(());
            }
            Alone::Driven(Driven::Ended(Ended::Quarantined(_))) => {
                reaped.quarantined += 1;
                return Ok(());
            }
            // Another driver runs it.
            Alone::Driven(Driven::PassedBy) => return Ok(()),
            Alone::Driven(Driven::Ended(_) | Driven::BrokenOff) => {}
            Alone::Aborted(flow, why) => {
                let reason = unfinished(since, &why);
                return match flow.quarantine(reason).await {
                    Ok(_) => {
                        reaped.quarantined += 1;
                        Ok(())
                    }
                    // Another driver has claimed the workflow.
                    Err(Unwritten::Lost) => Ok(()),
                    Err(Unwritten::Store(error)) => Err(error),
                };
            }
        }
        // The last attempt has changed the header, and the quarantine depends on its revision.
        let Some(header) = Box::pin(context.store().read_header(&row.key, until())).await? else {
            return Ok(());
        };
        // It has progressed in the last attempt, or an operator has acted since: a quarantine would
        // stop it again.
        if !is_old(header.since) {
            return Ok(());
        }
        let last = header.reason.as_deref().unwrap_or("no reason is recorded");
        let act = ReaperAct::Quarantine { reason: unfinished(since, last) };
        if let Some(quarantined) = self.write(&header, act).await? {
            reaped.quarantined += 1;
            context.report_quarantined(&quarantined);
        }
        Ok(())
    }

    /// Returns whether the workflow has a step in doubt, a late event or an unsent message.
    async fn has_evidence(&self, header: &Header, all: &Everything) -> Result<bool, Error> {
        // In a workflow that an operator closed, a step cancelled in doubt is also evidence. So a
        // later outcome of the step is shown.
        let in_doubt = |state| match state {
            StepState::Started | StepState::Held | StepState::Late => true,
            StepState::Cancelled => header.closed,
            _ => false,
        };
        let run = header.run_id();
        for record in &all.records {
            let state = match record.shared() {
                None => Some(record.state),
                Some(id) => {
                    let until = self.context.until(self.deadline);
                    let shared = Box::pin(self.context.store().read_record(&id, until)).await?;
                    let mine = shared.filter(|shared| shared.started_for.as_ref() == Some(&run));
                    mine.map(|shared| shared.state)
                }
            };
            if state.is_some_and(in_doubt) {
                return Ok(true);
            }
        }
        // An event that is late is listed until it is handled.
        let is_open = |event: &EventRecord| matches!(event.state, EventState::Late | EventState::Given);
        let is_its = |event: &&EventRecord| event.is_of(header.created);
        if all.events.iter().chain(&self.surplus(header).await?).filter(is_its).any(is_open) {
            return Ok(true);
        }
        Ok(!all.messages.is_empty())
    }

    /// Reads the surplus events: other events under names that have an event. Most workflows have
    /// no surplus event, and need no request.
    async fn surplus(&self, header: &Header) -> Result<Vec<EventRecord>, Error> {
        if header.surplus == 0 {
            return Ok(Vec::new());
        }
        let until = self.context.until(self.deadline);
        Box::pin(self.context.store().read_surplus(&header.workflow, None, until)).await
    }

    /// Writes an act of the reaper. `None`: the workflow has changed, or does not allow the act.
    async fn write(&self, seen: &Header, act: ReaperAct) -> Result<Option<Header>, Error> {
        let context = &self.context;
        let event = HeaderEvent::Reaper { seen: seen.revision.clone(), act };
        let rule =
            |stored: Option<&Header>| stored.ok_or(HeaderRefusal::Changed)?.on(&event, context.stamp());
        let until = context.until(self.deadline);
        let changed = context.store().change("reap the workflow", Some(seen.clone()), until, rule);
        Ok(match Box::pin(changed).await? {
            Changed::Done(next) => Some(next),
            Changed::Refused { .. } | Changed::Gone => None,
        })
    }
}

fn tell(reaped: &RunReport<ReaperReport>) {
    if !reaped.unknown.is_empty() {
        tracing::info!(names = ?reaped.unknown, "old unfinished workflows have no code here, and are not expected");
    }
    tracing::info!(
        deleted = reaped.deleted,
        kept = reaped.kept,
        completed = reaped.completed,
        quarantined = reaped.quarantined,
        failed = reaped.failed,
        finished = reaped.finished,
        "reaped"
    );
}

/// Returns the time of the next check of a kept workflow. The pause begins with 1 day and doubles
/// each time, up to 30 days.
fn look_again(header: &Header, now: DateTime<Utc>) -> DateTime<Utc> {
    let [least, most] = LOOK_AGAIN;
    let due = header.ended.and_then(|ended| match header.retention {
        Retention::For(kept) => Some(time::after(ended, kept)),
        Retention::Forever => None,
    });
    let since = due.map_or(least, |due| time::between(due, now));
    time::after(now, since.clamp(least, most))
}

/// Returns the reason of the quarantine of a workflow that its last attempt did not finish.
fn unfinished(since: DateTime<Utc>, last: &str) -> String {
    format!("unfinished since {since}, and its last attempt did not finish it: {last}")
}
