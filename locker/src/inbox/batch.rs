//! The messages of one batch of a queue, in their order: processed, or delivered again.

#![cfg_attr(
    not(any(feature = "lambda", feature = "sqs")),
    allow(dead_code, reason = "only the adapters for AWS use all of it")
)]

use std::collections::HashMap;
use std::pin::Pin;
use std::time::Duration;

use futures_util::future::join_all;

use super::visibility::{AnyVisibility, hide};
use super::{Consumer, Delivery, ReceiveError};

/// The work on one message. Boxed: the compiler cannot show for the types of a caller's closure and
/// its future that the future of a whole run may move between threads.
pub(crate) type Handling<'a, E> = Pin<Box<dyn Future<Output = Result<(), E>> + Send + 'a>>;

/// The handler of a message.
pub(crate) type Handler<'a, E> = dyn Fn(Delivery) -> Handling<'a, E> + Sync + 'a;

/// The reason why a message stays in its queue.
#[derive(Debug)]
pub(crate) struct NotDone {
    pub(crate) cause: String,
    /// The pause before its next delivery, if its handler or the consumer set one.
    pub(crate) pause: Option<Duration>,
}

impl NotDone {
    pub(crate) fn now(cause: impl ToString) -> Self {
        Self { cause: cause.to_string(), pause: None }
    }
}

impl From<ReceiveError> for NotDone {
    fn from(error: ReceiveError) -> Self {
        Self { cause: error.to_string(), pause: error.pause() }
    }
}

/// Processes messages in their order. Returns the ids of the messages that are not done.
///
/// After a failure with a pause, `hides` hides the later messages of the same group for the same
/// pause: while one message of a group is in flight, the queue delivers no other message of the
/// group.
///
/// `returns` makes a message visible at once if it was not begun and has no pause. A message that
/// failed without a pause, such as because the table could not be read, is visible again after a
/// growing pause: without it, the message and its group would wait for the whole visibility
/// timeout. The same holds for a message that is done and could not be deleted.
///
/// Both requests are sent at the end, for all these messages at the same time. A queue that does
/// not answer delays them together by 2 seconds.
///
/// Source: Amazon SQS Developer Guide, *FIFO queue delivery logic*.
pub(crate) async fn each<'a>(
    deliveries: Vec<Delivery>,
    has_time: &(dyn Fn() -> bool + Sync),
    handle: &Handler<'a, NotDone>,
    hides: Option<&Consumer>,
    returns: Option<&dyn AnyVisibility>,
) -> Vec<String> {
    let mut failed = Failed::default();
    // Messages whose visibility is set at the end: with the pause, or with the other time if there
    // is no pause.
    let mut left = Vec::new();
    for delivery in deliveries {
        // A message of a group fails, and its queue delivers it again. A later message of the group
        // that is handled now would overtake it.
        if let Some(pause) = failed.pause_of_group(&delivery) {
            let cause = "a message before it in its group is not done".to_owned();
            failed.add(&delivery, NotDone { cause, pause });
            left.push((delivery, pause, Duration::ZERO));
        } else if !has_time() {
            failed.add(&delivery, NotDone::now("not enough time is left to begin it"));
            left.push((delivery, None, Duration::ZERO));
        } else if let Err(not_done) = handle(delivery.clone()).await {
            let is_without_pause = not_done.pause.is_none();
            failed.add(&delivery, not_done);
            if let Some(consumer) = hides.filter(|_| is_without_pause && returns.is_some()) {
                // Later messages of its group may be visible sooner. The queue delivers none of
                // them while this message is hidden.
                let after = consumer.pause(delivery.receives, None);
                left.push((delivery, None, after));
            }
        }
    }
    let asked = left.iter().map(async |(delivery, pause, after)| match (pause, hides, returns) {
        (Some(pause), Some(consumer), _) => consumer.hide(delivery, *pause).await,
        (None, _, Some(queue)) => hide(queue, delivery, *after).await,
        _ => {}
    });
    join_all(asked).await;
    failed.ids
}

#[derive(Default)]
struct Failed {
    ids: Vec<String>,
    /// The groups of messages that failed, with their pauses.
    groups: HashMap<String, Option<Duration>>,
}

impl Failed {
    /// The pause of an earlier message of the same group, if one failed.
    fn pause_of_group(&self, delivery: &Delivery) -> Option<Option<Duration>> {
        delivery.group.as_ref().and_then(|group| self.groups.get(group).copied())
    }

    fn add(&mut self, delivery: &Delivery, NotDone { cause, pause }: NotDone) {
        let Delivery { id, group, receives, .. } = delivery;
        tracing::warn!(
            message.id = id,
            message.receives = receives,
            reason = cause,
            "a message is not done and returns to the queue"
        );
        self.groups.extend(group.clone().map(|group| (group, pause)));
        self.ids.push(id.clone());
    }
}
