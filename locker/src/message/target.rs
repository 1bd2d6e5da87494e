//! Where messages are sent to.

#![cfg_attr(
    not(feature = "messages"),
    allow(dead_code, reason = "only relay, inbox and dead letters use all of it")
)]

use std::pin::Pin;

use crate::core::class::Class;
use crate::core::message::breaker::Shown;
use crate::core::message::envelope::Envelope;

/// The result of sending one message.
///
/// It decides what happens to the message, and whether more messages are sent to the target:
///
/// | outcome | the message | the target |
/// |---|---|---|
/// | [`Done`](Self::Done) | is deleted | is up |
/// | [`MessageRefused`](Self::MessageRefused) | is dead-lettered at once | no change |
/// | [`TargetRefused`](Self::TargetRefused) | is retried with growing pauses | after a second message, of another subject: one probe a minute until a message is accepted |
/// | [`Refused`](Self::Refused) | is retried with growing pauses | no change |
/// | [`Later`](Self::Later), [`Unknown`](Self::Unknown) | is retried with growing pauses | after five such calls in a row: one probe a minute until a message is accepted |
///
/// A message that is retried blocks only the later messages of its subject. It is dead-lettered 72
/// hours after the first try.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Sent {
    /// The target has the message, and confirmed that.
    Done,
    /// The target does not have the message, and may accept it later: it throttles, or is out of
    /// reach.
    Later(String),
    /// The target refuses this message and accepts others: it is too large, or contains characters
    /// that are not allowed. Return it only for a cause that lies in the message, since an operator
    /// has to act on each dead letter.
    MessageRefused(String),
    /// The target refuses messages until an operator changes it: it does not exist, denies access,
    /// or its key is disabled. Its messages are dead-lettered only after 72 hours.
    TargetRefused(String),
    /// The target refuses this message, and it is unclear why.
    Refused(String),
    /// No reply arrived: the target may have the message. The message is sent again under the same
    /// id. If a relay sent it, it is then sent in a separate call, because it may have caused the
    /// missing reply.
    Unknown(String),
}

/// The next action for a message after it was sent.
#[derive(Debug)]
pub(crate) enum Fate {
    /// The target has it: it is deleted.
    Delete,
    /// It is dead-lettered at once.
    DeadLetter { cause: String },
    /// It is sent again. `class`: whether the target may have it.
    Retry { class: Option<Class>, cause: String },
}

impl Sent {
    /// Returns the next action for the message. All senders use this rule.
    pub(crate) fn fate(self) -> Fate {
        match self {
            Self::Done => Fate::Delete,
            Self::MessageRefused(cause) => Fate::DeadLetter { cause },
            Self::Later(cause) | Self::TargetRefused(cause) | Self::Refused(cause) => {
                Fate::Retry { class: None, cause }
            }
            Self::Unknown(cause) => Fate::Retry { class: Some(Class::InDoubt), cause },
        }
    }

    /// Returns the conclusion about the health of the target. `is_in_doubt`: an earlier attempt of
    /// the message had no reply.
    pub(crate) const fn shown(&self, is_in_doubt: bool) -> Shown {
        match self {
            Self::Done => Shown::Accepts,
            Self::TargetRefused(_) => Shown::Refuses,
            Self::Unknown(_) if is_in_doubt => Shown::FailsAgain,
            Self::Later(_) | Self::Unknown(_) => Shown::Fails,
            Self::MessageRefused(_) | Self::Refused(_) => Shown::Nothing,
        }
    }
}

/// A broker, a queue or a bus that takes messages.
///
/// Implement it for your own broker. An implementation sends each message once and returns the
/// class of its outcome. The relay decides when to retry, and in which order.
///
/// A call that takes too long is dropped, and counts as [`Sent::Unknown`] for all of its messages,
/// which are sent again. The limit is 10 seconds, and less near the deadline of a relay. Directly
/// after a commit ([`Builder::sending`](crate::workflow::Builder::sending)) it is 1.75 seconds at
/// most, so a slower target gets such messages twice. A call that panics counts as
/// [`Sent::Unknown`] too.
pub trait Target: Send + Sync + 'static {
    /// The most messages that one call is given. Default: 10, as for Amazon SQS, SNS and
    /// EventBridge.
    fn most_messages(&self) -> usize {
        10
    }

    /// The most bytes that one call is given, as the events' JSON. Default: 1 MB.
    fn most_bytes(&self) -> usize {
        1_000_000
    }

    /// Returns whether a batch may contain several messages of one subject.
    ///
    /// Default: no, and a relay sends the messages of a subject one by one.
    ///
    /// Return `true` only if the target takes such messages in the order of the batch, and takes
    /// none after a message that it did not take. Otherwise a later message overtakes an earlier
    /// message that failed. An Amazon SQS FIFO queue keeps the order, but may take a later entry of
    /// a batch if an earlier one fails.
    ///
    /// A run of a relay has at most eight calls to a target at the same time, and four more for
    /// messages in doubt. A batch of several messages of one subject is an additional call. Each
    /// subject has one such call at a time, so by default there are up to 50, and more if workflows
    /// have messages of several subjects. If this is too many for the target, lower the
    /// [concurrency](crate::relay::Relay::concurrency).
    ///
    /// Source: Amazon SQS API Reference, `SendMessageBatch`.
    fn keeps_order(&self) -> bool {
        false
    }

    /// Sends these messages. No two of them have the same subject, unless this target
    /// [keeps the order](Self::keeps_order). The result has one entry for each, in the same order.
    fn send(&self, batch: &[Envelope]) -> impl Future<Output = Vec<Sent>> + Send;
}

type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// An object-safe form of [`Target`].
pub(crate) trait AnyTarget: Send + Sync {
    fn most_messages(&self) -> usize;
    fn most_bytes(&self) -> usize;
    fn keeps_order(&self) -> bool;
    fn send<'a>(&'a self, batch: &'a [Envelope]) -> Boxed<'a, Vec<Sent>>;
}

impl<T: Target> AnyTarget for T {
    fn most_messages(&self) -> usize {
        Target::most_messages(self)
    }

    fn most_bytes(&self) -> usize {
        Target::most_bytes(self)
    }

    fn keeps_order(&self) -> bool {
        Target::keeps_order(self)
    }

    fn send<'a>(&'a self, batch: &'a [Envelope]) -> Boxed<'a, Vec<Sent>> {
        Box::pin(Target::send(self, batch))
    }
}
