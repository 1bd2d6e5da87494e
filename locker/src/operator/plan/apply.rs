//! Applying a plan: each record as it was shown, at a bounded rate, with an outcome for each.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use std::vec;

use chrono::{DateTime, TimeDelta, Utc};
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use serde::{Deserialize, Serialize};
use tokio::time::{Interval, MissedTickBehavior};

use super::report::{Acted, ApplyReport, Done};
use super::{Plan, Planned};
use crate::core::argument::InvalidSetting;
use crate::core::token::record::Intervention;
use crate::core::token::work::Work;
use crate::error::Error;
use crate::operator::lists::Reading;
use crate::operator::rule::{Refusal, Scope};
use crate::operator::{Console, Part, Verb};
use crate::session::{AuditRecord, Intervened, Operator};
#[cfg(feature = "workflow")]
use crate::workflow::State;

/// The rate at which a plan is applied, and the conditions that stop it.
///
/// It implements `Serialize`, so that a file can store it with its plan.
///
/// # Examples
///
/// ```
/// use locker::operator::ApplyOptions;
///
/// let options = ApplyOptions { per_second: 10, canary: 1, ..ApplyOptions::default() };
/// assert_eq!(options.concurrency, 16);
/// ```
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct ApplyOptions {
    /// Records that are begun per second (default: 100).
    ///
    /// Callers and completers repeat the work of freed records at this rate. 0 counts as 1.
    pub per_second: u32,
    /// Records that are changed concurrently (default: 16). 0 counts as 1.
    pub concurrency: usize,
    /// Messages that are redriven first (default: 0, off).
    ///
    /// The run continues only if all of them are sent or processed. A message that was archived or
    /// discarded meanwhile was neither. Each run has its own canaries. If a message has changed
    /// since the plan was made, the next message replaces it.
    pub canary: usize,
    /// Messages that are dead again for one cause before the run stops (default: 0, off).
    ///
    /// The run also stops if the outcome of no message can be read.
    pub breaker: usize,
    /// Time to wait for the outcome of the [canaries](Self::canary) (default: 5 minutes).
    ///
    /// Relays and consumers run about each minute.
    pub patience: Duration,
    /// Stops the run once it is set, such as by a signal.
    ///
    /// Acts that have begun are finished and reported. This field is not serialized.
    #[serde(skip)]
    pub stop: Arc<AtomicBool>,
}

impl Default for ApplyOptions {
    fn default() -> Self {
        Self {
            per_second: 100,
            concurrency: 16,
            canary: 0,
            breaker: 0,
            patience: Duration::from_secs(5 * 60),
            stop: Arc::default(),
        }
    }
}

impl Console {
    /// Applies a plan, or resumes a plan that was stopped.
    ///
    /// `each` receives the outcome of each record. If it breaks, the run stops: acts that have
    /// begun are finished and reported, and the other records are [left](ApplyReport::left).
    ///
    /// A record is changed only if it still has the [revision](crate::Record::revision) of the
    /// plan, so a plan that is applied twice acts once. The rule of the plan is applied again,
    /// because no revision contains the clock, nor whether the work is [running](Self::running). A
    /// cancel also acts on a workflow that has progressed since. The audit shows the acts of
    /// earlier runs of the same plan.
    ///
    /// # Errors
    ///
    /// The audit of earlier runs cannot be read; then nothing was changed. Errors of single records
    /// are in their [outcomes](Acted::error). If the outcome of a message cannot be read, the
    /// report counts the message as [waiting](ApplyReport::waiting).
    ///
    /// # Cost
    ///
    /// For each record 1 strongly consistent read and 1 transaction: 4 write units, and 2 or 3 for
    /// the index. A step adds 2 write units; a discard of a message that was received adds 1 read
    /// and 2 write units. 1 request for each 100 acts since the plan was made. With canaries or a
    /// breaker, 1 strongly consistent read for each look at a message, and 1 strongly consistent
    /// query of the acts on the message once it is gone.
    ///
    /// # Crash window
    ///
    /// Each record is one transaction with its audit record. After a crash, apply the plan again.
    /// The audit, which is about a second behind, contains the finished acts. All other records are
    /// unchanged.
    ///
    /// # Cancel safety
    ///
    /// If you drop the future, acts that have begun may be done. Apply the plan again to find out.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(
    /// #     console: locker::operator::Console,
    /// #     plan: locker::operator::Plan,
    /// # ) -> Result<(), locker::Error> {
    /// use std::ops::ControlFlow;
    ///
    /// use locker::operator::ApplyOptions;
    ///
    /// let options = ApplyOptions { per_second: 10, ..ApplyOptions::default() };
    /// let report = console.apply(&plan, &options, |_| ControlFlow::Continue(())).await?;
    /// println!("{} done, {} changed since the plan", report.done, report.changed);
    /// # Ok(()) }
    /// ```
    pub async fn apply(
        &self,
        plan: &Plan,
        options: &ApplyOptions,
        mut each: impl FnMut(&Acted) -> ControlFlow<()>,
    ) -> Result<ApplyReport, Error> {
        plan.act.check(Scope::Many).map_err(InvalidSetting::Act)?;
        let operator = Operator::new(plan.by.clone(), plan.stored_reason())?;
        let before = self.done_before(plan).await?;
        let mut report = ApplyReport::default();
        let mut stopped = false;
        let (known, rest): (Vec<_>, Vec<_>) = plan.items.iter().partition(|item| before.contains(&item.work));
        for item in known {
            (report.done, report.done_before) = (report.done + 1, report.done_before + 1);
            let outcome = Acted { work: item.work.clone(), done: Done::Done, error: None, because: None };
            stopped |= each(&outcome).is_break();
        }
        let turns = turns(options);
        let mut run = Run { console: self, options, plan, operator: &operator, turns, each, report, stopped };
        let mut rest = rest.into_iter();
        // Only messages that are redriven are followed.
        #[cfg(feature = "messages")]
        if run.follows() {
            run.run_and_follow(&mut rest).await;
        }
        if !run.follows() {
            run.take_on(&mut rest, usize::MAX).await;
        }
        run.report.left = rest.len();
        Ok(run.report)
    }

