//! The engine in the same process and on the same thread: a request goes in, DynamoDB's reply comes
//! out, at once.

use lock_token_testing::Database;
pub use lock_token_testing::Reply;
use serde_json::{Value, json};

/// One table of an embedded DynamoDB, without a server around it.
#[derive(Debug)]
pub struct Memory(Database);

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
        self.0.ask(operation, body)
    }

    /// An item as it is stored, behind the library's back.
    pub(super) fn item(&self, key: &str) -> Option<Value> {
        let asked =
            json!({ "TableName": TABLE, "Key": { "lockToken": { "S": key } }, "ConsistentRead": true });
        let reply = self.ask("GetItem", asked.to_string().as_bytes());
        assert_eq!(reply.status, 200, "{}", reply.body);
        let mut reply: Value = serde_json::from_str(&reply.body).expect("JSON");
        reply.get_mut("Item").map(Value::take).filter(|item| !item.is_null())
    }

    /// Delete an item behind the library's back.
    pub(super) fn delete(&self, key: &str) {
        self.must("DeleteItem", &json!({ "TableName": TABLE, "Key": { "lockToken": { "S": key } } }));
    }

    /// Every item of a table, behind the library's back.
    pub(super) fn rows(&self, table: &str) -> Vec<Value> {
        let mut reply = self.must("Scan", &json!({ "TableName": table, "ConsistentRead": true }));
        serde_json::from_value(reply["Items"].take()).expect("items")
    }

    /// Do what a request asks, which must be possible.
    pub(super) fn must(&self, operation: &str, asked: &Value) -> Value {
        let reply = self.ask(operation, asked.to_string().as_bytes());
        assert_eq!(reply.status, 200, "{}", reply.body);
        serde_json::from_str(&reply.body).expect("JSON")
    }
}

impl Default for Memory {
    fn default() -> Self {
        Self::new()
    }
}
