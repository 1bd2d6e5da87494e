//! DynamoDB's native values as JSON, with numbers kept digit by digit.

use std::collections::BTreeMap;

use aws_sdk_dynamodb::types::AttributeValue;
use serde_json::Number;

/// The JSON of a value; `None` for sets and bytes, which JSON does not have.
pub(crate) fn to_json(value: &AttributeValue) -> Option<String> {
    let mut json = String::new();
    write(value, &mut json)?;
    Some(json)
}

fn write(value: &AttributeValue, json: &mut String) -> Option<()> {
    match value {
        AttributeValue::Null(_) => json.push_str("null"),
        AttributeValue::Bool(truth) => json.push_str(if *truth { "true" } else { "false" }),
        AttributeValue::S(text) => json.push_str(&serde_json::to_string(text).ok()?),
        // Unchanged: DynamoDB keeps 38 digits, and a double would round them.
        AttributeValue::N(digits) => {
            digits.parse::<Number>().ok()?;
            json.push_str(digits);
        }
        AttributeValue::L(items) => {
            json.push('[');
            for (index, item) in items.iter().enumerate() {
                json.push_str(if index == 0 { "" } else { "," });
                write(item, json)?;
            }
            json.push(']');
        }
        AttributeValue::M(fields) => {
            json.push('{');
            for (index, (name, value)) in fields.iter().collect::<BTreeMap<_, _>>().into_iter().enumerate() {
                json.push_str(if index == 0 { "" } else { "," });
                json.push_str(&serde_json::to_string(name).ok()?);
                json.push(':');
                write(value, json)?;
            }
            json.push('}');
        }
        _ => return None,
    }
    Some(())
}
