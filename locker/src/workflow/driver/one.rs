//! One due workflow: claimed, driven until its time limit, and released.

use std::sync::{Arc, OnceLock};
use std::task::Poll;
use std::time::Duration;

use tokio::time::Instant;

use super::claim::{Claimed, Claimer};
use super::code::Drive;
use super::completer::Completer;
use super::drive::drive;
use crate::core::time;
use crate::core::workflow::header::{Header, MostCrashes};
use crate::error::Error;
use crate::session::due_work::in_own_task;
use crate::workflow::definition::Exhausted;
use crate::workflow::flow::{Flow, Span};
use crate::workflow::limits::Limits;
use crate::workflow::outcome::ended::Ended;
use crate::workflow::run_time::GRACE;

/// The outcome of claiming and driving one workflow.
pub(crate) enum Driven {
    /// Another driver claimed it first, or it had ended.
    PassedBy,
    Ended(Ended),
    /// It exceeded its time limit.
    BrokenOff,
}

/// The outcome of a workflow that was driven alone.
pub(crate) enum Alone {
    Driven(Driven),
    /// It panicked or hung, for the reason in the text. This run still owns it.
    Aborted(Flow, String),
}

pub(crate) const TOO_LONG: &str = "it exceeded its time limit";

impl Completer {
    /// Claims and drives a workflow.
    pub(crate) async fn take_and_drive(
        &self,
        code: &dyn Drive,
        workflow: &str,
        anyway: bool,
        known: &OnceLock<Flow>,
    ) -> Result<Driven, Error> {
        let until = self.context.until(self.deadline);
        let Some(header) = Box::pin(self.context.store().read_header(workflow, until)).await? else {
            return Ok(Driven::PassedBy);
        };
        let (left, limits) = (self.time_left(), code.limits(self.context.limits())?);
        let claimer = Claimer {
            context: &self.context,
            name: code.name(),
            version: code.version(),
            owner: None,
            expected: None,
            may_take: left + GRACE,
            // No step starts for which too little time is left.
            span: Span::of_completer(self.context.now(), left, self.longest),
            most_crashes: most_crashes(code, &limits, &header).filter(|_| !anyway),
            limits,
        };
        let flow = match Box::pin(claimer.claim(header)).await? {
            Claimed::Flow(flow) => flow,
            Claimed::Ended(ended @ Ended::Quarantined(_)) => return Ok(Driven::Ended(ended)),
            Claimed::Ended(_) | Claimed::Other | Claimed::Newer(_) => return Ok(Driven::PassedBy),
        };
        let flow = known.get_or_init(|| flow);
        match Box::pin(drive_for(code, flow, left)).await {
            Some(ended) => ended.map(Driven::Ended),
            None => Ok(Driven::BrokenOff),
        }
    }

    /// Claims a workflow with any number of lost drivers, and drives it in a separate task.
    pub(crate) async fn drive_alone(&self, code: &Arc<dyn Drive>, workflow: &str) -> Result<Alone, Error> {
        let known = Arc::new(OnceLock::new());
        let (completer, code, flow) = (self.clone(), Arc::clone(code), Arc::clone(&known));
        let workflow = workflow.to_owned();
        let driven = async move { completer.take_and_drive(&*code, &workflow, true, &flow).await };
        let why = match in_own_task(Box::pin(driven)).await {
            Ok(Ok(Driven::BrokenOff)) => TOO_LONG.to_owned(),
            Ok(driven) => return driven.map(Alone::Driven),
            Err(panic) => panic,
        };
        // Without a flow it was aborted before it was claimed.
        Ok(known.get().map_or(Alone::Driven(Driven::PassedBy), |flow| Alone::Aborted(flow.clone(), why)))
    }

    fn time_left(&self) -> Duration {
        let now = self.context.now();
        self.deadline.map_or(self.longest, |deadline| time::between(now, deadline).min(self.longest))
    }
}

/// Returns how many drivers a workflow may lose before it is quarantined. `None`: the type declares
/// [`Exhausted::Compensate`], so the workflow is claimed and fails.
pub(crate) fn most_crashes(code: &dyn Drive, limits: &Limits, header: &Header) -> Option<MostCrashes> {
    let fails = code.exhausted() == Exhausted::Compensate && header.is_forward();
    (!fails).then(|| limits.most_crashes())
}

/// Drives a workflow for this long. `None`: it exceeded its time limit.
///
/// After that time no step begins. The run still records known outcomes, because a step without a
/// recorded outcome is in doubt. Other code may have blocked this thread, so replies that arrived
/// in the meantime are only read now.
async fn drive_for(code: &dyn Drive, flow: &Flow, time: Duration) -> Option<Result<Ended, Error>> {
    let ends = Instant::now() + time;
    let mut driving = std::pin::pin!(drive(code, flow));
    let mut time_is_up = std::pin::pin!(tokio::time::sleep_until(ends));
    let in_time = std::future::poll_fn(|context| {
        // On a blocked thread the timer fires late, so the time is compared as well.
        if time_is_up.as_mut().poll(context).is_ready() || Instant::now() >= ends {
            return Poll::Ready(None);
        }
        driving.as_mut().poll(context).map(Some)
    });
    if let Some(ended) = in_time.await {
        return Some(ended);
    }
    let late = ends.elapsed();
    flow.run_time().end(flow.time());
    let settled = async {
        tokio::select! {
            biased;
            ended = &mut driving => Some(ended),
            () = flow.run_time().settled(late) => None,
        }
    };
    tokio::time::timeout(GRACE, settled).await.unwrap_or(None)
}
