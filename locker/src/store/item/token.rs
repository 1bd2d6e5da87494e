//! Conversion of tokens to items and back. Other software may have written an item: the result of a
//! conversion is a record or a clear error, never a guess.

use std::collections::HashMap;

use aws_sdk_dynamodb::types::AttributeValue;
use chrono::{DateTime, Utc};

use super::foreign_value;
use super::reader::Reader;
use super::value::{Item, moment, number, text};
use crate::core::answer::{Body, Encoded, REDACTED};
use crate::core::class::Class;
use crate::core::form::Form;
use crate::core::invalid::InvalidRecord;
use crate::core::key::Key;
use crate::core::retention::Retention;
use crate::core::shard;
use crate::core::token::record::{KeyUse, Record, Seen, StoredFingerprint, TokenState};
use crate::core::token::resolution::Resolution;
use crate::core::token::work::Work;
use crate::core::token::write::NewToken;
use crate::store::item::answer_value;
use crate::store::schema::attribute as a;

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
        put(a::FINGERPRINT, text(&fingerprint.text));
        if let Some(check) = &fingerprint.check {
            put(a::FINGERPRINT_CHECK, text(check));
        }
    }
    if let Some(form) = &token.form {
        put(a::FORM, text(form.as_str()));
    }
    if let Some(cause) = &token.cause {
        put(a::CLASS, text(Class::InDoubt.as_str()));
        put(a::CAUSE, text(cause));
    }
    if let Some(answer) = &token.held {
        put(a::ACTUAL_COMPLETION, moment(token.created));
        put(a::OUTCOME, text(a::FAILURE));
        put(a::RESULT_CODEC, text(answer.codec.name()));
        put(a::RESULT, answer_value(answer));
    }
    if token.key_use.version > 1 {
        put(a::KEY_VERSION, number(token.key_use.version));
    }
    if let Some(since) = token.key_use.since {
        put(a::KEY_SINCE, moment(since));
    }
    if let Retention::For(kept) = token.retention {
        put(a::RETENTION, number(kept.as_secs()));
    }
    if let Some(ttl) = token.ttl {
        put(a::TTL, number(ttl));
    }
    if let Some(attempt) = &token.taken_over_from {
        put(a::TAKEN_OVER_FROM, text(attempt));
    }
    if let Some(within) = &token.within {
        put(a::WITHIN, text(within.to_text()));
    }
    item
}

/// Reads a token's item.
pub(crate) fn to_record(item: &Item) -> Result<Record, InvalidRecord> {
    let reader = Reader::of(item)?;
    let version = reader.version()?;
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
    // A token that was taken over keeps the cause of the doubt until it ends.
    let is_open = matches!(state, TokenState::InProgress | TokenState::Held | TokenState::Released);
    let body = if matches!(state, TokenState::InProgress | TokenState::Released) {
        None
    } else {
        Some(reader.body(state, version.is_some())?)
    };
    Ok(Record {
        locked_by: reader.required(a::LOCKED_BY)?.to_owned(),
        created: reader.required_moment(a::CREATED)?,
        expected_completion: reader.required_moment(a::EXPECTED_COMPLETION)?,
        actual_completion: reader.moment(a::ACTUAL_COMPLETION)?,
        state,
        body,
        expires: reader.ttl()?,
        fingerprint: reader.fingerprint()?,
        form: reader.text(a::FORM)?.map(Form::stored),
        class: reader.text(a::CLASS)?.and_then(Class::named).filter(|_| is_open),
        cause: reader.owned(a::CAUSE)?.filter(|_| is_open),
        promised: reader.moment(a::PROMISED_COMPLETION)?,
        key_use: KeyUse {
            version: reader.number(a::KEY_VERSION)?.unwrap_or(1),
            since: reader.moment(a::KEY_SINCE)?,
        },
        retention: version.is_some().then(|| reader.retention()).transpose()?,
        taken_over_from: reader.owned(a::TAKEN_OVER_FROM)?,
        within: reader.text(a::WITHIN)?.and_then(Work::of_text),
        intervention: reader.intervention()?,
        resolution: reader.text(a::RESOLUTION)?.and_then(Resolution::named),
        seen: Seen {
            attempt: attempt.map(str::to_owned),
            status: reader.owned(a::STATUS)?,
            created: created.to_owned(),
            expected_completion: expected.to_owned(),
        },
        attempt: attempt.map(str::to_owned),
        key: Key::stored(key),
    })
}