    /// The records on which an earlier run of the plan acted, by the audit.
    async fn done_before(&self, plan: &Plan) -> Result<HashSet<Work>, Error> {
        let mut reading = Reading::default();
        let acts = self.acts(since_before(plan), &mut reading).await?;
        if let Some(error) = reading.stopped_by {
            return Err(error);
        }
        Ok(acts.iter().filter(|act| is_act_of(plan, act)).map(AuditRecord::work).collect())
    }

    async fn act_on(&self, plan: &Plan, item: &Planned, operator: &Operator) -> Acted {
        let outcome = |done, error, because| Acted { work: item.work.clone(), done, error, because };
        match self.act_as_planned(plan, item, operator).await {
            Ok(Ok(Intervened::Done)) => outcome(Done::Done, None, None),
            Ok(Ok(Intervened::Changed)) => outcome(Done::Changed, None, None),
            Ok(Ok(Intervened::NotPossible)) => outcome(Done::NotPossible, None, None),
            Ok(Err(refusal)) => outcome(Done::NotPossible, None, Some(refusal.because)),
            Err(error @ Error::Unknown { .. }) => outcome(Done::Unknown, Some(error), None),
            Err(error) => outcome(Done::Failed, Some(error), None),
        }
    }

    async fn act_as_planned(
        &self,
        plan: &Plan,
        item: &Planned,
        operator: &Operator,
    ) -> Result<Result<Intervened, Refusal>, Error> {
        let Some(part) = self.part(&item.work).await? else { return Ok(Ok(self.gone(plan, item).await?)) };
        if part.revision() != item.revision && !may_cancel(plan, item, &part) {
            return Ok(Ok(changed_by(plan, &part)));
        }
        if let Err(refusal) = self.judge(&part, &plan.act, Scope::Many) {
            return Ok(Err(refusal));
        }
        let intervened = self.write(&part, &plan.act, operator).await?;
        if intervened != Intervened::Changed {
            return Ok(Ok(intervened));
        }
        // Another run of this plan may have acted since the read.
        let now = self.part(&item.work).await?;
        Ok(Ok(now.map_or(Intervened::Changed, |part| changed_by(plan, &part))))
    }
}

impl Console {
    /// The outcome of a record that no longer exists: a discard deletes its message.
    #[cfg(feature = "messages")]
    async fn gone(&self, plan: &Plan, item: &Planned) -> Result<Intervened, Error> {
        let Some(workflows) = self.workflows.as_ref().filter(|_| plan.act.verb == Verb::Discard) else {
            return Ok(Intervened::Changed);
        };
        let acts = workflows.acts(item.work.key()).await?;
        let is_own = acts.iter().any(|act| act.work() == item.work && is_act_of(plan, act));
        Ok(if is_own { Intervened::Done } else { Intervened::Changed })
    }

