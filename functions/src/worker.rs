//! The worker: the same orders from SQS, message by message.

use std::time::Duration;

use aws_lambda_events::event::sqs::SqsBatchResponse;
use chrono::{DateTime, Utc};
use lambda_runtime::{Error, LambdaEvent};
use locker::{Class, Clock as _, RunError, SystemClock};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::deadline::deadline;
use crate::orders::{OrderRequest, Shop};

/// A batch as SQS sends it. A message is read when its turn comes, so that an odd one does not take the
/// others with it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Batch {
    /// The messages.
    #[serde(rename = "Records")]
    pub records: Vec<Value>,
}

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
    // Where it is wrong, and not what it says: a message may be private.
    #[error("the message is not an order: {kind:?} error at line {line}, column {column}")]
    Poison { kind: serde_json::error::Category, line: usize, column: usize },
    #[error("there is no time left to begin it")]
    NoTime,
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
pub async fn handle(shop: &Shop, event: LambdaEvent<Batch>) -> Result<SqsBatchResponse, Error> {
    let mut response = SqsBatchResponse::default();
    let owner = format!("worker/{}", event.context.request_id);
    let deadline = deadline(&event.context, Duration::ZERO);
    for message in event.payload.records {
        // Without an id all of the batch comes back, by Lambda's reading of an empty one.
        let id = message["messageId"].as_str().unwrap_or_default().to_owned();
        let done = if has_time(shop, deadline) {
            let body = message["body"].as_str().unwrap_or_default();
            order(shop, body, &owner, deadline).await
        } else {
            Err(NotDone::NoTime)
        };
        if let Err(reason) = done {
            tracing::warn!(message_id = id, %reason, "a message comes back");
            response.add_failure(id);
        }
    }
    Ok(response)
}

/// Whether a charge that is begun now can also be ended: killed in the middle, it would be in doubt.
fn has_time(shop: &Shop, deadline: Option<DateTime<Utc>>) -> bool {
    /// For the requests before and after the charge.
    const REQUESTS: Duration = Duration::from_secs(3);
    let needed = shop.payments.timeout().saturating_add(REQUESTS);
    let left = |deadline: DateTime<Utc>| (deadline - SystemClock.now()).to_std().unwrap_or_default();
    deadline.is_none_or(|deadline| left(deadline) > needed)
}

async fn order(shop: &Shop, body: &str, owner: &str, deadline: Option<DateTime<Utc>>) -> Result<(), NotDone> {
    let message: OrderMessage = serde_json::from_str(body).map_err(|error: serde_json::Error| {
        NotDone::Poison { kind: error.classify(), line: error.line(), column: error.column() }
    })?;
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
