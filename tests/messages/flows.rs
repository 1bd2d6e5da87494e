//! Seats and wallets: two services that tell each other by messages, which are
//! lost, come twice and out of order; a wallet that fails, and dead letters that cancel the
//! reservation. In the end seat and wallet agree.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use aws_sdk_dynamodb::types::{AttributeValue, Put, TransactWriteItem, Update};
use locker::dead_letters::{DeadLetters, Decision};
use locker::inbox::{Consumer, Delivery, Inbox, Incoming, Taken};
use locker::message::{Envelope, MessageState, NewMessage, Router, Sent, Target};
use locker::relay::Relay;
use locker::workflow::{Message, Workflows};
use locker::{Failure, Operator};
use serde_json::json;

use crate::post::{MINUTE, Post};

const PRICE: i64 = 100;

/// A broker that loses messages and acknowledgements, refuses to take more, keeps nothing in order,
/// and delivers twice.
#[derive(Debug, Clone, Default)]
struct Bus(Arc<Mutex<Vec<Envelope>>>, Arc<Mutex<Option<fastrand::Rng>>>);

impl Bus {
    /// Whether it takes a message, and what it says of that.
    fn take(&self) -> (bool, Sent) {
        let chance = self.1.lock().unwrap().as_mut().map_or(9, |random| random.u8(0..10));
        match chance {
            0 => (false, Sent::Unknown("lost on its way".to_owned())),
            1 => (true, Sent::Unknown("the acknowledgement was lost".to_owned())),
            2 => (false, Sent::Later("too many".to_owned())),
            _ => (true, Sent::Done),
        }
    }

    /// From now on it takes everything, and says so.
    fn repaired(&self) {
        *self.1.lock().unwrap() = None;
    }
}

impl Target for Bus {
    async fn send(&self, batch: &[Envelope]) -> Vec<Sent> {
        let sent = batch.iter().map(|envelope| {
            let (takes, sent) = self.take();
            if takes {
                self.0.lock().unwrap().push(envelope.clone());
            }
            sent
        });
        sent.collect()
    }
}

/// Both services, their rows in one table.
struct Theatre {
    post: Post,
    bus: Bus,
    workflows: Workflows,
    show: Inbox,
    wallet: Inbox,
    /// Whether the wallets' provider is broken.
    is_broken: Arc<Mutex<bool>>,
    /// What the inbox is left out of, to see that it is needed.
    forgets: bool,
}

fn text(text: &str) -> AttributeValue {
    AttributeValue::S(text.to_owned())
}

fn number(number: i64) -> AttributeValue {
    AttributeValue::N(number.to_string())
}

fn told(topic: &str, reservation: &str) -> NewMessage {
    NewMessage::new(topic, &json!({ "reservation": reservation })).subject(reservation)
}

impl Theatre {
    async fn new(forgets: bool) -> Self {
        let post = Post::new().await;
        let bus = Bus::default();
        let router = Router::new().route("*", bus.clone());
        let workflows = Workflows::builder(&post.desk.bench.client, &post.desk.table)
            .with_clock(Arc::new(post.desk.bench.clock.clone()))
            .source("/theatre")
            .sending(router)
            .build()
            .unwrap();
        let inbox = |name: &str| workflows.inbox(name).unwrap();
        let (show, wallet) = (inbox("show"), inbox("wallet"));
        Self { post, bus, show, wallet, workflows, is_broken: Arc::default(), forgets }
    }

    /// A seat is reserved, and that is told, or neither.
    async fn reserve(&self, reservation: &str) {
        let put = Put::builder()
            .table_name(&self.post.desk.rows)
            .item("id", text(&format!("seat of {reservation}")));
        let put = put.item("state", text("reserved")).build().unwrap();
        let message = self.workflows.outbox().message(told("seat/reserved", reservation)).unwrap();
        self.post.commit([put, message.put()]).await;
    }

    async fn fund(&self, reservation: &str, balance: i64) {
        let put = self.post.desk.bench.client.put_item().table_name(&self.post.desk.rows);
        put.item("id", text(&format!("wallet of {reservation}")))
            .item("balance", number(balance))
            .send()
            .await
            .unwrap();
    }

    fn seat(&self, reservation: &str, from: &str, to: &str) -> Update {
        let update = Update::builder()
            .table_name(&self.post.desk.rows)
            .key("id", text(&format!("seat of {reservation}")));
        let update = update.update_expression("SET #state = :to").condition_expression("#state = :from");
        let update =
            update.expression_attribute_names("#state", "state").expression_attribute_values(":to", text(to));
        update.expression_attribute_values(":from", text(from)).build().unwrap()
    }