    #[cfg(not(feature = "messages"))]
    #[allow(clippy::unused_async, reason = "messages are read")]
    async fn gone(&self, _: &Plan, _: &Planned) -> Result<Intervened, Error> {
        Ok(Intervened::Changed)
    }
}

fn turns(options: &ApplyOptions) -> Interval {
    let mut turns = tokio::time::interval(Duration::from_secs(1) / options.per_second.max(1));
    turns.set_missed_tick_behavior(MissedTickBehavior::Delay);
    turns
}

/// A run of a plan.
pub(super) struct Run<'a, F> {
    pub(super) console: &'a Console,
    pub(super) options: &'a ApplyOptions,
    pub(super) plan: &'a Plan,
    operator: &'a Operator,
    turns: Interval,
    each: F,
    pub(super) report: ApplyReport,
    pub(super) stopped: bool,
}

impl<F: FnMut(&Acted) -> ControlFlow<()>> Run<'_, F> {
    /// Whether the messages that the plan redrives are followed to their end.
    fn follows(&self) -> bool {
        let is_on = self.options.canary > 0 || self.options.breaker > 0;
        self.plan.act.verb == Verb::Redrive && is_on
    }

    /// Acts on this many records, at most. Returns those on which the act is done.
    pub(super) async fn take_on(&mut self, items: &mut vec::IntoIter<&Planned>, most: usize) -> Vec<Work> {
        let (mut under_way, mut begun, mut done) = (FuturesUnordered::new(), 0, Vec::new());
        let concurrency = self.options.concurrency.max(1);
        loop {
            let takes = !self.stopped && begun < most && under_way.len() < concurrency && items.len() > 0;
            tokio::select! {
                biased;
                Some(outcome) = under_way.next(), if !under_way.is_empty() => {
                    let outcome: Acted = outcome;
                    self.report.count(outcome.done);
                    self.stopped |= (self.each)(&outcome).is_break();
                    done.extend((outcome.done == Done::Done).then_some(outcome.work));
                }
                _ = self.turns.tick(), if takes => {
                    // The run may have been stopped while it waited for the turn.
                    let next = if self.is_stopped() { None } else { items.next() };
                    begun += 1;
                    let (console, plan, operator) = (self.console, self.plan, self.operator);
                    under_way.extend(next.map(|item| console.act_on(plan, item, operator)));
                }
                else => return done,
            }
        }
    }

    /// Whether no act that was begun ended with an error.
    #[cfg(feature = "messages")]
    pub(super) const fn has_no_error(&self) -> bool {
        self.report.failed == 0 && self.report.unknown == 0
    }

    /// Whether the run is to stop.
    pub(super) fn is_stopped(&mut self) -> bool {
        self.stopped |= self.options.stop.load(Ordering::SeqCst);
        self.stopped
    }
}

/// The time since which the audit is read for acts of a plan: clocks differ.
pub(super) fn since_before(plan: &Plan) -> DateTime<Utc> {
    plan.made - TimeDelta::minutes(5)
}

/// Whether a cancel applies to the planned workflow, which has progressed since.
#[cfg(feature = "workflow")]
fn may_cancel(plan: &Plan, item: &Planned, part: &Part) -> bool {
    let Part::Workflow(view) = part else { return false };
    let is_same = item.started == Some(view.created()) && view.state() == State::Running;
    plan.act.verb == Verb::Cancel && is_same && !is_of(plan, view.intervention())
}

#[cfg(not(feature = "workflow"))]
const fn may_cancel(_: &Plan, _: &Planned, _: &Part) -> bool {
    false
}

/// The outcome of a record that has changed since the plan was made.
///
/// If a run of the plan changed it, the index does not show the act yet. Otherwise another operator
/// or a caller changed it.
fn changed_by(plan: &Plan, part: &Part) -> Intervened {
    if is_of(plan, part.intervention(plan.act.step.as_deref())) {
        Intervened::Done
    } else {
        Intervened::Changed
    }
}

fn is_of(plan: &Plan, last: Option<&Intervention>) -> bool {
    last.is_some_and(|last| plan.is_reason_of(&last.reason))
}

fn is_act_of(plan: &Plan, act: &AuditRecord) -> bool {
    act.reason.as_ref().is_some_and(|reason| plan.is_reason_of(reason))
}
