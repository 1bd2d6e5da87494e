//! Running a plan: each record as it was shown, at a bounded rate, with a result for each.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use std::vec;

use chrono::{DateTime, TimeDelta, Utc};
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use tokio::time::{Interval, MissedTickBehavior};

use super::outcome::{Acted, BulkReport, Done};
use super::plan::{Plan, Planned};
use crate::core::token::record::Intervention;
use crate::core::token::work::Work;
use crate::error::Error;
use crate::operator::{Part, Verb};
use crate::session::Session;
use crate::session::listing::ListBuilder;
use crate::session::{AuditRecord, Intervened, Operator};
use crate::settings::InvalidSetting;
use crate::token::Locker;
use crate::workflow::{State, View, Workflows};

/// Records of one plan.
const LIMIT: usize = 10_000;

/// A relay and a consumer run each minute.
const PATIENCE: Duration = Duration::from_secs(5 * 60);

/// Makes plans and runs them.
#[derive(Debug, Clone)]
#[must_use = "nothing happens until a plan is made or run"]
pub struct Bulk {
    pub(super) tokens: Option<Locker>,
    pub(super) workflows: Option<Workflows>,
    pub(super) concurrency: usize,
    pub(super) limit: usize,
    per_second: u32,
    pub(super) canary: usize,
    pub(super) breaker: usize,
    pub(super) patience: Duration,
    stop: Arc<AtomicBool>,
}

impl Default for Bulk {
    fn default() -> Self {
        Self::new()
    }
}

impl Bulk {
    /// Acts in nothing yet: add [`tokens`](Self::tokens), [`workflows`](Self::workflows), or both.
    pub fn new() -> Self {
        Self {
            tokens: None,
            workflows: None,
            concurrency: 16,
            limit: LIMIT,
            per_second: 100,
            canary: 0,
            breaker: 0,
            patience: PATIENCE,
            stop: Arc::default(),
        }
    }

    /// Act on tokens of this table.
    pub fn tokens(mut self, locker: &Locker) -> Self {
        self.tokens = Some(locker.clone());
        self
    }

    /// Act on workflows of this table.
    pub fn workflows(mut self, workflows: &Workflows) -> Self {
        self.workflows = Some(workflows.clone());
        self
    }

    /// How many records are read or changed concurrently, 16 by default.
    pub const fn concurrency(mut self, records: usize) -> Self {
        self.concurrency = if records == 0 { 1 } else { records };
        self
    }

    /// How many records are taken on in a second, 100 by default. What is freed is done again by its callers and by completers, at the
    /// rate at which it is freed.
    pub const fn per_second(mut self, records: u32) -> Self {
        self.per_second = if records == 0 { 1 } else { records };
        self
    }

    /// How many records a plan has at most, 10,000 by default.
    pub const fn limit(mut self, records: usize) -> Self {
        self.limit = records;
        self
    }

    /// Of a redrive of messages: take on this many first, wait until each of them was sent or handled, and go on only if all of them were.
    /// One that was archived or discarded meanwhile was not. Each run has canaries of its own, and takes another one for one that has changed
    /// since the plan was made. 0 by default: none.
    pub const fn canary(mut self, messages: usize) -> Self {
        self.canary = messages;
        self
    }

    /// Of a redrive of messages: look at what became of those that were taken on, and stop when this many are dead again for the same
    /// cause, or when none of them can be read. 0 by default: never.
    pub const fn breaker(mut self, messages: usize) -> Self {
        self.breaker = messages;
        self
    }

    /// How long to wait for what becomes of the [canaries](Self::canary), 5 minutes by default: relays and consumers run about each minute.
    pub const fn patience(mut self, time: Duration) -> Self {
        self.patience = time;
        self
    }

    /// Take on no more records once this is set, such as by a signal. What is under way is finished and told.
    pub fn stop_when(mut self, stop: Arc<AtomicBool>) -> Self {
        self.stop = stop;
        self
    }

    pub(super) fn session(&self) -> Option<&Session> {
        let of_tokens = self.tokens.as_ref().map(Locker::session);
        of_tokens.or_else(|| self.workflows.as_ref().map(|workflows| &**workflows.context()))
    }

