//! A workflow while it is driven: its recorded steps, and the state of its driver.

mod calls;
mod events;
mod records;
mod span;
mod timer;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use chrono::{DateTime, Utc};
use serde::Serialize;

use super::limits::Limits;
use super::run_time::RunTime;
use super::stop::{Stop, StopKind};
use crate::core::answer::{self, Encoded};
use crate::core::fingerprint::Fingerprint;
use crate::core::key::Key;
use crate::core::message::letter::Letter;
use crate::core::name::Branch;
use crate::core::private::Private;
use crate::core::time;
use crate::core::workflow::event::EventRecord;
use crate::core::workflow::header::{DriverAct, Header};
use crate::core::workflow::place::{Place, Run};
use crate::core::workflow::step::StepRecord;
use crate::error::Error;
use crate::workflow::context::Context;
use crate::workflow::step::name::IntoStepName;
use crate::workflow::unsent::Unsent;
use calls::{Calls, Scope};
use events::Known;
use records::Records;

pub(crate) use calls::{Start, is_in_step, outermost};
pub(crate) use span::{Expected, Span};

/// A running workflow, with which [`Workflow::run`](super::Workflow::run) makes its steps.
///
/// Clones refer to the same workflow. Steps may run concurrently, each under its own name. Use
/// [`map`](Self::map) for many items, and `tokio::join!` for a few different steps: both let all of
/// them end. `tokio::try_join!`, `select!` and `timeout` drop
/// steps: the workflow then waits until a dropped [`once`](Self::once) can no longer be at work,
/// and is quarantined if its outcome stays unknown.
///
/// The closure of a step calls no other step, timer, wait or map of this workflow: such a call
/// quarantines the workflow.
///
/// When [`Workflow::run`](super::Workflow::run) returns, the flow is closed: a task that still has
/// a clone begins no step any more.
#[derive(Debug, Clone)]
pub struct Flow {
    inner: Arc<Inner>,
    /// Set for the compensation of a step, so that the steps of the compensation have places of
    /// their own.
    scope: Option<Arc<Scope>>,
    /// The branch of a map that this flow is for, so that the steps of each branch have names of
    /// their own.
    branch: Branch,
}

#[derive(Debug)]
struct Inner {
    context: Context,
    key: Key,
    workflow: Private<String>,
    version: u32,
    created: DateTime<Utc>,
    attempt: String,
    header: Private<Mutex<Header>>,
    /// The limits of its type.
    limits: Limits,
    records: Records,
    events: Known,
    calls: Calls,
    span: Span,
    run_time: Arc<RunTime>,
    unsent: Arc<Unsent>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // No code panics while it holds one.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Flow {
    pub(crate) fn new(
        context: Context,
        header: Header,
        limits: Limits,
        (records, events): (Vec<StepRecord>, Vec<EventRecord>),
        messages: &[Letter],
        span: Span,
    ) -> Self {
        let (records, unsent) = (Records::of(records, 0), Arc::new(Unsent::of(messages)));
        let span = span.from(context.now());
        Self::of(context, header, limits, (records, Known::of(events)), span, Arc::default(), unsent)
    }

    /// Returns the flow that continues this run under the attempt of this header, so that writes
    /// of the former attempt that are still in flight are refused.
    pub(crate) fn under(&self, header: Header) -> Self {
        let Inner { context, limits, records, span, run_time, unsent, .. } = &*self.inner;
        // A step of the former attempt may be committed although no driver waited for it. Such a
        // step has a number, so the numbers continue after it.
        let records = Records::of(self.records(), records.number());
        let (run_time, unsent) = (Arc::clone(run_time), Arc::clone(unsent));
        run_time.compensates_under(&header);
        let known = (records, Known::of(self.events()));
        Self::of(context.clone(), header, limits.clone(), known, *span, run_time, unsent)
    }

    fn of(
        context: Context,
        header: Header,
        limits: Limits,
        (records, events): (Records, Known),
        span: Span,
        run_time: Arc<RunTime>,
        unsent: Arc<Unsent>,
    ) -> Self {
        let inner = Inner {
            key: header.key(),
            workflow: Private(header.workflow.clone()),
            version: header.key_version,
            created: header.created,
            attempt: header.attempt.clone(),
            header: Private(Mutex::new(header)),
            context,
            limits,
            records,
            events,
            calls: Calls::default(),
            span,
            run_time,
            unsent,
        };
        Self { inner: Arc::new(inner), scope: None, branch: Branch::default() }
    }

    /// The key of the workflow.
    #[must_use]
    pub fn key(&self) -> &Key {
        &self.inner.key
    }

    /// The version of the key, from 1.
    #[must_use]
    pub fn key_version(&self) -> u32 {
        self.inner.version
    }

    /// The deadline of this run, if its caller set one.
    #[must_use]
    pub fn deadline(&self) -> Option<DateTime<Utc>> {
        self.inner.span.deadline
    }

