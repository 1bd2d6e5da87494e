//! The worker: the same orders from SQS, message by message.

use std::time::Duration;

use aws_lambda_events::event::sqs::{SqsBatchResponse, SqsEvent, SqsMessage};
use chrono::{DateTime, Utc};
use lambda_runtime::{Error, LambdaEvent};
use locker::{Class, RunError};
use serde::{Deserialize, Serialize};

use crate::deadline::deadline;
use crate::orders::{OrderRequest, Shop};

/// What a message says.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OrderMessage {
    /// Whose order it is.
    pub customer: String,
    /// The order.
    pub order: OrderRequest,
}

/// Why a message comes back later, and in the end goes to the dead letters.
#[derive(Debug, thiserror::Error)]
enum NotDone {
    #[error("the message is not an order: {0}")]
    Poison(serde_json::Error),
    #[error("the order is being worked on")]
    InProgress,
    #[error("the order failed and was not answered for good: {0:?}")]
    Failed(Class),
    #[error("{0}")]
    Locker(locker::Error),
}

/// Handle a batch: the messages that are not done come back, the others do not.
///
/// # Errors
///
/// None: each message has its own outcome.
pub async fn handle(shop: &Shop, event: LambdaEvent<SqsEvent>) -> Result<SqsBatchResponse, Error> {
    let mut response = SqsBatchResponse::default();
    let owner = format!("worker/{}", event.context.request_id);
    let deadline = deadline(&event.context, Duration::ZERO);
    for message in event.payload.records {
        let id = message.message_id.clone().unwrap_or_default();
        if let Err(reason) = order(shop, &message, &owner, deadline).await {
            tracing::warn!(message_id = id, %reason, "a message comes back");
            response.add_failure(id);
        }
    }
    Ok(response)
}

async fn order(
    shop: &Shop,
    message: &SqsMessage,
    owner: &str,
    deadline: Option<DateTime<Utc>>,
) -> Result<(), NotDone> {
    let body = message.body.as_deref().unwrap_or_default();
    let message: OrderMessage = serde_json::from_str(body).map_err(NotDone::Poison)?;
    match shop.create(&message.customer, &message.order, Some(owner.to_owned()), deadline).await {
        // Done now, done before, or failed for good: the message has its answer.
        Ok(_) | Err(RunError::Failed { class: Class::Permanent | Class::NeedsPerson, .. }) => Ok(()),
        Err(RunError::Failed { class, .. }) => Err(NotDone::Failed(class)),
        Err(RunError::InProgress(_)) => Err(NotDone::InProgress),
        // The same number for another order will not become the same one.
        Err(RunError::Mismatch(_)) => Err(NotDone::Failed(Class::Permanent)),
        Err(RunError::Locker(error)) => Err(NotDone::Locker(error)),
        Err(_) => Err(NotDone::Failed(Class::InDoubt)),
    }
}
