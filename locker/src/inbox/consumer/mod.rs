//! Consumers: process messages, and dead-letter messages that fail for good.

mod again;
mod caught;
mod keep;
mod large;
mod leaving;
mod receive;
mod report;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};

use super::Inbox;
use super::visibility::{AnyVisibility, Visibility};
use crate::core::retry::{Backoff, heeding};
use crate::session::{self, Request};
use crate::workflow::context::Context;

pub(crate) use caught::caught;
use large::Claims;
pub(crate) use leaving::left_receipt;
pub use receive::Received;
pub use report::ConsumerReport;

/// Failures after which a transient failure is given up.
const ATTEMPTS: u32 = 10;
/// The longest pause that a handler may ask for: an hour less than Amazon SQS hides a message,
/// which it counts from the receive.
pub(crate) const LONGEST_PAUSE: Duration = Duration::from_secs(11 * 60 * 60);
/// How long a handler, or code that decides, holds a message: the longest time of a Lambda
/// function.
pub(crate) const LEASE: Duration = Duration::from_secs(15 * 60);

/// Processes the messages of one consumer, and dead-letters messages that fail for good. See
/// [`Inbox::consumer`].
///
/// A message is *dead* if its handler
///
/// - fails with another class than [transient](crate::Class::Transient), or panics: at once;
/// - fails with a transient failure for the tenth time ([`attempts`](Self::attempts)).
///
/// The table keeps a dead message with its body, its cause and the data of its broker, and an
/// operator decides about it. The message is acknowledged, so its queue deletes it. **From then on,
/// only the table decides about the message**: the handler is not called for a later copy while the
/// message is in the table, dead, waiting or archived, nor within the [window](Inbox::window) after
/// it was processed from the table or discarded. A copy is recognised by the source and the id of
/// its event, in the same group. A message that is no event is recognised by the id that its broker
/// gave it. If the same text is sent again, it is another message.
///
/// If the queue keeps the order within groups, the table also keeps the later messages of the
/// group, and their handler is not called. **Other groups are not affected.** After an operator
/// [redrives](crate::workflow::Workflows::redrive), archives or discards the dead message,
/// [`run`](Self::run) processes the waiting messages in their order.
///
/// ```
/// use locker::Failure;
/// use locker::inbox::{Delivery, Received};
/// use locker::message::MessageState;
/// use locker::workflow::Workflows;
///
/// #[tokio::main]
/// async fn main() -> Result<(), locker::BoxError> {
///     let dynamodb = lock_token_testing::Embedded::memory()?.client();
///     locker::workflow::create_table(&dynamodb, "workflows").await?;
///     let workflows = Workflows::new(&dynamodb, "workflows")?;
///     let consumer = workflows.inbox("packer")?.consumer();
///
///     let first = Delivery::new("1", "no JSON").group("order/7");
///     let refuse = async |_: Delivery| Err(Failure::permanent("no order".to_owned()).code("unreadable"));
///     assert_eq!(consumer.receive(&first, &refuse).await?, Received::DeadLettered);
///     // It is in the list of dead messages, and the next message of its group waits for it.
///     assert_eq!(workflows.messages(MessageState::Dead).fetch().await?.items.len(), 1);
///     let second = Delivery::new("2", "{}").group("order/7");
///     assert_eq!(consumer.receive(&second, &refuse).await?, Received::Queued);
///     Ok(())
/// }
/// ```
#[derive(Clone)]
#[must_use = "a consumer does nothing until it receives or is run"]
pub struct Consumer {
    context: Context,
    name: String,
    /// For how long a dead letter is remembered after it left the table.
    window: Duration,
    attempts: u32,
    concurrency: usize,
    deadline: Option<DateTime<Utc>>,
    visibility: Option<Arc<dyn AnyVisibility>>,
    claims: Option<Arc<dyn Claims>>,
}

// The visibility and the claim-check store have no readable form.
impl fmt::Debug for Consumer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Consumer")
            .field("name", &self.name)
            .field("attempts", &self.attempts)
            .finish_non_exhaustive()
    }
}

/// Returns the request of a message of this time, for all that its handler begins. `opened`: when
/// an operator redrove the message.
fn requested(at: Option<DateTime<Utc>>, opened: Option<DateTime<Utc>>) -> Request {
    Request { work: session::within(), requested: at, opened }
}

impl Inbox {
    /// Returns the consumer of this inbox, which processes and dead-letters messages.
    pub fn consumer(&self) -> Consumer {
        Consumer {
            context: self.context.clone(),
            name: self.consumer.clone(),
            window: self.window,
            attempts: ATTEMPTS,
            concurrency: 16,
            deadline: None,
            visibility: None,
            claims: None,
        }
    }
}

impl Consumer {
    /// Sets how many failures of its handler make a message dead, if each is transient (default:
    /// 10). Failures are counted in the table. A receive whose handler was not begun is no attempt.
    ///
    /// If a process dies in the handler, nothing is counted: the queue's own dead-letter queue is
    /// for such messages. Its `maxReceiveCount` counts every receive, so set it to several times as
    /// many attempts, such as 50.
    pub const fn attempts(mut self, failures: u32) -> Self {
        self.attempts = if failures == 0 { 1 } else { failures };
        self
    }

    /// Have messages that failed with a transient failure delivered again after a growing pause: 5
    /// seconds, doubled at each failure, up to 15 minutes, half of it by chance; or after the pause
    /// that the failure [asks for](crate::Failure::after), 11 hours at most. The later messages of
    /// a FIFO group in the same batch have the same pause. Without it, a queue has one time for
    /// all.
    pub fn hiding(mut self, visibility: impl Visibility) -> Self {
        self.visibility = Some(Arc::new(visibility));
        self
    }

    /// How many groups [`run`](Self::run) works on at a time. Default: 16.
    pub const fn concurrency(mut self, groups: usize) -> Self {
        self.concurrency = if groups == 0 { 1 } else { groups };
        self
    }

    /// Sets the time after which [`run`](Self::run) begins no message, such as the end of a Lambda
    /// invocation minus the time of one message.
    pub fn deadline(mut self, deadline: impl Into<DateTime<Utc>>) -> Self {
        self.deadline = Some(deadline.into());
        self
    }

    #[cfg(feature = "sqs")]
    pub(crate) const fn batches(&self) -> usize {
        self.concurrency
    }

    #[cfg(feature = "sqs")]
    pub(crate) fn now(&self) -> DateTime<Utc> {
        self.context.now()
    }

    #[cfg(feature = "sqs")]
    pub(crate) fn jitter(&self) -> f64 {
        self.context.jitter()
    }

    /// Returns the pause after this many attempts: a growing pause, or the pause that the handler
    /// asked for, if that is longer.
    pub(crate) fn pause(&self, attempts: u32, asked: Option<Duration>) -> Duration {
        let own = Backoff::OF_MESSAGES.equal(attempts, self.context.jitter());
        heeding(own, asked, LONGEST_PAUSE)
    }
}
