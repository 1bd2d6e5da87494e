//! From the record of a step to an item and back.

use aws_sdk_dynamodb::types::AttributeValue;

use super::reader::Reader;
use super::value::{Item, answer_value, moment, number, text};
use super::writer::Writer;
use crate::core::answer::Encoded;
use crate::core::invalid::InvalidRecord;
use crate::core::private::Private;
use crate::core::workflow::step::{
    Apart, Intent, RecordId, StepData, StepKind, StepRecord, StepResult, StepState, Versions,
};
use crate::store::schema::attribute as a;

pub(crate) fn record_item(record: &StepRecord) -> Item {
    let mut item = Writer::at(&record.id.workflow, &record.id.item);
    item.put(a::KIND, text(record.kind.as_str()));
    item.put(a::STATE, text(record.state.as_str()));
    item.put(a::REVISION, text(&record.revision));
    item.put(a::ATTEMPT, text(&record.attempt));
    item.put(a::LOCKED_BY, text(&record.owner));
    item.text(a::STARTED_FOR, record.started_for.as_deref());
    item.moment(a::RUN, record.run);
    item.put(a::CREATED, moment(record.created));
    item.put(a::EXPECTED_COMPLETION, moment(record.due));
    item.moment(a::ACTUAL_COMPLETION, record.ended);
    item.put(a::NUMBER, number(record.number));
    item.text(a::FINGERPRINT, record.input.as_deref());
    if record.key_version != 1 {
        item.put(a::KEY_VERSION, number(record.key_version));
    }
    if !record.settled.is_empty() {
        item.put(a::SETTLED, text(record.settled.to_string()));
    }
    if record.pivot {
        item.put(a::PIVOT, AttributeValue::Bool(true));
    }
    item.intent(record.compensation.as_ref());
    item.text(a::POINTS_TO, record.points_to.as_deref());
    match &record.result {
        Some(StepResult::Inline(result)) => {
            item.put(a::RESULT_CODEC, text(result.codec.name()));
            item.put(a::RESULT, answer_value(result));
        }
        Some(StepResult::Beside(Apart { id, codec, bytes, digest, .. })) => {
            item.put(a::RESULT_CODEC, text(codec.name()));
            item.put(a::RESULT_ID, text(id));
            item.put(a::RESULT_BYTES, number(bytes));
            item.put(a::RESULT_DIGEST, text(digest));
        }
        None => {}
    }
    if let Some(ttl) = record.ttl {
        item.put(a::TTL, number(ttl));
    }
    item.intervention(record.intervention.as_ref());
    item.item()
}

pub(crate) fn record_of(item: &Item) -> Result<StepRecord, InvalidRecord> {
    let reader = Reader::of_ours(item)?;
    let kind = StepKind::named(reader.required(a::KIND)?)
        .ok_or(InvalidRecord::Form { attribute: a::KIND, expected: "a kind of step" })?;
    let state = StepState::named(reader.required(a::STATE)?)
        .ok_or(InvalidRecord::Form { attribute: a::STATE, expected: "the state of a step" })?;
    let result = reader.result_of_step()?;
    let due = reader.required_moment(a::EXPECTED_COMPLETION)?;
    Ok(StepRecord::stored(StepData {
        id: RecordId {
            workflow: reader.required(a::WORKFLOW)?.to_owned(),
            item: reader.required(a::ITEM)?.to_owned(),
        },
        kind,
        state,
        revision: reader.required(a::REVISION)?.to_owned(),
        attempt: reader.required(a::ATTEMPT)?.to_owned(),
        owner: reader.required(a::LOCKED_BY)?.to_owned(),
        started_for: reader.owned(a::STARTED_FOR)?,
        run: reader.moment(a::RUN)?,
        created: reader.required_moment(a::CREATED)?,
        due,
        ended: reader.moment(a::ACTUAL_COMPLETION)?,
        number: reader.number(a::NUMBER)?.unwrap_or_default(),
        input: reader.owned(a::FINGERPRINT)?,
        key_version: reader.number(a::KEY_VERSION)?.unwrap_or(1),
        settled: reader.settled()?,
        pivot: reader.is_true(a::PIVOT),
        compensation: reader.intent()?,
        points_to: reader.owned(a::POINTS_TO)?,
        result,
        ttl: reader.number(a::TTL)?,
        intervention: reader.intervention()?,
    }))
}

impl Reader<'_> {
    fn result_of_step(&self) -> Result<Option<StepResult>, InvalidRecord> {
        let Some(id) = self.owned(a::RESULT_ID)? else {
            return Ok(self.result_inline()?.map(StepResult::Inline));
        };
        let missing = InvalidRecord::Form { attribute: a::RESULT_CODEC, expected: "json or json+gzip" };
        Ok(Some(StepResult::Beside(Apart {
            id,
            codec: self.codec(a::RESULT_CODEC)?.ok_or(missing)?,
            bytes: self.number(a::RESULT_BYTES)?.unwrap_or_default(),
            digest: self.required(a::RESULT_DIGEST)?.to_owned(),
            held: None,
        })))
    }

    pub(super) fn result_inline(&self) -> Result<Option<Encoded>, InvalidRecord> {
        let Some(codec) = self.codec(a::RESULT_CODEC)? else { return Ok(None) };
        let wrong = InvalidRecord::Form { attribute: a::RESULT, expected: "encoded as resultCodec" };
        self.encoded(a::RESULT, codec).map(Some).ok_or(wrong)
    }

    fn settled(&self) -> Result<Versions, InvalidRecord> {
        let Some(text) = self.owned(a::SETTLED)? else { return Ok(Versions::default()) };
        text.parse()
            .map_err(|()| InvalidRecord::Form { attribute: a::SETTLED, expected: "versions, such as 1-3,7" })
    }

    pub(super) fn intent(&self) -> Result<Option<Intent>, InvalidRecord> {
        let Some(name) = self.owned(a::COMPENSATION)? else { return Ok(None) };
        Ok(Some(Intent {
            name,
            input: Private(self.required(a::COMPENSATION_INPUT)?.to_owned()),
            recognised: self.number(a::COMPENSATION_RECOGNISED)?.unwrap_or_default(),
        }))
    }
}
