//! Taking a message together with rows and messages, all or nothing.

use chrono::{DateTime, Utc};

use super::error::ReceiveError;
use super::{Inbox, Incoming};
use crate::core::message::attributes::caused_by;
use crate::core::message::id::{named, number_of};
use crate::core::message::receipt::{Kept, NotTaken, Receipt};
use crate::core::message::window::remembered_until;
use crate::error::Error;
use crate::failure::Failure;
use crate::message::NewMessage;
use crate::message::actions::{Actions, takes_actions};
use crate::relay::outbox::Outbox;
use crate::store::{Action, Item, Written, check_actions, message_item, receipt_of};
use crate::workflow::send::send_committed;

/// The result of a commit with a message. [`done`](Self::done) converts it for `?`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "a message that was not taken must not be acknowledged; `done()?` returns its failure"]
#[non_exhaustive]
pub enum Taken {
    /// It was taken now, with all of your writes. Acknowledge it.
    Now,
    /// It was taken before, and nothing was written now. Acknowledge it.
    Before,
    /// A newer message of its subject was taken, and nothing was written. Acknowledge it. With
    /// [`latest`](Receive::latest), a message with the same number counts as newer.
    Superseded,
    /// With [`gapless`](Receive::gapless): another message of its subject was taken with the same
    /// number. Nothing was written. Do not acknowledge this message, and show it to an operator at
    /// once: the counter of its sender was set back, such as by a backup; two senders count; or
    /// your code took a message in its place. Once the next number is taken, it is superseded.
    SameNumber,
    /// The message of its subject with this number comes first. Nothing was written. Leave this
    /// message in the queue.
    Early {
        /// The number that comes next.
        expects: u64,
    },
    /// Conditions of your writes failed, counted from 0 in the order in which they were added.
    /// Nothing was written, and the message was not taken: decide, and call again, or acknowledge
    /// it.
    Refused {
        /// Which writes.
        writes: Vec<usize>,
    },
}

impl Taken {
    /// Returns the failure of a message that must not be acknowledged, for the handler of a
    /// [`Consumer`](super::Consumer).
    ///
    /// - [`Early`](Self::Early) is transient: the queue delivers the message again.
    /// - [`SameNumber`](Self::SameNumber), with the code `inbox.sameNumber`, and
    ///   [`Refused`](Self::Refused), with the code `inbox.refused`, need an operator.
    ///
    /// ```
    /// # use locker::Failure;
    /// # use locker::inbox::{Delivery, Inbox, Incoming};
    /// async fn pack(inbox: &Inbox, delivery: &Delivery) -> Result<(), Failure> {
    ///     let message = Incoming::parse(&delivery.body)?;
    ///     inbox.atomic(&message).commit().await?.done()
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// The message was not taken, and nothing was written.
    pub fn done(&self) -> Result<(), Failure> {
        Err(match self {
            Self::Now | Self::Before | Self::Superseded => return Ok(()),
            Self::Early { expects } => {
                Failure::transient(format!("the message with the number {expects} comes first"))
            }
            Self::SameNumber => {
                let cause = "another message was taken with its number";
                Failure::needs_operator(cause.to_owned()).code("inbox.sameNumber")
            }
            Self::Refused { writes } => {
                let cause = format!("the conditions of the writes {writes:?} failed, counted from 0");
                Failure::needs_operator(cause).code("inbox.refused")
            }
        })
    }
}

/// How a message is remembered.
#[derive(Debug, Clone, Copy)]
enum Order {
    Any,
    Latest,
    Gapless(u64),
}

/// A message to take, and the writes of its transaction. See [`Inbox::atomic`].
#[derive(Debug)]
#[must_use = "nothing is written until it is committed"]
pub struct Receive<'a> {
    inbox: &'a Inbox,
    message: &'a Incoming,
    order: Order,
    actions: Actions,
}

impl<'a> Receive<'a> {
    pub(super) const fn new(inbox: &'a Inbox, message: &'a Incoming) -> Self {
        Self { inbox, message, order: Order::Any, actions: Actions::NONE }
    }

