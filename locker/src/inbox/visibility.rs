//! When a broker delivers a message again.

use std::pin::Pin;
use std::time::Duration;

use super::Delivery;

/// A broker that can delay the next delivery of a message.
///
/// [`Sqs`](crate::aws::Sqs), with the feature `sqs`, implements it. Implement it for other brokers.
pub trait Visibility: Send + Sync + 'static {
    /// Asks the broker to deliver the message again after this pause. It logs a failure: the broker
    /// then delivers the message after its own visibility timeout. A consumer waits for 2 seconds
    /// at most.
    fn hide(&self, delivery: &Delivery, pause: Duration) -> impl Future<Output = ()> + Send;
}

type Boxed<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// [`Visibility`] as a trait object.
pub(crate) trait AnyVisibility: Send + Sync {
    fn hide<'a>(&'a self, delivery: &'a Delivery, pause: Duration) -> Boxed<'a>;
}

impl<T: Visibility> AnyVisibility for T {
    fn hide<'a>(&'a self, delivery: &'a Delivery, pause: Duration) -> Boxed<'a> {
        Box::pin(Visibility::hide(self, delivery, pause))
    }
}

/// Asks a queue to deliver a message after this pause. If the queue does not answer, it delivers
/// the message after its own visibility timeout, and the batch continues.
pub(super) async fn hide(queue: &dyn AnyVisibility, delivery: &Delivery, pause: Duration) {
    const PATIENCE: Duration = Duration::from_secs(2);
    if tokio::time::timeout(PATIENCE, queue.hide(delivery, pause)).await.is_err() {
        tracing::warn!(message.id = delivery.id, "the queue did not answer within 2 s when to deliver again");
    }
}
