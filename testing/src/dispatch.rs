//! Calls the engine by the name of an operation and its JSON.

use dynoxide::{Database, DynoxideError, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;

pub(crate) fn dispatch(database: &Database, operation: &str, body: &[u8]) -> Result<String> {
    let done = match operation {
        "BatchExecuteStatement" => read(body).and_then(|asked| text(database.batch_execute_statement(asked))),
        "BatchGetItem" => read(body).and_then(|asked| text(database.batch_get_item(asked))),
        "BatchWriteItem" => read(body).and_then(|asked| text(database.batch_write_item(asked))),
        "CreateTable" => read(body).and_then(|asked| text(database.create_table(asked))),
        "DeleteItem" => read(body).and_then(|asked| text(database.delete_item(asked))),
        "DeleteTable" => read(body).and_then(|asked| text(database.delete_table(asked))),
        "DescribeTable" => read(body).and_then(|asked| text(database.describe_table(asked))),
        "DescribeTimeToLive" => read(body).and_then(|asked| text(database.describe_time_to_live(asked))),
        "ExecuteStatement" => read(body).and_then(|asked| text(database.execute_statement(asked))),
        "ExecuteTransaction" => read(body).and_then(|asked| text(database.execute_transaction(asked))),
        "GetItem" => read(body).and_then(|asked| text(database.get_item(asked))),
        "ListTables" => read(body).and_then(|asked| text(database.list_tables(asked))),
        "PutItem" => read(body).and_then(|asked| text(database.put_item(asked))),
        "Query" => read(body).and_then(|asked| text(database.query(asked))),
        "Scan" => read(body).and_then(|asked| text(database.scan(asked))),
        "TransactGetItems" => read(body).and_then(|asked| text(database.transact_get_items(asked))),
        "TransactWriteItems" => read(body).and_then(|asked| text(database.transact_write_items(asked))),
        "UpdateItem" => read(body).and_then(|asked| text(database.update_item(asked))),
        "UpdateTable" => read(body).and_then(|asked| text(database.update_table(asked))),
        "UpdateTimeToLive" => read(body).and_then(|asked| text(database.update_time_to_live(asked))),
        _ => {
            let unknown = format!("the embedded DynamoDB has no operation {operation}");
            return Err(DynoxideError::ValidationException(unknown));
        }
    };
    done.map_err(|error| enveloped(operation, error))
}

fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T> {
    serde_json::from_slice(body).map_err(|error| refused(&error.to_string()))
}

fn text<T: Serialize>(reply: Result<T>) -> Result<String> {
    serde_json::to_string(&reply?).map_err(|error| DynoxideError::InternalServerError(error.to_string()))
}

/// Returns the error of a request that the engine's types reject. Their text begins with the class
/// of the error, which only the engine's own server parses.
fn refused(said: &str) -> DynoxideError {
    type Class = fn(String) -> DynoxideError;
    const CLASSES: [(&str, Class); 5] = [
        ("SERIALIZATION_AS_READ:", DynoxideError::SerializationException),
        ("VALIDATION_AS_READ:", DynoxideError::ValidationException),
        ("SERIALIZATION:", DynoxideError::SerializationException),
        ("VALIDATION_REQUEST:", DynoxideError::EnvelopedValidation),
        ("VALIDATION:", DynoxideError::ValidationException),
    ];
    for (class, error) in CLASSES {
        if let Some(text) = said.strip_prefix(class) {
            let text = if class.contains("AS_READ") { text } else { without_position(text) };
            return error(text.to_owned());
        }
    }
    if said.contains("empty AttributeValue") {
        let empty = "Supplied AttributeValue is empty, must contain exactly one of the supported datatypes";
        return DynoxideError::ValidationException(empty.to_owned());
    }
    let is_validation = ["missing field", "unknown variant", "invalid type: null", "Supplied AttributeValue"];
    if is_validation.iter().any(|text| said.contains(text)) {
        return DynoxideError::ValidationException(without_position(said).to_owned());
    }
    DynoxideError::SerializationException(said.to_owned())
}

/// Removes the position that `serde_json` adds.
fn without_position(said: &str) -> &str {
    said.rfind(" at line ").map_or(said, |at| &said[..at])
}

/// Adds the text that DynamoDB puts around some refusals of these writes.
fn enveloped(operation: &str, error: DynoxideError) -> DynoxideError {
    match (operation, error) {
        ("PutItem" | "UpdateItem" | "DeleteItem", DynoxideError::EnvelopedValidation(text)) => {
            DynoxideError::ValidationException(format!("1 validation error detected: {text}"))
        }
        (_, error) => error,
    }
}
