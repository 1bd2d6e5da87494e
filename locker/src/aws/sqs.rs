//! Amazon SQS.

use std::time::Duration;

use aws_sdk_sqs::Client;
use aws_sdk_sqs::error::DisplayErrorContext;
use aws_sdk_sqs::types::SendMessageBatchRequestEntry;

use super::reply::{self, Service};
use crate::core::message::envelope::Envelope;
use crate::inbox::consumer::LONGEST_PAUSE;
use crate::inbox::{Delivery, Visibility};
use crate::message::{Sent, Target};

/// A queue of Amazon SQS. Messages are sent by `SendMessageBatch`, ten in a request.
///
/// A FIFO queue keeps messages of one subject in order: its group is [`Envelope::group_id`]. It
/// drops copies of a message within 5 minutes: its deduplication id is
/// [`Envelope::deduplication_id`]. A standard queue does neither; its receivers compare sequences
/// and ids.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use locker::message::Router;
/// use locker::aws::Sqs;
///
/// # for variable in ["AWS_REGION", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"] {
/// #     // SAFETY: nothing else runs here.
/// #     unsafe { std::env::set_var(variable, "example") };
/// # }
/// let sqs = aws_sdk_sqs::Client::new(&locker::client::config()?);
/// let packing = Sqs::queue(&sqs, "https://sqs.eu-west-1.amazonaws.com/111122223333/packing.fifo");
/// let router = Router::new().route("order/*", packing);
/// # Ok(()) }
/// ```
///
/// Its sender needs `sqs:SendMessage` on the queue, and `kms:GenerateDataKey` and `kms:Decrypt` if
/// it has a key of yours.
///
/// # Cost
///
/// A request for each started 64 KB: ten small messages are one request.
///
/// Source: Amazon SQS API Reference, `SendMessageBatch`.
#[derive(Debug, Clone)]
pub struct Sqs {
    pub(super) client: Client,
    pub(super) url: String,
}

impl Sqs {
    /// The queue with this URL. It is a FIFO queue if the URL ends with `.fifo`, as the names of
    /// all FIFO queues do.
    #[must_use]
    pub fn queue(client: &Client, url: impl Into<String>) -> Self {
        Self { client: client.clone(), url: url.into() }
    }

    fn is_fifo(&self) -> bool {
        self.url.ends_with(".fifo")
    }
}

impl Target for Sqs {
    /// A request takes 1 MiB: 1,048,576 bytes with ids and attributes.
    fn most_bytes(&self) -> usize {
        1_000_000
    }

    async fn send(&self, batch: &[Envelope]) -> Vec<Sent> {
        reply::send(self, batch).await
    }
}

impl Visibility for Sqs {
    /// By `ChangeMessageVisibility`, for which the receiver needs that permission on the queue.
    async fn hide(&self, delivery: &Delivery, pause: Duration) {
        let Some(handle) = &delivery.receipt_handle else { return };
        let seconds = i32::try_from(pause.min(LONGEST_PAUSE).as_secs()).unwrap_or(i32::MAX);
        let request = self.client.change_message_visibility().queue_url(&self.url);
        let request = request.receipt_handle(handle).visibility_timeout(seconds);
        if let Err(error) = request.send().await {
            let error = DisplayErrorContext(error).to_string();
            tracing::warn!(
                message.id = delivery.id,
                error,
                "the visibility of a message could not be changed"
            );
        }
    }
}

impl Service for Sqs {
    async fn send(&self, batch: &[Envelope]) -> Result<Vec<Sent>, Sent> {
        let mut request = self.client.send_message_batch().queue_url(&self.url);
        for (number, envelope) in batch.iter().enumerate() {
            let body = envelope.to_json().map_err(|error| reply::unmade(&error))?;
            let mut entry = SendMessageBatchRequestEntry::builder().id(number.to_string()).message_body(body);
            if self.is_fifo() {
                entry = entry
                    .message_group_id(envelope.group_id())
                    .message_deduplication_id(envelope.deduplication_id());
            }
            request = request.entries(entry.build().map_err(|error| reply::unmade(&error))?);
        }
        let answer = request.send().await.map_err(|error| reply::failed(&error))?;
        let mut sent = vec![reply::silent(); batch.len()];
        let mut note = |id: &str, what: Sent| {
            if let Some(place) = id.parse::<usize>().ok().and_then(|number| sent.get_mut(number)) {
                *place = what;
            }
        };
        for entry in answer.successful() {
            note(entry.id(), Sent::Done);
        }
        for entry in answer.failed() {
            note(entry.id(), reply::refused(entry.code(), entry.message(), entry.sender_fault()));
        }
        Ok(sent)
    }
}
