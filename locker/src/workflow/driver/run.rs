//! One run of the completer: types of workflow take turns, and each workflow is driven in a task of
//! its own.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::completer::Completer;
use super::one::{Driven, TOO_LONG};
use super::report::CompleterReport;
use crate::core::rounds::{Entry, Kind};
use crate::core::workflow::header::List;
use crate::error::Error;
use crate::session::due_work::{DueWork, Lists, Page, Pool, RunReport, Then, Turn, Work, in_own_task};
use crate::store::{Layout, Positions, Row};
use crate::workflow::flow::Flow;
use crate::workflow::outcome::ended::Ended;
use crate::workflow::run_time::GRACE;
use crate::workflow::versions::MOST_VERSIONS;

/// How long releasing workflows takes, after the time to record.
const SLACK: Duration = Duration::from_millis(500);
/// How long after its deadline a driver waits for workflows that do not end when they are aborted,
/// since their code blocks its thread.
pub(crate) const PATIENCE: Duration = GRACE.saturating_add(SLACK);
/// A workflow that lost this many drivers in a row may have killed them, even if they recorded
/// outcomes. It is driven alone.
const SUSPECT: u32 = 3;

/// A due workflow. Lanes are types, so that a type that hangs leaves room for the others.
pub(super) struct DueWorkflow {
    key: String,
    name: String,
    /// Once it is claimed.
    flow: Arc<OnceLock<Flow>>,
    /// The versions of its key that this run has driven.
    versions: u32,
}

pub(super) struct Drives<'a> {
    completer: &'a Completer,
    lists: Lists<'a>,
}

pub(super) async fn all(completer: &Completer) -> Result<RunReport<CompleterReport>, Error> {
    let (context, deadline) = (&completer.context, completer.deadline);
    let bases = [List::Unfinished, List::Failing].map(List::base);
    let lists = Lists::of(context, &Layout::WORKFLOWS, &bases, deadline).due();
    let work = DueWork {
        pools: vec![Pool { width: completer.concurrency, begins_until: completer.takes_until() }],
        limit: Some(completer.limit),
        expects: completer.code.keys().map(|name| (*name).to_owned()).collect(),
        deadline,
        patience: PATIENCE,
        ..DueWork::new(context, lists.len(), completer.concurrency)
    };
    work.run(&Drives { completer, lists }).await
}

fn is_suspect(row: &Row) -> bool {
    row.lost_in_a_row.is_some_and(|lost| lost >= SUSPECT)
}

impl Work for Drives<'_> {
    type Item = DueWorkflow;
    type Place = Positions;
    type Counts = CompleterReport;

    async fn read(
        &self,
        list: usize,
        from: Option<Positions>,
    ) -> Result<Page<DueWorkflow, Positions, CompleterReport>, Error> {
        let page = self.lists.read(list, from).await?;
        let (mut entries, mut counts) = (Vec::new(), CompleterReport::default());
        for row in page.rows {
            let kind = if is_suspect(&row) { Kind::Alone } else { Kind::One };
            let name = row.name.unwrap_or_default();
            let version = row.code.unwrap_or(1);
            let code = self.completer.code.get(name.as_str());
            if code.is_some_and(|code| code.version() < version) {
                *counts.unknown.entry(format!("{name} version {version}")).or_default() += 1;
            } else if code.is_some() {
                let item =
                    DueWorkflow { key: row.key, name: name.clone(), flow: Arc::default(), versions: 1 };
                entries.push(Entry { lane: name, due: row.due, kind, item });
            } else if !self.completer.others.contains(&name) {
                *counts.unknown.entry(name).or_default() += 1;
            }
        }
        Ok(Page { entries, next: page.next, counts })
    }

    async fn turn(&self, item: &mut DueWorkflow) -> Turn<CompleterReport> {
        let mut counts = CompleterReport::default();
        let Some(code) = self.completer.code.get(item.name.as_str()) else { return Turn::done(counts) };
        let (completer, code) = (self.completer.clone(), Arc::clone(code));
        let (key, flow) = (item.key.clone(), Arc::clone(&item.flow));
        let driving = async move { completer.take_and_drive(&*code, &key, false, &flow).await };
        let driven = in_own_task(Box::pin(driving)).await;
        let is_work = item.flow.get().is_some();
        counts.claimed = usize::from(is_work);
        match driven {
            Ok(Ok(Driven::PassedBy)) => counts.taken_elsewhere += 1,
            Ok(Ok(Driven::Ended(ended))) => {
                counts.count(&ended);
                if let Ended::Continued(next, _) = ended
                    && item.versions < MOST_VERSIONS
                {
                    (item.key, item.flow) = (next, Arc::default());
                    item.versions += 1;
                    return Turn { is_work, then: Then::Again, ..Turn::done(counts) };
                }
            }
            Ok(Ok(Driven::BrokenOff)) => self.leave(item, TOO_LONG, &mut counts).await,
            Ok(Err(error)) => {
                counts.failed += 1;
                tracing::error!(%error, "a workflow could not be driven");
            }
            Err(panic) => self.leave(item, &panic, &mut counts).await,
        }
        Turn { is_work, ..Turn::done(counts) }
    }

    /// Releases a workflow whose code blocks its thread. If it ever ends, its writes are refused.
    async fn abandon(&self, item: &DueWorkflow) -> CompleterReport {
        let claimed = usize::from(item.flow.get().is_some());
        let mut counts = CompleterReport { claimed, ..CompleterReport::default() };
        self.leave(item, "it blocked its thread", &mut counts).await;
        counts
    }
}

impl Drives<'_> {
    /// Releases the workflow of an aborted run, so that the next driver need not wait until it is
    /// overdue.
    async fn leave(&self, item: &DueWorkflow, why: &str, counts: &mut CompleterReport) {
        counts.broken_off += 1;
        let Some(flow) = item.flow.get() else { return };
        let context = &self.completer.context;
        tracing::error!(
            workflow.key = context.shown(flow.workflow()),
            why,
            "a run of a workflow was aborted"
        );
        let Some(code) = self.completer.code.get(item.name.as_str()) else { return };
        match Box::pin(flow.broken_off(&**code, why)).await {
            Ok(Ended::Quarantined(_)) => counts.quarantined += 1,
            Ok(_) => {}
            // It is claimable again once it is overdue.
            Err(error) => tracing::warn!(%error, "the workflow of an aborted run could not be released"),
        }
    }
}
