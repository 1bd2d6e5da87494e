//! The worker: creates orders from SQS messages, each with its own outcome.

use std::time::Duration;

use aws_lambda_events::event::sqs::SqsBatchResponse;
use chrono::{DateTime, Utc};
use lambda_runtime::{Error, LambdaEvent};
use locker::lambda::deadline;
use locker::{Class, RunError};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::orders::{OrderRequest, Shop};

/// A batch as SQS sends it. Each message is parsed in its turn, so that a malformed one does not fail the
/// others.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Batch {
    /// The messages.
    #[serde(rename = "Records")]
    pub records: Vec<Value>,
}

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
    #[error("not enough time is left to begin the order")]
    NoTime,
    #[error("the order is in progress")]
    InProgress,
    #[error("the order has no final answer: {0:?}")]
    Failed(Class),
    #[error("{0}")]
    Locker(locker::Error),
}

/// Handle a batch, and report the messages that are not done for redelivery.
///
/// # Errors
///
/// None: each message has its own outcome.
pub async fn handle(shop: &Shop, event: LambdaEvent<Batch>) -> Result<SqsBatchResponse, Error> {
    let mut response = SqsBatchResponse::default();
    let owner = format!("worker/{}", event.context.request_id);
    let deadline = deadline(&event.context, Duration::ZERO);
    for message in event.payload.records {
        // An empty id makes Lambda redeliver the whole batch.
        let id = message["messageId"].as_str().unwrap_or_default().to_owned();
        let done = if shop.has_time(deadline) {
            let body = message["body"].as_str().unwrap_or_default();
            order(shop, body, &owner, deadline).await
        } else {
            Err(NotDone::NoTime)
        };
        if let Err(reason) = done {
            tracing::warn!(message_id = id, %reason, "a message is not done and returns to the queue");
            response.add_failure(id);
        }
    }
    Ok(response)
}

async fn order(shop: &Shop, body: &str, owner: &str, deadline: Option<DateTime<Utc>>) -> Result<(), NotDone> {
    let message: OrderMessage = serde_json::from_str(body).map_err(|error: serde_json::Error| {
        NotDone::Poison { kind: error.classify(), line: error.line(), column: error.column() }
    })?;
    match shop.create(&message.customer, &message.order, Some(owner.to_owned()), deadline).await {
        // Done now, done before, or failed with a final outcome: the message need not be redelivered.
        Ok(_) | Err(RunError::Failed { class: Class::Permanent | Class::NeedsOperator, .. }) => Ok(()),
        Err(RunError::Failed { class, .. }) => Err(NotDone::Failed(class)),
        Err(RunError::InProgress(_)) => Err(NotDone::InProgress),
        // A different order under the same number stays a mismatch; the message ends as a dead letter.
        Err(RunError::Mismatch(_)) => Err(NotDone::Failed(Class::Permanent)),
        Err(RunError::Locker(error)) => Err(NotDone::Locker(error)),
        Err(_) => Err(NotDone::Failed(Class::InDoubt)),
    }
}
