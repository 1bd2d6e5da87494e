//! The reaper: forgets what is finished, and shows what will never be.

use chrono::{DateTime, Utc};

use super::completer::Completer;
use super::drive::Ended;
use super::workflows::Workflows;
use crate::core::answer::Body;
use crate::core::time;
use crate::core::workflow::header::{Header, Listed, WorkflowState};
use crate::core::workflow::record::{ANSWER, HEADER, INPUT, RecordId, StepState};
use crate::error::Error;
use crate::metrics;
use crate::store::workflow::{
    Everything, Guard, LedgerEntry, Put, WorkflowCursor, WorkflowRow, header_item, ledger_item,
};

/// How many are listed at a time.
const PAGE: usize = 25;
/// What is kept though it is due is looked at again after this time.
const LOOK_AGAIN: std::time::Duration = std::time::Duration::from_secs(24 * 60 * 60);
/// How long forgetting one workflow may take before somebody else goes on with it.
const FORGETTING: std::time::Duration = std::time::Duration::from_secs(5 * 60);

/// Forgets finished workflows past their retention, and gives old unfinished ones one last attempt. Run it once
/// an hour or so.
///
/// - Only what is **finished** is ever deleted. Of each a compact ledger record stays: key, name, times, attempts, how
///   it ended, and who acted on it.
/// - Evidence is not deleted: a finished workflow with a step that is `started` or `late`, or with a message that was not
///   sent, is kept. (A step cancelled in doubt whose undoing found nothing is no such evidence.)
/// - What is unfinished after [`Limits::last_chance_after`](super::Limits::last_chance_after) is driven once more
///   with the completer's code, and parked if that does not finish it.
#[derive(Debug, Clone)]
#[must_use = "a reaper does nothing until it is run"]
pub struct Reaper {
    workflows: Workflows,
    completer: Completer,
    limit: usize,
    deadline: Option<DateTime<Utc>>,
}

/// What a reaper did.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Reaped {
    /// Finished workflows that were forgotten.
    pub forgotten: usize,
    /// Finished workflows that are kept: a step in doubt, or an unsent message.
    pub kept: usize,
    /// Old unfinished workflows that their last attempt finished.
    pub completed: usize,
    /// Old unfinished workflows that were parked.
    pub quarantined: usize,
    /// Workflows that could not be read or written; they stay.
    pub failed: usize,
    /// Whether all that was due was seen.
    pub finished: bool,
}

impl Reaper {
    /// A reaper with the completer's workflows and code.
    pub fn new(completer: &Completer) -> Self {
        Self {
            workflows: completer.workflows.clone(),
            completer: completer.clone(),
            limit: 1000,
            deadline: None,
        }
    }

    /// How many workflows it looks at in one run, 1,000 by default.
    pub const fn limit(mut self, limit: usize) -> Self {
        self.limit = limit;
        self
    }

    /// Stop at this time, such as a little before the deadline of a Lambda invocation.
    pub fn deadline(mut self, deadline: impl Into<DateTime<Utc>>) -> Self {
        let deadline = deadline.into();
        self.deadline = Some(deadline);
        self.completer = self.completer.deadline(deadline);
        self
    }

    /// Forget what is finished and due, then look at what is old and unfinished.
    ///
    /// # Errors
    ///
    /// [`Error::Denied`], [`Error::Unavailable`] if nothing could be listed.
    ///
    /// # Cost
    ///
    /// For each workflow that it forgets: 1 query, 3 writes of the header and the ledger with the index, and 1 write unit
    /// for each KB of each of its items; a request for each step, and for its answers one. 1 read for each step with a
    /// key of its own.
    pub async fn run(&self) -> Result<Reaped, Error> {
        let mut reaped = Reaped { finished: true, ..Reaped::default() };
        let mut left = self.limit;
        for listed in [Listed::Finished, Listed::Unfinished] {
            if let Err(error) = self.each(listed, &mut left, &mut reaped).await {
                metrics::reaped(false);
                return Err(error);
            }
        }
        metrics::reaped(reaped.finished);
        tracing::info!(
            forgotten = reaped.forgotten,
            kept = reaped.kept,
            completed = reaped.completed,
            quarantined = reaped.quarantined,
            failed = reaped.failed,
            finished = reaped.finished,
            "reaped"
        );
        Ok(reaped)
    }

