//! The reaper: deletes finished workflows, and quarantines those that never finish.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use serde::Serialize;

use super::completer::{Alone, Completer, Driven};
use super::due::Due;
use super::fence::Unwritten;
use crate::core::answer::Body;
use crate::core::time;
use crate::core::workflow::header::{Header, List, State};
use crate::core::workflow::step::{ANSWER, HEADER, INPUT, RecordId, StepState};
use crate::error::Error;
use crate::observe::metrics;
use crate::store::{Everything, Guard, LedgerEntry, Put, Row, header_item, ledger_item};
use crate::workflow::context::Context;
use crate::workflow::ended::Ended;

/// Number of workflows in one page of a listing.
const PAGE: usize = 25;
/// A workflow that is kept although it is due is checked again after this time.
const LOOK_AGAIN: std::time::Duration = std::time::Duration::from_secs(24 * 60 * 60);
/// How long deleting one workflow may take before another run continues it.
const DELETING: std::time::Duration = std::time::Duration::from_secs(5 * 60);

/// Deletes finished workflows past their retention, and gives old unfinished ones one last attempt.
///
/// Run it about once an hour.
///
/// - Only **finished** workflows are ever deleted. A compact ledger record of each remains: key, name, times,
///   attempts, outcome, and the operator who acted on it.
/// - Evidence is not deleted: a finished workflow with a step that is `started` or `late`, or with an unsent message,
///   is kept. (A step that was cancelled in doubt and whose compensation found nothing is not evidence.)
/// - A workflow that is unfinished after [`Limits::last_chance_after`](crate::workflow::Limits::last_chance_after),
///   counted from its start or from an operator's last act, is driven once more with the completer's code, and
///   quarantined if that does not finish it. One whose code the completer does not have is left alone.
#[derive(Debug, Clone)]
#[must_use = "a reaper does nothing until it is run"]
pub struct Reaper {
    context: Context,
    completer: Completer,
    limit: usize,
    deadline: Option<DateTime<Utc>>,
}

/// The result of a run of the reaper.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ReaperReport {
    /// Finished workflows that were deleted.
    pub deleted: usize,
    /// Finished workflows that are kept because of a step in doubt or an unsent message.
    pub kept: usize,
    /// Old unfinished workflows that finished in their last attempt.
    pub completed: usize,
    /// Old unfinished workflows that were quarantined.
    pub quarantined: usize,
    /// Workflows that could not be read or written; they stay.
    pub failed: usize,
    /// Old unfinished workflows whose code is not registered here, by name; they stay for the reaper that has it.
    pub unknown: BTreeMap<String, usize>,
    /// Whether every due workflow was seen.
    pub finished: bool,
}

impl Reaper {
    /// A reaper with the completer's workflows and code.
    pub fn new(completer: &Completer) -> Self {
        Self { context: completer.context.clone(), completer: completer.clone(), limit: 1000, deadline: None }
    }

    /// How many workflows it checks in one run. Default: 1,000.
    pub const fn limit(mut self, limit: usize) -> Self {
        self.limit = limit;
        self
    }

    /// Stop at this time, such as shortly before the deadline of a Lambda invocation.
    pub fn deadline(mut self, deadline: impl Into<DateTime<Utc>>) -> Self {
        let deadline = deadline.into();
        self.deadline = Some(deadline);
        self.completer = self.completer.deadline(deadline);
        self
    }