    fn book(&self, reservation: &str, by: i64) -> Update {
        let update = Update::builder()
            .table_name(&self.post.desk.rows)
            .key("id", text(&format!("wallet of {reservation}")));
        let update =
            update.update_expression("SET balance = balance + :by").condition_expression("balance >= :least");
        let update = update.expression_attribute_values(":by", number(by));
        update.expression_attribute_values(":least", number((-by).max(0))).build().unwrap()
    }

    /// A message as it is known by the inbox; if that is left out, another one each time.
    fn known(&self, message: &Incoming) -> Incoming {
        let mut message = message.clone();
        if self.forgets {
            message.id = format!("{} {}", message.id, fastrand::u32(..));
        }
        message
    }

    /// The show hears of wallets: a charge confirms the seat, a rejection gives it back, and a
    /// charge that comes after that is refunded.
    async fn hear_show(&self, delivery: &Delivery) -> Result<(), Failure> {
        let message = self
            .known(&Incoming::parse(&delivery.body).map_err(|error| Failure::permanent(error.to_string()))?);
        let reservation = message.subject.clone().unwrap_or_default();
        let commit = async |from: &str, to: &str, tells: Option<NewMessage>| {
            let take = self.show.atomic(&message).update(self.seat(&reservation, from, to));
            let take = tells.into_iter().fold(take, locker::inbox::Receive::send);
            take.commit().await.map_err(|error| Failure::transient(error.to_string()))
        };
        match message.kind.as_str() {
            "wallet.charged" => {
                if let Taken::Refused { .. } = commit("reserved", "confirmed", None).await? {
                    // It was given back before: what was charged is refunded (flow 3).
                    drop(
                        commit("cancelled", "refunding", Some(told("charge/unwanted", &reservation))).await?,
                    );
                }
            }
            "wallet.rejected" => {
                // A second cancellation finds nothing to cancel (flow 4).
                drop(commit("reserved", "cancelled", None).await?);
            }
            _ => {}
        }
        Ok(())
    }

    /// The wallets hear of seats: they charge, or reject.
    async fn hear_wallet(&self, delivery: &Delivery) -> Result<(), Failure> {
        let message = self
            .known(&Incoming::parse(&delivery.body).map_err(|error| Failure::permanent(error.to_string()))?);
        let reservation = message.subject.clone().unwrap_or_default();
        match message.kind.as_str() {
            "seat.reserved" => {
                if *self.is_broken.lock().unwrap() {
                    return Err(
                        Failure::permanent("no reply that makes sense".to_owned()).code("wallet.broken")
                    );
                }
                let charge = self.wallet.atomic(&message).update(self.book(&reservation, -PRICE));
                let charged = charge.send(told("wallet/charged", &reservation)).commit().await?;
                if let Taken::Refused { .. } = charged {
                    let reject = self.wallet.atomic(&message).send(told("wallet/rejected", &reservation));
                    reject.commit().await?.done()?;
                }
            }
            "charge.unwanted" => {
                let refund = self.wallet.atomic(&message).update(self.book(&reservation, PRICE));
                refund.commit().await?.done()?;
            }
            _ => {}
        }
        Ok(())
    }

    fn consumer(&self, name: &str) -> Consumer {
        self.workflows.inbox(name).unwrap().consumer()
    }

    /// A dead charge cancels its reservation, and is let go; with `keeps`, it stays, and is charged
    /// later by an operator.
    async fn bury(&self, keeps: bool) {
        let code = Operator::new("wallets", "the reservation is cancelled").unwrap();
        let decide = async |message: &Message| {
            let cancelled = self.post.desk.bench.client.transact_write_items();
            let seat = TransactWriteItem::builder()
                .update(self.seat(message.subject(), "reserved", "cancelled"))
                .build();
            // Cancelled before is cancelled.
            drop(cancelled.transact_items(seat).send().await);
            if keeps { Decision::Leave } else { Decision::Discard }
        };
        let report = DeadLetters::new(&self.workflows, code).run(decide).await.unwrap();
        assert!(report.finished, "{report:?}");
    }

    /// Deliver what is on the bus in any order, some of it twice, and some of it later again.
    async fn deliver(&self, random: &mut fastrand::Rng) {
        let mut all = std::mem::take(&mut *self.bus.0.lock().unwrap());
        random.shuffle(&mut all);
        for envelope in all {
            let body = envelope.to_json().unwrap();
            for _ in 0..random.usize(1..3) {
                let delivery =
                    Delivery::new(format!("{}", random.u64(..)), body.clone()).group(envelope.group_id());
                let (to_show, to_wallet) = (self.consumer("show"), self.consumer("wallet"));
                let show = to_show.receive(&delivery, async |it| self.hear_show(&it).await).await;
                let wallet = to_wallet.receive(&delivery, async |it| self.hear_wallet(&it).await).await;
                assert!(show.is_ok() && wallet.is_ok(), "{show:?} {wallet:?}");
            }
            if random.u8(0..3) == 0 {
                self.bus.0.lock().unwrap().push(envelope);
            }
        }
    }

