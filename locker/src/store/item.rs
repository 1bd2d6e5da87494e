//! From a token to an item and back. Items may have been written by anybody: whatever they hold, the
//! outcome is a record or a clear error, never a guess.

use std::collections::HashMap;
use std::time::Duration;

use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::AttributeValue;
use chrono::{DateTime, Utc};

use super::attribute as a;
use super::native;
use crate::core::answer::{Body, Codec, Encoded};
use crate::core::key::Key;
use crate::core::record::{Intervention, Record, Seen, State, StoredFingerprint};
use crate::core::write::NewToken;
use crate::core::{shard, time};
use crate::settings::Retention;

pub(crate) type Item = HashMap<String, AttributeValue>;

/// Why a stored item is not a record that can be acted on.
///
/// It blocks its key until somebody has looked at the item itself, and has mended or deleted it.
/// It is never taken for an answer, nor for absent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidRecord {
    /// An attribute is missing.
    #[error("the stored record cannot be read: it has no {attribute}; have a person look at it")]
    Missing {
        /// Its name.
        attribute: &'static str,
    },
    /// An attribute has another type or form than it should.
    #[error("the stored record cannot be read: its {attribute} is not {expected}; have a person look at it")]
    Form {
        /// Its name.
        attribute: &'static str,
        /// What it should be.
        expected: &'static str,
    },
    /// It was written by a newer version of this library.
    #[error(
        "the stored record has version {version}, this code reads up to {known}; update the code that reads it"
    )]
    Version {
        /// Its version.
        version: u32,
        /// The newest that is read.
        known: u32,
    },
    /// It was written by Powertools for AWS Lambda.
    #[error(
        "the stored record was written by Powertools idempotency, which keeps no owner; give each library a table of its own"
    )]
    Powertools,
    /// It has neither a status nor a completion, so nobody knows what it is.
    #[error("the stored record has neither a status nor a completion; have a person look at it")]
    NoState,
}

pub(crate) fn text(value: impl Into<String>) -> AttributeValue {
    AttributeValue::S(value.into())
}

pub(crate) fn number(value: impl ToString) -> AttributeValue {
    AttributeValue::N(value.to_string())
}

pub(crate) fn moment(at: DateTime<Utc>) -> AttributeValue {
    text(time::to_text(at))
}

pub(crate) fn answer_value(encoded: &Encoded) -> AttributeValue {
    match (encoded.codec, encoded.bytes.clone()) {
        (Codec::Json, bytes) => match String::from_utf8(bytes) {
            Ok(json) => AttributeValue::S(json),
            Err(error) => AttributeValue::B(Blob::new(error.into_bytes())),
        },
        (Codec::Gzip, bytes) => AttributeValue::B(Blob::new(bytes)),
    }
}

pub(crate) fn key_of(key: &str) -> Item {
    HashMap::from([(a::LOCK_TOKEN.to_owned(), text(key))])
}

pub(crate) fn from_token(token: &NewToken) -> Item {
    let mut item = HashMap::with_capacity(9);
    let mut put = |name: &str, value: AttributeValue| item.insert(name.to_owned(), value);
    put(a::LOCK_TOKEN, text(token.key.as_str()));
    put(a::LOCKED_BY, text(&token.locked_by));
    put(a::ATTEMPT, text(&token.attempt));
    put(a::CREATED, moment(token.created));
    put(a::EXPECTED_COMPLETION, moment(token.expected_completion));
    put(a::STATUS, text(&token.status));
    put(a::VERSION, number(a::CURRENT_VERSION));
    if let Some(fingerprint) = &token.fingerprint {
        put(a::FINGERPRINT, text(fingerprint));
    }
    if let Retention::For(kept) = token.retention {
        put(a::RETENTION, number(kept.as_secs()));
    }
    if let Some(attempt) = &token.taken_over_from {
        put(a::TAKEN_OVER_FROM, text(attempt));
    }
    item
}

