//! Orders: each is created once and charged once, whichever request asks for it.

mod api;

use std::time::Duration;

use chrono::{DateTime, Utc};
use locker::{
    Answer, AnswerError, Clock as _, Error, Failure, Key, Locker, Retention, RunError, SystemClock,
    TokenState,
};
use serde::{Deserialize, Serialize};

pub use api::{Caller, caller, router};

use crate::payments::{Charge, Payments, Receipt};
use crate::telemetry::shown;

/// A request to create an order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OrderRequest {
    /// The customer's number for the order; an order is created once per number.
    pub order_id: String,
    /// The price.
    #[serde(flatten)]
    pub charge: Charge,
}

/// A created order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Order {
    /// The number of the order.
    pub order_id: String,
    /// The receipt of its payment.
    #[serde(flatten)]
    pub receipt: Receipt,
}

/// The state of an order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OrderState {
    /// The customer has no order with this number.
    Absent,
    /// It was created and charged.
    Created(Order),
    /// Its payment was declined, or an operator closed it as not paid.
    Declined,
    /// A request is creating it. After the due time, it is unknown whether it was charged.
    InProgress {
        /// When the request is expected to have ended.
        due: DateTime<Utc>,
    },
    /// It is unknown whether it was charged. An operator decides.
    InDoubt,
    /// It may have been charged before the table was restored. An operator decides.
    Restored,
}

/// The dependencies of orders.
#[derive(Debug, Clone)]
pub struct Shop {
    /// The lock tokens, which also store the orders.
    pub locker: Locker,
    /// The payment provider.
    pub payments: Payments,
}

impl Shop {
    /// Creates a shop. The settings of the locker define how long a charge is expected to take.
    #[must_use]
    pub const fn new(locker: Locker, payments: Payments) -> Self {
        Self { locker, payments }
    }

    /// The time that a charge needs from its begin: the provider's answer, and the request that
    /// records it.
    ///
    /// A process that is killed in between leaves the charge in doubt.
    #[must_use]
    pub fn time_for_a_charge(&self) -> Duration {
        self.payments.timeout().saturating_add(self.locker.settings().give_up_after)
    }

    /// Whether a charge that begins now can also end before this deadline.
    #[must_use]
    pub fn has_time(&self, deadline: Option<DateTime<Utc>>) -> bool {
        let left = |deadline: DateTime<Utc>| (deadline - SystemClock.now()).to_std().unwrap_or_default();
        deadline.is_none_or(|deadline| left(deadline) > self.time_for_a_charge())
    }

    /// Creates an order once: charges for it, and keeps the order indefinitely.
    ///
    /// # Errors
    ///
    /// [`RunError`]: the provider's failure with its class, or the reason why there is no answer.
    /// If too little of the time until the deadline is left once the token is acquired, nothing is
    /// sent, and the failure is transient.
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
            .expect_within(self.locker.settings().expect_within)
            .fingerprint(request)
            .retention(Retention::Forever);
        if let Some(owner) = owner {
            token = token.owner(owner);
        }
        if let Some(deadline) = deadline {
            token = token.deadline(deadline);
        }
        let create = async |attempt: locker::Attempt| {
            if !self.has_time(deadline) {
                return Err(Failure::transient(
                    "not enough time is left for a charge; nothing was sent".to_owned(),
                ));
            }
            let receipt = self.payments.charge(&request.charge, attempt.idempotency_key()).await?;
            Ok(Order { order_id: request.order_id.clone(), receipt })
        };
        token.run(create).await
    }

    /// Reads an order of a customer.
    ///
    /// An order that may have been charged is never absent: the customer would order again under
    /// another number.
    ///
    /// # Errors
    ///
    /// Same as [`Locker::get`] and [`Locker::answer`].
    pub async fn read(&self, customer: &str, order_id: &str) -> Result<OrderState, Error> {
        let key = Key::new("order/create", order_id)?.tenant(customer)?;
        let shown = shown(self.locker.settings(), &key);
        let read = self.state_of(key).await;
        read.inspect_err(|error| tracing::error!(lock.token = shown, %error, "an order could not be read"))
    }

    async fn state_of(&self, key: Key) -> Result<OrderState, Error> {
        let Some(record) = self.locker.get(key).await? else { return Ok(OrderState::Absent) };
        Ok(match record.state() {
            // An operator releases an order that was not charged.
            TokenState::Released => OrderState::Absent,
            TokenState::InProgress => OrderState::InProgress { due: record.expected_completion() },
            TokenState::Failed if record.is_redacted() => return Err(AnswerError::Redacted.into()),
            // A permanent failure, or one that an operator closed.
            TokenState::Failed => OrderState::Declined,
            TokenState::Completed => {
                let json = self.locker.answer(&record).await?.ok_or(AnswerError::Missing)?;
                // The error of serde may contain a part of the order, which is not to be logged.
                let unreadable =
                    |_| AnswerError::Decode { reason: "it is no order of this version".to_owned() };
                OrderState::Created(serde_json::from_str(&json).map_err(unreadable)?)
            }
            TokenState::Held if record.is_held_by_restore() => OrderState::Restored,
            _ => OrderState::InDoubt,
        })
    }
}
