//! Claims a workflow for a driver: a conditional write of the header, then one query.

use std::time::Duration;

use crate::core::workflow::event::EventRecord;
use crate::core::workflow::header::{Claim, Header, HeaderEvent, HeaderRefusal, MostCrashes};
use crate::core::workflow::step::StepRecord;
use crate::error::Error;
use crate::metrics;
use crate::store::Changed;
use crate::workflow::context::Context;
use crate::workflow::flow::{Flow, Span};
use crate::workflow::limits::Limits;
use crate::workflow::outcome::ended::Ended;

const VERB: &str = "claim the workflow";

/// A request to claim a workflow.
pub(crate) struct Claimer<'a> {
    pub(crate) context: &'a Context,
    /// The type of the code.
    pub(crate) name: &'static str,
    /// The version of the code.
    pub(crate) version: u32,
    /// The name of the owner, if the caller set it. The same owner may resume immediately.
    pub(crate) owner: Option<&'a str>,
    pub(crate) expected: Option<Duration>,
    /// The longest time of this run. It counts if it is longer than the expected time.
    pub(crate) may_take: Duration,
    /// The time of the run.
    pub(crate) span: Span,
    /// The limits of its type.
    pub(crate) limits: Limits,
    /// The most runs that lose their driver. `None`: any number.
    pub(crate) most_crashes: Option<MostCrashes>,
}

pub(crate) enum Claimed {
    Flow(Flow),
    Ended(Ended),
    /// The key belongs to a workflow of another type, or to a later workflow.
    Other,
    /// Newer code, with this version, has driven the workflow.
    Newer(u32),
}

impl Claimer<'_> {
    /// Claims the workflow, if no other driver runs it.
    pub(crate) async fn claim(&self, stored: Header) -> Result<Claimed, Error> {
        let context = self.context;
        let progressed = self.last_driver_progressed(&stored).await?;
        let event = HeaderEvent::Claim(Claim {
            progressed,
            name: self.name.to_owned(),
            code: self.version,
            started: stored.created,
            owner: self.owner.unwrap_or(&context.settings().owner).to_owned(),
            is_named: self.owner.is_some(),
            expected: self.expected,
            may_take: self.may_take,
            most_crashes: self.most_crashes,
            restored: context.restored(),
        });
        let rule = |stored: Option<&Header>| {
            let stored = stored.ok_or(HeaderRefusal::Lost)?;
            stored.on(&event, context.stamp())
        };
        let until = context.until(self.span.deadline);
        match Box::pin(context.store().change(VERB, Some(stored), until, rule)).await? {
            Changed::Done(next) if next.is_quarantined() => {
                context.report_quarantined(&next);
                Ok(Claimed::Ended(Ended::Quarantined(next.reason.clone().unwrap_or_default())))
            }
            Changed::Done(next) => {
                metrics::count_workflow(metrics::WORKFLOWS_CLAIMED, &next.name);
                // The attempt is counted, even if the next read fails.
                self.resume(next).await.map_err(Error::unsure)
            }
            Changed::Refused { why: HeaderRefusal::Standing(standing), stored: Some(stored), .. } => {
                Ok(Claimed::Ended(context.present(VERB, standing, &stored, self.span.deadline).await?))
            }
            Changed::Refused { why: HeaderRefusal::Lost, stored: Some(_), .. } => Ok(Claimed::Other),
            Changed::Refused { why: HeaderRefusal::Newer(code), .. } => Ok(Claimed::Newer(code)),
            Changed::Refused { .. } | Changed::Gone => Err(Error::Gone { verb: VERB }),
        }
    }

    /// Returns whether the driver that has the workflow recorded an outcome before it was lost.
    ///
    /// Each record contains the run that recorded its outcome, so progress costs no further write.
    /// For a released workflow, this function sends no request. Steps with their own keys are
    /// read one by one, the latest first, and only if no other step shows progress.
    async fn last_driver_progressed(&self, stored: &Header) -> Result<bool, Error> {
        let claimable = stored.is_claimable(self.context.now(), self.context.skew());
        let resumes = self.owner.is_some() && self.owner == stored.locked_by.as_deref();
        if stored.locked_by.is_none() || !(claimable || resumes) {
            return Ok(false);
        }
        let until = self.context.until(self.span.deadline);
        let all = match Box::pin(self.context.store().read_workflow(&stored.workflow, until)).await {
            Ok(all) => all,
            // The claim must count the attempt. Otherwise each run would read the same unreadable
            // record again, without end. The query after the claim returns the error.
            Err(Error::Record { .. }) => return Ok(false),
            Err(error) => return Err(error),
        };
        let progressed = |record: &StepRecord| record.owner == stored.attempt && record.ended.is_some();
        let by_event = |event: &EventRecord| event.ended_by.as_ref() == Some(&stored.attempt);
        if all.records.iter().any(progressed) || all.events.iter().any(by_event) {
            return Ok(true);
        }
        // The pointer may be of an earlier run, whose step the lost driver took over.
        let mut pointers: Vec<_> =
            all.records.iter().filter_map(|at| Some((at.number, at.shared()?))).collect();
        pointers.sort_by_key(|(number, _)| std::cmp::Reverse(*number));
        for (_, id) in pointers {
            match Box::pin(self.context.store().read_record(&id, until)).await {
                Ok(shared) if shared.as_ref().is_some_and(progressed) => return Ok(true),
                // A record that cannot be read shows no progress, as above.
                Ok(_) | Err(Error::Record { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(false)
    }

    /// Reads all recorded steps by one query.
    async fn resume(&self, taken: Header) -> Result<Claimed, Error> {
        let context = self.context;
        let until = context.until(self.span.deadline);
        let all = Box::pin(context.store().read_workflow(&taken.workflow, until)).await?;
        match all.header {
            // Another driver may have claimed the workflow since. Without this, this run would
            // write under the attempt of that driver, and no condition would refuse either of them.
            Some(header) if header.attempt == taken.attempt => {
                let created = header.created;
                // A driver of an earlier workflow under the key was suspended, and wrote a record
                // after the reaper. Its outcome is not of this workflow.
                let is_its = |record: &StepRecord| record.is_of(created);
                let records = all.records.into_iter().filter(is_its).collect();
                let events = all.events.into_iter().filter(|event| event.is_of(created)).collect();
                Ok(Claimed::Flow(Flow::new(
                    context.clone(),
                    header,
                    self.limits.clone(),
                    (records, events),
                    &all.messages,
                    self.span,
                )))
            }
            Some(other) => Ok(Claimed::Ended(Ended::Waiting(context.waiting(&other)))),
            None => Err(Error::Gone { verb: VERB }),
        }
    }
}
