//! Where messages are sent to.

#![cfg_attr(
    not(feature = "messages"),
    allow(dead_code, reason = "only relay, inbox and dead letters use all of it")
)]

use std::pin::Pin;

use crate::core::message::envelope::Envelope;

/// The result of sending one message.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Sent {
    /// The target has it, and confirmed that.
    Done,
    /// The target does not have it, and may take it later: it throttles, or is out of reach. It is
    /// sent again.
    Later(String),
    /// The target refuses it, and will always do so: it does not exist, denies access, or the
    /// message is invalid. An operator has to act.
    Never(String),
    /// No reply came: the target may have it. It is sent again, under the same id.
    Unknown(String),
}

/// A broker, a queue or a bus that takes messages.
///
/// Implement it for a broker of your own. An implementation sends, and says what came of each
/// message; when to send again, and in which order, is not its concern.
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

    /// Send these messages, no two of which have the same subject. The result has one entry for
    /// each, in the same order.
    fn send(&self, batch: &[Envelope]) -> impl Future<Output = Vec<Sent>> + Send;
}

type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The same behind a pointer.
pub(crate) trait AnyTarget: Send + Sync {
    fn most_messages(&self) -> usize;
    fn most_bytes(&self) -> usize;
    fn send<'a>(&'a self, batch: &'a [Envelope]) -> Boxed<'a, Vec<Sent>>;
}

impl<T: Target> AnyTarget for T {
    fn most_messages(&self) -> usize {
        Target::most_messages(self)
    }

    fn most_bytes(&self) -> usize {
        Target::most_bytes(self)
    }

    fn send<'a>(&'a self, batch: &'a [Envelope]) -> Boxed<'a, Vec<Sent>> {
        Box::pin(Target::send(self, batch))
    }
}
