//! The packer: packs each placed order once, and signals the event `packed` to the purchase. Seeds
//! 002 and 003.

use std::time::Duration;

use aws_sdk_dynamodb::types::{AttributeValue, Update};
use lambda_runtime::{Error, LambdaEvent};
use locker::aws::Sqs;
use locker::inbox::{Consumer, Inbox, Incoming, ReceiveError, Taken};
use locker::lambda::{self, Consumed};
use locker::workflow::Workflows;
use locker::{Class, Failure};
use serde_json::Value;

use crate::purchase::{PACKED, Parcel, Placed};

/// A message is begun only if this much time is left. If DynamoDB is slower, Lambda ends the
/// function, and the messages are delivered again.
const NEEDS: Duration = Duration::from_secs(12);

/// The dependencies of the packer.
#[derive(Debug, Clone)]
pub struct Packer {
    /// The workflows of purchases, which receive its events.
    pub workflows: Workflows,
    /// The messages that it has received.
    pub inbox: Inbox,
    /// The table of order rows.
    pub orders_table: String,
    /// The queue of the messages. With it, a failed message is delivered again after its own pause.
    /// `None`: after the visibility timeout of the queue.
    pub queue: Option<Sqs>,
}

/// Packs the orders of a batch of the queue.
///
/// On the event of a schedule, it processes the messages that an operator redrove.
///
/// # Errors
///
/// If a message has no id, the whole batch is delivered again. On the event of a schedule: if the
/// redriven messages cannot be listed.
pub async fn handle(packer: &Packer, event: LambdaEvent<Value>) -> Result<Consumed, Error> {
    let consumer = packer.queue.iter().cloned().fold(packer.inbox.consumer(), Consumer::hiding);
    lambda::consume(&consumer, event, NEEDS, async |delivery| packer.pack(&delivery.body).await).await
}

impl Packer {
    /// Packs an order once, however often its message is delivered, and signals its purchase.
    async fn pack(&self, body: &str) -> Result<(), Failure> {
        let unreadable =
            |error: ReceiveError| Failure::permanent(error.to_string()).code("packing.unreadable");
        let message = Incoming::parse(body).map_err(unreadable)?;
        let placed: Placed = message.data().map_err(unreadable)?;
        let Some(purchase) = message.subject.clone() else {
            return Err(Failure::permanent("the message has no subject, so it names no purchase".to_owned())
                .code("packing.unreadable"));
        };
        let row = self.packed(&placed, &purchase).map_err(|error| Failure::permanent(error.to_string()))?;
        match self.inbox.atomic(&message).update(row).commit().await {
            // `Before`: an earlier attempt may have crashed between its commit and its signal.
            Ok(Taken::Now | Taken::Before) => {}
            Ok(Taken::Refused { .. }) => {
                let error = format!("the order {} is not paid by this purchase", placed.order.order_id);
                return Err(Failure::needs_operator(error).code("packing.notPaid"));
            }
            Ok(other) => other.done()?,
            // A retry is harmless, because the inbox records the message with the row.
            Err(error) => return Err(error.into()),
        }
        let parcel = Parcel { parcel: format!("parcel of {}", placed.order.order_id) };
        self.signal(&purchase, &message.id, &parcel).await
    }

    /// Signals the parcel to the purchase. The id of the message is the id of the event, so a
    /// message that is delivered again gives the same event.
    async fn signal(&self, purchase: &str, id: &str, parcel: &Parcel) -> Result<(), Failure> {
        let signalled = self.workflows.signal(purchase, PACKED, parcel).id(id).await;
        let signalled = signalled.map_err(|error| after_packing(Failure::transient(error.to_string())))?;
        if !signalled.is_stored() {
            let error = "no purchase has this key".to_owned();
            return Err(after_packing(Failure::transient(error)).code("packing.noPurchase"));
        }
        tracing::info!(?signalled, "the purchase was signalled");
        Ok(())
    }

    /// Marks the row as packed, if this purchase has paid it. The row may be of a later purchase:
    /// if a purchase fails, the customer may order again under the same number.
    fn packed(&self, placed: &Placed, purchase: &str) -> Result<Update, aws_sdk_dynamodb::error::BuildError> {
        let text = |text: &str| AttributeValue::S(text.to_owned());
        Update::builder()
            .table_name(&self.orders_table)
            .key("id", text(&placed.row))
            .update_expression("SET #state = :packed")
            .condition_expression("purchase = :purchase AND #state = :paid")
            .expression_attribute_names("#state", "state")
            .expression_attribute_values(":packed", text("packed"))
            .expression_attribute_values(":paid", text("paid"))
            .expression_attribute_values(":purchase", text(purchase))
            .build()
    }
}

/// A failure after the order was packed. It is retried. If the retries are exhausted, its class is
/// in doubt, so that the operator knows that the order may be packed.
fn after_packing(failure: Failure) -> Failure {
    failure.given_up_as(Class::InDoubt)
}
