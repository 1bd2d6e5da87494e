//! An inbox that processes each message from others once.
//!
//! Queues deliver at least once, and in any order. An [`Inbox`] remembers what one consumer has
//! taken:
//!
//! | form | for | how | guarantee |
//! |---|---|---|---|
//! | [`atomic`](Inbox::atomic) | rows in DynamoDB, and messages to others | one transaction with the receipt in the inbox | exactly once, inside DynamoDB |
//! | [`key`](Inbox::key) with [`Locker::token`](crate::Locker::token) | an effect elsewhere | a lock token for each message | at most once; in doubt is a state |
//! | [`key`](Inbox::key), or better a key of the business, with [`Workflows::start`](crate::workflow::Workflows::start) | several steps | a workflow for each message | once by its key |
//! | [`Workflows::report`](crate::workflow::Workflows::report) | an event about a step that is in doubt or waits | a conditional write | the first outcome counts |
//!
//! ```
//! use locker::inbox::{Incoming, Taken};
//! use locker::workflow::Workflows;
//!
//! #[tokio::main]
//! async fn main() -> Result<(), locker::BoxError> {
//!     let dynamodb = lock_token_testing::Embedded::memory()?.client();
//!     locker::workflow::create_table(&dynamodb, "workflows").await?;
//!     let inbox = Workflows::new(&dynamodb, "workflows")?.inbox("packer")?;
//!     // The body of a message from a queue.
//!     let body = r#"{"specversion":"1.0","id":"17.0","source":"/orders","type":"order.placed","subject":"order/7","data":7}"#;
//!     let message = Incoming::parse(body)?;
//!     // With your rows: `.put(row)`, `.update(row)`.
//!     assert_eq!(inbox.atomic(&message).commit().await?, Taken::Now);
//!     assert_eq!(inbox.atomic(&message).commit().await?, Taken::Before);
//!     Ok(())
//! }
//! ```
//!
//! [`consumer`](Inbox::consumer) processes messages of a queue, and dead-letters messages that fail
//! for good. An operator decides about dead letters.
//!
//! Source: the inbox of the article "Designing a Passively Safe API". With rows in the same
//! transaction, a message has no state between received and processed.

pub(crate) mod batch;
pub(crate) mod consumer;
mod delivery;
mod error;
mod handlers;
mod incoming;
mod receive;
mod visibility;
mod wrapped;

use std::time::Duration;

pub use consumer::{Consumer, ConsumerReport, Received};
pub use delivery::Delivery;
pub use error::ReceiveError;
pub use handlers::Handlers;
pub use incoming::Incoming;
pub use receive::{Receive, Taken};
pub use visibility::Visibility;

use crate::core::argument::InvalidArgument;
use crate::core::key::Key;
use crate::core::message::id;
use crate::core::message::window::WINDOW;
use crate::core::name;
use crate::core::time;
use crate::session;
use crate::workflow::Workflows;
use crate::workflow::context::Context;

/// Remembers the messages that one consumer processed. See the [module](self) and
/// [`Workflows::inbox`].
#[derive(Debug, Clone)]
pub struct Inbox {
    context: Context,
    consumer: String,
    window: Duration,
}

impl Workflows {
    /// The inbox of a consumer, such as `packer`, in this table. Two consumers take the same
    /// message each.
    ///
    /// # Errors
    ///
    /// [`InvalidArgument`] if the name is not 1 to 200 printable ASCII characters, if it contains a
    /// space, `/` or `~`, if it starts with `compensation:`, `compensation-late:` or `event:`, or
    /// if it ends with `#`.
    pub fn inbox(&self, consumer: impl Into<String>) -> Result<Inbox, InvalidArgument> {
        let consumer = consumer.into();
        name::check(&consumer)?;
        Ok(Inbox { context: self.context().clone(), consumer, window: WINDOW })
    }
}

impl Inbox {
    /// Sets how long the inbox remembers each message.
    ///
    /// **If the [`time`](Incoming::time) of a message is before the window, the message is refused
    /// as [too old](ReceiveError::TooOld): it is unknown whether it was taken. A message without a
    /// time is taken again.** Default: 30 days, which is longer than a message can be in a queue
    /// and its dead-letter queue. [`latest`](Receive::latest) and [`gapless`](Receive::gapless)
    /// have no window.
    ///
    /// If the time of a message is ahead of the local clock, the message is remembered for that
    /// much longer. A dead letter of a [`Consumer`] is remembered while it is in the table, and for
    /// this long after it was processed or discarded.
    ///
    /// Each remembered message is an item of less than 1 KB.
    ///
    /// **Set a longer window only when no message older than the former window can arrive any
    /// more.** The inbox has forgotten such messages. With the longer window it does not refuse
    /// them as too old, but takes them again.
    #[must_use]
    pub const fn window(mut self, window: Duration) -> Self {
        self.window = window;
        self
    }

    /// Takes a message in one transaction with your rows and messages. Nothing is written until you
    /// call [`commit`](Receive::commit).
    pub const fn atomic<'a>(&'a self, message: &'a Incoming) -> Receive<'a> {
        Receive::new(self, message)
    }

    /// The key of a message for a lock token or a workflow: this consumer, and the message's source
    /// and id.
    ///
    /// A key of the business, such as the order's, is better where there is one: it is the same if
    /// the sender sends twice.
    ///
    /// Let the token or the workflow be kept for as long as this inbox [remembers](Self::window),
    /// and longer by as much as clocks of senders are ahead.
    ///
    /// # Errors
    ///
    /// [`ReceiveError::TooOld`], [`ReceiveError::Restored`]; [`ReceiveError::Argument`] if the key
    /// would be too long, or the source or the id is empty. If a source or an id has a form that
    /// brokers refuse, the key contains its digest.
    pub fn key(&self, message: &Incoming) -> Result<Key, ReceiveError> {
        let identity = message.identity()?;
        self.check_restored(message)?;
        self.check_age(message)?;
        let of = |scope: String, part: &str| Key::new(&scope, id::as_id(part));
        let scope = of(format!("inbox/{}", self.consumer), identity.source())?;
        Ok(of(scope.as_str().to_owned(), identity.id())?)
    }

    /// Refuses a message that a restored table may have forgotten. An operator's redrive allows it.
    /// The work that receives the message does not: it may be newer than the message.
    fn check_restored(&self, message: &Incoming) -> Result<(), ReceiveError> {
        let requested = message.time.max(session::opened());
        if self.context.may_have_forgotten(requested) {
            return Err(ReceiveError::Restored { time: message.time });
        }
        Ok(())
    }

    /// Refuses a message that is older than the window.
    fn check_age(&self, message: &Incoming) -> Result<(), ReceiveError> {
        match message.time {
            Some(time) if time::between(time, self.context.now()) > self.window => {
                Err(ReceiveError::TooOld { time, window: self.window })
            }
            _ => Ok(()),
        }
    }
}
