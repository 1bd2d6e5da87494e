//! A purchase: the order and the stock, the money, and the message that gets it packed.

use std::time::Duration;

use locker::workflow::{Compensated, Compensation, Flow, ProbeOutcome, Refused, Stop, Workflow};
use locker::{BoxError, Failure};
use serde::{Deserialize, Serialize};

use super::books::Verb;
use super::shop::{Shop, text, updating};

/// How long the card provider recognises an idempotency key.
pub(super) const RECOGNISED: Duration = Duration::from_secs(24 * 60 * 60);

/// Takes an order, its money, and has it shipped.
#[derive(Debug)]
pub struct Buy(pub Shop);

/// The order to place.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[allow(missing_docs, reason = "plain words")]
pub struct Cart {
    pub order: String,
    pub stock: String,
    pub card: String,
    pub amount: i64,
}

/// The answer, unless the card is declined: that is a failure of the workflow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Purchase {
    /// Paid with this charge.
    Bought(String),
    /// Sold out. No money was charged.
    OutOfStock,
}

#[derive(Serialize, Deserialize)]
enum Undo {
    GiveBack(Cart),
    Refund(Cart),
}

impl Workflow for Buy {
    const NAME: &'static str = "buy";
    type Input = Cart;
    type Output = Purchase;

    async fn run(&self, flow: &Flow, cart: Cart) -> Result<Purchase, Stop> {
        let Self(Shop { rows, provider, patience, .. }) = self;
        let Cart { order, stock, card, amount } = &cart;
        let reserved = flow
            .atomic("reserve")
            .put(rows.insert(order, &[("state", text("received"))]))
            .update(rows.add(stock, "left", -1))
            .compensate(&Undo::GiveBack(cart.clone()))
            .outcome(&())
            .await?;
        match reserved {
            Err(Refused { writes, .. }) if writes == [1] => return Ok(Purchase::OutOfStock),
            Err(refused) => return Err(Stop::fail(refused)),
            Ok(()) => {}
        }
        let charge: String = flow
            .once("charge")
            .input(amount)
            .recognised_for(RECOGNISED)
            .expect_within(*patience)
            // For a driver that resumes after the provider no longer recognises the key.
            .probe(|_| async {
                let found = provider.ask(Verb::FindCharge, order).send().await?;
                if found.is_empty() { Ok(ProbeOutcome::NotDone) } else { Ok(ProbeOutcome::done(&found)?) }
            })
            .compensate_within(&Undo::Refund(cart.clone()), RECOGNISED)
            .run(|attempt| {
                let charge = provider.ask(Verb::Charge, order).account(card, *amount);
                charge.key(attempt.idempotency_key()).send()
            })
            .await?;
        let finish = rows.change(
            order,
            &[("state", text("finished")), ("charge", text(&charge))],
            &[("state", text("received"))],
        );
        // After this step the order is with the packers.
        flow.atomic("finish").update(finish).message("orders/new", order).pivot().commit(&()).await?;
        Ok(Purchase::Bought(charge))
    }

    async fn compensate(&self, _: &Flow, compensation: Compensation) -> Result<Compensated, Failure> {
        let Self(Shop { rows, provider, .. }) = self;
        let cart: Cart = match compensation.undo()? {
            Undo::GiveBack(cart) => cart,
            Undo::Refund(cart) => {
                // Refunds a charge that happened, and refuses one that is still in flight.
                provider.ask(Verb::Cancel, &cart.order).key(compensation.idempotency_key()).send().await?;
                return Ok(Compensated::Done);
            }
        };
        let cancel =
            rows.change(&cart.order, &[("state", text("cancelled"))], &[("state", text("received"))]);
        rows.write(vec![updating(cancel), updating(rows.add(&cart.stock, "left", 1))]).await?;
        Ok(Compensated::Done)
    }

    /// The stock is returned in the same transaction as the order's state, so the state decides.
    async fn probe_compensation(&self, compensation: &Compensation) -> Result<ProbeOutcome, BoxError> {
        let Undo::GiveBack(cart) = compensation.undo()? else {
            return Ok(ProbeOutcome::NotDone); // the provider refunds a charge once
        };
        let state = self.0.rows.get(&cart.order, "state").await?;
        Ok(if state == "cancelled" { ProbeOutcome::compensated() } else { ProbeOutcome::NotDone })
    }
}