    async fn each(&self, listed: Listed, left: &mut usize, reaped: &mut Reaped) -> Result<(), Error> {
        let due_before = self.workflows.now();
        for status in self.workflows.statuses_from_any(listed) {
            let mut from = None;
            loop {
                let until = self.workflows.until(self.deadline);
                let store = self.workflows.store();
                let page = store.list_workflows(&status, Some(due_before), from.as_ref(), PAGE, until);
                let (rows, more) = Box::pin(page).await?;
                from = rows.last().map(WorkflowCursor::after);
                for row in rows {
                    if *left == 0 || self.workflows.is_past(self.deadline) {
                        reaped.finished = false;
                        return Ok(());
                    }
                    *left -= 1;
                    self.one(listed, &row, reaped).await;
                }
                if !more {
                    break;
                }
            }
        }
        Ok(())
    }

    async fn one(&self, listed: Listed, row: &WorkflowRow, reaped: &mut Reaped) {
        let looked_at = match listed {
            Listed::Finished => self.forget(&row.workflow, reaped).await,
            _ => self.last_chance(row, reaped).await,
        };
        if let Err(error) = looked_at {
            reaped.failed += 1;
            let key = self.workflows.shown(&row.workflow);
            tracing::error!(workflow.key = key, %error, "a workflow could not be reaped");
        }
    }

    async fn forget(&self, workflow: &str, reaped: &mut Reaped) -> Result<(), Error> {
        let workflows = &self.workflows;
        let until = workflows.until(self.deadline);
        let all = Box::pin(workflows.store().read_workflow(workflow, until)).await?;
        let Some(header) = &all.header else { return Ok(()) };
        // The index is a moment behind, and may be wrong about it.
        if !header.state.is_final() || header.next_due > workflows.now() {
            return Ok(());
        }
        if header.state != WorkflowState::Reaping && self.has_evidence(header, &all).await? {
            reaped.kept += 1;
            let again = Header {
                next_due: time::after(workflows.now(), LOOK_AGAIN),
                revision: workflows.new_id(),
                ..header.clone()
            };
            self.write(header, &again).await?;
            return Ok(());
        }
        // From here on nobody else acts on it, and whoever finds it so goes on.
        let reaping = Header {
            state: WorkflowState::Reaping,
            ending: Some(
                header.ending.filter(|_| header.state == WorkflowState::Reaping).unwrap_or(header.state),
            ),
            next_due: time::after(workflows.now(), FORGETTING),
            revision: workflows.new_id(),
            attempt: workflows.new_id(),
            ..header.clone()
        };
        if !self.write(header, &reaping).await? {
            return Ok(());
        }
        self.delete(&reaping, &all).await?;
        reaped.forgotten += 1;
        metrics::count_workflow(metrics::WORKFLOWS_FORGOTTEN, &reaping.name);
        Ok(())
    }