/// Read an item.
pub(crate) fn to_record(item: &Item) -> Result<Record, InvalidRecord> {
    let reader = Reader(item);
    let version = reader.version()?;
    if let Some(version) = version.filter(|version| *version > a::CURRENT_VERSION) {
        return Err(InvalidRecord::Version { version, known: a::CURRENT_VERSION });
    }
    if reader.is_powertools() {
        return Err(InvalidRecord::Powertools);
    }
    let key = reader.text(a::LOCK_TOKEN)?.or(reader.text(a::TOKEN)?);
    let key = key.ok_or(InvalidRecord::Missing { attribute: a::LOCK_TOKEN })?;
    let created = reader.required(a::CREATED)?;
    let expected = reader.required(a::EXPECTED_COMPLETION)?;
    let attempt = reader.text(a::ATTEMPT)?;
    if version.is_some() && attempt.is_none() {
        return Err(InvalidRecord::Missing { attribute: a::ATTEMPT });
    }
    let state = reader.state(version.is_some())?;
    let body = if matches!(state, State::InProgress | State::Released) {
        None
    } else {
        Some(reader.body(state, version.is_some())?)
    };
    Ok(Record {
        locked_by: reader.required(a::LOCKED_BY)?.to_owned(),
        created: reader.moment(a::CREATED)?.ok_or(InvalidRecord::Missing { attribute: a::CREATED })?,
        expected_completion: reader
            .moment(a::EXPECTED_COMPLETION)?
            .ok_or(InvalidRecord::Missing { attribute: a::EXPECTED_COMPLETION })?,
        actual_completion: reader.moment(a::ACTUAL_COMPLETION)?,
        state,
        body,
        expires: reader.ttl()?,
        fingerprint: reader.text(a::FINGERPRINT)?.map(|text| StoredFingerprint(text.to_owned())),
        retention: version.is_some().then(|| reader.retention()).transpose()?,
        taken_over_from: reader.text(a::TAKEN_OVER_FROM)?.map(str::to_owned),
        intervention: reader.intervention()?,
        seen: Seen {
            attempt: attempt.map(str::to_owned),
            status: reader.text(a::STATUS)?.map(str::to_owned),
            created: created.to_owned(),
            expected_completion: expected.to_owned(),
        },
        attempt: attempt.map(str::to_owned),
        key: Key::stored(key.to_owned()),
    })
}

/// Read the item that holds a large answer.
pub(crate) fn to_answer(item: &Item, codec: Codec) -> Option<Encoded> {
    let bytes = match (codec, item.get(a::RESULT)?) {
        (Codec::Json, AttributeValue::S(json)) => json.clone().into_bytes(),
        (Codec::Gzip, AttributeValue::B(packed)) => packed.as_ref().to_vec(),
        _ => return None,
    };
    Some(Encoded { codec, bytes })
}

struct Reader<'a>(&'a Item);

