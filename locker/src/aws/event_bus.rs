//! Amazon EventBridge.

use aws_sdk_eventbridge::Client;
use aws_sdk_eventbridge::primitives::DateTime;
use aws_sdk_eventbridge::types::PutEventsRequestEntry;

use super::reply::{self, Service};
use crate::core::message::envelope::Envelope;
use crate::message::{Sent, Target};

/// Errors of EventBridge itself, after which it takes the event later.
const ITS_OWN_FAULT: [&str; 2] = ["InternalFailure", "InternalException"];

/// An event bus of Amazon EventBridge. Messages go by `PutEvents`, ten in a request.
///
/// | of the event | is |
/// |---|---|
/// | `source` | the [source](Envelope::source) of the workflows, such as `/orders`; AWS keeps `aws.` for itself |
/// | `detail-type` | the type, such as `order.placed` |
/// | `detail` | the whole event by CloudEvents: the body is `detail.data`, the id `detail.id` |
/// | `time` | the time of the commit |
///
/// A bus keeps no order and drops no copies: receivers compare `detail.sequence` and `detail.id`.
///
/// [`Incoming::parse`](crate::inbox::Incoming::parse) reads messages of a queue that is the target
/// of a rule, with and without `InputPath: $.detail`.
///
/// Its sender needs `events:PutEvents` on the bus.
///
/// # Cost
///
/// An event for each started 64 KB.
///
/// Source: Amazon EventBridge API Reference, `PutEvents`.
#[derive(Debug, Clone)]
pub struct EventBus {
    client: Client,
    name: String,
}

impl EventBus {
    /// The bus with this name or ARN.
    #[must_use]
    pub fn new(client: &Client, name: impl Into<String>) -> Self {
        Self { client: client.clone(), name: name.into() }
    }
}

impl Target for EventBus {
    /// A request takes less than 1 MB, with sources and types.
    fn most_bytes(&self) -> usize {
        900_000
    }

    async fn send(&self, batch: &[Envelope]) -> Vec<Sent> {
        reply::send(self, batch).await
    }
}

impl Service for EventBus {
    async fn send(&self, batch: &[Envelope]) -> Result<Vec<Sent>, Sent> {
        let mut request = self.client.put_events();
        for envelope in batch {
            let detail = envelope.to_json().map_err(|error| reply::unmade(&error))?;
            let entry = PutEventsRequestEntry::builder()
                .event_bus_name(&self.name)
                .source(&envelope.source)
                .detail_type(envelope.kind())
                .time(DateTime::from_millis(envelope.time.timestamp_millis()))
                .detail(detail);
            request = request.entries(entry.build());
        }
        let answer = request.send().await.map_err(|error| reply::failed(&error))?;
        // One entry for each that was given, in their order.
        let mut sent: Vec<Sent> = answer
            .entries()
            .iter()
            .map(|entry| match (entry.event_id(), entry.error_code()) {
                (_, Some(code)) => {
                    reply::refused(code, entry.error_message(), !ITS_OWN_FAULT.contains(&code))
                }
                (Some(_), None) => Sent::Done,
                (None, None) => reply::silent(),
            })
            .collect();
        sent.resize_with(batch.len(), reply::silent);
        Ok(sent)
    }
}
