//! From a message to an item and back.

#![cfg_attr(
    not(feature = "messages"),
    allow(dead_code, reason = "only relay, inbox and dead letters use all of it")
)]

#[cfg(feature = "messages")]
mod failures;
#[cfg(feature = "messages")]
mod receipt;

#[cfg(feature = "messages")]
pub(crate) use failures::{failures_item, failures_of};
#[cfg(feature = "messages")]
pub(crate) use receipt::{receipt_item, receipt_left, receipt_of, remembered_of};

use aws_sdk_dynamodb::types::AttributeValue;

use super::reader::Reader;
use super::value::{Item, moment, number, text};
use super::writer::Writer;
use crate::core::class::Class;
use crate::core::invalid::InvalidRecord;
use crate::core::message::attributes::Attributes;
use crate::core::message::letter::{BodyAt, Letter, LetterData, MessageState, due_of};
use crate::core::shard;
#[cfg(feature = "messages")]
use crate::core::workflow::place::Place;
use crate::core::workflow::step::RecordId;
use crate::store::schema::attribute as a;

pub(crate) fn message_item(message: &Letter, shards: u16) -> Item {
    let mut item = Writer::at(&message.at.workflow, &message.at.item);
    item.put(a::STATUS, text(shard::status(message.status(), &message.at.workflow, shards)));
    item.put(a::STATE, text(message.state.as_str()));
    item.put(a::NEXT_DUE, text(message.listed_due()));
    item.put(a::REVISION, text(&message.revision));
    item.put(a::MESSAGE_ID, text(&message.id));
    item.put(a::SOURCE, text(&message.source));
    // As the listing shows it.
    item.put(a::NAME, text(&message.topic));
    item.put(a::SUBJECT, text(&message.subject));
    item.put(a::SEQUENCE, text(&message.sequence));
    item.put(a::BODY, text(&message.body));
    item.text(a::BODY_AT, message.body_at.as_str());
    item.text(a::DELIVERY, message.delivery.as_deref());
    item.put(a::CREATED, moment(message.created));
    item.text(a::TRACE, message.trace.as_deref());
    if !message.attributes.is_empty() {
        item.put(a::ATTRIBUTES, attributes_value(&message.attributes));
    }
    item.moment(a::EXPIRES, message.expires);
    item.text(a::LOCKED_BY, message.locked_by.as_deref());
    if message.attempts > 0 {
        item.put(a::ATTEMPTS, number(message.attempts));
    }
    if let Some(first) = message.first_try {
        item.put(a::FIRST_TRY, moment(first));
    }
    if let Some(until) = message.held_until {
        item.put(a::HELD_UNTIL, moment(until));
    }
    item.text(a::CLASS, message.class.map(Class::as_str));
    item.text(a::CAUSE, message.cause.as_deref());
    if message.redrives > 0 {
        item.put(a::REDRIVES, number(message.redrives));
    }
    item.intervention(message.intervention.as_ref());
    item.item()
}

/// A map of texts.
fn attributes_value(attributes: &Attributes) -> AttributeValue {
    AttributeValue::M(attributes.iter().map(|(name, value)| (name.clone(), text(value))).collect())
}

fn attributes_of(item: &Item) -> Result<Attributes, InvalidRecord> {
    let wrong = InvalidRecord::Form { attribute: a::ATTRIBUTES, expected: "a map of texts" };
    let Some(value) = item.get(a::ATTRIBUTES) else { return Ok(Attributes::new()) };
    let entries = value.as_m().map_err(|_| wrong.clone())?.iter();
    let entries =
        entries.map(|(name, value)| Ok((name.clone(), value.as_s().map_err(|_| wrong.clone())?.clone())));
    entries.collect()
}

/// Whether an item is a message.
#[cfg(feature = "messages")]
pub(crate) fn is_message(item: &Item) -> bool {
    let sort = item.get(a::ITEM).and_then(|sort| sort.as_s().ok());
    sort.is_some_and(|sort| matches!(Place::parse(sort), Ok(Place::Message(_))))
}

pub(crate) fn message_of(item: &Item) -> Result<Letter, InvalidRecord> {
    let reader = Reader::of_ours(item)?;
    let wrong = InvalidRecord::Form { attribute: a::STATE, expected: "unsent, waiting, dead or archived" };
    let no_place = InvalidRecord::Form { attribute: a::BODY_AT, expected: "claim or queue" };
    let no_time = InvalidRecord::Form { attribute: a::NEXT_DUE, expected: "a time" };
    let owned = |name| reader.required(name).map(str::to_owned);
    Ok(Letter::stored(LetterData {
        at: RecordId { workflow: owned(a::WORKFLOW)?, item: owned(a::ITEM)? },
        id: owned(a::MESSAGE_ID)?,
        source: owned(a::SOURCE)?,
        revision: owned(a::REVISION)?,
        topic: owned(a::NAME)?,
        subject: owned(a::SUBJECT)?,
        sequence: owned(a::SEQUENCE)?,
        body: owned(a::BODY)?,
        body_at: BodyAt::named(reader.text(a::BODY_AT)?).ok_or(no_place)?,
        delivery: reader.owned(a::DELIVERY)?,
        created: reader.required_moment(a::CREATED)?,
        trace: reader.owned(a::TRACE)?,
        attributes: attributes_of(item)?,
        expires: reader.moment(a::EXPIRES)?,
        state: MessageState::named(reader.required(a::STATE)?).ok_or(wrong)?,
        next_due: due_of(reader.required(a::NEXT_DUE)?).ok_or(no_time)?,
        locked_by: reader.owned(a::LOCKED_BY)?,
        attempts: reader.number(a::ATTEMPTS)?.unwrap_or_default(),
        first_try: reader.moment(a::FIRST_TRY)?,
        held_until: reader.moment(a::HELD_UNTIL)?,
        class: reader.text(a::CLASS)?.and_then(Class::named),
        cause: reader.owned(a::CAUSE)?,
        redrives: reader.number(a::REDRIVES)?.unwrap_or_default(),
        intervention: reader.intervention()?,
    }))
}
