//! Messages of transactions outside workflows.

use crate::core::argument::InvalidArgument;
use crate::core::message::letter::{Committed, Letter, Origin};
use crate::message::NewMessage;
use crate::store::sdk_actions::Put;
use crate::workflow::Workflows;
use crate::workflow::context::Context;
use crate::workflow::send;

/// Makes messages part of transactions of your own. See [`Workflows::outbox`].
///
/// ```no_run
/// # async fn example(dynamodb: &aws_sdk_dynamodb::Client, workflows: &locker::workflow::Workflows, row: aws_sdk_dynamodb::types::Put)
/// # -> Result<(), locker::BoxError> {
/// use aws_sdk_dynamodb::types::TransactWriteItem;
/// use locker::message::NewMessage;
///
/// let outbox = workflows.outbox();
/// let placed = outbox.message(NewMessage::new("order/placed", &7).subject("order/7"))?;
/// let actions = [row, placed].map(|put| TransactWriteItem::builder().put(put).build());
/// dynamodb.transact_write_items().set_transact_items(Some(actions.into())).send().await?;
/// // Otherwise the relay sends it, half a minute later or more.
/// outbox.send("order/7").await;
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct Outbox {
    context: Context,
}

impl Workflows {
    /// The outbox in this table: messages that are committed by transactions of your own, and sent
    /// by the same [`Relay`](super::Relay).
    #[must_use]
    pub fn outbox(&self) -> Outbox {
        Outbox { context: self.context().clone() }
    }
}

impl Outbox {
    pub(crate) const fn of(context: Context) -> Self {
        Self { context }
    }

    /// A message as a put for a transaction of yours: it is sent at least once if the transaction
    /// is committed, and never if not. Make it anew for each transaction; send a transaction again,
    /// after a lost reply, with the same client request token.
    ///
    /// Messages of one subject are sent in the order in which they were made by one process and the
    /// clones of one [`Workflows`], and by the clocks of several: a transaction that was made
    /// earlier may be committed later. If your receivers need the order of the commits, keep a
    /// counter for each subject in the same transaction, and give the message its
    /// [number](NewMessage::number). A message that names no subject is in no order.
    ///
    /// # Errors
    ///
    /// [`InvalidArgument`] if the topic, the subject or the body is not allowed, or if these
    /// workflows have no [`source`](crate::workflow::Builder::source).
    ///
    /// # Cost
    ///
    /// In your transaction, 2 write units for each KB, and 1 for the index.
    pub fn message(&self, message: NewMessage) -> Result<Put, InvalidArgument> {
        let outgoing = self.outgoing(message, &self.context.new_id(), 0)?;
        Ok(self.context.store().put_of_message(&outgoing, self.context.settings().shards))
    }

    pub(crate) fn outgoing(
        &self,
        message: NewMessage,
        attempt: &str,
        place: usize,
    ) -> Result<Letter, InvalidArgument> {
        let content = message.checked(self.context.source(), &format!("{attempt}.{place}"))?;
        let now = self.context.now();
        Ok(Letter::committed(Committed {
            origin: Origin::Outbox,
            place,
            attempt,
            revision: self.context.new_id(),
            content: &content,
            now,
            tick: self.context.tick(now),
        }))
    }

    /// Send what was committed about a subject, for up to 2 seconds: the first 50. Messages that
    /// are older than half a minute, and those behind them, are the relay's.
    ///
    /// It reports no errors: what is not sent is left for the relay. Without
    /// [`sending`](crate::workflow::Builder::sending), all of it is.
    ///
    /// # Cost
    ///
    /// 1 query, 1 read unit for each 4 KB; for each message a part of a request to its target, and
    /// 1 request to delete it.
    pub async fn send(&self, subject: &str) {
        Box::pin(send::send_subject(&self.context, subject)).await;
    }
}
