//! A message of a dead-letter queue.

use aws_sdk_sqs::types::{Message, MessageSystemAttributeName};
use locker::inbox::Delivery;
use serde_json::json;

/// A message of a queue, as a function is given it.
pub(super) fn delivery_of(message: &Message) -> Delivery {
    let text = |text: Option<&str>| text.unwrap_or_default().to_owned();
    let delivery = Delivery::new(text(message.message_id()), text(message.body()));
    let system = message.attributes();
    let attribute = |name| system.and_then(|all| all.get(&name)).map(String::as_str);
    let receives = attribute(MessageSystemAttributeName::ApproximateReceiveCount);
    let group = attribute(MessageSystemAttributeName::MessageGroupId);
    // Groups of a standard queue are no order, and a dead-letter queue is of the kind of its queue:
    // a FIFO queue gives numbers.
    let is_fifo = attribute(MessageSystemAttributeName::SequenceNumber).is_some();
    let delivery = delivery.receives(receives.and_then(|count| count.parse().ok()).unwrap_or(1));
    let mut delivery = match group.filter(|_| is_fifo) {
        Some(group) => delivery.group(group),
        None => delivery,
    };
    let own = message.message_attributes().into_iter().flatten();
    delivery.attributes = json!({
        "attributes": system
            .into_iter()
            .flatten()
            .map(|(name, value)| (name.as_str().to_owned(), json!(value)))
            .collect::<serde_json::Map<_, _>>(),
        "messageAttributes": own
            .map(|(name, value)| (name.clone(), json!(value.string_value())))
            .collect::<serde_json::Map<_, _>>(),
    });
    delivery
}
