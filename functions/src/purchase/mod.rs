//! A purchase: an order row, a charge, and the row marked as paid with a message about it. Seed
//! 001.
//!
//! - `place`, atomic, puts the row, unless a row with that number exists. Compensated by
//!   `withdraw`, which deletes the row if it belongs to this purchase.
//! - `charge`, once, has an idempotency key. If its outcome is unknown, it is sent again under this
//!   key while the provider recognises it. Later, or if the provider refuses that, a probe asks.
//!   Compensated by `refund`, which also bans a charge in doubt.
//! - `pay`, atomic, marks the row as paid. If there are packers, it commits the message
//!   `order/placed`.
//! - If there are packers, the purchase waits for the event `packed`, which contains the parcel.
//! - `give-up`, atomic, runs if no event came in time. It marks the row, so that no packer packs
//!   the order later, and the purchase fails and is compensated. If the row is already packed, the
//!   purchase completes instead.

mod api;
mod row;

use std::time::Duration;

use aws_sdk_dynamodb::Client;
use locker::workflow::{
    Compensated, Compensation, Event, Flow, ProbeOutcome, StartBuilder, Stop, Workflow, Workflows,
};
use locker::{BoxError, Failure, InvalidArgument, Key};
use serde::{Deserialize, Serialize};

pub use api::router;

use crate::orders::{Order, OrderRequest};
use crate::payments::{Payments, Receipt, RefundRequest};
use row::{Row, RowName};

/// How long the provider recognises an idempotency key.
const RECOGNISED: Duration = Duration::from_secs(24 * 60 * 60);
/// The time that an attempt needs in addition to the provider's.
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
    /// The longest wait for the packers. `None`: there are no packers, no message is sent, and a
    /// purchase ends when it is paid.
    pub packed_within: Option<Duration>,
}

/// The input of a purchase.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PurchaseInput {
    /// The customer.
    pub customer: String,
    /// The order.
    pub request: OrderRequest,
}

/// The topic of the message to the packers.
pub const ORDER_PLACED: &str = "order/placed";
/// The source of the messages of a purchase.
pub const SOURCE: &str = "/orders";
/// The event that the packers give to the purchase.
pub const PACKED: Event<Parcel> = Event::named("packed");
/// The longest wait for the packers. After it, the purchase is compensated.
pub const PACKED_WITHIN: Duration = Duration::from_secs(3 * 24 * 60 * 60);

/// The message to the packers. Its subject is the purchase.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placed {
    /// The id of the order's row.
    pub row: String,
    /// The order.
    pub order: Order,
}

/// The value of the event `packed`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parcel {
    /// The number of the parcel.
    pub parcel: String,
}

/// The reasons for which the code of the workflow fails a purchase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Refusal {
    /// An order with this number already exists.
    OrderExists,
    /// The packers have not packed the order in time.
    NotPacked,
}

/// How the steps of a purchase are compensated.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Undo {
    Refund,
    Withdraw(RowName),
    /// Of an event that came after its time. The row is packed, so the purchase is complete.
    Parcel,
}

impl Workflow for Purchase {
    const NAME: &'static str = "purchase";
    type Input = PurchaseInput;
    type Output = Order;

