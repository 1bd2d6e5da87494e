//! A purchase: an order row, a charge, and the row marked as paid with a message about it. Seed 001.
//!
//! | step | kind | undone by |
//! |---|---|---|
//! | `place` | atomic: the row, unless there is one of that number | `withdraw`: the row is deleted, if it is this purchase's |
//! | `charge` | once, under an idempotency key; the provider is asked if nobody knows | `refund`, or a ban on a charge in doubt |
//! | `pay` | atomic: the row is marked, and `order/placed` is committed | |

mod api;
mod row;

use std::time::Duration;

use aws_sdk_dynamodb::Client;
use locker::workflow::{Flow, Found, Start, Stop, Undo, Undone, Workflow, Workflows};
use locker::{BoxError, Failure, InvalidKey, Key};
use serde::{Deserialize, Serialize};

pub use api::router;

use crate::orders::{Order, OrderRequest};
use crate::payments::{Payments, Receipt, RefundRequest};
use row::Row;

/// How long the provider recognises an idempotency key.
const RECOGNISED: Duration = Duration::from_secs(24 * 60 * 60);
/// What a try takes beside the provider's own time.
const MARGIN: Duration = Duration::from_secs(1);

/// The code of the workflow.
#[derive(Debug, Clone)]
pub struct Purchase {
    /// The payment provider.
    pub payments: Payments,
    /// A client for the order rows.
    pub dynamodb: Client,
    /// The table of order rows, with the partition key `id`.
    pub orders_table: String,
}

/// What a purchase is given.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PurchaseInput {
    /// Who buys.
    pub customer: String,
    /// What.
    pub request: OrderRequest,
}

/// Why the workflow itself says no.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Refusal {
    /// There is an order under this number already.
    OrderExists,
}

impl Workflow for Purchase {
    const NAME: &'static str = "purchase";
    type Input = PurchaseInput;
    type Output = Order;

    async fn run(&self, flow: &Flow, input: PurchaseInput) -> Result<Order, Stop> {
        let PurchaseInput { customer, request } = input;
        let row = Row::of(&self.orders_table, flow.key(), &customer, &request)?;
        let placed = flow.atomic("place").put(row.placed()?).compensate("withdraw", &row.name);
        placed.commit(&()).await.map_err(|stop| match stop {
            Stop::Refused { .. } => Stop::fail(Refusal::OrderExists),
            stop => stop,
        })?;
        let charge = flow
            .once("charge")
            .input(&request.charge)
            .expect_within(self.payments.timeout() + MARGIN)
            .probe(|attempt| async move { self.found(attempt.idempotency_key()).await })
            .compensate_within("refund", &(), RECOGNISED);
        let receipt: Receipt = charge
            .run(|attempt| {
                let key = attempt.idempotency_key().to_owned();
                self.payments.charge(&request.charge, key)
            })
            .await?;
        let order = Order { order_id: request.order_id.clone(), receipt };
        flow.atomic("pay").update(row.paid(&order)?).message("order/placed", &order).commit(&order).await
    }

    async fn undo(&self, _: &Flow, undo: Undo) -> Result<Undone, Failure> {
        match undo.name() {
            "refund" => {
                // In doubt or not: what came of that key is given back, and what may still come of it is refused.
                let request = RefundRequest { charge_key: undo.tried_under().to_owned() };
                self.payments.refund(&request, undo.idempotency_key().to_owned()).await?;
                Ok(Undone::Done)
            }
            "withdraw" => {
                let name = undo.input().map_err(|error| Failure::needs_person(error.to_string()))?;
                row::withdraw(&self.dynamodb, &self.orders_table, &name).await?;
                Ok(Undone::Done)
            }
            other => Err(Failure::needs_person(format!("nobody knows how to undo {other}"))),
        }
    }

    async fn probe_undo(&self, undo: &Undo) -> Result<Found, BoxError> {
        // To withdraw the same row again is harmless; refunds are recognised by their key.
        Ok(if undo.name() == "withdraw" { Found::NotDone } else { Found::Unknown })
    }
}

impl Purchase {
    /// That nothing was charged is enough to send the same key again: the provider charges once for each.
    async fn found(&self, idempotency_key: &str) -> Result<Found, BoxError> {
        match self.payments.find(idempotency_key).await? {
            Some(receipt) => Ok(Found::done(&receipt)?),
            None => Ok(Found::NotDone),
        }
    }
}

/// What the API needs to take purchases.
#[derive(Debug, Clone)]
pub struct Purchases {
    /// Where their workflows are.
    pub workflows: Workflows,
    /// Their code.
    pub code: Purchase,
}

impl Purchases {
    /// The purchase that a customer asks for under a key of his own.
    ///
    /// # Errors
    ///
    /// [`InvalidKey`].
    pub fn start(
        &self,
        customer: &str,
        key: &str,
        request: &OrderRequest,
    ) -> Result<Start<'_, Purchase>, InvalidKey> {
        let key = Key::new("purchase", key)?.tenant(customer)?;
        let input = PurchaseInput { customer: customer.to_owned(), request: request.clone() };
        Ok(self.workflows.workflow(&self.code, key, &input))
    }
}