    /// Extends the claim of this driver by this duration from now, from 1 second to 366 days. Any
    /// other duration quarantines the workflow.
    ///
    /// Until then, no other driver takes the workflow over. While a step is within its
    /// `expect_within`, the flow extends the claim itself.
    ///
    /// Beyond [`Limits::longest_run`](super::Limits::longest_run), the workflow is listed as
    /// [`List::Failing`](super::List::Failing), so that `status` shows it.
    ///
    /// # Errors
    ///
    /// [`Stop`] if it was taken over already, or DynamoDB cannot be reached.
    ///
    /// # Cost
    ///
    /// 1 request; 1 write unit, and 2 for the index.
    pub async fn extend(&self, by: Duration) -> Result<(), Stop> {
        crate::settings::check_expect_within(by).map_err(Error::from)?;
        let (due, began) = (time::after(self.time(), by), self.began());
        let held_since = (due > time::after(began, self.limits().longest_run)).then_some(began);
        let act = DriverAct::Extend { due, held_since };
        Ok(self.act("extend the workflow", act).await.map_err(StopKind::from)?)
    }

    /// Chooses a branch of the code and records the choice under this name.
    ///
    /// If the workflow reaches this point for the first time, the choice is `max` (at least 1). If
    /// an earlier run has already passed this point, the choice is 1.
    ///
    /// A deployment that adds a step inside an unfinished workflow uses it to keep the old way for
    /// workflows that are past the step:
    ///
    /// ```no_run
    /// # async fn example(flow: &locker::workflow::Flow) -> Result<(), locker::workflow::Stop> {
    /// if flow.version("checks", 2).await? >= 2 {
    ///     flow.once("fraud-check").run(async |_| Ok(())).await?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// A workflow is beyond this point if it has a recorded step, or has reached a wait for an
    /// event, that this run has not called yet. In a [`map`](Self::map), the steps of the same
    /// branch count, and the waits of all branches. The name is that of a step: no other step of
    /// the workflow may have it.
    ///
    /// # Errors
    ///
    /// [`Stop`], as of a [`step`](Self::step), and if `max` is 0. A recorded version
    /// above `max` waits for newer code.
    ///
    /// # Cost
    ///
    /// 1 request and 1 write unit; nothing if it is recorded.
    pub async fn version(&self, name: impl IntoStepName, max: u32) -> Result<u32, Stop> {
        let name = name.into_step_name();
        if max == 0 {
            let stop = StopKind::invalid(&name, "the version of a branch must be at least 1, got 0");
            return Err(stop.into());
        }
        let path = self.branch.path(&name);
        // A branch of a map looks at its own steps: other branches may not have begun in this run.
        let is_called =
            |step: &str| step == path || self.branch.name(step).is_none() || self.has_called(step);
        // Steps of a compensation have separate places.
        let beyond = |record: &StepRecord| match record.id.place() {
            Ok(Place::Step(step)) => self.scope.is_none() && !is_called(step),
            Ok(Place::Nested { step, .. }) => {
                self.place_of(step).to_string() == record.id.item && !is_called(step)
            }
            _ => false,
        };
        let waited = |event: &EventRecord| {
            self.scope.is_none() && event.is_reached() && !self.has_called(&event.id.shown())
        };
        let beyond = !self.records_that(beyond).is_empty() || self.events().iter().any(waited);
        let chosen = if beyond { 1 } else { max };
        let step = self.step(name).run(async |_| Ok(chosen));
        let recorded = Box::pin(step).await?;
        if recorded <= max {
            return Ok(recorded);
        }
        let stop = StopKind::Later {
            step: path,
            at: self.time(),
            cause: format!("version {recorded} of this branch was chosen, and the code knows {max}"),
            counts: false,
            retry_for: None,
        };
        self.note_need(None, &stop);
        Err(stop.into())
    }

    pub(crate) fn context(&self) -> &Context {
        &self.inner.context
    }

    /// The partition.
    pub(crate) fn workflow(&self) -> &str {
        &self.inner.workflow
    }

    /// When the workflow was started.
    pub(crate) fn created(&self) -> DateTime<Utc> {
        self.inner.created
    }

    pub(crate) fn attempt(&self) -> &str {
        &self.inner.attempt
    }

    /// Identifies this workflow, as started, in the record of a step that has its own key.
    pub(crate) fn run_id(&self) -> String {
        Run { workflow: self.workflow(), started: self.created() }.to_string()
    }

    pub(crate) fn time(&self) -> DateTime<Utc> {
        self.context().now()
    }

    /// The limits of its type.
    pub(crate) fn limits(&self) -> &Limits {
        &self.inner.limits
    }

    pub(crate) fn header(&self) -> Header {
        self.lock_header().clone()
    }

    pub(crate) fn lock_header(&self) -> MutexGuard<'_, Header> {
        locked(&self.inner.header)
    }

    /// The messages of this run that are not sent.
    pub(crate) fn unsent(&self) -> &Unsent {
        &self.inner.unsent
    }

    /// The fingerprint of a step's input.
    pub(crate) fn fingerprint(step: &str, input: &impl Serialize) -> Result<Fingerprint, StopKind> {
        let refused = |error| StopKind::invalid(step, format!("its input is refused: {error}"));
        Fingerprint::of_json(input).map_err(refused)
    }

    /// Encodes the result or the failure of a step that has ended, for its record.
    pub(crate) fn encode(step: &str, json: String) -> Result<Encoded, StopKind> {
        answer::encode_for_item(json).map_err(|error| StopKind::unrecorded(step, &error))
    }
}
