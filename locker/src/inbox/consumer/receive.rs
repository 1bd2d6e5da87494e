//! Receiving one message from a broker.

use std::fmt;
use std::time::Duration;

use super::Consumer;
use super::caught::{Failed, handled};
use super::setting_aside::{Heard, Place};
use crate::core::class::Class;
use crate::failure::Classify;
use crate::inbox::Delivery;

/// What became of a message. In each case, acknowledge it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Received {
    /// It was handled.
    Done,
    /// It is dead, and kept for an operator.
    SetAside,
    /// It was set aside before: what becomes of it is decided in the table, or was. It was not
    /// handled now; or it was set aside while this handler was at it, and failed.
    Known,
    /// One before it in its group is dead or waits. It is kept behind that one, and was not
    /// handled.
    Behind,
}

/// A message is not done. Do not acknowledge it: its broker delivers it again.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct NotNow {
    /// What failed.
    pub cause: String,
    /// The pause after which it is to be delivered again: a growing one, or what the handler asked
    /// for by [`Failure::after`](crate::Failure::after), 11 hours at most. `None`: the table could
    /// not be reached, or the message is too large.
    pub pause: Option<Duration>,
}

impl fmt::Display for NotNow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.cause.fmt(f)
    }
}

impl std::error::Error for NotNow {}

impl NotNow {
    pub(super) fn because(cause: impl fmt::Display) -> Self {
        Self { cause: cause.to_string(), pause: None }
    }
}

impl Consumer {
    /// Handle a message, or set it aside.
    ///
    /// Messages of a group are received one after the other, as FIFO queues deliver them.
    ///
    /// # Errors
    ///
    /// [`NotNow`]: the handler failed with a transient failure, or the table could not be read or
    /// written. A message of more than 350 KB, with what is kept beside its body, could not be set
    /// aside, so it is not handled; it stays in its queue, and in the end comes to the queue's own
    /// dead-letter queue.
    ///
    /// # Crash window
    ///
    /// A message that was handled or set aside and not acknowledged is received again. One that was
    /// set aside is [known](Received::Known); one that was handled is handled again, and so is one
    /// whose failure could not be written, since the process or the table failed after the handler.
    /// So use [`Inbox::atomic`](crate::inbox::Inbox::atomic) or a token in the handler.
    ///
    /// # Cancel safety
    ///
    /// If you drop the future, the handler is dropped with it; let the broker deliver the message
    /// again.
    ///
    /// # Cost
    ///
    /// 1 query, 1 read unit. If something was set aside there, of its group or the message itself:
    /// 1 read unit for each 4 KB of the last one, and 1 read, 1 read unit. To set a message aside:
    /// 1 transaction, 2 write units for each KB, 1 for the index, and 2 for what is remembered of
    /// it.
    pub async fn receive<E: Classify>(
        &self,
        delivery: &Delivery,
        handle: impl AsyncFnOnce(&Delivery) -> Result<(), E>,
    ) -> Result<Received, NotNow> {
        let heard = Heard::of(delivery, &self.name)?;
        let last = match Box::pin(self.place(&heard)).await.map_err(NotNow::because)? {
            Place::Free { after } => after,
            Place::Known => return Ok(Received::Known),
            Place::Behind { after } => {
                let is_new = Box::pin(self.keep(delivery, heard, Some(after), None)).await?;
                return Ok(if is_new { Received::Behind } else { Received::Known });
            }
        };
        let Err(Failed { class, given_up, cause, pause }) = handled(handle(delivery)).await else {
            return Ok(Received::Done);
        };
        if class == Class::Transient && delivery.receives < self.attempts {
            let pause = self.pause(delivery.receives, pause);
            if let Some(visibility) = &self.visibility {
                visibility.hide(delivery, pause).await;
            }
            return Err(NotNow { cause, pause: Some(pause) });
        }
        // While it was handled, another one may have set it aside, and an operator have decided.
        let is_new = Box::pin(self.keep(delivery, heard, last, Some((given_up, cause)))).await?;
        Ok(if is_new { Received::SetAside } else { Received::Known })
    }

    /// Set a message aside without handling it, such as one from the dead-letter queue of a broker.
    /// It is dead, of this class and for this cause: [`SetAside`](Received::SetAside); or
    /// [`Known`](Received::Known), and nothing was written.
    ///
    /// # Errors
    ///
    /// [`NotNow`]: the table could not be read or written, or the message is too large. Leave it
    /// where it is.
    ///
    /// # Cost
    ///
    /// The same as [`receive`](Self::receive) for a message that is set aside.
    pub async fn set_aside(
        &self,
        delivery: &Delivery,
        class: Class,
        cause: &str,
    ) -> Result<Received, NotNow> {
        let heard = Heard::of(delivery, &self.name)?;
        let last = match Box::pin(self.place(&heard)).await.map_err(NotNow::because)? {
            Place::Free { after } => after,
            Place::Known => return Ok(Received::Known),
            Place::Behind { after } => Some(after),
        };
        let is_new = Box::pin(self.keep(delivery, heard, last, Some((class, cause.to_owned())))).await?;
        Ok(if is_new { Received::SetAside } else { Received::Known })
    }
}
