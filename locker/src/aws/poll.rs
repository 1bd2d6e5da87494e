//! A consumer outside Lambda: it polls a queue of Amazon SQS.

use std::pin::Pin;
use std::time::Duration;

use aws_sdk_sqs::error::DisplayErrorContext;
use aws_sdk_sqs::types::{Message, MessageSystemAttributeName};
use futures_util::future::join_all;
use serde_json::json;
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use super::Sqs;
use crate::core::retry::Backoff;
use crate::core::time;
use crate::failure::Classify;
use crate::inbox::batch::{self, Handler, Handling, NotDone};
use crate::inbox::{Consumer, Delivery};

/// The most that SQS gives in one request.
const BATCH: i32 = 10;
/// The longest that SQS waits for a message, in seconds.
const WAIT: i32 = 20;
/// How much longer a reply may take, and a deletion.
const SLACK: Duration = Duration::from_secs(5);
/// The longest for which SQS hides a message at a receive.
const HIDDEN: Duration = Duration::from_secs(12 * 60 * 60);
/// The pause between two runs over the waiting messages of the table.
const EVERY: Duration = Duration::from_secs(60);
/// The longest time in which such a run begins messages.
const A_RUN: Duration = Duration::from_secs(10);
/// Pauses after a poll that failed.
const PAUSES: Backoff = Backoff::doubling(Duration::from_secs(1), Duration::from_secs(60));

type Boxed<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

async fn ended(stopped: &mut watch::Receiver<bool>) {
    // An error means that the sender, and so the caller, is gone. This also counts as a stop.
    drop(stopped.wait_for(|stopped| *stopped).await);
}

