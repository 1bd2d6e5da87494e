//! The values that attributes have, and the keys of the two tables.

use std::collections::HashMap;

use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::AttributeValue;
use chrono::{DateTime, Utc};

use crate::core::answer::{Codec, Encoded};
use crate::core::time;
use crate::store::schema::attribute as a;

pub(crate) type Item = HashMap<String, AttributeValue>;

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

/// The key of a token.
pub(crate) fn token_key(key: &str) -> Item {
    HashMap::from([(a::LOCK_TOKEN.to_owned(), text(key))])
}

/// The key of an item of a workflow.
pub(crate) fn item_key(workflow: &str, item: &str) -> Item {
    HashMap::from([(a::WORKFLOW.to_owned(), text(workflow)), (a::ITEM.to_owned(), text(item))])
}

/// Reads an encoded answer, result or input, in the form of its codec.
pub(crate) fn to_answer(item: &Item, attribute: &str, codec: Codec) -> Option<Encoded> {
    let bytes = match (codec, item.get(attribute)?) {
        (Codec::Json, AttributeValue::S(json)) => json.clone().into_bytes(),
        (Codec::Gzip, AttributeValue::B(packed)) => packed.as_ref().to_vec(),
        _ => return None,
    };
    Some(Encoded { codec, bytes })
}
