//! The fence around a driver: its writes of the header, and whether it still owns the workflow.

use crate::core::workflow::header::{DriverAct, HeaderEvent, HeaderRefusal, State};
use crate::error::Error;
use crate::store::Changed;
use crate::workflow::flow::Flow;
use crate::workflow::stop::StopKind;

/// Why a header was not written.
#[derive(Debug)]
pub(crate) enum Unwritten {
    /// Another driver has the workflow, or it has ended.
    Lost,
    Store(Error),
}

impl From<Error> for Unwritten {
    fn from(error: Error) -> Self {
        Self::Store(error)
    }
}

impl From<Unwritten> for StopKind {
    fn from(unwritten: Unwritten) -> Self {
        match unwritten {
            Unwritten::Lost => Self::Lost,
            Unwritten::Store(error) => Self::Store(error),
        }
    }
}

impl Flow {
    /// Change the header, if this driver still owns the workflow.
    pub(crate) async fn act(&self, verb: &'static str, act: DriverAct) -> Result<(), Unwritten> {
        // No lock is held across the request: it would block the thread of every other step.
        let seen = self.header();
        let event = HeaderEvent::Driver { attempt: self.attempt().to_owned(), act };
        let context = self.context();
        // A write that ends a run is worth one attempt even past the deadline.
        let until = self.until().for_end();
        let rule = |stored: Option<&_>| match stored {
            Some(stored) => crate::core::workflow::header::Header::on(stored, &event, context.stamp()),
            None => Err(HeaderRefusal::Lost),
        };
        match Box::pin(context.store().change(verb, Some(seen), until, rule)).await? {
            Changed::Done(next) => {
                context.record_failed_runs(&next, until).await;
                let mut header = self.lock_header();
                // The reply to an extension may arrive after that to a write that ends the run.
                if header.attempt == self.attempt() {
                    *header = next;
                }
                Ok(())
            }
            Changed::Refused { .. } | Changed::Gone => Err(Unwritten::Lost),
        }
    }

    /// Whether a read shows that the workflow was deleted under this driver.
    ///
    /// The record of a step that is written after the deletion would stay for ever: no resume reads
    /// it, and no reaper finds a partition without a header. A workflow cannot be taken over, end
    /// and be deleted before the claim of its driver has ended, unless an operator cancels it. So
    /// only a driver whose claim has ended pays for the read. A machine that is suspended between
    /// this read and its write may still leave one record.
    pub(crate) async fn is_deleted(&self) -> bool {
        if self.time() < self.lock_header().next_due {
            return false;
        }
        let until = self.until_recorded().once();
        match Box::pin(self.context().store().read_header(self.workflow(), until)).await {
            Ok(Some(stored)) => stored.state == State::Reaping || stored.created != self.created(),
            Ok(None) => true,
            // A record too many is better than an outcome that is lost.
            Err(_) => false,
        }
    }

    /// Whether this driver still owns the workflow. Read after a start was written, so one side
    /// always sees the other: a takeover or a cancel writes the header first and reads the starts
    /// after that.
    pub(crate) async fn is_held(&self) -> Result<bool, StopKind> {
        let stored = Box::pin(self.context().store().read_header(self.workflow(), self.until())).await?;
        Ok(stored.is_some_and(|stored| stored.attempt == self.attempt()))
    }
}
