//! Promise 10: the price is known. Requests and consumed units of every operation, the index's
//! share included, and the table of the book is compared with these counts.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use locker::{Failure, Intervened, Locker, Operator};
use locker_tests::{Bench, Exchange, MINUTE, Wire, held_by, record_of};
use serde_json::Value;

/// The cost of one operation.
#[derive(Debug, Clone, PartialEq)]
struct Price {
    operation: &'static str,
    requests: usize,
    write_units: f64,
    read_units: f64,
}

/// The costs of a machine's requests, as DynamoDB bills them.
struct Meter<'a> {
    bench: &'a Bench,
    wire: Wire,
    bill: Vec<Price>,
}

impl Meter<'_> {
    /// Record what has been sent since the last call.
    async fn note(&mut self, operation: &'static str) {
        let exchanges = self.wire.take();
        let mut price = Price { operation, requests: exchanges.len(), write_units: 0.0, read_units: 0.0 };
        for exchange in exchanges {
            let reads = ["GetItem", "Query"].contains(&exchange.operation.as_str());
            let units = match exchange.status {
                Some(200) => consumed(&exchange),
                // A refusal carries no capacity. DynamoDB bills the size of the item that refused
                // it.
                _ => self.stored_units(&exchange).await,
            };
            *(if reads { &mut price.read_units } else { &mut price.write_units }) += units;
        }
        self.bill.push(price);
    }

    async fn stored_units(&self, exchange: &Exchange) -> f64 {
        let key =
            exchange.request.pointer("/Item/lockToken/S").or(exchange.request.pointer("/Key/lockToken/S"));
        let item =
            self.bench.item(key.and_then(Value::as_str).expect("a key")).await.expect("what refused it");
        let kilobytes = size(&item).div_ceil(1024);
        f64::from(u32::try_from(kilobytes).expect("small"))
    }

    /// Discard the cost of a preparation.
    fn forget(&self) {
        self.wire.take();
    }
}

/// Table and indexes, which must add up to the total.
fn consumed(exchange: &Exchange) -> f64 {
    match exchange.consumed.as_ref().expect("the capacity was asked for") {
        Value::Array(tables) => tables.iter().map(consumed_of).sum(),
        table => consumed_of(table),
    }
}

fn consumed_of(consumed: &Value) -> f64 {
    let units = |part: &Value| part["CapacityUnits"].as_f64().unwrap_or_default();
    let indexes = consumed["GlobalSecondaryIndexes"].as_object();
    let indexes: f64 = indexes.into_iter().flat_map(|indexes| indexes.values()).map(units).sum();
    assert!((units(consumed) - units(&consumed["Table"]) - indexes).abs() < 1e-9, "{consumed}");
    units(consumed)
}

/// The size of an item by the rules of DynamoDB, for the types that a token has.
fn size(item: &HashMap<String, AttributeValue>) -> usize {
    let value = |value: &AttributeValue| match value {
        AttributeValue::S(text) => text.len(),
        AttributeValue::N(digits) => digits.len().div_ceil(2) + 1,
        AttributeValue::B(bytes) => bytes.as_ref().len(),
        other => panic!("a token has no {other:?}"),
    };
    item.iter().map(|(name, attribute)| name.len() + value(attribute)).sum()
}

/// An answer of about 20 KB that gzip brings to about 15.
fn large() -> String {
    (0..20_000).map(|_| fastrand::alphanumeric()).collect()
}

async fn bill(bench: &Bench) -> Vec<Price> {
    let (locker, wire) = bench.machine();
    let mut meter = Meter { bench, wire, bill: Vec::new() };
    ends(&locker, &mut meter).await;
    replays(&locker, &mut meter).await;
    others(&locker, &mut meter).await;
    meter.bill
}

async fn ends(locker: &Locker, meter: &mut Meter<'_>) {
    let token = |key: &str| locker.token(("price", key)).expect_within(MINUTE).fingerprint("request");
    let lock = held_by(token("small")).await;
    meter.note("`begin`: acquired").await;
    let _refused = token("small").begin().await.expect("an answer");
    meter.note("`begin`: in progress, or another request").await;
    let lock = lock.extend(MINUTE * 10).await.expect("extended");
    meter.note("`extend`").await;
    lock.complete("done").await.expect("completed");
    meter.note("`complete`, small answer").await;
    let lock = held_by(token("large")).await;
    meter.forget();
    lock.complete(&large()).await.expect("completed");
    meter.note("`complete`, answer of 20 KB (15 compressed)").await;
    let lock = held_by(token("rejected")).await;
    meter.forget();
    lock.fail("declined").await.expect("completed");
    meter.note("`fail`, small failure").await;
    let lock = held_by(token("failed")).await;
    meter.forget();
    lock.hold("odd").await.expect("held");
    meter.note("`hold`, small failure").await;
    let lock = held_by(token("doubt")).await;
    meter.forget();
    lock.leave_in_doubt("no reply from the provider").await;
    meter.note("`leave_in_doubt`").await;
    let lock = held_by(token("released")).await;
    meter.forget();
    lock.release().await.expect("released");
    meter.note("`release`").await;
    token("run").run(async |_| Ok::<_, Failure>("done".to_owned())).await.expect("done");
    meter.note("**`run`, small answer**").await;
}

