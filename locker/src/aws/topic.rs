//! Amazon SNS.

use aws_sdk_sns::Client;
use aws_sdk_sns::types::{MessageAttributeValue, PublishBatchRequestEntry};

use super::reply::{self, Service};
use crate::core::message::envelope::Envelope;
use crate::message::{Sent, Target};

/// A topic of Amazon SNS. Messages are sent by `PublishBatch`, ten in a request.
///
/// Each has the attribute `topic`, such as `order/placed`, for filter policies of subscriptions. A
/// FIFO topic has groups and deduplication like a FIFO [queue](super).
///
/// [`Incoming::parse`](crate::inbox::Incoming::parse) reads messages of a queue that subscribes the
/// topic, with and without `RawMessageDelivery`.
///
/// Its sender needs `sns:Publish` on the topic.
///
/// # Size
///
/// A topic takes 256 KiB in a request. If its attribute `MaximumMessageSize` is larger, set that
/// value [here](Self::maximum_message_size). A body may have 256 KB, and the event around it some
/// hundred bytes: a message that is too large for the topic is dead-lettered at once.
///
/// Source: Amazon SNS API Reference, `PublishBatch`.
#[derive(Debug, Clone)]
pub struct Topic {
    client: Client,
    arn: String,
    most_bytes: usize,
}

impl Topic {
    /// The topic with this ARN. It is a FIFO topic if the ARN ends with `.fifo`.
    #[must_use]
    pub fn new(client: &Client, arn: impl Into<String>) -> Self {
        Self { client: client.clone(), arn: arn.into(), most_bytes: 256 * 1024 }
    }

    /// The topic's `MaximumMessageSize`, in bytes. Default: 262,144.
    #[must_use]
    pub const fn maximum_message_size(mut self, bytes: usize) -> Self {
        self.most_bytes = bytes;
        self
    }

    fn is_fifo(&self) -> bool {
        self.arn.ends_with(".fifo")
    }
}

impl Target for Topic {
    /// Some of it is for the attributes.
    fn most_bytes(&self) -> usize {
        self.most_bytes.saturating_sub(self.most_messages() * 512)
    }

    async fn send(&self, batch: &[Envelope]) -> Vec<Sent> {
        reply::send(self, batch).await
    }
}

impl Service for Topic {
    async fn send(&self, batch: &[Envelope]) -> Result<Vec<Sent>, Sent> {
        let mut request = self.client.publish_batch().topic_arn(&self.arn);
        for (number, envelope) in batch.iter().enumerate() {
            let topic = MessageAttributeValue::builder().data_type("String").string_value(&envelope.topic);
            let mut entry = PublishBatchRequestEntry::builder()
                .id(number.to_string())
                .message(envelope.to_json().map_err(|error| reply::unmade(&error))?)
                .message_attributes("topic", topic.build().map_err(|error| reply::unmade(&error))?);
            if self.is_fifo() {
                entry = entry
                    .message_group_id(envelope.group_id())
                    .message_deduplication_id(envelope.deduplication_id());
            }
            request =
                request.publish_batch_request_entries(entry.build().map_err(|error| reply::unmade(&error))?);
        }
        let answer = request.send().await.map_err(|error| reply::failed(&error))?;
        let mut sent = vec![reply::silent(); batch.len()];
        let mut note = |id: &str, what: Sent| {
            if let Some(place) = id.parse::<usize>().ok().and_then(|number| sent.get_mut(number)) {
                *place = what;
            }
        };
        for entry in answer.successful() {
            note(entry.id().unwrap_or_default(), Sent::Done);
        }
        for entry in answer.failed() {
            note(entry.id(), reply::refused(entry.code(), entry.message(), entry.sender_fault()));
        }
        Ok(sent)
    }
}
