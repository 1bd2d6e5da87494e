//! From a header or a record to an item and back. What cannot be read is a clear error, never a guess.

use std::collections::HashMap;
use std::str::FromStr;
use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use chrono::{DateTime, Utc};

use super::attribute as w;
use crate::core::answer::{Body, Codec, Encoded};
use crate::core::record::Intervention;
use crate::core::time;
use crate::core::workflow::header::{Header, Listed, WorkflowState};
use crate::core::workflow::record::{HEADER, Intent, RecordId, StepKind, StepRecord, StepState};
use crate::settings::Retention;
use crate::store::attribute as a;
use crate::store::item::{InvalidRecord, Item, answer_value, moment, number, text, to_answer};

/// An item under construction.
#[derive(Default)]
struct Writer(Item);

impl Writer {
    fn at(workflow: &str, item: &str) -> Self {
        let mut writer = Self(HashMap::with_capacity(20));
        writer.put(w::WORKFLOW, text(workflow));
        writer.put(w::ITEM, text(item));
        writer.put(a::VERSION, number(a::CURRENT_VERSION));
        writer
    }

    fn put(&mut self, name: &str, value: AttributeValue) {
        self.0.insert(name.to_owned(), value);
    }

    fn text(&mut self, name: &str, value: Option<&str>) {
        if let Some(value) = value {
            self.put(name, text(value));
        }
    }

    fn moment(&mut self, name: &str, value: Option<DateTime<Utc>>) {
        if let Some(value) = value {
            self.put(name, moment(value));
        }
    }

    fn person(&mut self, person: Option<&Intervention>) {
        if let Some(person) = person {
            self.put(a::RESOLVED_BY, text(&person.by));
            self.put(a::RESOLVED_REASON, text(&person.reason));
            self.put(a::RESOLVED_AT, moment(person.at));
        }
    }
}

pub(crate) fn header_item(header: &Header, shards: u16) -> Item {
    let mut item = Writer::at(&header.workflow, HEADER);
    item.put(w::NAME, text(&header.name));
    item.put(w::STATE, text(header.state.as_str()));
    if let Some(listed) = header.listed {
        let status = crate::core::shard::status(listed.base(), &header.workflow, shards);
        item.put(a::STATUS, text(status));
    }
    item.put(w::NEXT_DUE, moment(header.next_due));
    item.put(w::REVISION, text(&header.revision));
    item.put(a::ATTEMPT, text(&header.attempt));
    item.text(a::LOCKED_BY, header.locked_by.as_deref());
    item.put(w::ATTEMPTS, number(header.attempts));
    item.put(a::CREATED, moment(header.created));
    item.moment(a::ACTUAL_COMPLETION, header.ended);
    item.text(a::FINGERPRINT, header.fingerprint.as_deref());
    match &header.input {
        Some(Body::Inline(encoded)) => {
            item.put(w::INPUT_CODEC, text(encoded.codec.name()));
            item.put(w::INPUT, answer_value(encoded));
        }
        Some(Body::Beside { codec, id, .. }) => {
            item.put(w::INPUT_CODEC, text(codec.name()));
            item.put(w::INPUT_ID, text(id));
        }
        None => {}
    }
    if let Some(Body::Beside { codec, id, bytes }) = &header.result {
        item.put(a::RESULT_CODEC, text(codec.name()));
        item.put(a::RESULT_ID, text(id));
        item.put(a::RESULT_BYTES, number(bytes));
    }
    item.text(w::ENDING, header.ending.map(WorkflowState::as_str));
    item.text(w::REASON, header.reason.as_deref());
    item.put(w::EXPECTED, number(header.expected.as_secs()));
    if let Retention::For(kept) = header.retention {
        item.put(a::RETENTION, number(kept.as_secs()));
    }
    if header.key_version > 1 {
        item.put(w::KEY_VERSION, number(header.key_version));
    }
    item.person(header.intervention.as_ref());
    item.0
}

