//! The cases of the seven scenarios: the rows before, the request, and its caller.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use locker::Error;
use locker::workflow::{Completer, Outcome, Workflow, Workflows};

use super::funding::{Contract, FundContract, Funding};
use super::order::{ChargeOrder, Order};
use super::payouts::{PayOut, Payouts};
use super::purchase::{Buy, Cart, RECOGNISED};
use super::room::{Reservation, ReserveRoom, pay};
use super::seats::{BookSeat, Booking};
use super::shipment::{Parcel, Ship};
use super::shop::{Rows, Shop, number, text};

/// Longer than a room is held without a deposit, and longer than a guest may withdraw.
const AFTER_THE_WAIT: Duration = Duration::from_secs(61 * 60);
const AFTER_THE_TIMER: Duration = Duration::from_secs(24 * 60 * 60);

/// One case of a scenario.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs, reason = "their names say it")]
pub enum Case {
    FundingPaid,
    FundingCorrected,
    FundingRefused,
    PurchaseBought,
    PurchaseDeclined,
    PurchaseSoldOut,
    SeatsSold,
    SeatsPoor,
    ShipmentSent,
    ShipmentNowhere,
    ShipmentClosed,
    OrderCharged,
    OrderDeclined,
    RoomBooked,
    RoomUnpaid,
    PayoutsPaid,
    PayoutsRefused,
}

/// All of them, with their names.
pub const CASES: [(Case, &str); 17] = [
    (Case::FundingPaid, "funding/paid"),
    (Case::FundingCorrected, "funding/corrected"),
    (Case::FundingRefused, "funding/refused"),
    (Case::PurchaseBought, "purchase/bought"),
    (Case::PurchaseDeclined, "purchase/declined"),
    (Case::PurchaseSoldOut, "purchase/sold-out"),
    (Case::SeatsSold, "seats/sold"),
    (Case::SeatsPoor, "seats/poor"),
    (Case::ShipmentSent, "shipment/sent"),
    (Case::ShipmentNowhere, "shipment/nowhere"),
    (Case::ShipmentClosed, "shipment/closed"),
    (Case::OrderCharged, "order/charged"),
    (Case::OrderDeclined, "order/declined"),
    (Case::RoomBooked, "room/booked"),
    (Case::RoomUnpaid, "room/unpaid"),
    (Case::PayoutsPaid, "payouts/paid"),
    (Case::PayoutsRefused, "payouts/refused"),
];

/// The answer to a caller.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "as `Outcome`")]
pub enum Answer {
    Completed(String),
    Failed(String),
    Cancelled,
    InProgress,
    Quarantined(String),
    Mismatch,
}

impl Answer {
    fn of<T: fmt::Debug>(outcome: Outcome<T>) -> Self {
        match outcome {
            Outcome::Completed(answer) => Self::Completed(format!("{:?}", *answer)),
            Outcome::Failed(failed) => Self::Failed(failed.failure().json().to_owned()),
            Outcome::Cancelled => Self::Cancelled,
            Outcome::Quarantined(reason) => Self::Quarantined(reason),
            Outcome::Mismatch => Self::Mismatch,
            _ => Self::InProgress,
        }
    }

    /// Whether the answer is final.
    #[must_use]
    pub const fn is_final(&self) -> bool {
        matches!(self, Self::Completed(_) | Self::Failed(_) | Self::Cancelled)
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(CASES.iter().find(|(case, _)| case == self).map_or("?", |(_, name)| name))
    }
}

impl FromStr for Case {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = CASES.iter().find(|(_, name)| *name == text);
        found.map(|(case, _)| *case).ok_or_else(|| format!("there is no scenario {text}"))
    }
}

/// A completer that knows all seven.
pub fn completer(workflows: &Workflows, shop: &Shop) -> Completer {
    Completer::new(workflows)
        .register(FundContract(shop.clone()))
        .register(Buy(shop.clone()))
        .register(BookSeat(shop.clone()))
        .register(Ship(shop.clone()))
        .register(ChargeOrder(shop.clone()))
        .register(ReserveRoom(shop.clone()))
        .register(PayOut(shop.clone()))
}

