//! The present state of a workflow, from its header.

use chrono::{DateTime, Utc};

use super::Waiting;
use super::ended::Ended;
use crate::core::answer::{self, AnswerError, Body};
use crate::core::name;
use crate::core::time;
use crate::core::workflow::decide::{self, Standing};
use crate::core::workflow::header::{Header, List, State};
use crate::core::workflow::place::Place;
use crate::error::Error;
use crate::metrics;
use crate::workflow::context::Context;
use crate::workflow::stop::StepFailure;

impl Context {
    pub(crate) fn waiting(&self, header: &Header) -> Waiting {
        let after = time::between(self.now(), header.next_due);
        Waiting {
            locked_by: header.locked_by.clone(),
            due: header.next_due,
            after: super::pause(after),
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
        // A late event is compensated after the end, and changes no outcome.
        if stored.answered().is_some() {
            return self.ended(stored, deadline).await;
        }
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
        match header.answered() {
            Some(state @ (State::Completed | State::Failed)) => {
                metrics::count_workflow(metrics::WORKFLOWS_REPLAYED, &header.name);
                let json = match self.result(header, deadline).await {
                    Err(Error::Answer(AnswerError::Redacted)) => return Ok(Ended::Erased(state)),
                    read => read?,
                };
                if state == State::Completed {
                    return Ok(Ended::Completed(json.unwrap_or_else(|| "null".to_owned())));
                }
                Ok(Ended::Failed(StepFailure::from_stored(&json.ok_or(AnswerError::Missing)?)?))
            }
            _ => Ok(match header.continued_as.filter(|_| header.state == State::Continued) {
                // It has continued since the caller read it. The next look finds the latest
                // version.
                Some(version) => {
                    let (next, now) = (name::partition(&header.key(), version), self.now());
                    Ended::Continued(next, Waiting::enqueued(now, now))
                }
                None => Ended::Cancelled,
            }),
        }
    }

    /// The stored answer or first failure, as JSON text.
    pub(crate) async fn result(
        &self,
        header: &Header,
        deadline: Option<DateTime<Utc>>,
    ) -> Result<Option<String>, Error> {
        let (codec, id) = match &header.result {
            Some(Body::Beside { codec, id, .. }) => (*codec, id),
            Some(Body::Redacted) => return Err(AnswerError::Redacted.into()),
            _ => return Ok(None),
        };
        let (item, until) = (Place::Answer(id).to_string(), self.until(deadline));
        match Box::pin(self.store().read_beside(&header.workflow, &item, codec, until)).await {
            // An operator may have erased it after the header was read.
            Err(Error::Answer(AnswerError::Missing)) => {
                let now = Box::pin(self.store().read_header(&header.workflow, until)).await?;
                let is_redacted = |now: &Header| now.is_redacted() && now.created == header.created;
                Err(match now {
                    Some(now) if is_redacted(&now) => AnswerError::Redacted.into(),
                    _ => AnswerError::Missing.into(),
                })
            }
            read => Ok(Some(answer::decode(read?)?)),
        }
    }

    /// Logs a workflow that makes no progress.
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

    /// Logs and counts a workflow that now waits for an operator.
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
