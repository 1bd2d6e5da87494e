//! The worker: creates orders from SQS messages, each with its own outcome.

use chrono::{DateTime, Utc};
use lambda_runtime::{Error, LambdaEvent};
use locker::lambda::{Deliveries, Undelivered, deadline, each_message};
use locker::{AnswerError, Class, RunError};
use serde::{Deserialize, Serialize};

use crate::orders::{OrderRequest, Shop};

/// The content of a message.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OrderMessage {
    /// The customer of the order.
    pub customer: String,
    /// The order.
    pub order: OrderRequest,
}

/// Why a message is redelivered, and finally moved to the dead-letter queue.
#[derive(Debug, thiserror::Error)]
enum NotDone {
    // The position of the error without the content, since a message may be private.
    #[error("the message is not an order: {kind:?} error at line {line}, column {column}")]
    Poison { kind: serde_json::error::Category, line: usize, column: usize },
    #[error("the order is in progress")]
    InProgress,
    #[error("the order has no final answer: {0:?}")]
    Failed(Class),
    #[error("{0}")]
    Locker(locker::Error),
}

/// Handles a batch, and reports the messages that are not done for redelivery.
///
/// # Errors
///
/// A message without an id is not done: the whole batch is redelivered.
pub async fn handle(shop: &Shop, event: LambdaEvent<Deliveries>) -> Result<Undelivered, Error> {
    let owner = format!("worker/{}", event.context.request_id);
    let until = deadline(&event.context, std::time::Duration::ZERO);
    each_message(event, shop.time_for_a_charge(), async |delivery| {
        order(shop, &delivery.body, &owner, until).await
    })
    .await
}

async fn order(shop: &Shop, body: &str, owner: &str, deadline: Option<DateTime<Utc>>) -> Result<(), NotDone> {
    let message: OrderMessage = serde_json::from_str(body).map_err(|error: serde_json::Error| {
        NotDone::Poison { kind: error.classify(), line: error.line(), column: error.column() }
    })?;
    match shop.create(&message.customer, &message.order, Some(owner.to_owned()), deadline).await {
        // Done now, done before, or failed with a final outcome: the message need not be
        // redelivered. An order has also ended if an operator erased its result.
        Ok(_)
        | Err(
            RunError::Failed { class: Class::Permanent | Class::NeedsOperator, .. }
            | RunError::Locker(locker::Error::Answer(AnswerError::Redacted)),
        ) => Ok(()),
        Err(RunError::Failed { class, .. }) => Err(NotDone::Failed(class)),
        Err(RunError::InProgress(_)) => Err(NotDone::InProgress),
        // A different order under the same number stays a mismatch; the message ends as a dead
        // letter.
        Err(RunError::Mismatch(_)) => Err(NotDone::Failed(Class::Permanent)),
        Err(RunError::Locker(error)) => Err(NotDone::Locker(error)),
        Err(_) => Err(NotDone::Failed(Class::InDoubt)),
    }
}
