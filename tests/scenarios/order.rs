//! An order: one charge at a provider that recognises nothing and cannot be asked.

use locker::workflow::{Flow, Stop, Workflow};
use serde::{Deserialize, Serialize};

use super::books::Verb;
use super::shop::Shop;

/// Charges an order.
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

    /// If nobody knows whether the charge happened, it is not made again: a person looks at the provider's
    /// books and says so.
    async fn run(&self, flow: &Flow, order: Order) -> Result<String, Stop> {
        let Self(Shop { provider, patience, .. }) = self;
        flow.once("charge")
            .input(&order.amount)
            .expect_within(*patience)
            .pivot()
            .run(|_| provider.ask(Verb::Charge, &order.id).account(&order.card, order.amount).send())
            .await
    }
}
