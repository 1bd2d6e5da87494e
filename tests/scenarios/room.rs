//! A room: it is held until the deposit comes, and booked after a day in which the guest may
//! withdraw.

use std::time::Duration;

use locker::workflow::{
    Compensated, Compensation, Event, Flow, ProbeOutcome, Signalled, Stop, Workflow, Workflows,
};
use locker::{BoxError, Error, Failure};
use serde::{Deserialize, Serialize};

use super::books::Verb;
use super::shop::{Shop, text, updating};

const HOUR: Duration = Duration::from_secs(60 * 60);
/// How long the room is held without a deposit.
const PATIENCE: Duration = HOUR;
/// How long the guest may withdraw.
const WITHDRAWAL: Duration = Duration::from_secs(24 * 60 * 60);

/// The bank's webhook: the number of the transfer.
pub(super) const DEPOSIT: Event<String> = Event::named("deposit");
/// The number of the transfer of each guest.
const TRANSFER: &str = "tr-1";
/// How much the guest transfers, in cents.
pub(super) const DEPOSITED: i64 = 100;

/// Holds a room, waits for the deposit, and books the room.
#[derive(Debug)]
pub struct ReserveRoom(pub Shop);

/// The room to reserve.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[allow(missing_docs, reason = "plain words")]
pub struct Reservation {
    pub id: String,
    pub room: String,
}

#[derive(Serialize, Deserialize)]
enum Undo {
    Free(Reservation),
    Return(Reservation),
}

impl Workflow for ReserveRoom {
    const NAME: &'static str = "reserve-room";
    type Input = Reservation;
    type Output = String;

    async fn run(&self, flow: &Flow, reservation: Reservation) -> Result<String, Stop> {
        let Self(Shop { rows, .. }) = self;
        let Reservation { id, room } = &reservation;
        let (mine, free) = (("by", text(id)), ("state", text("free")));
        let hold = rows.change(room, &[("state", text("held")), mine.clone()], &[free]);
        flow.atomic("hold").update(hold).compensate(&Undo::Free(reservation.clone())).commit(&()).await?;
        let held = flow.now("held").await?;
        // A deposit that comes later is returned, and so is one that came before a cancel.
        let deposit = flow.wait_for(DEPOSIT, PATIENCE).on_late(&Undo::Return(reservation.clone())).await?;
        let Some(deposit) = deposit else {
            // The deposit may be on its way.
            flow.sleep("grace", HOUR).await?;
            return Err(Stop::fail("no deposit came in time"));
        };
        flow.sleep_until("withdrawal", held + WITHDRAWAL).await?;
        let book = rows.change(room, &[("state", text("booked"))], &[mine]);
        flow.atomic("book").update(book).message("rooms/booked", room).pivot().commit(&()).await?;
        Ok(deposit)
    }

    async fn compensate(&self, _: &Flow, compensation: Compensation) -> Result<Compensated, Failure> {
        let Self(Shop { rows, provider, .. }) = self;
        match compensation.undo()? {
            Undo::Return(Reservation { id, .. }) => {
                // The bank returns a deposit once.
                provider.ask(Verb::Cancel, &id).key(compensation.idempotency_key()).send().await?;
            }
            Undo::Free(Reservation { id, room }) => {
                let free = [("state", text("free")), ("by", text("nobody"))];
                // Refused: the room is free already.
                rows.write(vec![updating(rows.change(&room, &free, &[("by", text(&id))]))]).await?;
            }
        }
        Ok(Compensated::Done)
    }

    /// Both compensations may run again.
    async fn probe_compensation(&self, _: &Compensation) -> Result<ProbeOutcome, BoxError> {
        Ok(ProbeOutcome::NotDone)
    }
}

/// Gives the deposit to a reservation, as the bank's webhook does.
pub(super) async fn pay(workflows: &Workflows, key: &str) -> Result<Signalled, Error> {
    workflows.signal(key, DEPOSIT, &TRANSFER.to_owned()).id(TRANSFER).await
}