impl Case {
    /// The key of number `n`.
    #[must_use]
    pub fn key(self, n: u64) -> String {
        format!("{}/{n}", self.to_string().replace('/', "-"))
    }

    /// The references of the fundings of a contract.
    #[must_use]
    pub fn fundings(self, n: u64) -> [String; 2] {
        [1, 2].map(|number| format!("{}.{number}", self.key(n).replace('/', ".")))
    }

    /// Write the rows that exist before the request.
    pub async fn prepare(self, n: u64, rows: &Rows) {
        let key = self.key(n);
        match self {
            Self::FundingPaid | Self::FundingCorrected | Self::FundingRefused => {
                for id in self.fundings(n) {
                    rows.seed(&id, &[("released", text("no"))]).await;
                }
            }
            Self::PurchaseBought | Self::PurchaseDeclined | Self::PurchaseSoldOut => {
                let left = i64::from(self != Self::PurchaseSoldOut) * 5;
                rows.seed(&format!("stock/{key}"), &[("left", number(left))]).await;
            }
            Self::SeatsSold | Self::SeatsPoor => {
                rows.seed(&format!("seat/{key}"), &[("state", text("free")), ("by", text("nobody"))]).await;
            }
            Self::ShipmentSent | Self::ShipmentNowhere | Self::ShipmentClosed => {
                let state = if self == Self::ShipmentClosed { "closed" } else { "open" };
                rows.seed(&format!("order/{key}"), &[("state", text(state))]).await;
            }
            Self::OrderCharged | Self::OrderDeclined => {}
            Self::RoomBooked | Self::RoomUnpaid => {
                rows.seed(&format!("room/{key}"), &[("state", text("free")), ("by", text("nobody"))]).await;
            }
            Self::PayoutsPaid | Self::PayoutsRefused => {
                rows.seed(&format!("list/{key}"), &[("state", text("open"))]).await;
            }
        }
    }

    /// The initial balance of the card, the wallet or the account, under its key.
    #[must_use]
    pub const fn money(self) -> i64 {
        match self {
            Self::FundingRefused | Self::PayoutsRefused => 150,
            Self::PurchaseDeclined | Self::SeatsPoor | Self::OrderDeclined => 50,
            _ => 1000,
        }
    }

    /// How long its provider recognises an idempotency key.
    #[must_use]
    pub fn recognised(self) -> Option<Duration> {
        let knows_none =
            matches!(self, Self::SeatsSold | Self::SeatsPoor | Self::OrderCharged | Self::OrderDeclined);
        (!knows_none).then_some(RECOGNISED)
    }

    /// Whether it waits for a deposit, which comes in any case.
    #[must_use]
    pub const fn is_room(self) -> bool {
        matches!(self, Self::RoomBooked | Self::RoomUnpaid)
    }

    /// The payments of a list: two batches.
    #[must_use]
    pub fn payments(self, n: u64) -> Vec<Vec<String>> {
        let payment = |number: &str| format!("pay.{number}/{}", self.key(n));
        vec![vec![payment("1"), payment("2")], vec![payment("3")]]
    }

    /// The last version of the key that a play may use.
    #[must_use]
    pub const fn last_version(self) -> u32 {
        if matches!(self, Self::PayoutsPaid | Self::PayoutsRefused) { 2 } else { self.versions() }
    }

    /// The number of versions of the key: the caller corrects the request and asks under the next
    /// one.
    #[must_use]
    pub const fn versions(self) -> u32 {
        if matches!(self, Self::FundingCorrected) { 2 } else { 1 }
    }

    /// Ask as the caller would: if the bank refuses the name, again with another one.
    ///
    /// # Errors
    ///
    /// No answer.
    pub async fn ask(self, n: u64, workflows: &Workflows, shop: &Shop) -> Result<Answer, Error> {
        let mut answer = Answer::InProgress;
        for version in 1..=self.versions() {
            answer = Box::pin(self.ask_version(n, version, workflows, shop)).await?;
            if !matches!(answer, Answer::Failed(_)) {
                break;
            }
        }
        Ok(answer)
    }

