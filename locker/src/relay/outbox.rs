//! Messages of transactions outside workflows.

use crate::core::argument::InvalidArgument;
use crate::core::message::letter::{Committed, Letter, Origin};
use crate::core::private::Private;
use crate::message::NewMessage;
use crate::store::sdk_actions::Put;
use crate::workflow::Workflows;
use crate::workflow::context::Context;
use crate::workflow::send;

/// Makes messages part of your transactions. See [`Workflows::outbox`].
///
/// ```no_run
/// # async fn example(dynamodb: &aws_sdk_dynamodb::Client, workflows: &locker::workflow::Workflows, row: aws_sdk_dynamodb::types::Put)
/// # -> Result<(), locker::BoxError> {
/// use aws_sdk_dynamodb::types::TransactWriteItem;
/// use locker::message::NewMessage;
///
/// let outbox = workflows.outbox();
/// let placed = outbox.message(NewMessage::new("order/placed", &7).subject("order/7"))?;
/// let actions = [row, placed.put()].map(|put| TransactWriteItem::builder().put(put).build());
/// dynamodb.transact_write_items().set_transact_items(Some(actions.into())).send().await?;
/// // Otherwise the relay sends it, half a minute later or more.
/// outbox.send([placed]).await;
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct Outbox {
    context: Context,
}

/// A message of an outbox: [`put`](Self::put) commits it, and [`Outbox::send`] sends it then.
#[derive(Debug, Clone)]
#[must_use = "nothing is committed until its put is part of a transaction"]
pub struct OutboxMessage {
    letter: Private<Letter>,
    put: Private<Put>,
}

impl OutboxMessage {
    /// Returns the put for a transaction of yours.
    #[must_use]
    pub fn put(&self) -> Put {
        self.put.0.clone()
    }
}

impl From<OutboxMessage> for Put {
    fn from(message: OutboxMessage) -> Self {
        message.put.0
    }
}

impl Workflows {
    /// Returns the outbox in this table: your transactions commit its messages, and the same
    /// [`Relay`](super::Relay) sends them.
    #[must_use]
    pub fn outbox(&self) -> Outbox {
        Outbox { context: self.context().clone() }
    }
}

impl Outbox {
    pub(crate) const fn of(context: Context) -> Self {
        Self { context }
    }

    /// Makes a message for a transaction of yours. It is sent at least once if the transaction is
    /// committed, and never if not. Make a new one for each transaction. After a lost reply, send
    /// the transaction again with the same client request token.
    ///
    /// Messages of one subject are sent in the order in which they were made by one process and the
    /// clones of one [`Workflows`], and by the clocks of several: a transaction that was made
    /// earlier may be committed later. If your receivers need the order of the commits, keep a
    /// counter for each subject in the same transaction, and give the message its
    /// [number](NewMessage::number). Messages without a subject are not ordered.
    ///
    /// # Errors
    ///
    /// [`InvalidArgument`] if the topic, the subject or the body is not allowed, or if these
    /// workflows have no [`source`](crate::workflow::Builder::source).
    ///
    /// # Cost
    ///
    /// In your transaction, 2 write units for each KB, and 1 for the index.
    pub fn message(&self, message: NewMessage) -> Result<OutboxMessage, InvalidArgument> {
        let letter = self.outgoing(message, &self.context.new_id(), 0)?;
        let put = self.context.store().put_of_message(&letter, self.context.settings().write_shards());
        Ok(OutboxMessage { letter: Private(letter), put: Private(put) })
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

    /// Sends messages whose transaction was committed, for up to 2 seconds.
    ///
    /// No sending begins in the second half of that time, and a target has up to 1.75 seconds to
    /// reply. Call it after the commit: a message that is not stored is not sent.
    ///
    /// A message is sent only if it is stored as it was committed, and no earlier message of its
    /// subject is unsent. If another caller of this process sends messages of the subject, that
    /// caller also sends these, and this call returns at once. If another process has an earlier
    /// message, the relay sends these. So while nothing fails, each message is sent once, and
    /// messages of a subject in the order of their commits.
    ///
    /// It reports no errors. [Delayed](NewMessage::delay) messages, and messages that are not sent,
    /// are left for the relay. Without [`sending`](crate::workflow::Builder::sending), all of them
    /// are.
    ///
    /// # Crash window
    ///
    /// A message that was sent and not deleted is sent again by the relay, under the same id.
    ///
    /// # Cancel safety
    ///
    /// If you drop the future, the relay sends the rest, and what other callers left to this call.
    ///
    /// # Cost
    ///
    /// For each 50 messages of a subject 1 query, and 1 read unit for each 4 KB that it reads:
    /// these messages, or as many earlier ones. For each message 1 request to its target, and 1
    /// request to delete it: 1 write unit for each KB, and 1 for the index.
    pub async fn send(&self, committed: impl IntoIterator<Item = OutboxMessage>) {
        let committed = committed.into_iter().map(|message| message.letter.0).collect();
        Box::pin(send::send_committed(&self.context, committed)).await;
    }
}
