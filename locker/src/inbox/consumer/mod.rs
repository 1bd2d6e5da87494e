//! Handling messages, and setting aside those that cannot be handled.

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
const LONGEST_PAUSE: Duration = Duration::from_secs(11 * 60 * 60);
/// The longest time of a handler: that of a Lambda function.
const LEASE: Duration = Duration::from_secs(15 * 60);

/// Handles the messages of one consumer, and sets aside those that it cannot handle. See
/// [`Inbox::consumer`].
///
/// A message is *dead*, and waits for an operator with its body, its cause and all that its broker
/// said, if its handler
///
/// - fails with another class than [transient](crate::Class::Transient), or panics: at once;
/// - fails with a transient failure for the tenth time ([`attempts`](Self::attempts)).
///
/// It is then acknowledged: its queue forgets it. **What becomes of it is decided in the table, and
/// nowhere else**: a copy of it that comes later is not handled while it is in the table, dead,
/// waiting or archived, nor for the [window](Inbox::window) after it was handled from there or
/// discarded.
///
/// In a queue that keeps the order within groups, the later messages of the group are set aside
/// behind it, unhandled; **other groups go on**. When an operator has it [handled
/// again](crate::workflow::Workflows::redrive), archives or discards it, [`run`](Self::run) handles
/// what waits, in order.
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
///     // It is in the list of what is dead, and the next one of its group waits behind it.
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
    /// For how long it remembers what it set aside.
    window: Duration,
    attempts: u32,
    concurrency: usize,
    deadline: Option<DateTime<Utc>>,
    visibility: Option<Arc<dyn AnyVisibility>>,
    claims: Option<Arc<dyn Claims>>,
}

// What tells a broker has nothing to show.
impl fmt::Debug for Consumer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Consumer")
            .field("name", &self.name)
            .field("attempts", &self.attempts)
            .finish_non_exhaustive()
    }
}

impl Inbox {
    /// The consumer of this name: it handles messages, and sets aside those that it cannot handle.
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

    /// Begin no message in [`run`](Self::run) after this time, such as that of the end of a Lambda
    /// invocation without the time that one message takes.
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

    /// The pause after this many attempts: a growing one, or what the handler asked for, if that is
    /// longer.
    fn pause(&self, attempts: u32, asked: Option<Duration>) -> Duration {
        let own = Backoff::OF_MESSAGES.equal(attempts, self.context.jitter());
        heeding(own, asked, LONGEST_PAUSE)
    }
}