    /// Takes it only if its [number](Incoming::number) is greater than the numbers of all messages
    /// of its subject that were taken. For messages that contain the whole state: a message with a
    /// smaller number is never taken.
    ///
    /// Its sender assigns the number by [`NewMessage::number`], from a counter in the transaction
    /// that commits the message. An automatic sequence is refused with
    /// [`ReceiveError::Invalid`], since it does not order the commits of different processes.
    ///
    /// The inbox remembers one number for each subject, and has no window. Of two messages with the
    /// same number, the first to come is taken.
    pub const fn latest(mut self) -> Self {
        self.order = Order::Latest;
        self
    }

    /// Takes it only if it has the next number of its subject, from 1. The sender keeps the
    /// counter, in the transaction that commits the message.
    ///
    /// The inbox remembers one number for each subject, and has no window. If a message is
    /// discarded by a broker or by you, later messages are [early](Taken::Early) until its number
    /// is taken. Take a message in its place: [`Incoming::new`] with its source and subject, and
    /// `gapless` with its number.
    ///
    /// The inbox remembers only the id of the last number. A message with the [same
    /// number](Taken::SameNumber) and another id is detected. A message with a smaller number is
    /// [superseded](Taken::Superseded), even if it was never taken. **So never set the counter
    /// back**: messages under numbers that were used are lost.
    pub const fn gapless(mut self, number: u64) -> Self {
        self.order = Order::Gapless(number);
        self
    }

    takes_actions!();

    /// Adds a message to send: at least once if the message is taken now, otherwise never. See
    /// [`Outbox::message`](crate::relay::Outbox::message) for its order.
    ///
    /// Unless you set others, its [causation id](NewMessage::causation_id) is the id of the message
    /// that is taken, and its [correlation id](NewMessage::correlation_id) is that of the message
    /// that is taken; if that has none, its id.
    pub fn send(mut self, message: NewMessage) -> Self {
        self.actions.messages.push(message);
        self
    }

    /// Takes the message, and writes everything with it.
    ///
    /// Limits are checked before anything is sent: 100 actions including its own, 4 MB, and one
    /// action for each item. A put does not name its key, so its item is not checked.
    ///
    /// # Crash window
    ///
    /// None: the message is taken together with your writes, or not at all. If it is delivered
    /// again, it was [taken before](Taken::Before).
    ///
    /// # Cancel safety
    ///
    /// If you drop the future, the transaction may be committed; the next delivery finds out.
    ///
    /// # Errors
    ///
    /// [`ReceiveError::Locker`]: let the queue deliver the message again. After
    /// [`TooOld`](ReceiveError::TooOld), [`Restored`](ReceiveError::Restored),
    /// [`Invalid`](ReceiveError::Invalid) and [`Argument`](ReceiveError::Argument), a retry returns
    /// the same error.
    ///
    /// # Cost
    ///
    /// 1 request. Each item costs 2 write units for each KB, as in any transaction: the receipt of
    /// the inbox, your rows, the messages; 1 write unit more for each message, for the index. A
    /// refused transaction, such as that of a duplicate, costs the same.
    ///
    /// Messages that are [sent at once](crate::workflow::Builder::sending) take up to 2 seconds
    /// after the commit: 1 query for each subject, a part of a request to the broker, and 1 request
    /// to delete each message.
    pub async fn commit(self) -> Result<Taken, ReceiveError> {
        let Self { inbox, message, order, actions: Actions { given, messages } } = self;
        let context = &inbox.context;
        let identity = message.identity()?;
        inbox.check_restored(message)?;
        // The receipt of an older message has expired, so a second delivery would be taken again. A
        // receipt that has a number does not expire.
        if matches!(order, Order::Any) {
            inbox.check_age(message)?;
        }
        let (now, id) = (context.now(), context.new_id());
        let outbox = Outbox::of(context.clone());
        let caused = caused_by(&message.id, message.correlation_id());
        let messages = messages.into_iter().map(|message| message.with_defaults(caused.clone()));
        let outgoing = messages.enumerate().map(|(place, message)| outbox.outgoing(message, &id, place));
        let outgoing: Vec<_> = outgoing.collect::<Result<_, _>>()?;
        let receipt = Receipt::new(
            (&inbox.consumer, identity, message.about()),
            context.new_id(),
            now,
            kept(order, message, remembered_until(now, message.time, inbox.window, context.skew()))?,
        );
        let mut actions =
            vec![Action::Receive { receipt: Box::new(receipt.clone()), expired_at: context.expired_at(now) }];
        actions.extend(given.0);
        let shards = context.settings().write_shards();
        // The place of each is made for it.
        actions
            .extend(outgoing.iter().map(|it| Action::Put { item: message_item(it, shards), absent: true }));
        check_actions(&actions).map_err(ReceiveError::Invalid)?;
        let sent = context.store().transact("take the message", &actions, &id, context.until(None));
        match Box::pin(sent).await? {
            Written::Done => {
                Box::pin(send_committed(context, outgoing)).await;
                Ok(Taken::Now)
            }
            Written::Refused { found: at, after_silence } => refused(&receipt, &at, after_silence),
        }
    }
}

