//! A purchase: the order and the stock, the money, and the message that gets it packed.

use std::time::Duration;

use locker::workflow::{Flow, Found, Stop, Undo, Undone, Workflow};
use locker::{BoxError, Failure};
use serde::{Deserialize, Serialize};

use super::books::Verb;
use super::shop::{Shop, text, updating};

/// The card provider recognises an idempotency key for so long.
pub(super) const RECOGNISED: Duration = Duration::from_secs(24 * 60 * 60);

/// Takes an order, its money, and has it shipped.
#[derive(Debug)]
pub struct Buy(pub Shop);

/// What is bought.
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
    /// There was none left. No money was asked for.
    OutOfStock,
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
            .compensate("give-back", &cart)
            .commit(&())
            .await;
        match reserved {
            Err(Stop::Refused { writes, .. }) if writes == [1] => return Ok(Purchase::OutOfStock),
            reserved => reserved?,
        }
        let charge: String = flow
            .once("charge")
            .input(amount)
            .recognised_for(RECOGNISED)
            .expect_within(*patience)
            // For whoever comes after the provider has forgotten the key.
            .probe(|_| async {
                let found = provider.ask(Verb::FindCharge, order).send().await?;
                if found.is_empty() { Ok(Found::NotDone) } else { Ok(Found::done(&found)?) }
            })
            .compensate_within("refund", &cart, RECOGNISED)
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
        // Past this it is on its way to the packers.
        flow.atomic("finish").update(finish).message("orders/new", order).pivot().commit(&()).await?;
        Ok(Purchase::Bought(charge))
    }

    async fn undo(&self, _: &Flow, undo: Undo) -> Result<Undone, Failure> {
        let Self(Shop { rows, provider, .. }) = self;
        let cart: Cart = undo.input().map_err(|error| Failure::needs_person(error.to_string()))?;
        if undo.name() == "refund" {
            // Refunds what was charged, and refuses what is still on its way.
            provider.ask(Verb::Cancel, &cart.order).key(undo.idempotency_key()).send().await?;
            return Ok(Undone::Done);
        }
        let cancel =
            rows.change(&cart.order, &[("state", text("cancelled"))], &[("state", text("received"))]);
        rows.write(vec![updating(cancel), updating(rows.add(&cart.stock, "left", 1))]).await?;
        Ok(Undone::Done)
    }

    /// The stock is given back together with the order's state, so that tells.
    async fn probe_undo(&self, undo: &Undo) -> Result<Found, BoxError> {
        let cart: Cart = undo.input()?;
        if undo.name() == "refund" {
            return Ok(Found::NotDone); // the provider refunds a charge once
        }
        let state = self.0.rows.get(&cart.order, "state").await?;
        Ok(if state == "cancelled" { Found::undone() } else { Found::NotDone })
    }
}