    /// Delete finished workflows that are due, then check old unfinished ones.
    ///
    /// # Cancel safety
    ///
    /// If you drop the future, the next run continues a deletion that was begun.
    ///
    /// # Errors
    ///
    /// [`Error::Denied`], [`Error::Unavailable`] if a listing fails. What was done before stays done.
    ///
    /// # Cost
    ///
    /// For each workflow that it deletes: 1 query, 3 writes of the header and the ledger including the index, and 1
    /// write unit for each KB of each of its items; 1 request for each step, and 1 for its answers. 1 read for each
    /// step with a key of its own.
    pub async fn run(&self) -> Result<ReaperReport, Error> {
        let mut reaped = ReaperReport { finished: true, ..ReaperReport::default() };
        let mut left = self.limit;
        for listed in [List::Finished, List::Unfinished] {
            if let Err(error) = self.each(listed, &mut left, &mut reaped).await {
                metrics::reaped(false);
                return Err(error);
            }
        }
        metrics::reaped(reaped.finished);
        for (name, count) in &reaped.unknown {
            tracing::warn!(workflow.name = name, count, "old unfinished workflows have no code here");
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
        Ok(reaped)
    }

    async fn each(&self, listed: List, left: &mut usize, reaped: &mut ReaperReport) -> Result<(), Error> {
        let mut due = Due::of(&self.context, listed, PAGE, self.deadline);
        while let Some(rows) = due.page().await? {
            for row in rows {
                if *left == 0 || self.context.is_past(self.deadline) {
                    reaped.finished = false;
                    return Ok(());
                }
                *left -= 1;
                self.one(listed, &row, reaped).await;
            }
        }
        Ok(())
    }

    async fn one(&self, listed: List, row: &Row, reaped: &mut ReaperReport) {
        let looked_at = match listed {
            List::Finished => self.delete_finished(&row.key, reaped).await,
            _ => self.last_chance(row, reaped).await,
        };
        if let Err(error) = looked_at {
            reaped.failed += 1;
            let key = self.context.shown(&row.key);
            tracing::error!(workflow.key = key, %error, "a workflow could not be reaped");
        }
    }

    async fn delete_finished(&self, workflow: &str, reaped: &mut ReaperReport) -> Result<(), Error> {
        let context = &self.context;
        let until = context.until(self.deadline);
        let all = Box::pin(context.store().read_workflow(workflow, until)).await?;
        let Some(header) = &all.header else { return Ok(()) };
        // The index is eventually consistent, so its entry may be outdated.
        if !header.state.is_final() || header.next_due > context.now() {
            return Ok(());
        }
        if header.state != State::Reaping && self.has_evidence(header, &all).await? {
            reaped.kept += 1;
            let again = Header {
                next_due: time::after(context.now(), LOOK_AGAIN),
                revision: context.new_id(),
                ..header.clone()
            };
            self.write(header, &again).await?;
            return Ok(());
        }
        // From here on no operator or driver acts on it, and a later run of the reaper continues the deletion.
        let reaping = Header {
            state: State::Reaping,
            ending: Some(header.ending.filter(|_| header.state == State::Reaping).unwrap_or(header.state)),
            next_due: time::after(context.now(), DELETING),
            revision: context.new_id(),
            attempt: context.new_id(),
            ..header.clone()
        };
        if !self.write(header, &reaping).await? {
            return Ok(());
        }
        self.delete(&reaping, &all).await?;
        reaped.deleted += 1;
        metrics::count_workflow(metrics::WORKFLOWS_FORGOTTEN, &reaping.name);
        Ok(())
    }

    /// Write the ledger record first and delete the header last: wherever this stops, the next run continues.
    async fn delete(&self, header: &Header, all: &Everything) -> Result<(), Error> {
        let context = &self.context;
        let store = context.store();
        let now = context.now();
        let ttl = context.limits().ledger.ttl(now);
        let entry = LedgerEntry { header, steps: all.records.len(), at: now, ttl };
        let until = context.until(self.deadline);
        // If the response is lost, the next run finds the header unchanged and puts it again.
        Box::pin(store.put_item("write the ledger record", &ledger_item(&entry), Guard::None, until)).await?;
        // Each record only as it was read: if this run is suspended, and meanwhile another run deletes the workflow
        // and it is started anew, the new records must stay.
        for record in &all.records {
            let RecordId { workflow, item } = &record.id;
            let guard = Guard::Revision(&record.revision);
            let until = context.until(self.deadline);
            Box::pin(store.delete_item("delete the workflow", workflow, item, guard, until)).await?;
        }
        // Ids of answers and inputs are never reused. Another input may belong to the next start.
        let input = match &header.input {
            Some(Body::Beside { id, .. }) => Some(format!("{INPUT}{id}")),
            _ => None,
        };
        let beside = |item: &&String| item.starts_with(ANSWER) || Some(*item) == input.as_ref();
        let items: Vec<String> = all.items.iter().filter(beside).cloned().collect();
        Box::pin(store.delete_items(&header.workflow, &items, context.until(self.deadline))).await?;
        let guard = Guard::Revision(&header.revision);
        let until = context.until(self.deadline);
        Box::pin(store.delete_item("delete the workflow", &header.workflow, HEADER, guard, until)).await?;
        Ok(())
    }

    async fn last_chance(&self, row: &Row, reaped: &mut ReaperReport) -> Result<(), Error> {
        let context = &self.context;
        let is_old = |since| time::after(since, context.limits().last_chance_after) <= context.now();
        if !row.created.is_some_and(is_old) {
            return Ok(());
        }
        let name = row.name.as_deref().unwrap_or_default();
        let Some(code) = self.completer.code.get(name) else {
            *reaped.unknown.entry(name.to_owned()).or_default() += 1;
            return Ok(());
        };
        let until = || context.until(self.deadline);
        let Some(header) = Box::pin(context.store().read_header(&row.key, until())).await? else {
            return Ok(());
        };
        // An operator's act begins its time anew.
        let since = header.intervention.as_ref().map_or(header.created, |operator| operator.at);
        if !is_old(since) {
            return Ok(());
        }
        match Box::pin(self.completer.drive_alone(code, &row.key)).await? {
            Alone::Driven(Driven::Ended(Ended::Completed(_) | Ended::Failed(_) | Ended::Cancelled)) => {
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
                    // Another driver claimed it meanwhile.
                    Err(Unwritten::Lost) => Ok(()),
                    Err(Unwritten::Store(error)) => Err(error),
                };
            }
        }
        let Some(header) = Box::pin(context.store().read_header(&row.key, until())).await? else {
            return Ok(());
        };
        if header.state.is_final() || header.is_quarantined() || header.locked_by.is_some() {
            return Ok(());
        }
        let last = header.reason.as_deref().unwrap_or("no reason is recorded");
        let mut quarantined = Header { revision: context.new_id(), ..header.clone() };
        quarantined.quarantine(context.now(), context.new_id(), unfinished(since, last), None);
        if self.write(&header, &quarantined).await? {
            reaped.quarantined += 1;
            context.report_quarantined(&quarantined);
        }
        Ok(())
    }

