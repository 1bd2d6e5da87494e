//! A shipment: the address is checked, labels are printed, and everything else is one transaction.

use std::time::Duration;

use locker::Failure;
use locker::workflow::{Compensated, Compensation, Flow, Stop, Workflow};
use serde::{Deserialize, Serialize};

use super::books::Verb;
use super::shop::{Shop, text};

/// How long the carrier recognises an idempotency key.
const RECOGNISED: Duration = Duration::from_secs(24 * 60 * 60);

/// Ships an order.
#[derive(Debug)]
pub struct Ship(pub Shop);

/// The parcel and its address. The key of the workflow is the `Idempotency-Key` of the request.
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

#[derive(Serialize, Deserialize)]
enum Undo {
    Void(String),
}

impl Workflow for Ship {
    const NAME: &'static str = "ship";
    type Input = Parcel;
    type Output = Shipped;

    async fn run(&self, flow: &Flow, parcel: Parcel) -> Result<Shipped, Stop> {
        let Self(Shop { rows, provider, patience, .. }) = self;
        let Parcel { shipment, order, address, postage } = &parcel;
        // Validating twice is harmless.
        let validate = flow.step("validate").input(address);
        validate.run(|_| provider.ask(Verb::Validate, shipment).account(address, 0).send()).await?;
        let tracking: String = flow
            .once("labels")
            .input(&(address, postage))
            .recognised_for(RECOGNISED)
            .expect_within(*patience)
            .compensate_within(&Undo::Void(shipment.clone()), RECOGNISED)
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
            // The customer and sales are notified, so this is a pivot.
            .pivot()
            .commit(&())
            .await?;
        Ok(Shipped { status: 201, tracking })
    }

    /// Void the existing labels, and refuse those still in flight.
    async fn compensate(&self, _: &Flow, compensation: Compensation) -> Result<Compensated, Failure> {
        let Undo::Void(shipment) = compensation.undo()?;
        self.0.provider.ask(Verb::Void, &shipment).key(compensation.idempotency_key()).send().await?;
        Ok(Compensated::Done)
    }
}
