//! An order: one charge at a provider that recognises no keys and cannot be queried; whoever ships
//! it is told.

use locker::workflow::{Flow, Stop, Workflow};
use serde::{Deserialize, Serialize};

use super::books::Verb;
use super::shop::Shop;

/// Charges an order, and has it shipped.
#[derive(Debug)]
pub struct ChargeOrder(pub Shop);

/// What is charged.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[allow(missing_docs, reason = "plain words")]
pub struct Order {
    pub id: String,
    pub card: String,
    pub amount: i64,
}

impl Workflow for ChargeOrder {
    const NAME: &'static str = "charge-order";
    type Input = Order;
    type Output = String;

    /// If the charge is in doubt, it is not made again: an operator checks the provider's books and
    /// resolves the step.
    async fn run(&self, flow: &Flow, order: Order) -> Result<String, Stop> {
        let Self(Shop { provider, patience, .. }) = self;
        let charge: String = flow
            .once("charge")
            .input(&order.amount)
            .expect_within(*patience)
            .pivot()
            .run(|_| provider.ask(Verb::Charge, &order.id).account(&order.card, order.amount).send())
            .await?;
        flow.atomic("tell").message("orders/charged", &charge).commit(&()).await?;
        Ok(charge)
    }
}