    /// Whether the workflow has a step in doubt or an unsent message.
    async fn has_evidence(&self, header: &Header, all: &Everything) -> Result<bool, Error> {
        let in_doubt = |state| matches!(state, StepState::Started | StepState::Late);
        let run = header.run_id();
        for record in &all.records {
            let state = match &record.points_to {
                None => Some(record.state),
                Some(key) => {
                    let until = self.context.until(self.deadline);
                    let id = RecordId::shared(key);
                    let shared = Box::pin(self.context.store().read_record(&id, until)).await?;
                    let mine = shared.filter(|shared| shared.started_for.as_ref() == Some(&run));
                    mine.map(|shared| shared.state)
                }
            };
            if state.is_some_and(in_doubt) {
                return Ok(true);
            }
        }
        Ok(!all.messages.is_empty())
    }

    async fn write(&self, seen: &Header, next: &Header) -> Result<bool, Error> {
        let item = header_item(next, self.context.settings().shards);
        let guard = Guard::Revision(&seen.revision);
        let until = self.context.until(self.deadline);
        let put = self.context.store().put_item("reap the workflow", &item, guard, until);
        Ok(matches!(Box::pin(put).await?, Put::Done))
    }
}

/// Why a workflow is quarantined that its last attempt did not finish.
fn unfinished(since: DateTime<Utc>, last: &str) -> String {
    format!("unfinished since {since}, and its last attempt did not finish it: {last}")
}