pub(crate) fn header_of(item: &Item) -> Result<Header, InvalidRecord> {
    let reader = Reader::of(item)?;
    let state = reader.required(w::STATE)?;
    let expected = InvalidRecord::Form { attribute: w::STATE, expected: "the state of a workflow" };
    let listed = match reader.text(a::STATUS)? {
        None => None,
        Some(status) => Some(Listed::of_status(status).ok_or(InvalidRecord::Form {
            attribute: a::STATUS,
            expected: "unfinished, quarantine or finished",
        })?),
    };
    Ok(Header {
        workflow: reader.required(w::WORKFLOW)?.to_owned(),
        name: reader.required(w::NAME)?.to_owned(),
        state: WorkflowState::named(state).ok_or(expected)?,
        listed,
        next_due: reader.required_moment(w::NEXT_DUE)?,
        revision: reader.required(w::REVISION)?.to_owned(),
        attempt: reader.required(a::ATTEMPT)?.to_owned(),
        locked_by: reader.owned(a::LOCKED_BY)?,
        attempts: reader.number(w::ATTEMPTS)?.unwrap_or_default(),
        created: reader.required_moment(a::CREATED)?,
        ended: reader.moment(a::ACTUAL_COMPLETION)?,
        fingerprint: reader.owned(a::FINGERPRINT)?,
        input: reader.input()?,
        result: reader.result_beside()?,
        ending: reader.text(w::ENDING)?.and_then(WorkflowState::named),
        reason: reader.owned(w::REASON)?,
        expected: Duration::from_secs(reader.number(w::EXPECTED)?.unwrap_or(60)),
        retention: reader
            .number(a::RETENTION)?
            .map_or(Retention::Forever, |seconds| Retention::For(Duration::from_secs(seconds))),
        key_version: reader.number(w::KEY_VERSION)?.unwrap_or(1),
        intervention: reader.person()?,
    })
}

pub(crate) fn record_item(record: &StepRecord) -> Item {
    let mut item = Writer::at(&record.id.workflow, &record.id.item);
    item.put(w::KIND, text(record.kind.as_str()));
    item.put(w::STATE, text(record.state.as_str()));
    item.put(w::REVISION, text(&record.revision));
    item.put(a::ATTEMPT, text(&record.attempt));
    item.put(a::LOCKED_BY, text(&record.owner));
    item.text(w::STARTED_FOR, record.started_for.as_deref());
    item.put(a::CREATED, moment(record.created));
    item.put(a::EXPECTED_COMPLETION, moment(record.due));
    item.moment(a::ACTUAL_COMPLETION, record.ended);
    item.put(w::NUMBER, number(record.number));
    item.text(a::FINGERPRINT, record.input.as_deref());
    if record.key_version != 1 {
        item.put(w::KEY_VERSION, number(record.key_version));
    }
    if record.pivot {
        item.put(w::PIVOT, AttributeValue::Bool(true));
    }
    if let Some(undo) = &record.undo {
        item.put(w::UNDO, text(&undo.name));
        item.put(w::UNDO_INPUT, text(&undo.input));
        if undo.recognised > 0 {
            item.put(w::UNDO_RECOGNISED, number(undo.recognised));
        }
    }
    item.text(w::POINTS_TO, record.points_to.as_deref());
    if let Some(result) = &record.result {
        item.put(a::RESULT_CODEC, text(result.codec.name()));
        item.put(a::RESULT, answer_value(result));
    }
    if let Some(ttl) = record.ttl {
        item.put(a::TTL, number(ttl));
    }
    item.person(record.intervention.as_ref());
    item.0
}

