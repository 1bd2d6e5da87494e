//! A message as a queue delivers it.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One message as the queue delivers it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Delivery {
    /// The id that the broker assigned: a new id each time the message is sent.
    pub id: String,
    /// Its body.
    #[serde(skip)]
    pub body: String,
    /// The group in which the queue keeps the order. `None`: it keeps none.
    pub group: Option<String>,
    /// How many times it was received, from 1.
    pub receives: u32,
    /// All other data of the broker about it.
    pub attributes: Value,
    /// Names this receive of it to the broker, if it gave a handle. Not kept.
    #[serde(skip)]
    pub receipt_handle: Option<String>,
}

// Bodies may be private.
impl fmt::Debug for Delivery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Delivery")
            .field("id", &self.id)
            .field("receives", &self.receives)
            .finish_non_exhaustive()
    }
}

impl Delivery {
    /// A message that was received for the first time, from a broker that keeps no order.
    pub fn new(id: impl Into<String>, body: impl Into<String>) -> Self {
        let attributes = Value::Null;
        Self { id: id.into(), body: body.into(), group: None, receives: 1, attributes, receipt_handle: None }
    }

    /// The broker keeps the order of the messages in this group: those of a FIFO queue.
    #[must_use]
    pub fn group(self, group: impl Into<String>) -> Self {
        Self { group: Some(group.into()), ..self }
    }

    /// How many times it was received, from 1.
    #[must_use]
    pub fn receives(self, receives: u32) -> Self {
        Self { receives, ..self }
    }
}