impl Sqs {
    /// Polls the queue, and handles its messages, until `stop` ends. Once a minute it also handles
    /// the messages that wait in the table: see [`Consumer::run`].
    ///
    /// The rules are those of [`lambda::consume`](crate::lambda::consume): a message that is done
    /// is deleted; a message that is not done is delivered again, after its pause if the consumer
    /// [hides](Consumer::hiding) messages by this queue; after a failure, the later messages of the
    /// same FIFO group are not handled. As many batches are handled at the same time as the
    /// consumer handles [groups](Consumer::concurrency); the messages of one batch are handled in
    /// their order.
    ///
    /// If the table cannot be read or written, or if a message that is done cannot be deleted, the
    /// message is delivered again after a growing pause of at most 15 minutes.
    ///
    /// `needs` is the time that one message takes at most. A received batch is hidden from others
    /// for 11 times as long, and no message is begun without that time.
    ///
    /// After `stop` ended, no message of the queue is begun. The future ends when the handlers of
    /// the begun messages have ended, and a run over the table: it begins messages for 10 seconds
    /// more at most. Received messages that were not begun are visible at once. The running request
    /// for messages is dropped: if SQS has just answered it, its messages stay hidden for the time
    /// above.
    ///
    /// The receiver needs `sqs:ReceiveMessage`, `sqs:DeleteMessage` and
    /// `sqs:ChangeMessageVisibility`.
    ///
    /// # Errors
    ///
    /// A poll that fails is logged, and repeated after a growing pause of one minute at most.
    ///
    /// # Crash window
    ///
    /// Messages of a process that died are delivered again when their time in hiding is over. A
    /// message that was handled and not deleted is handled again: see [`Consumer::receive`].
    ///
    /// # Cost
    ///
    /// 1 request of SQS for a batch, or for 20 seconds without a message, and 1 for each message.
    /// In the table, the same as [`Consumer::receive`] and [`Consumer::run`].
    ///
    /// Source: Amazon SQS Developer Guide, *Short and long polling*, and *Visibility timeout*.
    ///
    /// # Examples
    ///
    /// A service that waits for its running handlers before it stops:
    ///
    /// ```no_run
    /// use std::time::Duration;
    /// use locker::aws::Sqs;
    /// use locker::inbox::{Delivery, Inbox};
    /// use locker::{BoxError, Failure};
    /// use tokio::sync::oneshot;
    ///
    /// async fn pack(delivery: Delivery) -> Result<(), Failure> {
    ///     println!("{}", delivery.body);
    ///     Ok(())
    /// }
    ///
    /// /// `shutdown`: such as `tokio::signal::ctrl_c()`, or the SIGTERM of a container.
    /// async fn serve(inbox: Inbox, queue: Sqs, shutdown: impl Future<Output = ()>) -> Result<(), BoxError> {
    ///     let consumer = inbox.consumer().hiding(queue.clone()).concurrency(4);
    ///     let (stop, stopped) = oneshot::channel::<()>();
    ///     let polling = tokio::spawn(async move {
    ///         let stopped = async { drop(stopped.await) };
    ///         queue.poll(&consumer, Duration::from_secs(5), pack, stopped).await;
    ///     });
    ///     shutdown.await;
    ///     drop(stop);
    ///     // The running handlers end here. Configure the platform to wait before it kills the
    ///     // process: as long as a message takes, and 10 seconds for messages in the table.
    ///     Ok(polling.await?)
    /// }
    /// ```
    pub async fn poll<E, Fut>(
        &self,
        consumer: &Consumer,
        needs: Duration,
        handle: impl Fn(Delivery) -> Fut + Sync,
        stop: impl Future<Output = ()> + Send,
    ) where
        E: Classify,
        Fut: Future<Output = Result<(), E>> + Send,
    {
        let (stops, stopped) = watch::channel(false);
        let receive = |delivery: Delivery| -> Handling<'_, NotDone> {
            let handle = &handle;
            Box::pin(async move {
                consumer.receive(&delivery, handle).await?;
                self.delete(&delivery).await
            })
        };
        let polls =
            (0..consumer.batches()).map(|_| self.poll_until(consumer, needs, &receive, stopped.clone()));
        let waiting: Boxed<'_> = Box::pin(async {
            let mut stopped = stopped.clone();
            loop {
                let until = time::after(consumer.now(), A_RUN);
                // After an error, the next run also waits: an immediate run would meet it again.
                let is_over = match consumer.clone().deadline(until).run(&handle).await {
                    Ok(report) => report.finished || report.stopped_by.is_some(),
                    Err(error) => {
                        tracing::error!(%error, "messages that wait could not be handled");
                        true
                    }
                };
                let pause = if is_over { EVERY } else { Duration::ZERO };
                if timeout(pause, ended(&mut stopped)).await.is_ok() {
                    return;
                }
            }
        });
        let stop = async {
            stop.await;
            stops.send_replace(true);
        };
        tokio::join!(join_all(polls), waiting, stop);
    }

    async fn poll_until(
        &self,
        consumer: &Consumer,
        needs: Duration,
        receive: &Handler<'_, NotDone>,
        mut stopped: watch::Receiver<bool>,
    ) {
        let hidden = needs.saturating_mul(11).clamp(Duration::from_secs(30), HIDDEN);
        let mut failures = 0;
        while !*stopped.borrow() {
            let received = tokio::select! {
                received = self.receive(hidden) => received,
                () = ended(&mut stopped) => return,
            };
            let deliveries = match received {
                Ok(deliveries) => deliveries,
                Err(error) => {
                    failures += 1;
                    tracing::error!(error, "the queue could not be polled");
                    let pause = PAUSES.equal(failures, consumer.jitter());
                    // If it is stopped, the loop ends.
                    drop(timeout(pause, ended(&mut stopped)).await);
                    continue;
                }
            };
            failures = 0;
            let begun = Instant::now();
            let has_time = || !*stopped.borrow() && begun.elapsed() + needs < hidden;
            batch::each(deliveries, &has_time, receive, Some(consumer), Some(self)).await;
        }
    }

    async fn receive(&self, hidden: Duration) -> Result<Vec<Delivery>, String> {
        let ask = self.client.receive_message().queue_url(&self.url).max_number_of_messages(BATCH);
        let ask = ask.wait_time_seconds(WAIT);
        let ask = ask.visibility_timeout(i32::try_from(hidden.as_secs()).unwrap_or(i32::MAX));
        let ask = ask.message_system_attribute_names(MessageSystemAttributeName::All);
        let ask = ask.message_attribute_names("All");
        let patience = Duration::from_secs(WAIT.unsigned_abs().into()) + SLACK;
        match timeout(patience, ask.send()).await {
            Ok(Ok(received)) => Ok(received.messages().iter().map(Self::delivery).collect()),
            Ok(Err(error)) => Err(DisplayErrorContext(error).to_string()),
            Err(_) => Err("the queue did not answer".to_owned()),
        }
    }

    /// Deletes a message that is done. If that fails, the later messages of its group are not
    /// handled, since it is delivered again before them.
    async fn delete(&self, delivery: &Delivery) -> Result<(), NotDone> {
        let delete = self.client.delete_message().queue_url(&self.url);
        let delete = delete.set_receipt_handle(delivery.receipt_handle.clone());
        match timeout(SLACK, delete.send()).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => {
                let error = DisplayErrorContext(error);
                Err(NotDone::now(format!("it is done and could not be deleted: {error}")))
            }
            Err(_) => Err(NotDone::now("it is done, and the queue did not answer its deletion")),
        }
    }

    /// Returns a message as the SDK received it, for a [`Consumer`]. Ask for all system attributes
    /// and all message attributes: `ReceiveMessage` returns neither by default.
    #[must_use]
    pub fn delivery(message: &Message) -> Delivery {
        let text = |text: Option<&str>| text.unwrap_or_default().to_owned();
        let system = message.attributes();
        let attribute = |name| system.and_then(|all| all.get(&name)).map(String::as_str);
        let receives = attribute(MessageSystemAttributeName::ApproximateReceiveCount);
        // A standard queue may have groups as well, which define no order. Only a FIFO queue has
        // numbers.
        let is_fifo = attribute(MessageSystemAttributeName::SequenceNumber).is_some();
        let group = attribute(MessageSystemAttributeName::MessageGroupId).filter(|_| is_fifo);
        let own = message.message_attributes().into_iter().flatten();
        let attributes = json!({
            "attributes": system
                .into_iter()
                .flatten()
                .map(|(name, value)| (name.as_str().to_owned(), json!(value)))
                .collect::<serde_json::Map<_, _>>(),
            "messageAttributes": own
                .map(|(name, value)| (name.clone(), json!(value.string_value())))
                .collect::<serde_json::Map<_, _>>(),
        });
        let delivery = Delivery::new(text(message.message_id()), text(message.body()));
        Delivery {
            group: group.map(str::to_owned),
            attributes,
            receipt_handle: message.receipt_handle().map(str::to_owned),
            ..delivery.receives(receives.and_then(|count| count.parse().ok()).unwrap_or(1))
        }
    }
}
