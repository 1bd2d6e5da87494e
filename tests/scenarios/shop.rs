//! The resources of a scenario: its own table of rows, and a client of its provider.

use std::sync::Arc;
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::{
    AttributeDefinition, AttributeValue, BillingMode, KeySchemaElement, KeyType, Put, ScalarAttributeType,
    TransactWriteItem, Update,
};
use locker::relay::Outbox;
use locker::{BoxError, Clock, Failure};

use super::provider::Provider;

/// The resources of a scenario.
#[derive(Debug, Clone)]
pub struct Shop {
    /// Its business rows.
    pub rows: Rows,
    /// For messages outside steps.
    pub outbox: Outbox,
    /// Its provider.
    pub provider: Provider,
    /// How long a call to the provider may take.
    pub patience: Duration,
    /// The time.
    pub clock: Arc<dyn Clock>,
}

/// The business rows: a table with the partition key `id`.
#[derive(Debug, Clone)]
pub struct Rows {
    /// An SDK client.
    pub dynamodb: Client,
    /// The table.
    pub table: String,
}

/// A text attribute.
#[must_use]
pub fn text(value: &str) -> AttributeValue {
    AttributeValue::S(value.to_owned())
}

/// A number attribute.
#[must_use]
pub fn number(value: i64) -> AttributeValue {
    AttributeValue::N(value.to_string())
}

impl Rows {
    /// Make the table.
    pub async fn create_table(&self) {
        let id = AttributeDefinition::builder().attribute_name("id").attribute_type(ScalarAttributeType::S);
        let key = KeySchemaElement::builder().attribute_name("id").key_type(KeyType::Hash);
        let create =
            self.dynamodb.create_table().table_name(&self.table).billing_mode(BillingMode::PayPerRequest);
        let create = create.attribute_definitions(id.build().expect("an attribute"));
        create.key_schema(key.build().expect("a key")).send().await.expect("a table of rows");
    }

    /// A put of a row that must not exist.
    #[must_use]
    pub fn insert(&self, id: &str, attributes: &[(&str, AttributeValue)]) -> Put {
        let put = Put::builder().table_name(&self.table).item("id", text(id));
        let put = attributes.iter().fold(put, |put, (name, value)| put.item(*name, value.clone()));
        put.condition_expression("attribute_not_exists(id)").build().expect("a put")
    }

    /// An update of attributes of a row, if others have the given values.
    #[must_use]
    pub fn change(
        &self,
        id: &str,
        set: &[(&str, AttributeValue)],
        when: &[(&str, AttributeValue)],
    ) -> Update {
        let mut update = Update::builder().table_name(&self.table).key("id", text(id));
        let clause = |prefix: &str, pairs: &[(&str, AttributeValue)]| {
            let equal = pairs.iter().map(|(name, _)| format!("#{name} = :{prefix}{name}"));
            equal.collect::<Vec<_>>()
        };
        for (prefix, pairs) in [("new", set), ("old", when)] {
            for (name, value) in pairs {
                update = update
                    .expression_attribute_names(format!("#{name}"), *name)
                    .expression_attribute_values(format!(":{prefix}{name}"), value.clone());
            }
        }
        update = update.update_expression(format!("SET {}", clause("new", set).join(", ")));
        if !when.is_empty() {
            update = update.condition_expression(clause("old", when).join(" AND "));
        }
        update.build().expect("an update")
    }

    /// An update that adds to a number of a row, which must not fall below zero.
    #[must_use]
    pub fn add(&self, id: &str, attribute: &str, by: i64) -> Update {
        let update = Update::builder().table_name(&self.table).key("id", text(id));
        let update = update.expression_attribute_names("#what", attribute);
        let update = update.expression_attribute_values(":by", number(by));
        let update = update.expression_attribute_values(":least", number(-by));
        let update =
            update.update_expression("SET #what = #what + :by").condition_expression("#what >= :least");
        update.build().expect("an update")
    }

    /// Write rows outside a workflow's step, such as in a compensation: all or none. `false`: the
    /// conditions failed.
    ///
    /// # Errors
    ///
    /// Transient: the conditions make it safe to retry.
    pub async fn write(&self, actions: Vec<TransactWriteItem>) -> Result<bool, Failure> {
        match self.dynamodb.transact_write_items().set_transact_items(Some(actions)).send().await {
            Ok(_) => Ok(true),
            Err(error) => {
                let reasons = error.as_service_error().and_then(|error| match error {
                    aws_sdk_dynamodb::operation::transact_write_items::TransactWriteItemsError::TransactionCanceledException(cancelled) => cancelled.cancellation_reasons.clone(),
                    _ => None,
                });
                let refused = |reason: &aws_sdk_dynamodb::types::CancellationReason| {
                    reason.code() == Some("ConditionalCheckFailed")
                };
                if reasons.unwrap_or_default().iter().any(refused) {
                    return Ok(false);
                }
                Err(Failure::transient("the rows could not be written".to_owned()))
            }
        }
    }

    /// Read one attribute of a row; empty if there is none.
    ///
    /// # Errors
    ///
    /// DynamoDB did not answer.
    pub async fn get(&self, id: &str, attribute: &str) -> Result<String, BoxError> {
        let get = self.dynamodb.get_item().table_name(&self.table).key("id", text(id)).consistent_read(true);
        let row = get.send().await?.item.unwrap_or_default();
        Ok(match row.get(attribute) {
            Some(AttributeValue::S(value) | AttributeValue::N(value)) => value.clone(),
            _ => String::new(),
        })
    }

    /// Write a row before the play begins.
    pub async fn seed(&self, id: &str, attributes: &[(&str, AttributeValue)]) {
        let put = self.dynamodb.put_item().table_name(&self.table).item("id", text(id));
        let put = attributes.iter().fold(put, |put, (name, value)| put.item(*name, value.clone()));
        put.send().await.expect("a row");
    }
}

/// A put as an action of a transaction.
#[must_use]
pub(super) fn putting(put: Put) -> TransactWriteItem {
    TransactWriteItem::builder().put(put).build()
}

/// An update as an action of a transaction.
#[must_use]
pub(super) fn updating(update: Update) -> TransactWriteItem {
    TransactWriteItem::builder().update(update).build()
}
