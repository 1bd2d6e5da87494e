//! Items as DynamoDB JSON, for stored samples and for the report of an item that failed a test.

use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::AttributeValue;
use serde_json::{Value, json};

use super::Item;

pub(crate) fn from_dynamodb_json(json: &Value) -> Item {
    let fields = json.as_object().expect("an object");
    fields.iter().map(|(name, value)| (name.clone(), value_of(value))).collect()
}

fn value_of(json: &Value) -> AttributeValue {
    let (kind, value) = json.as_object().and_then(|object| object.iter().next()).expect("a typed value");
    let string = |value: &Value| value.as_str().expect("text").to_owned();
    let list = |value: &Value| value.as_array().expect("a list").clone();
    match kind.as_str() {
        "S" => AttributeValue::S(string(value)),
        "N" => AttributeValue::N(string(value)),
        "B" => AttributeValue::B(Blob::new(hex::decode(string(value)).expect("hex, for a reader's sake"))),
        "BOOL" => AttributeValue::Bool(value.as_bool().expect("a truth")),
        "NULL" => AttributeValue::Null(true),
        "L" => AttributeValue::L(list(value).iter().map(value_of).collect()),
        "M" => AttributeValue::M(from_dynamodb_json(value)),
        "SS" => AttributeValue::Ss(list(value).iter().map(string).collect()),
        "NS" => AttributeValue::Ns(list(value).iter().map(string).collect()),
        other => panic!("no type {other}"),
    }
}

pub(crate) fn to_dynamodb_json(item: &Item) -> Value {
    item.iter().map(|(name, value)| (name.clone(), json_of(value))).collect()
}

fn json_of(value: &AttributeValue) -> Value {
    match value {
        AttributeValue::S(text) => json!({ "S": text }),
        AttributeValue::N(digits) => json!({ "N": digits }),
        AttributeValue::B(bytes) => json!({ "B": hex::encode(bytes) }),
        AttributeValue::Bool(truth) => json!({ "BOOL": truth }),
        AttributeValue::Null(_) => json!({ "NULL": true }),
        AttributeValue::L(items) => json!({ "L": items.iter().map(json_of).collect::<Vec<_>>() }),
        AttributeValue::M(fields) => json!({ "M": to_dynamodb_json(fields) }),
        AttributeValue::Ss(texts) => json!({ "SS": texts }),
        AttributeValue::Ns(numbers) => json!({ "NS": numbers }),
        other => json!(format!("{other:?}")),
    }
}
