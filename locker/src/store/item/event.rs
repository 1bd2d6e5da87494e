//! From the record of an event to an item and back.

use aws_sdk_dynamodb::types::AttributeValue;

use super::reader::Reader;
use super::value::{Item, answer_value, moment, number, text};
use super::writer::Writer;
use crate::core::invalid::InvalidRecord;
use crate::core::listed::LATE;
use crate::core::shard;
use crate::core::workflow::event::{
    Arrived, EventData, EventReceipt, EventRecord, EventState, Identity, LateCause, Waited,
};
use crate::core::workflow::step::RecordId;
use crate::store::schema::attribute as a;

pub(crate) fn event_item(event: &EventRecord, shards: u16) -> Item {
    let mut item = Writer::at(&event.id.workflow, &event.id.item);
    item.put(a::NAME, text(&event.workflow_name));
    item.put(a::RUN, moment(event.run));
    item.put(a::STATE, text(event.state.as_str()));
    item.put(a::REVISION, text(&event.revision));
    if let Some(wait) = &event.wait {
        item.put(a::SINCE, moment(wait.since));
        item.put(a::UNTIL, moment(wait.until));
        if wait.of_compensation {
            item.put(a::OF_COMPENSATION, AttributeValue::Bool(true));
        }
        if wait.former {
            item.put(a::FORMER, AttributeValue::Bool(true));
        }
        item.intent(wait.on_late.as_ref());
    }
    if let Some(arrived) = &event.arrived {
        item.put(a::CREATED, moment(arrived.at));
        item.put(a::SIGNALLED_BY, text(&arrived.by));
        item.text(a::EVENT_ID, arrived.identity.id.as_deref());
        item.put(a::RESULT_CODEC, text(arrived.identity.value.codec.name()));
        item.put(a::RESULT, answer_value(&arrived.identity.value));
        // The row of the index is there until the event is handled.
        if event.state == EventState::Late {
            item.put(a::STATUS, text(shard::status(LATE, &event.id.workflow, shards)));
            item.put(a::NEXT_DUE, moment(arrived.at));
            item.put(a::SUBJECT, text(event.id.shown()));
        }
    }
    item.text(a::CAUSE, event.cause.map(LateCause::as_str));
    item.text(a::LOCKED_BY, event.ended_by.as_deref());
    item.intervention(event.intervention.as_ref());
    item.item()
}

pub(crate) fn event_of(item: &Item) -> Result<EventRecord, InvalidRecord> {
    let reader = Reader::of_ours(item)?;
    let state = EventState::named(reader.required(a::STATE)?)
        .ok_or(InvalidRecord::Form { attribute: a::STATE, expected: "the state of an event" })?;
    let cause = reader.text(a::CAUSE)?.map(|cause| {
        let wrong = InvalidRecord::Form { attribute: a::CAUSE, expected: "why an event is late" };
        LateCause::named(cause).ok_or(wrong)
    });
    Ok(EventRecord::stored(EventData {
        id: RecordId {
            workflow: reader.required(a::WORKFLOW)?.to_owned(),
            item: reader.required(a::ITEM)?.to_owned(),
        },
        workflow_name: reader.required(a::NAME)?.to_owned(),
        run: reader.required_moment(a::RUN)?,
        state,
        revision: reader.required(a::REVISION)?.to_owned(),
        wait: reader.wait()?,
        arrived: reader.arrived()?,
        cause: cause.transpose()?,
        ended_by: reader.owned(a::LOCKED_BY)?,
        intervention: reader.intervention()?,
    }))
}

/// Returns the item of a receipt, in the partition of the first version.
pub(crate) fn event_receipt_item(workflow: &str, place: &str, receipt: EventReceipt) -> Item {
    let mut item = Writer::at(workflow, place);
    item.put(a::KEY_VERSION, number(receipt.version));
    item.put(a::RUN, moment(receipt.run));
    item.item()
}

pub(crate) fn event_receipt_of(item: &Item) -> Result<EventReceipt, InvalidRecord> {
    let reader = Reader::of_ours(item)?;
    let missing = InvalidRecord::Missing { attribute: a::KEY_VERSION };
    let version = reader.number(a::KEY_VERSION)?.ok_or(missing)?;
    Ok(EventReceipt { version, run: reader.required_moment(a::RUN)? })
}

impl Reader<'_> {
    fn wait(&self) -> Result<Option<Waited>, InvalidRecord> {
        let Some(since) = self.moment(a::SINCE)? else { return Ok(None) };
        Ok(Some(Waited {
            since,
            until: self.required_moment(a::UNTIL)?,
            of_compensation: self.is_true(a::OF_COMPENSATION),
            former: self.is_true(a::FORMER),
            on_late: self.intent()?,
        }))
    }

    fn arrived(&self) -> Result<Option<Arrived>, InvalidRecord> {
        let Some(at) = self.moment(a::CREATED)? else { return Ok(None) };
        let missing = InvalidRecord::Missing { attribute: a::RESULT_CODEC };
        let value = self.result_inline()?.ok_or(missing)?;
        let by = self.required(a::SIGNALLED_BY)?.to_owned();
        Ok(Some(Arrived { identity: Identity { id: self.owned(a::EVENT_ID)?, value }, at, by }))
    }
}