impl<'a> Reader<'a> {
    fn fingerprint(&self) -> Result<Option<StoredFingerprint>, InvalidRecord> {
        let Some(text) = self.owned(a::FINGERPRINT)? else { return Ok(None) };
        Ok(Some(StoredFingerprint { text, check: self.owned(a::FINGERPRINT_CHECK)? }))
    }

    fn ttl(&self) -> Result<Option<DateTime<Utc>>, InvalidRecord> {
        let seconds: Option<i64> = self.number(a::TTL)?;
        // Milliseconds, which the article's library writes, lie tens of thousands of years ahead:
        // DynamoDB never deletes such an item, and neither do we count it as absent.
        let beyond =
            |seconds: i64| if seconds < 0 { DateTime::<Utc>::MIN_UTC } else { DateTime::<Utc>::MAX_UTC };
        Ok(seconds.map(|seconds| DateTime::from_timestamp(seconds, 0).unwrap_or_else(|| beyond(seconds))))
    }

    fn is_powertools(&self) -> bool {
        let status = self.get(a::STATUS).and_then(|status| status.as_s().ok());
        let theirs =
            status.is_some_and(|status| ["INPROGRESS", "COMPLETED", "EXPIRED"].contains(&status.as_str()));
        theirs && self.get(a::CREATED).is_none()
    }

    /// `ours`: the record has a version, so every attribute that this code writes must be there.
    fn state(&self, ours: bool) -> Result<TokenState, InvalidRecord> {
        if let Some(status) = self.text(a::STATUS)? {
            return match shard::base_of(status) {
                Some(shard::IN_PROGRESS | shard::UNLISTED) => Ok(TokenState::InProgress),
                Some(_) => Ok(TokenState::Held),
                None if shard::is_of(status, shard::AUDIT) => Err(InvalidRecord::Audit),
                None => Err(InvalidRecord::Form { attribute: a::STATUS, expected: "inProgress or error" }),
            };
        }
        if self.text(a::RESOLUTION)? == Some(a::RELEASED) {
            return Ok(TokenState::Released);
        }
        if self.get(a::ACTUAL_COMPLETION).is_none() {
            return Err(InvalidRecord::NoState);
        }
        match self.text(a::OUTCOME)? {
            Some(a::SUCCESS) => Ok(TokenState::Completed),
            Some(a::FAILURE) => Ok(TokenState::Failed),
            None if !ours => Ok(TokenState::Completed),
            None => Err(InvalidRecord::Missing { attribute: a::OUTCOME }),
            Some(_) => Err(InvalidRecord::Form { attribute: a::OUTCOME, expected: "success or failure" }),
        }
    }

    fn body(&self, state: TokenState, ours: bool) -> Result<Body, InvalidRecord> {
        if !ours {
            return self.foreign_body(state);
        }
        if self.text(a::RESULT_CODEC)? == Some(REDACTED) {
            return Ok(Body::Redacted);
        }
        let codec = self.codec(a::RESULT_CODEC)?;
        let codec = codec.ok_or(InvalidRecord::Missing { attribute: a::RESULT_CODEC })?;
        match (self.text(a::RESULT_ID)?, self.get(a::RESULT)) {
            (Some(id), None) => {
                let bytes = self.number(a::RESULT_BYTES)?;
                let bytes = bytes.ok_or(InvalidRecord::Missing { attribute: a::RESULT_BYTES })?;
                Ok(Body::Beside { codec, id: id.to_owned(), bytes })
            }
            (None, Some(_)) => self
                .encoded(a::RESULT, codec)
                .map(Body::Inline)
                .ok_or(InvalidRecord::Form { attribute: a::RESULT, expected: "encoded as resultCodec" }),
            _ => Err(InvalidRecord::Missing { attribute: a::RESULT }),
        }
    }

    /// The article's library stores a result as a native value, and a failure as text in `error`.
    fn foreign_body(&self, state: TokenState) -> Result<Body, InvalidRecord> {
        let attribute =
            if state == TokenState::Held && self.get(a::ERROR).is_some() { a::ERROR } else { a::RESULT };
        let none = AttributeValue::Null(true);
        let json = foreign_value::to_json(self.raw(attribute).unwrap_or(&none))
            .ok_or(InvalidRecord::Form { attribute, expected: "a value that JSON has" })?;
        Ok(Body::Inline(Encoded::plain(json)))
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
