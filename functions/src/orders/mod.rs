//! Orders: created once each, and charged for once each, whoever asks and however.

mod api;

use std::time::Duration;

use chrono::{DateTime, Utc};
use locker::{Answer, Error, Failure, Key, Locker, RunError};
use serde::{Deserialize, Serialize};

pub use api::{Caller, caller, router};

use crate::payments::{Charge, Payments, Receipt};

/// What is ordered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OrderRequest {
    /// The customer's number for the order, which makes it once-only.
    pub order_id: String,
    /// What it costs.
    #[serde(flatten)]
    pub charge: Charge,
}

/// An order that was created.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Order {
    /// Its number.
    pub order_id: String,
    /// What was paid for it.
    #[serde(flatten)]
    pub receipt: Receipt,
}

/// What orders need.
#[derive(Debug, Clone)]
pub struct Shop {
    /// The lock tokens, which are also where orders are kept.
    pub locker: Locker,
    /// The payment provider.
    pub payments: Payments,
    /// How long a charge should take.
    pub expect_within: Duration,
}

impl Shop {
    /// A shop whose charges should take a minute.
    #[must_use]
    pub const fn new(locker: Locker, payments: Payments) -> Self {
        Self { locker, payments, expect_within: Duration::from_secs(60) }
    }

    /// Create an order once: charge for it, and keep the order for ever.
    ///
    /// # Errors
    ///
    /// [`RunError`]: the provider's failure by its class, or why there is no answer.
    pub async fn create(
        &self,
        customer: &str,
        request: &OrderRequest,
        owner: Option<String>,
        deadline: Option<DateTime<Utc>>,
    ) -> Result<Answer<Order>, RunError<Failure>> {
        let mut token = self
            .locker
            .token(("order/create", &request.order_id))
            .tenant(customer)
            .expect_within(self.expect_within)
            .fingerprint(request)
            .retain_forever();
        if let Some(owner) = owner {
            token = token.owner(owner);
        }
        if let Some(deadline) = deadline {
            token = token.deadline(deadline);
        }
        let create = async |attempt: locker::Attempt| {
            let receipt = self.payments.charge(&request.charge, attempt.idempotency_key()).await?;
            Ok(Order { order_id: request.order_id.clone(), receipt })
        };
        token.run(create).await
    }

    /// Read an order of a customer. `None`: there is none yet.
    ///
    /// # Errors
    ///
    /// As of [`Locker::get`] and [`Locker::answer`].
    pub async fn read(&self, customer: &str, order_id: &str) -> Result<Option<Order>, Error> {
        let key = Key::new("order/create", order_id)?.tenant(customer)?;
        let Some(record) = self.locker.get(key).await? else { return Ok(None) };
        let answer = self.locker.answer(&record).await?;
        // A failure is stored too, and is no order.
        Ok(answer.and_then(|json| serde_json::from_str(&json).ok()))
    }
}
