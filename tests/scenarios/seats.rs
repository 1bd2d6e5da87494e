//! A seat and a wallet: the wallet recognises no idempotency keys, but can be queried for charges.
//! The house is told of each seat that is sold.

use std::time::Duration;

use chrono::TimeDelta;
use locker::workflow::{Compensated, Compensation, Flow, ProbeOutcome, RetryPolicy, Stop, Workflow};
use locker::{BoxError, Failure};
use serde::{Deserialize, Serialize};

use super::books::Verb;
use super::shop::{Shop, text, updating};

/// Holds a seat, charges a wallet, and sells the seat.
#[derive(Debug)]
pub struct BookSeat(pub Shop);

/// The seat to book.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[allow(missing_docs, reason = "plain words")]
pub struct Booking {
    pub id: String,
    pub seat: String,
    pub wallet: String,
    pub price: i64,
}

/// The answer, unless the money is missing: that is a failure of the workflow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Seat {
    /// It is sold.
    Sold,
    /// Another caller has it. No money was charged.
    Taken,
}

#[derive(Serialize, Deserialize)]
enum Undo {
    Free(Booking),
    Refund(Booking),
}

impl Workflow for BookSeat {
    const NAME: &'static str = "book-seat";
    type Input = Booking;
    type Output = Seat;

    async fn run(&self, flow: &Flow, booking: Booking) -> Result<Seat, Stop> {
        let Self(Shop { rows, provider, patience, clock, .. }) = self;
        let Booking { id, seat, wallet, price } = &booking;
        let (mine, free) = (("by", text(id)), ("state", text("free")));
        let held = flow
            .atomic("reserve")
            .update(rows.change(seat, &[("state", text("held")), mine.clone()], &[free]))
            .compensate(&Undo::Free(booking.clone()))
            .outcome(&())
            .await?;
        if held.is_err() {
            return Ok(Seat::Taken);
        }
        flow.once("charge")
            .input(price)
            .expect_within(*patience)
            .retry(RetryPolicy::default().total(Duration::from_secs(5)))
            // A charge that is not found may still arrive, as long as a driver may be about to send
            // it.
            .probe(|_| async {
                let found = provider.ask(Verb::FindCharge, id).send().await?;
                if found.is_empty() { Ok(ProbeOutcome::Unknown) } else { Ok(ProbeOutcome::done(&found)?) }
            })
            .compensate(&Undo::Refund(booking.clone()))
            .run(|_| {
                // A request that is in flight for long is refused before another driver may take
                // this step over.
                let until = clock.now() + TimeDelta::from_std(*patience / 2).unwrap_or_default();
                let charge = provider.ask(Verb::Charge, id).account(wallet, *price).valid_until(until);
                async { charge.send().await.map(|_| ()) }
            })
            .await?;
        let sell = rows.change(seat, &[("state", text("sold"))], &[mine]);
        // The house is told, so this is a pivot.
        flow.atomic("confirm").update(sell).message("seats/sold", seat).pivot().commit(&()).await?;
        Ok(Seat::Sold)
    }

    /// A charge that is not found yet may arrive late, with its driver; then this is called again.
    async fn compensate(&self, _: &Flow, compensation: Compensation) -> Result<Compensated, Failure> {
        let Self(Shop { rows, provider, .. }) = self;
        let booking: Booking = match compensation.undo()? {
            Undo::Refund(booking) => booking,
            Undo::Free(booking) => {
                let free = [("state", text("free")), ("by", text("nobody"))];
                let back = rows.change(&booking.seat, &free, &[("by", text(&booking.id))]);
                // Refused: the seat is free already.
                rows.write(vec![updating(back)]).await?;
                return Ok(Compensated::Done);
            }
        };
        if provider.ask(Verb::FindCharge, &booking.id).send().await?.is_empty() {
            return Ok(Compensated::Nothing);
        }
        provider.ask(Verb::Refund, &booking.id).account(&booking.wallet, booking.price).send().await?;
        Ok(Compensated::Done)
    }

    async fn probe_compensation(&self, compensation: &Compensation) -> Result<ProbeOutcome, BoxError> {
        let Self(Shop { rows, provider, .. }) = self;
        let booking: Booking = match compensation.undo()? {
            Undo::Refund(booking) => booking,
            Undo::Free(booking) => {
                let by = rows.get(&booking.seat, "by").await?;
                return Ok(if by == booking.id {
                    ProbeOutcome::NotDone
                } else {
                    ProbeOutcome::compensated()
                });
            }
        };
        if !provider.ask(Verb::FindRefund, &booking.id).send().await?.is_empty() {
            return Ok(ProbeOutcome::compensated());
        }
        // Without a charge no refund was sent.
        let charged = !provider.ask(Verb::FindCharge, &booking.id).send().await?.is_empty();
        Ok(if charged { ProbeOutcome::Unknown } else { ProbeOutcome::NotDone })
    }
}
