//! A shipment: the address is checked, labels are printed, and everything else is one transaction.

use std::time::Duration;

use locker::Failure;
use locker::workflow::{Flow, Stop, Undo, Undone, Workflow};
use serde::{Deserialize, Serialize};

use super::books::Verb;
use super::shop::{Shop, text};

/// The carrier recognises an idempotency key for so long.
const RECOGNISED: Duration = Duration::from_secs(24 * 60 * 60);

/// Ships an order.
#[derive(Debug)]
pub struct Ship(pub Shop);

/// What is shipped, and where to. The key of the workflow is the `Idempotency-Key` of the request.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[allow(missing_docs, reason = "plain words")]
pub struct Parcel {
    pub shipment: String,
    pub order: String,
    pub address: String,
    pub postage: i64,
}

/// The response, the same for every retry of the request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "plain words")]
pub struct Shipped {
    pub status: u16,
    pub tracking: String,
}

impl Workflow for Ship {
    const NAME: &'static str = "ship";
    type Input = Parcel;
    type Output = Shipped;

    async fn run(&self, flow: &Flow, parcel: Parcel) -> Result<Shipped, Stop> {
        let Self(Shop { rows, provider, patience, .. }) = self;
        let Parcel { shipment, order, address, postage } = &parcel;
        // Asking twice is harmless.
        let validate = flow.step("validate").input(address);
        validate.run(|_| provider.ask(Verb::Validate, shipment).account(address, 0).send()).await?;
        let tracking: String = flow
            .once("labels")
            .input(&(address, postage))
            .recognised_for(RECOGNISED)
            .expect_within(*patience)
            .compensate_within("void", shipment, RECOGNISED)
            .run(|attempt| {
                let label = provider.ask(Verb::Label, shipment).account(address, *postage);
                label.key(attempt.idempotency_key()).send()
            })
            .await?;
        flow.atomic("record")
            .put(rows.insert(shipment, &[("tracking", text(&tracking))]))
            .put(rows.insert(&format!("invoice/{shipment}"), &[("state", text("due"))]))
            .update(rows.change(order, &[("state", text("fulfilled"))], &[("state", text("open"))]))
            .message("notify/customer", &tracking)
            .message("notify/sales", order)
            // They are told, so there is no way back.
            .pivot()
            .commit(&())
            .await?;
        Ok(Shipped { status: 201, tracking })
    }

    /// Voids the labels there are, and refuses those still on their way.
    async fn undo(&self, _: &Flow, undo: Undo) -> Result<Undone, Failure> {
        let shipment: String = undo.input().map_err(|error| Failure::needs_person(error.to_string()))?;
        self.0.provider.ask(Verb::Void, &shipment).key(undo.idempotency_key()).send().await?;
        Ok(Undone::Done)
    }
}