fn kept(order: Order, message: &Incoming, expires: DateTime<Utc>) -> Result<Kept, ReceiveError> {
    let invalid = |why: &str| Err(ReceiveError::Invalid(why.to_owned()));
    match (order, &message.sequence) {
        (Order::Any, _) => Ok(Kept::Each { expires }),
        _ if named("subject", message.subject.as_deref().unwrap_or_default()).is_err() => {
            invalid("it has no subject, so it is in no order")
        }
        (Order::Latest, sequence) => match sequence.as_deref().and_then(number_of) {
            Some(number) => Ok(Kept::Latest { number }),
            None => Err(ReceiveError::Invalid(format!(
                "its sequence {:?} is no number that its sender assigned, so it is neither newer nor older; let its sender \
                 assign one by `NewMessage::number`, from a counter in the transaction that commits the message",
                sequence.as_deref().unwrap_or_default()
            ))),
        },
        (Order::Gapless(0), _) => invalid("its number is 0, and the first one is 1"),
        (Order::Gapless(number), _) => Ok(Kept::Gapless { number }),
    }
}

fn refused(
    receipt: &Receipt,
    at: &[(usize, Option<Item>)],
    after_silence: bool,
) -> Result<Taken, ReceiveError> {
    let of_receipt = at.iter().find(|(place, _)| *place == 0);
    let taken = match of_receipt {
        Some((_, item)) => {
            let found = item.as_ref().map(receipt_of).transpose().map_err(Error::from)?;
            match receipt.refused(found.as_ref()) {
                NotTaken::Duplicate => return Ok(Taken::Before),
                NotTaken::Superseded => return Ok(Taken::Superseded),
                NotTaken::SameNumber => return Ok(Taken::SameNumber),
                NotTaken::Early { expects } => Taken::Early { expects },
            }
        }
        None => Taken::Refused { writes: at.iter().map(|(place, _)| place - 1).collect() },
    };
    // A request whose reply was lost may still arrive, and find its conditions met.
    if after_silence {
        let source = "its conditions failed after a request whose response was lost".into();
        return Err(Error::Unknown { verb: "take the message", tries: 2, source }.into());
    }
    Ok(taken)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::class::Class;
    use crate::failure::Classify as _;

    #[test]
    fn only_a_taken_message_is_done_and_each_other_one_has_its_class() {
        for taken in [Taken::Now, Taken::Before, Taken::Superseded] {
            assert!(taken.done().is_ok(), "{taken:?}");
        }
        for (taken, class, text) in [
            (Taken::Early { expects: 7 }, Class::Transient, "number 7"),
            (Taken::SameNumber, Class::NeedsOperator, "with its number"),
            (Taken::Refused { writes: vec![0, 2] }, Class::NeedsOperator, "[0, 2]"),
        ] {
            let failure = taken.done().unwrap_err();
            assert_eq!(failure.class(), class, "{taken:?}");
            assert!(failure.to_string().contains(text), "{failure}");
        }
    }
}