async fn replays(locker: &Locker, meter: &mut Meter<'_>) {
    let token = |key: &str| locker.token(("price", key)).fingerprint("request");
    token("small").run(async |_| Ok::<_, Failure>(String::new())).await.expect("a replay");
    meter.note("**replay, small answer**").await;
    token("small").read_first().run(async |_| Ok::<_, Failure>(String::new())).await.expect("a replay");
    meter.note("replay, small answer, `read_first`").await;
    token("large").run(async |_| Ok::<_, Failure>(String::new())).await.expect("a replay");
    meter.note("replay, answer of 20 KB (15 compressed)").await;
}

async fn others(locker: &Locker, meter: &mut Meter<'_>) {
    let _held = held_by(locker.token("price/overdue").expect_within(MINUTE)).await;
    meter.bench.clock.advance(MINUTE * 10);
    meter.forget();
    let _lock = held_by(locker.token("price/overdue").take_over_after(Duration::ZERO)).await;
    meter.note("take over").await;
    let record = record_of(locker, "price/overdue").await;
    meter.note("`get`").await;
    let listed = locker.in_progress().fetch().await.expect("a listing");
    assert_eq!(listed.items.len(), 2);
    meter.note("a listing of up to 10 tokens, for each shard").await;
    let operator = Operator::new("ada", "the provider has it").expect("an operator");
    assert_eq!(
        locker.resolve_running(&record, &Value::Null, &operator).await.expect("resolved"),
        Intervened::Done
    );
    meter.note("`resolve` by an operator, with its audit record").await;
    let record = record_of(locker, "price/failed").await;
    meter.forget();
    assert_eq!(locker.release(&record, &operator).await.expect("released"), Intervened::Done);
    meter.note("`release` by an operator, with its audit record").await;
}

fn price(operation: &'static str, requests: usize, write_units: f64, read_units: f64) -> Price {
    Price { operation, requests, write_units, read_units }
}

#[tokio::test(start_paused = true)]
async fn every_operation_costs_what_the_readme_says() {
    let bench = Bench::new().await;
    let bill = bill(&bench).await;
    let expected = vec![
        price("`begin`: acquired", 1, 2.0, 0.0),
        price("`begin`: in progress, or another request", 1, 1.0, 0.0),
        price("`extend`", 1, 3.0, 0.0),
        price("`complete`, small answer", 1, 2.0, 0.0),
        price("`complete`, answer of 20 KB (15 compressed)", 2, 17.0, 0.0),
        price("`fail`, small failure", 1, 2.0, 0.0),
        price("`hold`, small failure", 1, 3.0, 0.0),
        price("`leave_in_doubt`", 1, 3.0, 0.0),
        price("`release`", 1, 2.0, 0.0),
        price("**`run`, small answer**", 2, 4.0, 0.0),
        price("**replay, small answer**", 1, 1.0, 0.0),
        price("replay, small answer, `read_first`", 1, 0.0, 0.5),
        price("replay, answer of 20 KB (15 compressed)", 2, 1.0, 4.0),
        price("take over", 2, 4.0, 0.0),
        price("`get`", 1, 0.0, 1.0),
        price("a listing of up to 10 tokens, for each shard", 1, 0.0, 0.5),
        price("`resolve` by an operator, with its audit record", 1, 6.0, 0.0),
        price("`release` by an operator, with its audit record", 1, 6.0, 0.0),
    ];
    for (counted, expected) in bill.iter().zip(&expected) {
        // DynamoDB Local counts the units of transactions in its own way.
        let is_local = !bench.engine.is_embedded() && expected.operation.contains("by an operator");
        if is_local {
            assert_eq!(counted.requests, expected.requests, "{}", expected.operation);
        } else {
            assert_eq!(counted, expected);
        }
    }
    assert_eq!(bill.len(), expected.len());
    let page = include_str!("../docs/book/src/costs.md");
    let table = table(&expected);
    assert!(page.contains(&table), "the price table of the book is not this one:\n\n{table}");
}

/// The table as the book has it: on-demand prices of us-east-1, USD 0.625 for a million write
/// units and 0.125 for a million read units.
fn table(bill: &[Price]) -> String {
    let mut table =
        "| operation | requests | write units | read units | USD per million |\n|---|---|---|---|---|\n"
            .to_owned();
    for Price { operation, requests, write_units, read_units } in bill {
        let usd = write_units * 0.625 + read_units * 0.125;
        writeln!(table, "| {operation} | {requests} | {write_units} | {read_units} | {usd} |").expect("text");
    }
    table
}

#[tokio::test(start_paused = true)]
async fn a_token_stays_in_one_write_unit_whatever_its_answer() {
    let bench = Bench::new().await;
    let (locker, _) = bench.machine();
    for length in [1, 100, 400, 500, 600, 700, 800, 1000, 5000, 100_000] {
        let noise: String = (0..length).map(|_| fastrand::alphanumeric()).collect();
        held_by(locker.token(("unit", length)).fingerprint("request"))
            .await
            .complete(&noise)
            .await
            .expect("completed");
        let item = bench.item(&format!("unit/{length}")).await.expect("an item");
        assert!(size(&item) <= 1024, "{} bytes with an answer of {length}", size(&item));
    }
}