    async fn state(&self, reservation: &str) -> (String, i64) {
        let row = async |id: String| self.post.desk.row(&id).await.unwrap_or_default();
        let seat: HashMap<_, _> = row(format!("seat of {reservation}")).await;
        let wallet = row(format!("wallet of {reservation}")).await;
        let balance = wallet["balance"].as_n().unwrap().parse().unwrap();
        (seat["state"].as_s().unwrap().clone(), balance)
    }
}

/// One theatre under one order of events. Returns what became of the seats.
async fn play(seed: u64, forgets: bool) -> Result<Vec<String>, String> {
    let mut random = fastrand::Rng::with_seed(seed);
    fastrand::seed(seed);
    let theatre = Theatre::new(forgets).await;
    *theatre.bus.1.lock().unwrap() = Some(fastrand::Rng::with_seed(seed + 1000));
    let reservations: Vec<_> = (0..4).map(|number| format!("r{number}")).collect();
    let mut funds = HashMap::new();
    for reservation in &reservations {
        let balance = if random.u8(0..4) == 0 { PRICE / 2 } else { 3 * PRICE };
        funds.insert(reservation.clone(), balance);
        theatre.fund(reservation, balance).await;
        theatre.reserve(reservation).await;
    }
    for _ in 0..8 {
        let round = random.u8(0..10);
        *theatre.is_broken.lock().unwrap() = round < 3;
        if random.bool() {
            theatre.post.desk.bench.clock.advance(MINUTE);
            let router = Router::new().route("*", theatre.bus.clone());
            Relay::new(&theatre.workflows, router).run().await.unwrap();
        }
        theatre.deliver(&mut random).await;
        if random.bool() {
            theatre.bury(random.bool()).await;
        }
    }
    // The wallets are repaired. An operator has handled what is still dead, though its seat was
    // given back; everything arrives.
    *theatre.is_broken.lock().unwrap() = false;
    theatre.bus.repaired();
    for _ in 0..12 {
        let ada = Operator::new("ada", "repaired").unwrap();
        let redrive = async |_: &Message| Decision::Redrive;
        drop(DeadLetters::new(&theatre.workflows, ada).run(redrive).await.unwrap());
        theatre.post.desk.bench.clock.advance(MINUTE * 16);
        for name in ["show", "wallet"] {
            let hear = async |it: Delivery| match name {
                "show" => theatre.hear_show(&it).await,
                _ => theatre.hear_wallet(&it).await,
            };
            drop(theatre.consumer(name).run(hear).await.unwrap());
        }
        let router = Router::new().route("*", theatre.bus.clone());
        drop(Relay::new(&theatre.workflows, router).run().await.unwrap());
        theatre.deliver(&mut random).await;
    }
    let mut seats = Vec::new();
    for reservation in &reservations {
        let (seat, balance) = theatre.state(reservation).await;
        let paid = funds[reservation] - balance;
        let agrees = match seat.as_str() {
            "confirmed" => paid == PRICE,
            "cancelled" | "refunding" => paid == 0,
            _ => false,
        };
        if !agrees {
            return Err(format!("seed {seed}: the seat of {reservation} is {seat}, and {paid} is paid"));
        }
        seats.push(seat);
    }
    for state in [MessageState::Dead, MessageState::Waiting, MessageState::Unsent] {
        let left = theatre.workflows.messages(state).fetch().await.unwrap().items;
        assert!(left.is_empty(), "seed {seed}: {left:?}");
    }
    Ok(seats)
}

#[tokio::test(start_paused = true)]
async fn seat_and_wallet_agree_however_their_messages_arrive() {
    let mut seats: HashMap<String, usize> = HashMap::new();
    for seed in 0..30 {
        for seat in play(seed, false).await.unwrap() {
            *seats.entry(seat).or_default() += 1;
        }
    }
    // Flow 1, flow 2 or a dead letter, and flow 3. Flow 4 is in each of them: messages come twice.
    for state in ["confirmed", "cancelled", "refunding"] {
        assert!(seats.get(state).is_some_and(|count| *count > 3), "{seats:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn without_the_inbox_they_do_not_agree() {
    let mut broken = None;
    for seed in 0..30 {
        broken = broken.or(play(seed, true).await.err());
        if broken.is_some() {
            break;
        }
    }
    assert!(broken.is_some_and(|broken| broken.contains("is paid")), "the inbox is not needed");
}