pub(crate) fn record_of(item: &Item) -> Result<StepRecord, InvalidRecord> {
    let reader = Reader::of(item)?;
    let kind = StepKind::named(reader.required(w::KIND)?)
        .ok_or(InvalidRecord::Form { attribute: w::KIND, expected: "a kind of step" })?;
    let state = StepState::named(reader.required(w::STATE)?)
        .ok_or(InvalidRecord::Form { attribute: w::STATE, expected: "the state of a step" })?;
    let result = reader.result_inline()?;
    let due = reader.required_moment(a::EXPECTED_COMPLETION)?;
    Ok(StepRecord {
        id: RecordId {
            workflow: reader.required(w::WORKFLOW)?.to_owned(),
            item: reader.required(w::ITEM)?.to_owned(),
        },
        kind,
        state,
        revision: reader.required(w::REVISION)?.to_owned(),
        attempt: reader.required(a::ATTEMPT)?.to_owned(),
        owner: reader.required(a::LOCKED_BY)?.to_owned(),
        started_for: reader.owned(w::STARTED_FOR)?,
        created: reader.required_moment(a::CREATED)?,
        due,
        ended: reader.moment(a::ACTUAL_COMPLETION)?,
        number: reader.number(w::NUMBER)?.unwrap_or_default(),
        input: reader.owned(a::FINGERPRINT)?,
        key_version: reader.number(w::KEY_VERSION)?.unwrap_or(1),
        pivot: matches!(item.get(w::PIVOT), Some(AttributeValue::Bool(true))),
        undo: reader.intent()?,
        points_to: reader.owned(w::POINTS_TO)?,
        result,
        ttl: reader.number(a::TTL)?,
        intervention: reader.person()?,
    })
}

/// An input or an answer in an item of its own.
pub(crate) fn beside_item(workflow: &str, item: &str, encoded: &Encoded) -> Item {
    let mut writer = Writer::at(workflow, item);
    writer.put(a::RESULT_CODEC, text(encoded.codec.name()));
    writer.put(a::RESULT, answer_value(encoded));
    writer.0
}

/// A message that was committed with a step, and is to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Message {
    pub(crate) id: RecordId,
    pub(crate) topic: String,
    /// JSON.
    pub(crate) body: String,
    pub(crate) created: DateTime<Utc>,
}

pub(crate) fn message_item(message: &Message) -> Item {
    let mut item = Writer::at(&message.id.workflow, &message.id.item);
    item.put(w::TOPIC, text(&message.topic));
    item.put(w::BODY, text(&message.body));
    item.put(a::CREATED, moment(message.created));
    item.0
}

pub(crate) fn message_of(item: &Item) -> Result<Message, InvalidRecord> {
    let reader = Reader::of(item)?;
    Ok(Message {
        id: RecordId {
            workflow: reader.required(w::WORKFLOW)?.to_owned(),
            item: reader.required(w::ITEM)?.to_owned(),
        },
        topic: reader.required(w::TOPIC)?.to_owned(),
        body: reader.required(w::BODY)?.to_owned(),
        created: reader.required_moment(a::CREATED)?,
    })
}

/// What stays of a workflow that was forgotten.
#[derive(Debug, Clone)]
pub(crate) struct LedgerEntry<'a> {
    pub(crate) header: &'a Header,
    pub(crate) steps: usize,
    pub(crate) at: DateTime<Utc>,
    pub(crate) ttl: Option<i64>,
}

pub(crate) fn ledger_item(entry: &LedgerEntry<'_>) -> Item {
    let header = entry.header;
    let sort = format!("{}{}", crate::core::workflow::record::LEDGER, time::to_text(header.created));
    let mut item = Writer::at(&header.workflow, &sort);
    item.put(w::NAME, text(&header.name));
    item.put(w::STATE, text(header.ending.unwrap_or(header.state).as_str()));
    item.put(a::CREATED, moment(header.created));
    item.moment(a::ACTUAL_COMPLETION, header.ended);
    item.put(w::ATTEMPTS, number(header.attempts));
    item.put(w::STEPS, number(entry.steps));
    item.put("forgotten", moment(entry.at));
    item.text(a::FINGERPRINT, header.fingerprint.as_deref());
    item.person(header.intervention.as_ref());
    if let Some(ttl) = entry.ttl {
        item.put(a::TTL, number(ttl));
    }
    item.0
}

struct Reader<'a>(&'a Item);

impl<'a> Reader<'a> {
    fn of(item: &'a Item) -> Result<Self, InvalidRecord> {
        let reader = Self(item);
        match reader.number::<u32>(a::VERSION)? {
            None => Err(InvalidRecord::Missing { attribute: a::VERSION }),
            Some(version) if version > a::CURRENT_VERSION => {
                Err(InvalidRecord::Version { version, known: a::CURRENT_VERSION })
            }
            Some(_) => Ok(reader),
        }
    }