    /// The ledger first, the header last: wherever it stops, the next run goes on.
    async fn delete(&self, header: &Header, all: &Everything) -> Result<(), Error> {
        let workflows = &self.workflows;
        let store = workflows.store();
        let now = workflows.now();
        let ttl = workflows.limits().ledger.ttl(now);
        let entry = LedgerEntry { header, steps: all.records.len(), at: now, ttl };
        let until = workflows.until(self.deadline);
        // After a silence it is put again by the next run, which finds the header as it is.
        Box::pin(store.put_item("keep a ledger record", &ledger_item(&entry), Guard::None, until)).await?;
        // Each record only as it was seen: should this run wake after another has forgotten the workflow and it was
        // started anew, its records are not these.
        for record in &all.records {
            let RecordId { workflow, item } = &record.id;
            let guard = Guard::Revision(&record.revision);
            let until = workflows.until(self.deadline);
            Box::pin(store.delete_item("forget the workflow", workflow, item, guard, until)).await?;
        }
        // The ids of answers and inputs are never given twice. Another input may be that of a next start.
        let input = match &header.input {
            Some(Body::Beside { id, .. }) => Some(format!("{INPUT}{id}")),
            _ => None,
        };
        let beside = |item: &&String| item.starts_with(ANSWER) || Some(*item) == input.as_ref();
        let items: Vec<String> = all.items.iter().filter(beside).cloned().collect();
        Box::pin(store.delete_items(&header.workflow, &items, workflows.until(self.deadline))).await?;
        let guard = Guard::Revision(&header.revision);
        let until = workflows.until(self.deadline);
        Box::pin(store.delete_item("forget the workflow", &header.workflow, HEADER, guard, until)).await?;
        Ok(())
    }

    async fn last_chance(&self, row: &WorkflowRow, reaped: &mut Reaped) -> Result<(), Error> {
        let workflows = &self.workflows;
        let after = workflows.limits().last_chance_after;
        if row.created.is_none_or(|created| time::after(created, after) > workflows.now()) {
            return Ok(());
        }
        let name = row.name.as_deref().unwrap_or_default();
        if let Some(code) = self.completer.code.get(name) {
            let known = std::sync::OnceLock::new();
            match Box::pin(self.completer.take_and_drive(&**code, &row.workflow, true, &known)).await {
                Ok(Some(Ended::Completed(_) | Ended::Failed(_) | Ended::Cancelled)) => {
                    reaped.completed += 1;
                    return Ok(());
                }
                Ok(Some(Ended::Quarantined(_))) => {
                    reaped.quarantined += 1;
                    return Ok(());
                }
                // Somebody drives it.
                Ok(None) => return Ok(()),
                Ok(Some(_)) | Err(_) => {}
            }
        }
        let until = workflows.until(self.deadline);
        let Some(header) = Box::pin(workflows.store().read_header(&row.workflow, until)).await? else {
            return Ok(());
        };
        let skew = workflows.skew();
        if header.state.is_final() || header.is_quarantined() {
            return Ok(());
        }
        // Somebody took it meanwhile.
        if header.locked_by.is_some() && !header.is_claimable(workflows.now(), skew) {
            return Ok(());
        }
        let last = header.reason.as_deref().unwrap_or("nobody can say why");
        let parked = Header {
            listed: Some(Listed::Quarantine),
            next_due: workflows.now(),
            revision: workflows.new_id(),
            attempt: workflows.new_id(),
            locked_by: None,
            reason: Some(format!(
                "unfinished since {}, and its last attempt did not end it: {last}",
                header.created
            )),
            ..header.clone()
        };
        if self.write(&header, &parked).await? {
            reaped.quarantined += 1;
            workflows.tell_parked(&parked);
        }
        Ok(())
    }

    /// A step in doubt, or a message that was not sent.
    async fn has_evidence(&self, header: &Header, all: &Everything) -> Result<bool, Error> {
        let in_doubt = |state| matches!(state, StepState::Started | StepState::Late);
        let run = header.run_id();
        for record in &all.records {
            let state = match &record.points_to {
                None => Some(record.state),
                Some(key) => {
                    let until = self.workflows.until(self.deadline);
                    let id = RecordId::shared(key);
                    let shared = Box::pin(self.workflows.store().read_record(&id, until)).await?;
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
        let item = header_item(next, self.workflows.settings().shards);
        let guard = Guard::Revision(&seen.revision);
        let until = self.workflows.until(self.deadline);
        let put = self.workflows.store().put_item("reap the workflow", &item, guard, until);
        Ok(matches!(Box::pin(put).await?, Put::Done))
    }
}