impl<'a> Reader<'a> {
    /// An attribute, where NULL counts as none: the article's library writes it.
    fn get(&self, name: &str) -> Option<&'a AttributeValue> {
        self.0.get(name).filter(|value| !value.is_null())
    }

    fn text(&self, attribute: &'static str) -> Result<Option<&'a str>, InvalidRecord> {
        match self.get(attribute) {
            None => Ok(None),
            Some(AttributeValue::S(text)) => Ok(Some(text)),
            Some(_) => Err(InvalidRecord::Form { attribute, expected: "text" }),
        }
    }

    fn required(&self, attribute: &'static str) -> Result<&'a str, InvalidRecord> {
        self.text(attribute)?.ok_or(InvalidRecord::Missing { attribute })
    }

    fn moment(&self, attribute: &'static str) -> Result<Option<DateTime<Utc>>, InvalidRecord> {
        let text = self.text(attribute)?;
        let wrong = InvalidRecord::Form { attribute, expected: "an RFC 3339 time" };
        text.map(|text| time::from_text(text).ok_or(wrong)).transpose()
    }

    fn whole_number<T: std::str::FromStr>(
        &self,
        attribute: &'static str,
    ) -> Result<Option<T>, InvalidRecord> {
        let wrong = InvalidRecord::Form { attribute, expected: "a whole number in range" };
        match self.get(attribute) {
            None => Ok(None),
            Some(AttributeValue::N(digits)) => digits.parse().map(Some).map_err(|_| wrong),
            Some(_) => Err(wrong),
        }
    }

    fn version(&self) -> Result<Option<u32>, InvalidRecord> {
        self.whole_number(a::VERSION)
    }

    fn ttl(&self) -> Result<Option<DateTime<Utc>>, InvalidRecord> {
        let seconds: Option<i64> = self.whole_number(a::TTL)?;
        // Milliseconds, which the article's library writes, lie tens of thousands of years ahead:
        // DynamoDB never deletes such an item, and neither do we count it as absent.
        let beyond =
            |seconds: i64| if seconds < 0 { DateTime::<Utc>::MIN_UTC } else { DateTime::<Utc>::MAX_UTC };
        Ok(seconds.map(|seconds| DateTime::from_timestamp(seconds, 0).unwrap_or_else(|| beyond(seconds))))
    }

    fn retention(&self) -> Result<Retention, InvalidRecord> {
        let seconds: Option<u64> = self.whole_number(a::RETENTION)?;
        Ok(seconds.map_or(Retention::Forever, |seconds| Retention::For(Duration::from_secs(seconds))))
    }

    fn is_powertools(&self) -> bool {
        let status = self.get(a::STATUS).and_then(|status| status.as_s().ok());
        let theirs =
            status.is_some_and(|status| ["INPROGRESS", "COMPLETED", "EXPIRED"].contains(&status.as_str()));
        theirs && self.get(a::CREATED).is_none()
    }

    /// `ours`: the record has a version, so every attribute that this code writes must be there.
    fn state(&self, ours: bool) -> Result<State, InvalidRecord> {
        if let Some(status) = self.text(a::STATUS)? {
            return match shard::base_of(status) {
                Some(shard::IN_PROGRESS) => Ok(State::InProgress),
                Some(_) => Ok(State::Failed),
                None => Err(InvalidRecord::Form { attribute: a::STATUS, expected: "inProgress or error" }),
            };
        }
        if self.text(a::RESOLUTION)? == Some(a::RELEASED) {
            return Ok(State::Released);
        }
        if self.moment(a::ACTUAL_COMPLETION)?.is_none() {
            return Err(InvalidRecord::NoState);
        }
        match self.text(a::OUTCOME)? {
            Some(a::SUCCESS) => Ok(State::Completed),
            Some(a::FAILURE) => Ok(State::CompletedErr),
            None if !ours => Ok(State::Completed),
            None => Err(InvalidRecord::Missing { attribute: a::OUTCOME }),
            Some(_) => Err(InvalidRecord::Form { attribute: a::OUTCOME, expected: "success or failure" }),
        }
    }

    fn body(&self, state: State, ours: bool) -> Result<Body, InvalidRecord> {
        if !ours {
            return self.foreign_body(state);
        }
        let codec = self.required(a::RESULT_CODEC)?;
        let wrong = InvalidRecord::Form { attribute: a::RESULT_CODEC, expected: "json or json+gzip" };
        let codec = Codec::named(codec).ok_or(wrong)?;
        match (self.text(a::RESULT_ID)?, self.get(a::RESULT)) {
            (Some(id), None) => {
                let bytes = self.whole_number(a::RESULT_BYTES)?;
                let bytes = bytes.ok_or(InvalidRecord::Missing { attribute: a::RESULT_BYTES })?;
                Ok(Body::Beside { codec, id: id.to_owned(), bytes })
            }
            (None, Some(_)) => to_answer(self.0, codec)
                .map(Body::Inline)
                .ok_or(InvalidRecord::Form { attribute: a::RESULT, expected: "what resultCodec says" }),
            _ => Err(InvalidRecord::Missing { attribute: a::RESULT }),
        }
    }

    /// The article's library stores a result as a native value, and a failure as text in `error`.
    fn foreign_body(&self, state: State) -> Result<Body, InvalidRecord> {
        let attribute =
            if state == State::Failed && self.get(a::ERROR).is_some() { a::ERROR } else { a::RESULT };
        let none = AttributeValue::Null(true);
        let json = native::to_json(self.0.get(attribute).unwrap_or(&none))
            .ok_or(InvalidRecord::Form { attribute, expected: "a value that JSON has" })?;
        Ok(Body::Inline(Encoded::plain(json)))
    }

    fn intervention(&self) -> Result<Option<Intervention>, InvalidRecord> {
        let Some(by) = self.text(a::RESOLVED_BY)? else { return Ok(None) };
        Ok(Some(Intervention {
            by: by.to_owned(),
            reason: self.required(a::RESOLVED_REASON)?.to_owned(),
            at: self.moment(a::RESOLVED_AT)?.ok_or(InvalidRecord::Missing { attribute: a::RESOLVED_AT })?,
        }))
    }
}

#[cfg(test)]
mod arbitrary;
#[cfg(test)]
mod dynamodb_json;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod round_trips;
