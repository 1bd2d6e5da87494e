//! From a message to an item and back.

use chrono::{DateTime, Utc};

use super::reader::Reader;
use super::value::{Item, moment, text};
use super::writer::Writer;
use crate::core::invalid::InvalidRecord;
use crate::core::workflow::step::RecordId;
use crate::store::schema::attribute as a;

/// A message that was committed with a step, and is to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StoredMessage {
    pub(crate) id: RecordId,
    pub(crate) topic: String,
    /// JSON.
    pub(crate) body: String,
    pub(crate) created: DateTime<Utc>,
}

pub(crate) fn message_item(message: &StoredMessage) -> Item {
    let mut item = Writer::at(&message.id.workflow, &message.id.item);
    item.put(a::TOPIC, text(&message.topic));
    item.put(a::BODY, text(&message.body));
    item.put(a::CREATED, moment(message.created));
    item.item()
}

pub(crate) fn message_of(item: &Item) -> Result<StoredMessage, InvalidRecord> {
    let reader = Reader::of_ours(item)?;
    Ok(StoredMessage {
        id: RecordId {
            workflow: reader.required(a::WORKFLOW)?.to_owned(),
            item: reader.required(a::ITEM)?.to_owned(),
        },
        topic: reader.required(a::TOPIC)?.to_owned(),
        body: reader.required(a::BODY)?.to_owned(),
        created: reader.required_moment(a::CREATED)?,
    })
}
