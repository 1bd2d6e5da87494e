//! Receiving one message from a broker.

use std::time::Duration;

use super::caught::{Failed, handled};
use super::keep::{Heard, Place};
use super::large::IN_QUEUE;
use super::{Consumer, requested};
use crate::core::class::Class;
use crate::core::message::failures::{failures_at, is_last};
use crate::core::message::letter::BodyAt;
use crate::core::time;
use crate::error::Error;
use crate::failure::Classify;
use crate::inbox::Delivery;
use crate::inbox::batch::Handling;
use crate::inbox::error::ReceiveError;
use crate::inbox::visibility::hide;
use crate::session;

/// How long failures are counted after the last one: the longest time in a queue of SQS.
const KEPT: Duration = Duration::from_secs(14 * 24 * 60 * 60);

/// The outcome of a received message. Acknowledge the message in each case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Received {
    /// The handler processed it.
    Done,
    /// It failed, and the table keeps it for an operator.
    DeadLettered,
    /// The table has, or had, the message as a dead letter, and an operator decides or decided
    /// about it. The handler was not called for this copy, or failed after another copy was
    /// dead-lettered.
    Duplicate,
    /// An earlier message of its group is dead or waits. The table keeps this message after it.
    /// The handler was not called.
    Queued,
}

impl Consumer {
    /// Processes a message. If that fails for good, dead-letters it.
    ///
    /// Messages of a group are received one after the other, as FIFO queues deliver them.
    ///
    /// # Errors
    ///
    /// [`ReceiveError::Later`] if the handler failed with a transient failure, or if the table
    /// could not be read or written. Do not acknowledge the message.
    ///
    /// The same error, with a pause of an hour, if a message of more than 350 KB failed for good
    /// and its body could not be stored in a [claim-check store](Self::claim_check). The table then
    /// contains a dead letter without a body, and the message stays in its queue. Later deliveries
    /// return the same error without a call of the handler. After a redrive, the next delivery
    /// calls the handler; after a discard, it returns [`Duplicate`](Received::Duplicate). A message
    /// of that size after a dead message of its group waits in its queue as well.
    ///
    /// # Crash window
    ///
    /// A message that is not acknowledged is received again. If it was dead-lettered, the result is
    /// [`Duplicate`](Received::Duplicate). If the handler processed it, or if its failure could not
    /// be written, the handler is called again. So use
    /// [`Inbox::atomic`](crate::inbox::Inbox::atomic) or a token in the handler.
    ///
    /// # Cancel safety
    ///
    /// If you drop the future, the handler is dropped with it; let the broker deliver the message
    /// again.
    ///
    /// # Cost
    ///
    /// 1 query, 1 read unit. If the table has a dead letter of its group, or the message itself:
    /// 1 read unit for each 4 KB of the last of them, and 1 read, 1 read unit.
    ///
    /// To dead-letter a message: 1 transaction, 2 write units for each KB, 1 for the index, and 2
    /// for its receipt. To count a transient failure: 1 write, 1 write unit. From the second
    /// delivery on, each failure reads the count before: 1 read, 1 read unit.
    ///
    /// For a message of more than 350 KB that fails for good: 1 put of the claim-check store, and
    /// the dead letter costs as a small one. While its body stays in its queue, each delivery costs
    /// 1 query and 2 reads, 3 read units.
    pub async fn receive<E, Fut>(
        &self,
        delivery: &Delivery,
        handle: impl FnOnce(Delivery) -> Fut + Send,
    ) -> Result<Received, ReceiveError>
    where
        E: Classify,
        Fut: Future<Output = Result<(), E>> + Send,
    {
        let handle =
            |delivery| -> Handling<'_, Failed> { Box::pin(handled(async move { handle(delivery).await })) };
        let heard = Heard::of(delivery, &self.name)?;
        let restored = self.held_by_restore(heard.time());
        let last = match Box::pin(self.place(&heard)).await.map_err(ReceiveError::later)? {
            Place::Free => None,
            Place::Duplicate => return Ok(Received::Duplicate),
            Place::After { after } if restored.is_some() => Some(after),
            Place::After { after } => {
                let body = Box::pin(self.body_of(delivery, &heard)).await;
                if body.1 == BodyAt::Queue {
                    let cause = "a message before it in its group is not done, and it is too large to wait in the table";
                    return Err(self.stays(delivery, cause.to_owned(), IN_QUEUE).await);
                }
                let is_new = Box::pin(self.keep(delivery, heard, body, Some(after), 0, None)).await?;
                return Ok(if is_new { Received::Queued } else { Received::Duplicate });
            }
            Place::InQueue(letter) => {
                return Box::pin(self.receive_in_queue(delivery, *letter, handle)).await;
            }
        };
        let failed = match restored {
            Some(held) => Some(held),
            None => session::inside(requested(heard.time(), None), handle(delivery.clone())).await.err(),
        };
        let Some(Failed { class, given_up, cause, pause }) = failed else { return Ok(Received::Done) };
        let failures = match Box::pin(self.failures(delivery, &heard, class)).await {
            Ok(failures) => failures,
            Err(error) => {
                let pause = self.pause(delivery.receives, pause);
                let cause = format!("{cause}; the failure could not be counted: {error}");
                return Err(self.stays(delivery, cause, pause).await);
            }
        };
        if class == Class::Transient && !is_last(failures, self.attempts) {
            let pause = self.pause(failures, pause);
            return Err(self.stays(delivery, cause, pause).await);
        }
        let body = Box::pin(self.body_of(delivery, &heard)).await;
        let stays = (body.1 == BodyAt::Queue).then(|| cause.clone());
        // Meanwhile another receive may have dead-lettered it, and an operator may have decided.
        let dead = Some((given_up, cause));
        let is_new = Box::pin(self.keep(delivery, heard, body, last, failures, dead)).await?;
        if let Some(cause) = stays {
            return Err(self.stays(delivery, cause, IN_QUEUE).await);
        }
        Ok(if is_new { Received::DeadLettered } else { Received::Duplicate })
    }

