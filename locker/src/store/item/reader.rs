//! Reading an item of either table, attribute by attribute.

#![cfg_attr(not(feature = "workflow"), allow(dead_code, reason = "only workflows use all of it"))]

use std::str::FromStr;
use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use chrono::{DateTime, Utc};

use super::value::{Item, to_answer};
use crate::core::answer::{Codec, Encoded};
use crate::core::invalid::InvalidRecord;
use crate::core::retention::Retention;
use crate::core::time;
use crate::core::token::record::Intervention;
use crate::store::schema::attribute as a;

/// An item to read. An absent attribute is `None`. An attribute of another type or form is an
/// error.
pub(crate) struct Reader<'a> {
    item: &'a Item,
    /// The library of the article writes NULL for an absent value.
    null_is_none: bool,
}

impl<'a> Reader<'a> {
    /// Reads an item of any writer. Newer layouts are refused.
    pub(crate) fn of(item: &'a Item) -> Result<Self, InvalidRecord> {
        let reader = Self { item, null_is_none: true };
        match reader.version()? {
            Some(version) if version > a::CURRENT_VERSION => {
                Err(InvalidRecord::Version { version, known: a::CURRENT_VERSION })
            }
            _ => Ok(reader),
        }
    }

    /// Reads an item that only this library writes.
    pub(crate) fn of_ours(item: &'a Item) -> Result<Self, InvalidRecord> {
        let reader = Self { item, null_is_none: false };
        let known = a::WORKFLOW_VERSION;
        match reader.version()? {
            Some(version) if version > known => Err(InvalidRecord::Version { version, known }),
            Some(version) if version < known => Err(InvalidRecord::Outdated { version, known }),
            Some(_) => Ok(reader),
            None => Err(InvalidRecord::Missing { attribute: a::VERSION }),
        }
    }

    pub(crate) fn version(&self) -> Result<Option<u32>, InvalidRecord> {
        self.number(a::VERSION)
    }

    /// Returns an attribute as stored, including NULL.
    pub(crate) fn raw(&self, name: &str) -> Option<&'a AttributeValue> {
        self.item.get(name)
    }

    /// Returns an attribute, if the item has it.
    pub(crate) fn get(&self, name: &str) -> Option<&'a AttributeValue> {
        self.item.get(name).filter(|value| !(self.null_is_none && value.is_null()))
    }

    pub(crate) fn text(&self, attribute: &'static str) -> Result<Option<&'a str>, InvalidRecord> {
        match self.get(attribute) {
            None => Ok(None),
            Some(AttributeValue::S(text)) => Ok(Some(text)),
            Some(_) => Err(InvalidRecord::Form { attribute, expected: "text" }),
        }
    }

    pub(crate) fn owned(&self, attribute: &'static str) -> Result<Option<String>, InvalidRecord> {
        Ok(self.text(attribute)?.map(str::to_owned))
    }

    pub(crate) fn required(&self, attribute: &'static str) -> Result<&'a str, InvalidRecord> {
        self.text(attribute)?.ok_or(InvalidRecord::Missing { attribute })
    }

    pub(crate) fn moment(&self, attribute: &'static str) -> Result<Option<DateTime<Utc>>, InvalidRecord> {
        let wrong = InvalidRecord::Form { attribute, expected: "an RFC 3339 time" };
        self.text(attribute)?.map(|text| time::from_text(text).ok_or(wrong)).transpose()
    }

    pub(crate) fn required_moment(&self, attribute: &'static str) -> Result<DateTime<Utc>, InvalidRecord> {
        self.moment(attribute)?.ok_or(InvalidRecord::Missing { attribute })
    }

    pub(crate) fn number<T: FromStr>(&self, attribute: &'static str) -> Result<Option<T>, InvalidRecord> {
        let wrong = InvalidRecord::Form { attribute, expected: "a whole number in range" };
        match self.get(attribute) {
            None => Ok(None),
            Some(AttributeValue::N(digits)) => digits.parse().map(Some).map_err(|_| wrong),
            Some(_) => Err(wrong),
        }
    }

    pub(crate) fn is_true(&self, attribute: &str) -> bool {
        matches!(self.get(attribute), Some(AttributeValue::Bool(true)))
    }

    pub(crate) fn codec(&self, attribute: &'static str) -> Result<Option<Codec>, InvalidRecord> {
        let wrong = InvalidRecord::Form { attribute, expected: "json or json+gzip" };
        self.text(attribute)?.map(|name| Codec::named(name).ok_or(wrong)).transpose()
    }

    /// Returns the encoded value of an attribute in the form of its codec.
    pub(crate) fn encoded(&self, attribute: &'static str, codec: Codec) -> Option<Encoded> {
        to_answer(self.item, attribute, codec)
    }

    pub(crate) fn retention(&self) -> Result<Retention, InvalidRecord> {
        let seconds: Option<u64> = self.number(a::RETENTION)?;
        Ok(seconds.map_or(Retention::Forever, |seconds| Retention::For(Duration::from_secs(seconds))))
    }

    pub(crate) fn intervention(&self) -> Result<Option<Intervention>, InvalidRecord> {
        let Some(by) = self.owned(a::RESOLVED_BY)? else { return Ok(None) };
        Ok(Some(Intervention {
            by,
            reason: self.required(a::RESOLVED_REASON)?.to_owned(),
            at: self.required_moment(a::RESOLVED_AT)?,
        }))
    }
}