    fn text(&self, attribute: &'static str) -> Result<Option<&'a str>, InvalidRecord> {
        match self.0.get(attribute) {
            None => Ok(None),
            Some(AttributeValue::S(text)) => Ok(Some(text)),
            Some(_) => Err(InvalidRecord::Form { attribute, expected: "text" }),
        }
    }

    fn owned(&self, attribute: &'static str) -> Result<Option<String>, InvalidRecord> {
        Ok(self.text(attribute)?.map(str::to_owned))
    }

    fn required(&self, attribute: &'static str) -> Result<&'a str, InvalidRecord> {
        self.text(attribute)?.ok_or(InvalidRecord::Missing { attribute })
    }

    fn moment(&self, attribute: &'static str) -> Result<Option<DateTime<Utc>>, InvalidRecord> {
        let wrong = InvalidRecord::Form { attribute, expected: "an RFC 3339 time" };
        self.text(attribute)?.map(|text| time::from_text(text).ok_or(wrong)).transpose()
    }

    fn required_moment(&self, attribute: &'static str) -> Result<DateTime<Utc>, InvalidRecord> {
        self.moment(attribute)?.ok_or(InvalidRecord::Missing { attribute })
    }

    fn number<T: FromStr>(&self, attribute: &'static str) -> Result<Option<T>, InvalidRecord> {
        let wrong = InvalidRecord::Form { attribute, expected: "a whole number in range" };
        match self.0.get(attribute) {
            None => Ok(None),
            Some(AttributeValue::N(digits)) => digits.parse().map(Some).map_err(|_| wrong),
            Some(_) => Err(wrong),
        }
    }

    fn codec(&self, attribute: &'static str) -> Result<Option<Codec>, InvalidRecord> {
        let wrong = InvalidRecord::Form { attribute, expected: "json or json+gzip" };
        self.text(attribute)?.map(|name| Codec::named(name).ok_or(wrong)).transpose()
    }

    fn input(&self) -> Result<Option<Body>, InvalidRecord> {
        let Some(codec) = self.codec(w::INPUT_CODEC)? else { return Ok(None) };
        if let Some(id) = self.owned(w::INPUT_ID)? {
            return Ok(Some(Body::Beside { codec, id, bytes: 0 }));
        }
        let bytes = match (codec, self.0.get(w::INPUT)) {
            (Codec::Json, Some(AttributeValue::S(json))) => json.clone().into_bytes(),
            (Codec::Gzip, Some(AttributeValue::B(packed))) => packed.as_ref().to_vec(),
            _ => return Err(InvalidRecord::Form { attribute: w::INPUT, expected: "what inputCodec says" }),
        };
        Ok(Some(Body::Inline(Encoded { codec, bytes })))
    }

    fn result_inline(&self) -> Result<Option<Encoded>, InvalidRecord> {
        let Some(codec) = self.codec(a::RESULT_CODEC)? else { return Ok(None) };
        let wrong = InvalidRecord::Form { attribute: a::RESULT, expected: "what resultCodec says" };
        to_answer(self.0, codec).map(Some).ok_or(wrong)
    }

    fn result_beside(&self) -> Result<Option<Body>, InvalidRecord> {
        let Some(codec) = self.codec(a::RESULT_CODEC)? else { return Ok(None) };
        let id = self.required(a::RESULT_ID)?.to_owned();
        Ok(Some(Body::Beside { codec, id, bytes: self.number(a::RESULT_BYTES)?.unwrap_or_default() }))
    }

    fn intent(&self) -> Result<Option<Intent>, InvalidRecord> {
        let Some(name) = self.owned(w::UNDO)? else { return Ok(None) };
        Ok(Some(Intent {
            name,
            input: self.required(w::UNDO_INPUT)?.to_owned(),
            recognised: self.number(w::UNDO_RECOGNISED)?.unwrap_or_default(),
        }))
    }

    fn person(&self) -> Result<Option<Intervention>, InvalidRecord> {
        let Some(by) = self.owned(a::RESOLVED_BY)? else { return Ok(None) };
        Ok(Some(Intervention {
            by,
            reason: self.required(a::RESOLVED_REASON)?.to_owned(),
            at: self.required_moment(a::RESOLVED_AT)?,
        }))
    }
}

#[cfg(test)]
mod properties;
