//! Whether the books balance: nothing twice, nothing half, or quarantined and listed.

use std::collections::HashSet;

use locker::BoxError;
use locker::workflow::{List, State, Workflows};

use super::books::{Books, EntryState, Verb};
use super::cases::{Answer, Case};
use super::funding::{RELEASED, TAKEN_BACK};
use super::receiver::{Told, seen};
use super::shop::Rows;

/// The state that one play of a case leaves.
#[derive(Debug)]
pub struct Left<'a> {
    /// The books of its provider.
    pub books: &'a Books,
    /// Its rows.
    pub rows: &'a Rows,
    /// The last answer to its caller.
    pub answer: &'a Answer,
    /// What the broker has.
    pub told: &'a Told,
    /// Whether it is in quarantine, and listed there.
    pub quarantined: bool,
    /// Whether an operator sees a late event of it.
    pub late: bool,
}

/// The state of a workflow over all versions of its key: its unsent messages, and whether it is in
/// quarantine. It is an error if a quarantined workflow is not in `listed`, or if one is neither
/// finished nor quarantined.
///
/// # Errors
///
/// DynamoDB did not answer.
pub async fn in_view(
    case: Case,
    n: u64,
    workflows: &Workflows,
    listed: &HashSet<String>,
) -> Result<(Vec<String>, bool, Vec<String>), BoxError> {
    let (mut messages, mut quarantined, mut wrong) = (Vec::new(), false, Vec::new());
    for version in 1..=case.last_version() {
        let Some(view) = workflows.get(case.key(n), version).await? else { continue };
        messages.extend(view.messages().iter().map(|message| message.topic().to_owned()));
        if view.listed() == Some(List::Quarantine) {
            quarantined = true;
            let key = case.key(n);
            let stored = if version == 1 { key } else { format!("{key} v{version}") };
            if !listed.contains(&stored) {
                wrong.push("it is in quarantine and no listing shows it".to_owned());
            }
        } else if matches!(view.state(), State::Running | State::Compensating) {
            wrong.push(format!(
                "it is neither finished nor quarantined: {:?}, {:?}",
                view.state(),
                view.reason()
            ));
        }
    }
    Ok((messages, quarantined, wrong))
}