    /// Run a plan, or go on with one.
    ///
    /// `each` hears of each record when its outcome is known, and stops the run by breaking: what is under way is finished and told, and the
    /// rest is [left](BulkReport::left).
    ///
    /// # Errors
    ///
    /// If the audit cannot be read, by which it knows what an earlier run did: nothing was changed. Errors of single records are their
    /// [outcomes](Acted::error). If it cannot be read what became of a message, the report counts it as [waiting](BulkReport::waiting).
    ///
    /// # Crash window
    ///
    /// Each record is one transaction with its audit record. After a crash, run the plan again: what was done is found in the audit, which
    /// is a second behind, and everything else is as it was.
    ///
    /// # Cancel safety
    ///
    /// If you drop the future, acts that are under way may be done. Run the plan again to know.
    ///
    /// # Cost
    ///
    /// For each record 1 strongly consistent read and 1 transaction: 4 write units and 2 or 3 for the index; 2 more for a step, and 1 read and 2 more for a discard of a message that was received. 1 request
    /// for each 100 acts since the plan was made. With canaries or a breaker, 1 strongly consistent read more for each look at a message, and 1
    /// strongly consistent query of the acts on it once it is gone.
    pub async fn run(
        &self,
        plan: &Plan,
        mut each: impl FnMut(&Acted) -> ControlFlow<()>,
    ) -> Result<BulkReport, Error> {
        plan.act.check().map_err(InvalidSetting::Act)?;
        let operator = Operator::new(plan.by.clone(), plan.stored_reason())?;
        let before = self.done_before(plan).await?;
        let mut report = BulkReport::default();
        let mut stopped = false;
        let (known, rest): (Vec<_>, Vec<_>) = plan.items.iter().partition(|item| before.contains(&item.work));
        for item in known {
            (report.done, report.done_before) = (report.done + 1, report.done_before + 1);
            let outcome = Acted { work: item.work.clone(), done: Done::Done, error: None };
            stopped |= each(&outcome).is_break();
        }
        let mut run =
            Run { bulk: self, plan, operator: &operator, turns: self.turns(), each, report, stopped };
        let mut rest = rest.into_iter();
        if self.follows(plan) {
            self.run_and_follow(&mut run, &mut rest).await;
        } else {
            run.take_on(&mut rest, usize::MAX).await;
        }
        run.report.left = rest.len();
        Ok(run.report)
    }

    fn turns(&self) -> Interval {
        let mut turns = tokio::time::interval(Duration::from_secs(1) / self.per_second);
        turns.set_missed_tick_behavior(MissedTickBehavior::Delay);
        turns
    }

    /// How many are taken on until what became of them is looked at.
    pub(super) const fn in_a_while(&self) -> usize {
        self.per_second as usize * 5
    }

    /// What an earlier run of the plan did, by the audit.
    async fn done_before(&self, plan: &Plan) -> Result<HashSet<Work>, Error> {
        let since = since_before(plan);
        let mark = plan.mark();
        let of_tokens = self.tokens.as_ref().map(|locker| locker.audit(since));
        let of_workflows = self.workflows.as_ref().map(|workflows| workflows.audit(since));
        let mut before = HashSet::new();
        for audit in of_tokens.into_iter().chain(of_workflows) {
            let page = ListBuilder::limit(audit, usize::MAX).fetch().await?;
            if let Some(error) = page.stopped_by {
                return Err(error);
            }
            let is_of_plan =
                |act: &&AuditRecord| act.reason.as_ref().is_some_and(|reason| reason.ends_with(&mark));
            before.extend(page.items.iter().filter(is_of_plan).map(AuditRecord::work));
        }
        Ok(before)
    }

    async fn one(&self, plan: &Plan, item: &Planned, operator: &Operator) -> Acted {
        let told = |done, error| Acted { work: item.work.clone(), done, error };
        let came_to = match self.read(&item.work).await {
            Ok(Some(part)) => self.act(plan, item, &part, operator).await,
            Ok(None) => Ok(Intervened::Changed),
            Err(error) => Err(error),
        };
        match came_to {
            Ok(Intervened::Done) => told(Done::Done, None),
            Ok(Intervened::Changed) => told(Done::Changed, None),
            Ok(Intervened::NotPossible) => told(Done::NotPossible, None),
            Err(error @ Error::Unknown { .. }) => told(Done::Unknown, Some(error)),
            Err(error) => told(Done::Failed, Some(error)),
        }
    }

