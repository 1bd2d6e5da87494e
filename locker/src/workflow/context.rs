//! State shared by drivers, the completer, the reaper and operators: a session with the table, and the limits.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};

use super::limits::Limits;
use super::outcome::Waiting;
use super::outcome::ended::Ended;
use super::stop::StepFailure;
use crate::core::answer::{self, Body};
use crate::core::message::ticks::{Tick, Ticks};
use crate::core::retry::Backoff;
use crate::core::time;
use crate::core::workflow::decide::{self, Standing};
use crate::core::workflow::header::{Header, List, Stamp, State};
use crate::core::workflow::step::ANSWER;
use crate::error::Error;
use crate::message::Router;
use crate::metrics;
use crate::session::Session;

/// A session with the table of workflows, and the limits. Clones share both.
#[derive(Debug, Clone)]
pub(crate) struct Context {
    session: Session,
    limits: Arc<Limits>,
    router: Option<Arc<Router>>,
    ticks: Arc<Ticks>,
}

impl Deref for Context {
    type Target = Session;

    fn deref(&self) -> &Session {
        &self.session
    }
}

impl Context {
    pub(crate) fn new(session: Session, limits: Limits, router: Option<Router>) -> Self {
        Self { session, limits: Arc::new(limits), router: router.map(Arc::new), ticks: Arc::default() }
    }

    /// Where messages are sent to right after their commit.
    pub(crate) fn router(&self) -> Option<&Router> {
        self.router.as_deref()
    }

    /// The place of a message that is made now among those of this process.
    pub(crate) fn tick(&self, now: DateTime<Utc>) -> Tick {
        self.ticks.next(now)
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }

    /// When a workflow that has had this many attempts is driven again.
    pub(crate) fn next_try(&self, attempts: u32, limits: &Limits) -> DateTime<Utc> {
        let backoff = Backoff { base: limits.backoff_base, cap: limits.backoff_cap };
        time::after(self.now(), decide::pause_before(backoff, attempts, self.jitter()))
    }

    /// The time and the ids of one write.
    pub(crate) fn stamp(&self) -> Stamp {
        Stamp { now: self.now(), skew: self.skew(), revision: self.new_id(), attempt: self.new_id() }
    }

    pub(crate) fn waiting(&self, header: &Header) -> Waiting {
        let after = time::between(self.now(), header.next_due);
        Waiting {
            locked_by: header.locked_by.clone(),
            due: header.next_due,
            after: after.clamp(Duration::from_secs(1), Duration::from_secs(60)),
            reason: header.reason.clone(),
        }
    }

    /// The state of a workflow that this call does not drive.
    pub(crate) async fn present(
        &self,
        verb: &'static str,
        standing: Standing,
        stored: &Header,
        deadline: Option<DateTime<Utc>>,
    ) -> Result<Ended, Error> {
        Ok(match standing {
            Standing::Claimable | Standing::Busy => Ended::Waiting(self.waiting(stored)),
            Standing::Ended => self.ended(stored, deadline).await?,
            Standing::Quarantined => Ended::Quarantined(stored.reason.clone().unwrap_or_default()),
            Standing::Reaping => return Err(Error::Gone { verb }),
        })
    }

    /// How a header stands for a caller that has not driven it before.
    pub(crate) fn standing(&self, stored: &Header) -> Standing {
        decide::standing(stored, false, self.now(), self.skew())
    }

    /// The outcome of a finished workflow.
    pub(crate) async fn ended(
        &self,
        header: &Header,
        deadline: Option<DateTime<Utc>>,
    ) -> Result<Ended, Error> {
        match header.state {
            State::Completed => {
                metrics::count_workflow(metrics::WORKFLOWS_REPLAYED, &header.name);
                Ok(Ended::Completed(
                    self.result(header, deadline).await?.unwrap_or_else(|| "null".to_owned()),
                ))
            }
            State::Failed => {
                metrics::count_workflow(metrics::WORKFLOWS_REPLAYED, &header.name);
                let json = self.result(header, deadline).await?.ok_or(answer::AnswerError::Missing)?;
                Ok(Ended::Failed(StepFailure::from_stored(&json)?))
            }
            _ => Ok(Ended::Cancelled),
        }
    }

    /// The stored answer or first failure, as JSON text.
    pub(crate) async fn result(
        &self,
        header: &Header,
        deadline: Option<DateTime<Utc>>,
    ) -> Result<Option<String>, Error> {
        let Some(Body::Beside { codec, id, .. }) = &header.result else { return Ok(None) };
        let item = format!("{ANSWER}{id}");
        let read = self.store().read_beside(&header.workflow, &item, *codec, self.until(deadline));
        Ok(Some(answer::decode(Box::pin(read).await?)?))
    }

    /// Log a workflow that makes no progress.
    pub(crate) fn report_failing(&self, header: &Header) {
        if header.listed == Some(List::Failing) {
            tracing::warn!(
                workflow.key = self.shown(&header.workflow),
                workflow.name = header.name,
                workflow.attempts = header.attempts,
                workflow.since = %header.since,
                workflow.reason = header.reason,
                "a workflow makes no progress"
            );
        }
    }

    /// Log and count a workflow that now waits for an operator.
    pub(crate) fn report_quarantined(&self, header: &Header) {
        metrics::count_workflow(metrics::WORKFLOWS_QUARANTINED, &header.name);
        tracing::error!(
            workflow.key = self.shown(&header.workflow),
            workflow.name = header.name,
            workflow.attempts = header.attempts,
            workflow.reason = header.reason,
            "a workflow is in quarantine"
        );
    }
}