    /// The failures of a message, with the one of now, which is counted if it is transient: the
    /// message is then delivered again.
    async fn failures(&self, delivery: &Delivery, heard: &Heard, class: Class) -> Result<u32, Error> {
        let is_first = delivery.receives <= 1;
        let is_over = class != Class::Transient || self.attempts <= 1;
        if is_over && is_first {
            return Ok(1);
        }
        let (context, now) = (&self.context, self.context.now());
        let (at, until) = (failures_at(&self.name, heard.identity()), context.until(None));
        if is_over {
            // The count is for operators only. Without it, the message must still be dead now: its
            // handler may have had an effect, which a redelivery would repeat.
            let counted = context.store().failures(&at, now, until).await;
            return Ok(counted.unwrap_or_default().saturating_add(1));
        }
        let times = (now, time::after(now, KEPT));
        context.store().count_failure(at, is_first, times, until).await
    }

    /// Asks the queue to deliver the message after this pause.
    pub(crate) async fn hide(&self, delivery: &Delivery, pause: Duration) {
        if let Some(visibility) = &self.visibility {
            hide(&**visibility, delivery, pause).await;
        }
    }

    /// Dead-letters a message without processing it, such as a message from the dead-letter queue
    /// of a broker.
    ///
    /// The dead letter has this class and this cause. If the result is
    /// [`Duplicate`](Received::Duplicate), nothing was written.
    ///
    /// # Errors
    ///
    /// [`ReceiveError::Later`] if the table could not be read or written, or if the message has
    /// more than 350 KB and no [claim-check store](Self::claim_check) takes its body. Leave the
    /// message in its queue.
    ///
    /// # Cost
    ///
    /// Same as [`receive`](Self::receive) for a message that is dead-lettered.
    pub async fn dead_letter(
        &self,
        delivery: &Delivery,
        class: Class,
        cause: &str,
    ) -> Result<Received, ReceiveError> {
        let heard = Heard::of(delivery, &self.name)?;
        let last = match Box::pin(self.place(&heard)).await.map_err(ReceiveError::later)? {
            Place::Free => None,
            Place::Duplicate => return Ok(Received::Duplicate),
            Place::After { after } => Some(after),
            Place::InQueue(letter) => {
                let moved = Box::pin(self.move_body(delivery, &letter)).await;
                return moved.ok_or_else(|| {
                    ReceiveError::later(
                        "its dead letter is in the table and its body only here, so it must not be deleted; \
                         move it back to the queue of its consumer, or set a claim check",
                    )
                });
            }
        };
        let body = Box::pin(self.body_of(delivery, &heard)).await;
        if body.1 == BodyAt::Queue {
            return Err(ReceiveError::later(
                "it is too large for the table; move it back to the queue of its consumer, or set a claim check",
            ));
        }
        // How many of the receives began a handler is unknown.
        let dead = Some((class, cause.to_owned()));
        let is_new = Box::pin(self.keep(delivery, heard, body, last, delivery.receives, dead)).await?;
        Ok(if is_new { Received::DeadLettered } else { Received::Duplicate })
    }
}