    async fn act(
        &self,
        plan: &Plan,
        item: &Planned,
        part: &Part,
        operator: &Operator,
    ) -> Result<Intervened, Error> {
        let act = &plan.act;
        let result = act.result.clone().unwrap_or_default();
        match (part, &self.tokens, &self.workflows) {
            (Part::Token(record), Some(locker), _) => {
                if record.revision() != item.revision {
                    return Ok(changed_by(plan, record.intervention()));
                }
                match act.verb {
                    Verb::Release => locker.release(record, operator).await,
                    Verb::Resolve => locker.resolve(record, &result, operator).await,
                    Verb::Close => locker.close(record, operator).await,
                    _ => Ok(Intervened::NotPossible),
                }
            }
            (Part::Workflow(view), _, Some(workflows)) => {
                if view.revision() != item.revision && !(act.verb == Verb::Cancel && may_cancel(plan, view)) {
                    return Ok(changed_by(plan, view.intervention()));
                }
                match (act.verb, &act.step) {
                    (Verb::Retry, None) => workflows.retry(view, operator).await,
                    (Verb::Compensate | Verb::Cancel, None) => workflows.compensate(view, operator).await,
                    (Verb::Close, None) => workflows.close(view, operator).await,
                    (Verb::Retry, Some(step)) if act.new_key => {
                        workflows.retry_step_with_new_key(view, step, operator).await
                    }
                    (Verb::Retry, Some(step)) => workflows.retry_step(view, step, operator).await,
                    (Verb::Skip, Some(step)) => workflows.skip_step(view, step, operator).await,
                    (Verb::Resolve, Some(step)) => {
                        workflows.resolve_step(view, step, &result, operator).await
                    }
                    _ => Ok(Intervened::NotPossible),
                }
            }
            (Part::Message(message), _, Some(workflows)) => {
                if message.revision() != item.revision {
                    return Ok(changed_by(plan, message.intervention()));
                }
                match act.verb {
                    Verb::Redrive => workflows.redrive(message, operator).await,
                    Verb::Archive => workflows.archive(message, operator).await,
                    Verb::Restore => workflows.restore(message, operator).await,
                    Verb::Discard => workflows.discard(message, operator).await,
                    Verb::Note => workflows.annotate(message, operator).await,
                    _ => Ok(Intervened::NotPossible),
                }
            }
            _ => Ok(Intervened::NotPossible),
        }
    }
}

/// A run of a plan.
pub(super) struct Run<'a, F> {
    bulk: &'a Bulk,
    pub(super) plan: &'a Plan,
    operator: &'a Operator,
    turns: Interval,
    each: F,
    pub(super) report: BulkReport,
    pub(super) stopped: bool,
}

impl<F: FnMut(&Acted) -> ControlFlow<()>> Run<'_, F> {
    /// Take on this many records, at most. Returns those to which it is done.
    pub(super) async fn take_on(&mut self, items: &mut vec::IntoIter<&Planned>, most: usize) -> Vec<Work> {
        let (mut under_way, mut begun, mut done) = (FuturesUnordered::new(), 0, Vec::new());
        loop {
            let takes =
                !self.stopped && begun < most && under_way.len() < self.bulk.concurrency && items.len() > 0;
            tokio::select! {
                biased;
                Some(outcome) = under_way.next(), if !under_way.is_empty() => {
                    let outcome: Acted = outcome;
                    self.report.count(outcome.done);
                    self.stopped |= (self.each)(&outcome).is_break();
                    done.extend((outcome.done == Done::Done).then_some(outcome.work));
                }
                _ = self.turns.tick(), if takes => {
                    // It may have been told while it waited for the turn.
                    self.stopped |= self.bulk.stop.load(Ordering::SeqCst);
                    let next = if self.stopped { None } else { items.next() };
                    begun += 1;
                    under_way.extend(next.map(|item| self.bulk.one(self.plan, item, self.operator)));
                }
                else => return done,
            }
        }
    }

    /// Whether each act that was begun has an outcome.
    pub(super) const fn has_no_error(&self) -> bool {
        self.report.failed == 0 && self.report.unknown == 0
    }

    /// Whether it was told to stop, while it waits.
    pub(super) fn is_stopped(&mut self) -> bool {
        self.stopped |= self.bulk.stop.load(Ordering::SeqCst);
        self.stopped
    }
}

/// From when on the audit is read for what was done about a plan: clocks differ.
pub(super) fn since_before(plan: &Plan) -> DateTime<Utc> {
    plan.made - TimeDelta::minutes(5)
}

/// Whether it is the workflow that the plan has, which has gone on since.
fn may_cancel(plan: &Plan, view: &View) -> bool {
    view.created() <= plan.made && view.state() == State::Running && !is_of(plan, view.intervention())
}

/// A record that changed since the plan was made: it was the plan itself, in a run whose act the index does not show yet, or another operator or a caller.
fn changed_by(plan: &Plan, last: Option<&Intervention>) -> Intervened {
    if is_of(plan, last) { Intervened::Done } else { Intervened::Changed }
}

fn is_of(plan: &Plan, last: Option<&Intervention>) -> bool {
    last.is_some_and(|last| last.reason.ends_with(&plan.mark()))
}
