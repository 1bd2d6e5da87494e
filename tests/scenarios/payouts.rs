//! Payouts: two payees at a time. Each batch of payees is a version of the workflow's key.

use locker::Failure;
use locker::workflow::{Compensated, Compensation, Flow, Stop, Workflow};
use serde::{Deserialize, Serialize};

use super::books::Verb;
use super::purchase::RECOGNISED;
use super::shop::{Shop, text};

/// Pays all payees of a list.
#[derive(Debug)]
pub struct PayOut(pub Shop);

/// The payments to make.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[allow(missing_docs, reason = "plain words")]
pub struct Payouts {
    pub list: String,
    pub account: String,
    pub amount: i64,
    /// References of the payments, one batch after the other.
    pub batches: Vec<Vec<String>>,
    /// The number of payments of the earlier batches.
    pub paid: usize,
}

#[derive(Serialize, Deserialize)]
enum Undo {
    TakeBack(String),
}

impl Workflow for PayOut {
    const NAME: &'static str = "pay-out";
    type Input = Payouts;
    type Output = usize;

    async fn run(&self, flow: &Flow, payouts: Payouts) -> Result<usize, Stop> {
        let Self(Shop { rows, provider, patience, .. }) = self;
        let Payouts { list, account, amount, batches, paid } = &payouts;
        let Some((batch, rest)) = batches.split_first() else { return Ok(*paid) };
        let receipts: Vec<String> = flow
            .map("pay", batch.iter().enumerate(), 2, async |flow, payment| {
                flow.once("charge")
                    .input(amount)
                    .recognised_for(RECOGNISED)
                    .expect_within(*patience)
                    .compensate_within(&Undo::TakeBack(payment.clone()), RECOGNISED)
                    .run(|attempt| {
                        let charge = provider.ask(Verb::Charge, payment).account(account, *amount);
                        charge.key(attempt.idempotency_key()).send()
                    })
                    .await
            })
            .await?;
        let paid = paid + receipts.len();
        if !rest.is_empty() {
            // The payments of this batch stay, whatever becomes of the next one.
            return Err(flow.continue_as_new(&Payouts { batches: rest.to_vec(), paid, ..payouts.clone() }));
        }
        let finish = rows.change(list, &[("state", text("paid"))], &[("state", text("open"))]);
        flow.atomic("finish").update(finish).message("payouts/paid", list).pivot().commit(&()).await?;
        Ok(paid)
    }

    async fn compensate(&self, _: &Flow, compensation: Compensation) -> Result<Compensated, Failure> {
        let Self(Shop { provider, .. }) = self;
        let Undo::TakeBack(payment) = compensation.undo()?;
        // Takes back a payment that happened, and refuses one that is still in flight.
        provider.ask(Verb::Cancel, &payment).key(compensation.idempotency_key()).send().await?;
        Ok(Compensated::Done)
    }
}
