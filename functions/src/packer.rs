//! The packer: hears once that an order was placed, packs it, and reports to the purchase. Seeds
//! 002 and 003.

use std::time::Duration;

use aws_sdk_dynamodb::types::{AttributeValue, Update};
use lambda_runtime::{Error, LambdaEvent};
use locker::aws::Sqs;
use locker::inbox::{Consumer, Inbox, Incoming, ReceiveError, Taken};
use locker::lambda::{self, Consumed};
use locker::workflow::{Reported, Workflows};
use locker::{Class, Failure};
use serde_json::Value;

use crate::purchase::{PACK, Parcel, Placed};

/// What the requests for one message take at the most.
const NEEDS: Duration = Duration::from_secs(12);
/// A purchase may be slower than its message: it starts to wait after it was sent.
const PATIENCE: u32 = 20;
const PAUSE: Duration = Duration::from_millis(200);

/// The dependencies of the packer.
#[derive(Debug, Clone)]
pub struct Packer {
    /// The workflows of purchases, to which it reports.
    pub workflows: Workflows,
    /// What it has heard.
    pub inbox: Inbox,
    /// The table of order rows.
    pub orders_table: String,
    /// The queue that it hears, which is told when to deliver a message again. `None`: the queue
    /// has one time for all.
    pub queue: Option<Sqs>,
}

/// Pack what a batch of the queue asks for, or, on an event of a schedule, what an operator let be
/// handled again.
///
/// # Errors
///
/// A message without an id is not done: the whole batch is redelivered. Or what waits cannot be
/// listed.
pub async fn handle(packer: &Packer, event: LambdaEvent<Value>) -> Result<Consumed, Error> {
    let consumer = packer.queue.iter().cloned().fold(packer.inbox.consumer(), Consumer::hiding);
    lambda::consume(&consumer, event, NEEDS, async |delivery| packer.hear(&delivery.body).await).await
}

impl Packer {
    /// Pack an order, once however often it is heard, and report to its purchase.
    async fn hear(&self, body: &str) -> Result<(), Failure> {
        let unreadable =
            |error: ReceiveError| Failure::permanent(error.to_string()).code("packing.unreadable");
        let message = Incoming::parse(body).map_err(unreadable)?;
        let placed: Placed = message.data().map_err(unreadable)?;
        let Some(purchase) = message.subject.clone() else {
            return Err(Failure::permanent("it is about no purchase".to_owned()).code("packing.unreadable"));
        };
        let row = self.packed(&placed).map_err(|error| Failure::permanent(error.to_string()))?;
        match self.inbox.atomic(&message).update(row).commit().await {
            // Heard before, it may not have reported.
            Ok(Taken::Now | Taken::Before) => {}
            Ok(Taken::Refused { .. }) => {
                let error = format!("the order {} is not paid", placed.order.order_id);
                return Err(Failure::needs_operator(error).code("packing.notPaid"));
            }
            Ok(other) => other.done()?,
            // It is taken once, however often it is tried.
            Err(error) => return Err(error.into()),
        }
        let parcel = Parcel { parcel: format!("parcel of {}", placed.order.order_id) };
        self.report(&purchase, &parcel).await
    }

    async fn report(&self, purchase: &str, parcel: &Parcel) -> Result<(), Failure> {
        for _ in 0..PATIENCE {
            let reported = self.workflows.report(purchase, PACK).completed(parcel).await;
            match reported.map_err(|error| after_packing(Failure::transient(error.to_string())))? {
                Reported::Unknown | Reported::Busy(_) => tokio::time::sleep(PAUSE).await,
                reported => {
                    tracing::info!(?reported, "the parcel was reported to the purchase");
                    return Ok(());
                }
            }
        }
        let error = "the purchase does not wait for its parcel yet".to_owned();
        Err(after_packing(Failure::transient(error)).code("packing.early"))
    }

    /// Mark the row as packed, unless it is not paid.
    fn packed(&self, placed: &Placed) -> Result<Update, aws_sdk_dynamodb::error::BuildError> {
        let text = |text: &str| AttributeValue::S(text.to_owned());
        Update::builder()
            .table_name(&self.orders_table)
            .key("id", text(&placed.row))
            .update_expression("SET #state = :packed")
            .condition_expression("#state = :paid")
            .expression_attribute_names("#state", "state")
            .expression_attribute_values(":packed", text("packed"))
            .expression_attribute_values(":paid", text("paid"))
            .build()
    }
}

/// A failure after the order was packed: it may be tried again, and an operator who is shown it has
/// to know that something happened.
fn after_packing(failure: Failure) -> Failure {
    failure.given_up_as(Class::InDoubt)
}
