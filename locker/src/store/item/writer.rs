//! Building an item of a workflow.

use std::collections::HashMap;

use aws_sdk_dynamodb::types::AttributeValue;
use chrono::{DateTime, Utc};

use super::size::attribute_bytes;
use super::value::{Item, answer_value, moment, number, text};
use crate::core::answer::Encoded;
use crate::core::token::record::Intervention;
use crate::core::workflow::step::Intent;
use crate::store::schema::attribute as a;

/// An item under construction.
#[derive(Default)]
pub(crate) struct Writer(Item);

impl Writer {
    pub(crate) fn at(workflow: &str, item: &str) -> Self {
        let mut writer = Self(HashMap::with_capacity(20));
        writer.put(a::WORKFLOW, text(workflow));
        writer.put(a::ITEM, text(item));
        writer.put(a::VERSION, number(a::WORKFLOW_VERSION));
        writer
    }

    pub(crate) fn put(&mut self, name: &str, value: AttributeValue) {
        self.0.insert(name.to_owned(), value);
    }

    pub(crate) fn text(&mut self, name: &str, value: Option<&str>) {
        if let Some(value) = value {
            self.put(name, text(value));
        }
    }

    pub(crate) fn moment(&mut self, name: &str, value: Option<DateTime<Utc>>) {
        if let Some(value) = value {
            self.put(name, moment(value));
        }
    }

    pub(crate) fn intervention(&mut self, intervention: Option<&Intervention>) {
        if let Some(operator) = intervention {
            self.put(a::RESOLVED_BY, text(&operator.by));
            self.put(a::RESOLVED_REASON, text(&operator.reason));
            self.put(a::RESOLVED_AT, moment(operator.at));
        }
    }

    /// A compensation, as it was declared.
    pub(super) fn intent(&mut self, intent: Option<&Intent>) {
        let Some(intent) = intent else { return };
        self.put(a::COMPENSATION, text(&intent.name));
        self.put(a::COMPENSATION_INPUT, text(intent.input.as_str()));
        if intent.recognised > 0 {
            self.put(a::COMPENSATION_RECOGNISED, number(intent.recognised));
        }
    }

    /// Returns the size of the item without one attribute.
    pub(crate) fn bytes_without(&self, name: &str) -> usize {
        let others = self.0.iter().filter(|(other, _)| *other != name);
        others.map(|(name, value)| attribute_bytes(name, value)).sum()
    }

    pub(crate) fn item(self) -> Item {
        self.0
    }
}

/// Returns a separate item with an input or an answer.
pub(crate) fn beside_item(workflow: &str, item: &str, encoded: &Encoded) -> Item {
    let mut writer = Writer::at(workflow, item);
    writer.put(a::RESULT_CODEC, text(encoded.codec.name()));
    writer.put(a::RESULT, answer_value(encoded));
    writer.item()
}
