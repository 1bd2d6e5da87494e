//! The engine in the same process: an SDK request goes in, DynamoDB's reply comes out, at once.

use std::fmt;

use dynoxide::{Database, DynoxideError};
use serde::Serialize;
use serde_json::{Value, json};

/// One table of an embedded DynamoDB, without a server around it.
pub struct Memory(Database);

/// A reply as it goes over the wire.
#[derive(Debug, Clone)]
pub struct Reply {
    /// The HTTP status.
    pub status: u16,
    /// JSON.
    pub body: String,
}

/// The table of every scenario.
pub(super) const TABLE: &str = "locks";

impl Memory {
    /// An empty engine.
    #[must_use]
    pub fn new() -> Self {
        Self(Database::memory().expect("an engine"))
    }

    /// Do what a request asks.
    #[must_use]
    pub fn ask(&self, operation: &str, body: &[u8]) -> Reply {
        match self.dispatch(operation, body) {
            Ok(body) => Reply { status: 200, body },
            Err(error) => Reply { status: error.status_code(), body: error.to_json() },
        }
    }

    fn dispatch(&self, operation: &str, body: &[u8]) -> Result<String, DynoxideError> {
        let Self(database) = self;
        match operation {
            "PutItem" => text(&database.put_item(read(body)?)?),
            "UpdateItem" => text(&database.update_item(read(body)?)?),
            "DeleteItem" => text(&database.delete_item(read(body)?)?),
            "GetItem" => text(&database.get_item(read(body)?)?),
            "Query" => text(&database.query(read(body)?)?),
            "TransactWriteItems" => text(&database.transact_write_items(read(body)?)?),
            "BatchWriteItem" => text(&database.batch_write_item(read(body)?)?),
            "CreateTable" => text(&database.create_table(read(body)?)?),
            "DescribeTable" => text(&database.describe_table(read(body)?)?),
            "UpdateTimeToLive" => text(&database.update_time_to_live(read(body)?)?),
            "DescribeTimeToLive" => text(&database.describe_time_to_live(read(body)?)?),
            _ => Err(DynoxideError::SerializationException(format!("{operation} is not wired up"))),
        }
    }

    /// An item as it is stored, behind the library's back.
    pub(super) fn item(&self, key: &str) -> Option<Value> {
        let asked =
            json!({ "TableName": TABLE, "Key": { "lockToken": { "S": key } }, "ConsistentRead": true });
        let reply =
            self.0.get_item(serde_json::from_value(asked).expect("a request")).expect("an item or none");
        let mut reply = serde_json::to_value(reply).expect("JSON");
        reply.get_mut("Item").map(Value::take).filter(|item| !item.is_null())
    }

    /// Delete an item behind the library's back.
    pub(super) fn delete(&self, key: &str) {
        let asked = json!({ "TableName": TABLE, "Key": { "lockToken": { "S": key } } });
        self.0.delete_item(serde_json::from_value(asked).expect("a request")).expect("deleted");
    }
}

impl Default for Memory {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memory").finish_non_exhaustive()
    }
}

fn read<T: serde::de::DeserializeOwned>(body: &[u8]) -> Result<T, DynoxideError> {
    serde_json::from_slice(body).map_err(|error| DynoxideError::SerializationException(error.to_string()))
}

fn text<T: Serialize>(reply: &T) -> Result<String, DynoxideError> {
    serde_json::to_string(reply).map_err(|error| DynoxideError::InternalServerError(error.to_string()))
}
