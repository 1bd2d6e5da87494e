//! The order rows: a business table, whose only trace of workflows is the purchase that wrote a
//! row.

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::error::{BuildError, SdkError};
use aws_sdk_dynamodb::operation::delete_item::DeleteItemError;
use aws_sdk_dynamodb::types::{AttributeValue, Put, Update};
use locker::{Error, Failure, Key};
use serde::{Deserialize, Serialize};

use crate::orders::{Order, OrderRequest};

/// A row to be written.
pub(super) struct Row<'a> {
    pub(super) name: RowName,
    table: &'a str,
    request: &'a OrderRequest,
}

/// Identifies a row and the purchase that owns it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct RowName {
    /// `@alice/order/7`.
    pub(super) id: String,
    /// The workflow that wrote it.
    purchase: String,
}

fn text(text: &str) -> AttributeValue {
    AttributeValue::S(text.to_owned())
}

impl<'a> Row<'a> {
    pub(super) fn of(
        table: &'a str,
        purchase: &Key,
        customer: &str,
        request: &'a OrderRequest,
    ) -> Result<Self, Error> {
        let id = Key::new("order", &request.order_id)?.tenant(customer)?;
        let name = RowName { id: id.as_str().to_owned(), purchase: purchase.as_str().to_owned() };
        Ok(Self { name, table, request })
    }

    /// Puts a new row. An existing order with that number stays as it is.
    pub(super) fn placed(&self) -> Result<Put, BuildError> {
        Put::builder()
            .table_name(self.table)
            .item("id", text(&self.name.id))
            .item("purchase", text(&self.name.purchase))
            .item("state", text("placed"))
            .item("cents", AttributeValue::N(self.request.charge.cents.to_string()))
            .item("currency", text(&self.request.charge.currency))
            .condition_expression("attribute_not_exists(id)")
            .build()
    }

    /// Marks the row as paid.
    pub(super) fn paid(&self, order: &Order) -> Result<Update, BuildError> {
        Update::builder()
            .table_name(self.table)
            .key("id", text(&self.name.id))
            .update_expression("SET #state = :paid, charge = :charge")
            .condition_expression("purchase = :purchase AND #state = :placed")
            .expression_attribute_names("#state", "state")
            .expression_attribute_values(":paid", text("paid"))
            .expression_attribute_values(":placed", text("placed"))
            .expression_attribute_values(":charge", text(&order.receipt.charge))
            .expression_attribute_values(":purchase", text(&self.name.purchase))
            .build()
    }

    /// Marks the row as given up, unless it is packed.
    pub(super) fn given_up(&self) -> Result<Update, BuildError> {
        Update::builder()
            .table_name(self.table)
            .key("id", text(&self.name.id))
            .update_expression("SET #state = :given")
            .condition_expression("purchase = :purchase AND #state = :paid")
            .expression_attribute_names("#state", "state")
            .expression_attribute_values(":given", text("givenUp"))
            .expression_attribute_values(":paid", text("paid"))
            .expression_attribute_values(":purchase", text(&self.name.purchase))
            .build()
    }
}

/// Deletes a row, if it belongs to that purchase. Repeating it changes nothing.
pub(super) async fn withdraw(dynamodb: &Client, table: &str, name: &RowName) -> Result<(), Failure> {
    let deleted = dynamodb
        .delete_item()
        .table_name(table)
        .key("id", text(&name.id))
        .condition_expression("purchase = :purchase")
        .expression_attribute_values(":purchase", text(&name.purchase))
        .send()
        .await;
    match deleted {
        Ok(_) => Ok(()),
        Err(error) if is_gone(&error) => Ok(()),
        Err(error) => {
            tracing::warn!(error = %aws_sdk_dynamodb::error::DisplayErrorContext(&error), "an order row could not be deleted");
            Err(Failure::transient("the order row could not be deleted".to_owned()))
        }
    }
}

/// Whether the row does not exist or belongs to another purchase.
fn is_gone(error: &SdkError<DeleteItemError>) -> bool {
    error.as_service_error().is_some_and(DeleteItemError::is_conditional_check_failed_exception)
}