    /// Ask for another shipment under the same key. `None`: not part of this case.
    pub async fn ask_otherwise(self, n: u64, workflows: &Workflows, shop: &Shop) -> Option<Answer> {
        let (Self::ShipmentSent | Self::ShipmentClosed) = self else { return None };
        let key = self.key(n);
        let (shipment, order) = (format!("shipment/{key}"), format!("order/{key}"));
        let parcel = Parcel { shipment, order, address: "2 Low Street".to_owned(), postage: 9 };
        start(workflows, &Ship(shop.clone()), &key, 1, &parcel).await.ok()
    }

    /// Ask under one version of the key.
    ///
    /// # Errors
    ///
    /// No answer.
    pub async fn ask_version(
        self,
        n: u64,
        version: u32,
        workflows: &Workflows,
        shop: &Shop,
    ) -> Result<Answer, Error> {
        let (key, shop) = (self.key(n), shop.clone());
        match self {
            Self::FundingPaid | Self::FundingCorrected | Self::FundingRefused => {
                let holder = if version < self.versions() { "" } else { "Ada" };
                let fundings = self.fundings(n).map(|id| Funding { id, amount: 100 }).to_vec();
                let contract = Contract { id: key.clone(), holder: holder.to_owned(), version, fundings };
                start(workflows, &FundContract(shop), &key, version, &contract).await
            }
            Self::PurchaseBought | Self::PurchaseDeclined | Self::PurchaseSoldOut => {
                let (order, stock) = (format!("order/{key}"), format!("stock/{key}"));
                let cart = Cart { order, stock, card: key.clone(), amount: 100 };
                start(workflows, &Buy(shop), &key, version, &cart).await
            }
            Self::SeatsSold | Self::SeatsPoor => {
                let seat = format!("seat/{key}");
                let booking = Booking { id: key.clone(), seat, wallet: key.clone(), price: 100 };
                start(workflows, &BookSeat(shop), &key, version, &booking).await
            }
            Self::ShipmentSent | Self::ShipmentNowhere | Self::ShipmentClosed => {
                let address = if self == Self::ShipmentNowhere { "" } else { "1 High Street" };
                let (shipment, order) = (format!("shipment/{key}"), format!("order/{key}"));
                let parcel = Parcel { shipment, order, address: address.to_owned(), postage: 7 };
                start(workflows, &Ship(shop), &key, version, &parcel).await
            }
            Self::OrderCharged | Self::OrderDeclined => {
                let order = Order { id: key.clone(), card: key.clone(), amount: 100 };
                start(workflows, &ChargeOrder(shop), &key, version, &order).await
            }
            Self::RoomBooked | Self::RoomUnpaid => self.reserve(&key, workflows, &ReserveRoom(shop)).await,
            Self::PayoutsPaid | Self::PayoutsRefused => {
                let (list, account, batches) = (format!("list/{key}"), key.clone(), self.payments(n));
                let payouts = Payouts { list, account, amount: 100, batches, paid: 0 };
                start(workflows, &PayOut(shop), &key, version, &payouts).await
            }
        }
    }
}

impl Case {
    /// Reserves a room as the guest's caller and the bank's webhook do. The caller asks again after
    /// the time of the wait, and after the time of the timer. The webhook comes twice: if the
    /// deposit is in time, once before the end of the wait and once after it.
    async fn reserve(self, key: &str, workflows: &Workflows, code: &ReserveRoom) -> Result<Answer, Error> {
        let reservation = Reservation { id: key.to_owned(), room: format!("room/{key}") };
        let mut answer = start(workflows, code, key, 1, &reservation).await?;
        if self == Self::RoomBooked {
            let _ = Box::pin(pay(workflows, key)).await?;
        }
        for pause in [AFTER_THE_WAIT, AFTER_THE_TIMER] {
            if answer == Answer::InProgress {
                tokio::time::sleep(pause).await;
                answer = start(workflows, code, key, 1, &reservation).await?;
            }
            if pause == AFTER_THE_WAIT {
                let _ = Box::pin(pay(workflows, key)).await?;
            }
        }
        Ok(answer)
    }
}

async fn start<W: Workflow>(
    workflows: &Workflows,
    code: &W,
    key: &str,
    version: u32,
    input: &W::Input,
) -> Result<Answer, Error>
where
    W::Output: fmt::Debug,
{
    let start = workflows.start(code, key, input).key_version(version);
    Box::pin(start.run()).await.map(Answer::of)
}