impl Left<'_> {
    /// Describe every error found.
    ///
    /// # Errors
    ///
    /// DynamoDB did not answer.
    pub async fn check(&self, case: Case, n: u64) -> Result<Vec<String>, BoxError> {
        let mut wrong = match case {
            Case::FundingPaid | Case::FundingCorrected | Case::FundingRefused => {
                self.funding(&case.key(n), &case.fundings(n)).await?
            }
            Case::PurchaseBought | Case::PurchaseDeclined | Case::PurchaseSoldOut => {
                self.purchase(case, &case.key(n)).await?
            }
            Case::SeatsSold | Case::SeatsPoor => self.seat(&case.key(n)).await?,
            Case::ShipmentSent | Case::ShipmentNowhere | Case::ShipmentClosed => {
                self.shipment(&case.key(n)).await?
            }
            Case::OrderCharged | Case::OrderDeclined => self.order(&case.key(n)),
            Case::RoomBooked | Case::RoomUnpaid => self.room(&case.key(n)).await?,
            Case::PayoutsPaid | Case::PayoutsRefused => self.payouts(case, n).await?,
        };
        wrong.extend(self.money(case, n));
        if !self.quarantined && !self.answer.is_final() {
            wrong.push(format!("its caller has no answer: {:?}", self.answer));
        }
        Ok(wrong)
    }

    /// Check that the account lost what stands in the books.
    fn money(&self, case: Case, n: u64) -> Option<String> {
        let key = case.key(n);
        let mine = self.books.entries.iter().filter(|entry| entry.account == key);
        let spent: i64 = mine
            .map(|entry| match (entry.verb, entry.state) {
                (_, EntryState::Archived | EntryState::Reversed) => 0,
                (Verb::Refund, _) => -entry.amount,
                _ => entry.amount,
            })
            .sum();
        let balance = self.books.balances.get(&key).copied().unwrap_or_default();
        (balance + spent != case.money()).then(|| format!("{balance} are left and {spent} are spent"))
    }

    fn told(&self, about: &str) -> &[String] {
        self.told.get(about).map_or(&[], Vec::as_slice)
    }

    fn completed(&self) -> bool {
        matches!(self.answer, Answer::Completed(_))
    }

    async fn funding(&self, contract: &str, fundings: &[String]) -> Result<Vec<String>, BoxError> {
        let mut wrong = Vec::new();
        let accounts = self.books.of(Verb::Open, contract).count();
        if accounts > 1 || (self.completed() && accounts != 1) {
            wrong.push(format!("{accounts} accounts for one contract"));
        }
        for id in fundings {
            let released = self.rows.get(id, "released").await? == "yes";
            wrong.extend(self.told_of_funding(id, released).await?);
            let count = |state| self.books.of(Verb::Fund, id).filter(|entry| entry.state == state).count();
            let (pending, posted) = (count(EntryState::Pending), count(EntryState::Posted));
            if pending + posted > 1 {
                wrong.push(format!("{id} is funded twice"));
            }
            if self.quarantined {
                continue;
            }
            if pending > 0 {
                wrong.push(format!("{id} is pending for ever"));
            }
            if released != (posted == 1) {
                wrong.push(format!("{id}: released {released}, posted {posted}"));
            }
            if self.completed() && posted != 1 {
                wrong.push(format!("{id} is not posted, and its caller was told so"));
            }
        }
        Ok(wrong)
    }

    /// The receiver knows the same of a funding as the sender, whatever came first.
    async fn told_of_funding(&self, id: &str, released: bool) -> Result<Option<String>, BoxError> {
        let told = self.told(id);
        let seen = self.rows.get(&seen(id), "released").await?;
        let expected: (&[&str], _) = match (released, told.len()) {
            (true, _) => (&[RELEASED], "yes"),
            (false, 0) => (&[], ""),
            (false, _) => (&[RELEASED, TAKEN_BACK], "no"),
        };
        // By number they have an order, and not by their coming.
        let mut sorted = told.to_vec();
        sorted.sort();
        let agree =
            (sorted, seen.as_str()) == (expected.0.iter().map(|it| (*it).to_owned()).collect(), expected.1);
        Ok((!agree)
            .then(|| format!("{id}: released {released}, the messages {told:?}, the receiver {seen:?}")))
    }

    async fn purchase(&self, case: Case, key: &str) -> Result<Vec<String>, BoxError> {
        let mut wrong = Vec::new();
        let order = format!("order/{key}");
        let charges = self.books.standing(Verb::Charge, &order);
        let state = self.rows.get(&order, "state").await?;
        let left = self.rows.get(&format!("stock/{key}"), "left").await?;
        let stock = if case == Case::PurchaseSoldOut { 0 } else { 5 };
        let taken = stock - left.parse::<i64>().unwrap_or(i64::MIN / 2);
        if charges > 1 {
            wrong.push(format!("{charges} charges stand for one order"));
        }
        let holds = matches!(state.as_str(), "received" | "finished");
        if taken != i64::from(holds) {
            wrong.push(format!("{taken} taken from the stock for an order that is {state:?}"));
        }
        let told = self.told(key);
        if (state == "finished") != (told == ["orders/new"]) || told.len() > 1 {
            wrong.push(format!("the order is {state:?} and the messages are {told:?}"));
        }
        if self.quarantined {
            return Ok(wrong);
        }
        let bought = self.completed() && case != Case::PurchaseSoldOut;
        if bought != (charges == 1) || bought != (state == "finished") || state == "received" {
            wrong.push(format!("{:?} with {charges} charges and an order {state:?}", self.answer));
        }
        Ok(wrong)
    }

    async fn seat(&self, key: &str) -> Result<Vec<String>, BoxError> {
        let mut wrong = Vec::new();
        let state = self.rows.get(&format!("seat/{key}"), "state").await?;
        let charges = self.books.of(Verb::Charge, key).count();
        let refunds = self.books.of(Verb::Refund, key).count();
        let told = self.told(key);
        if (state == "sold") != (told == ["seats/sold"]) || told.len() > 1 {
            wrong.push(format!("the seat is {state} and the messages are {told:?}"));
        }
        if charges > 1 || refunds > charges {
            wrong.push(format!("{charges} charges and {refunds} refunds"));
        }
        if state == "sold" && charges - refunds.min(charges) != 1 && !self.quarantined {
            wrong.push(format!("sold for {charges} charges and {refunds} refunds"));
        }
        if self.quarantined {
            return Ok(wrong);
        }
        let expected = if self.completed() { ("sold", 1) } else { ("free", 0) };
        if (state.as_str(), charges - refunds.min(charges)) != expected {
            wrong.push(format!("{:?}: {state}, {charges} charges, {refunds} refunds", self.answer));
        }
        Ok(wrong)
    }

    async fn shipment(&self, key: &str) -> Result<Vec<String>, BoxError> {
        let mut wrong = Vec::new();
        let shipment = format!("shipment/{key}");
        let labels = self.books.standing(Verb::Label, &shipment);
        let order = self.rows.get(&format!("order/{key}"), "state").await?;
        let tracking = self.rows.get(&shipment, "tracking").await?;
        let invoice = self.rows.get(&format!("invoice/{shipment}"), "state").await?;
        let told = self.told(key);
        if !told.is_empty() && told != ["notify/customer", "notify/sales"] {
            wrong.push(format!("messages came as {told:?}"));
        }
        if labels > 1 {
            wrong.push(format!("{labels} labels stand for one shipment"));
        }
        let recorded = [order == "fulfilled", !tracking.is_empty(), invoice == "due", !told.is_empty()];
        if recorded.iter().any(|it| *it != recorded[0]) {
            wrong.push(format!("half recorded: order, tracking, invoice, messages {recorded:?}"));
        }
        if !self.quarantined && (recorded[0] != self.completed() || labels != usize::from(self.completed())) {
            wrong.push(format!("{:?}: recorded {}, {labels} labels", self.answer, recorded[0]));
        }
        Ok(wrong)
    }

    async fn room(&self, key: &str) -> Result<Vec<String>, BoxError> {
        let mut wrong = Vec::new();
        let state = self.rows.get(&format!("room/{key}"), "state").await?;
        let deposits = self.books.standing(Verb::Charge, key);
        let told = self.told(key);
        if (state == "booked") != (told == ["rooms/booked"]) || told.len() > 1 {
            wrong.push(format!("the room is {state} and the messages are {told:?}"));
        }
        if self.quarantined {
            return Ok(wrong);
        }
        // A deposit is returned, unless the workflow was cancelled before it waited for the
        // deposit. Then an operator sees the deposit.
        let expected =
            if self.completed() { ("booked", 1, false) } else { ("free", usize::from(self.late), self.late) };
        if (state.as_str(), deposits, self.late) != expected {
            let late = if self.late { ", which is listed as late" } else { "" };
            wrong.push(format!("{:?}: {state}, {deposits} deposits{late}", self.answer));
        }
        Ok(wrong)
    }

    async fn payouts(&self, case: Case, n: u64) -> Result<Vec<String>, BoxError> {
        let mut wrong = Vec::new();
        let key = case.key(n);
        let state = self.rows.get(&format!("list/{key}"), "state").await?;
        let paid = |batch: &Vec<String>| {
            batch.iter().map(|payment| self.books.standing(Verb::Charge, payment)).collect::<Vec<_>>()
        };
        let paid: Vec<_> = case.payments(n).iter().map(paid).collect();
        let told = self.told(&key);
        if (state == "paid") != (told == ["payouts/paid"]) || told.len() > 1 {
            wrong.push(format!("the list is {state} and the messages are {told:?}"));
        }
        if paid.iter().flatten().any(|charges| *charges > 1) {
            wrong.push(format!("a payment is made twice: {paid:?}"));
        }
        if self.quarantined {
            return Ok(wrong);
        }
        let is_whole = paid.iter().all(|batch| batch.iter().all(|charges| *charges == batch[0]));
        let in_order = paid.is_sorted_by(|one, next| one[0] >= next[0]);
        let all = paid.iter().flatten().all(|charges| *charges == 1);
        if !is_whole || !in_order || all != self.completed() || all != (state == "paid") {
            wrong.push(format!("{:?}: the list is {state}, and paid are {paid:?}", self.answer));
        }
        Ok(wrong)
    }

    fn order(&self, key: &str) -> Vec<String> {
        let charges = self.books.of(Verb::Charge, key).count();
        let mut wrong = Vec::new();
        if charges > 1 {
            wrong.push(format!("{charges} charges for one order"));
        }
        let told = self.told(key);
        if !self.quarantined && charges != usize::from(self.completed()) {
            wrong.push(format!("{:?} with {charges} charges", self.answer));
        }
        let agree =
            if told.is_empty() { !self.completed() } else { told == ["orders/charged"] && charges == 1 };
        if !agree {
            wrong.push(format!("{:?} with {charges} charges and the messages {told:?}", self.answer));
        }
        wrong
    }
}