    async fn run(&self, flow: &Flow, input: PurchaseInput) -> Result<Order, Stop> {
        let PurchaseInput { customer, request } = input;
        let row = Row::of(&self.orders_table, flow.key(), &customer, &request)?;
        let undo = Undo::Withdraw(row.name.clone());
        let placed = flow.atomic("place").put(row.placed()?).compensate(&undo);
        if placed.outcome(&()).await?.is_err() {
            return Err(Stop::fail(Refusal::OrderExists));
        }
        let charge = flow
            .once("charge")
            .input(&request.charge)
            .expect_within(self.payments.timeout() + MARGIN)
            .recognised_for(RECOGNISED)
            .probe(async |attempt| self.found(attempt.idempotency_key()).await)
            .compensate_within(&Undo::Refund, RECOGNISED);
        let receipt: Receipt = charge
            .run(async |attempt| {
                let key = attempt.idempotency_key().to_owned();
                self.payments.charge(&request.charge, key).await
            })
            .await?;
        let order = Order { order_id: request.order_id.clone(), receipt };
        let pay = flow.atomic("pay").update(row.paid(&order)?);
        let Some(within) = self.packed_within else { return pay.commit(&order).await };
        let placed = Placed { row: row.name.id.clone(), order: order.clone() };
        pay.message(ORDER_PLACED, &placed).commit(&order).await?;
        if flow.wait_for(PACKED, within).on_late(&Undo::Parcel).await?.is_none() {
            // The row decides: a late packer finds it given up, or has packed it before.
            let give_up = flow.atomic("give-up").update(row.given_up()?);
            if give_up.outcome(&()).await?.is_ok() {
                return Err(Stop::fail(Refusal::NotPacked));
            }
        }
        Ok(order)
    }

    async fn compensate(&self, _: &Flow, compensation: Compensation) -> Result<Compensated, Failure> {
        match compensation.undo()? {
            Undo::Refund => {
                // The provider refunds a charge under that key, and refuses a later charge under
                // it. So the same request is right for a charge in doubt.
                let request = RefundRequest { charge_key: compensation.tried_under().to_owned() };
                let key = compensation.idempotency_key().to_owned();
                let refund = self.payments.refund(&request, key).await?.refund;
                if refund.is_none() && compensation.result::<Receipt>()?.is_some() {
                    let forgotten = "the provider knows no charge under the key; refund it by its receipt";
                    return Err(Failure::needs_operator(forgotten.to_owned()).code("refund.forgotten"));
                }
                Ok(Compensated::Done)
            }
            Undo::Parcel => Ok(Compensated::Nothing),
            Undo::Withdraw(name) => {
                row::withdraw(&self.dynamodb, &self.orders_table, &name).await?;
                Ok(Compensated::Done)
            }
        }
    }

    async fn probe_compensation(&self, compensation: &Compensation) -> Result<ProbeOutcome, BoxError> {
        // Withdrawing the same row again is harmless; the provider recognises refunds by their key.
        Ok(match compensation.undo()? {
            Undo::Withdraw(_) | Undo::Parcel => ProbeOutcome::NotDone,
            Undo::Refund => ProbeOutcome::Unknown,
        })
    }
}

impl Purchase {
    /// Finds a charge in doubt. `Unknown` if the provider knows none: a request may still arrive,
    /// or the provider has forgotten the charge.
    async fn found(&self, idempotency_key: &str) -> Result<ProbeOutcome, BoxError> {
        match self.payments.find(idempotency_key).await? {
            Some(receipt) => Ok(ProbeOutcome::done(&receipt)?),
            None => Ok(ProbeOutcome::Unknown),
        }
    }
}

/// The dependencies of the API for purchases.
#[derive(Debug, Clone)]
pub struct Purchases {
    /// The workflows of purchases.
    pub workflows: Workflows,
    /// The code of purchases.
    pub code: Purchase,
}

impl Purchases {
    /// Prepares a purchase that a customer requests under this key.
    ///
    /// # Errors
    ///
    /// [`InvalidArgument`] if the key or the customer is not allowed in a key.
    pub fn start(
        &self,
        customer: &str,
        key: &str,
        request: &OrderRequest,
    ) -> Result<StartBuilder<'_, Purchase>, InvalidArgument> {
        let key = Self::key(customer, key)?;
        let input = PurchaseInput { customer: customer.to_owned(), request: request.clone() };
        Ok(self.workflows.start(&self.code, key, &input))
    }

    fn key(customer: &str, key: &str) -> Result<Key, InvalidArgument> {
        Key::new("purchase", key)?.tenant(customer)
    }
}
