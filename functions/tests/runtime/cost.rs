//! The cost page: the units are those counted here, and its sums are right.

use std::time::Duration;

use lambda_runtime::{Context, LambdaEvent};
use lock_token_testing::Broker;
use locker::http::IDEMPOTENCY_KEY;
use locker::lambda::Consumed;
use locker::message::Router;
use locker::relay::Relay;
use locker::workflow::Reaper;
use locker_functions::orders::{Shop, router as orders};
use locker_functions::packer;
use locker_functions::workflows;
use locker_tests::{Wire, fifo_message};
use tower::ServiceExt as _;

use crate::kept::scheduled;
use crate::template::{resources, template};
use crate::till::{Till, request};

/// Requests, write units and read units, index included.
type Units = (usize, f64, f64);

fn consumed(wire: &Wire) -> Units {
    let exchanges = wire.take();
    let (mut writes, mut reads) = (0.0, 0.0);
    for exchange in &exchanges {
        // A refusal tells of none, and is billed by the size of what refused it: here a header of 1
        // KB.
        let units: f64 = exchange.consumed.as_ref().map_or(1.0, |consumed| {
            let tables = consumed.as_array().map_or(std::slice::from_ref(consumed), Vec::as_slice);
            tables.iter().filter_map(|table| table["CapacityUnits"].as_f64()).sum()
        });
        let is_read = ["GetItem", "Query"].contains(&exchange.operation.as_str());
        *(if is_read { &mut reads } else { &mut writes }) += units;
    }
    (exchanges.len(), writes, reads)
}

async fn counted() -> Vec<(&'static str, Units)> {
    let till = Till::new().await;
    let (locker, wire) = till.stack.bench.machine();
    let shop = Shop::new(locker.clone(), till.stack.payments());
    let mut found = Vec::new();

    let post = http::Request::post("/orders")
        .header(IDEMPOTENCY_KEY, "k1")
        .header("content-type", "application/json");
    let body = serde_json::to_string(&request("1")).expect("JSON");
    let response = orders(shop.clone(), |_| Some("alice".to_owned()));
    let response = response.oneshot(post.body(axum::body::Body::from(body)).expect("a request")).await;
    assert_eq!(response.expect("a response").status(), 201);
    found.push(("an order over HTTP", consumed(&wire)));
    shop.create("alice", &request("2"), None, None).await.expect("an order");
    found.push(("an order from the queue", consumed(&wire)));
    locker::Scanner::new(&locker).run().await.expect("a scan");
    found.push(("a scan that finds nothing, with one shard", consumed(&wire)));

    let purchases = till.purchases(&till.stack.bench.engine.client_over(&wire), Duration::ZERO);
    purchases.start("alice", "k1", &request("3")).expect("a key").run().await.expect("an outcome");
    found.push(("a purchase that tells nobody", consumed(&wire)));
    let broker = Broker::new();
    let telling = till.sending(&till.stack.bench.engine.client_over(&wire), &broker);
    telling.start("alice", "k2", &request("4")).expect("a key").run().await.expect("an outcome");
    found.push(("a purchase until it waits for its parcel", consumed(&wire)));
    let packer = crate::till::packer(telling.clone());
    let body = broker.took()[0].to_json().expect("JSON");
    let batch = serde_json::json!({ "Records": [fifo_message("m", "k2", &body)] });
    let event = LambdaEvent::new(batch, Context::default());
    let done = packer::handle(&packer, event).await.expect("an answer");
    assert!(matches!(&done, Consumed::Batch(undelivered) if undelivered.ids().count() == 0), "{done:?}");
    found.push(("packing it, and telling it", consumed(&wire)));
    telling.start("alice", "k2", &request("4")).expect("a key").run().await.expect("an outcome");
    found.push(("its end", consumed(&wire)));
    let completer = workflows::completer(&purchases.workflows, purchases.code);
    completer.run().await.expect("a run");
    found.push(("a run of the completer that finds nothing, with one shard", consumed(&wire)));
    Reaper::new(&completer).run().await.expect("a run");
    found.push(("a run of the reaper that finds nothing, with one shard", consumed(&wire)));
    Relay::new(&telling.workflows, Router::new().route("*", broker)).run().await.expect("a run");
    found.push(("a run of the relay that finds nothing, with one shard", consumed(&wire)));
    let event = LambdaEvent::new(scheduled(), Context::default());
    drop(packer::handle(&packer, event).await.expect("a run"));
    found.push(("a run of the packer that finds nothing, with one shard", consumed(&wire)));
    found
}

/// The rows of the tables of the page, by the number of their cells.
fn rows(page: &str, cells: usize) -> Vec<Vec<&str>> {
    let rows = page.lines().filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |"));
    rows.map(|row| row.split(" | ").collect::<Vec<_>>()).filter(|row| row.len() == cells).collect()
}

fn number(text: &str) -> f64 {
    text.replace(',', "").parse().unwrap_or_else(|_| panic!("{text:?} is no number"))
}

/// The quantity in a month and for a purchase, in the row of this name.
fn quantities(page: &str, name: &str) -> (f64, f64) {
    let rows = rows(page, 8);
    let row = rows.iter().find(|row| row[0] == name).unwrap_or_else(|| panic!("no row {name}"));
    (number(row[1]), number(row[2]))
}

#[tokio::test]
async fn the_units_of_the_page_are_those_counted() {
    // DynamoDB Local tells of half of a transaction's units.
    if std::env::var_os("LOCKER_TEST_ENDPOINT").is_some() {
        return;
    }
    let page = include_str!("../../../docs/evidence/cost.md");
    let counted = counted().await;
    let lines: Vec<String> = counted
        .iter()
        .map(|(what, (requests, writes, reads))| format!("| {what} | {requests} | {writes} | {reads} |"))
        .collect();
    let lacks: Vec<_> = lines.iter().filter(|line| !page.contains(*line)).collect();
    assert!(lacks.is_empty(), "docs/evidence/cost.md lacks: {lacks:#?}");
    assert_eq!(rows(page, 4).len(), lines.len());

    let of = |name: &str| counted.iter().find(|(what, _)| what.starts_with(name)).expect("counted").1;
    let parts = [of("a purchase until"), of("packing it"), of("its end")];
    let (writes, reads) =
        (parts.map(|it| it.1).iter().sum::<f64>(), parts.map(|it| it.2).iter().sum::<f64>());
    // A month of 30 days, with one shard.
    let (every_minute, every_five_minutes, every_hour) = (43_200.0, 8_640.0, 720.0);
    let idle = every_five_minutes * of("a scan").2
        + every_minute * of("a run of the completer").2
        + every_minute * of("a run of the relay").2
        + every_minute * of("a run of the packer").2
        + every_hour * of("a run of the reaper").2;
    assert_eq!(quantities(page, "read units"), (idle, reads));
    let written_down = 2.0 * every_minute + every_five_minutes + every_hour;
    assert_eq!(quantities(page, "write units"), (written_down, writes));
    let runs = written_down + every_minute;
    // The API twice, and the packer.
    assert_eq!(quantities(page, "invocations of Lambda"), (runs, 3.0));
    assert_eq!(quantities(page, "invocations of the scheduler"), (runs, 0.0));
    let alarms = resources(&template(), "AWS::CloudWatch::Alarm").len();
    assert_eq!(format!("{:?}", quantities(page, "alarms")), format!("({alarms}.0, 0.0)"));
    let dashboards = resources(&template(), "AWS::CloudWatch::Dashboard").len();
    assert_eq!(format!("{:?}", quantities(page, "dashboards")), format!("({dashboards}.0, 0.0)"));
}

#[test]
fn the_sums_of_the_page_are_right_and_its_prices_those_of_the_first_page() {
    let page = include_str!("../../../docs/evidence/cost.md");
    let mut together = [0.0; 3];
    let rows = rows(page, 8);
    for row in rows.iter().filter(|row| row[1].starts_with(|c: char| c.is_ascii_digit())) {
        let (fixed, each, price) = (number(row[1]), number(row[2]), number(row[3]) / number(row[4]));
        for (place, purchases) in [0.0, 1e6, 1e7].into_iter().enumerate() {
            let amount = (fixed + each * purchases) * price;
            assert_eq!(row[5 + place], format!("{amount:.2}"), "{row:?}");
            together[place] += amount;
        }
    }
    let sum = together.map(|amount| format!("{amount:.2}"));
    assert!(page.contains(&format!("| **together** | | | | | {} |", sum.join(" | "))), "{sum:?}");
    let first = include_str!("../../../docs/book/src/costs.md");
    for (units, price) in [("write units", "0.625"), ("read units", "0.125")] {
        assert!(rows.iter().any(|row| row[0] == units && row[3] == price), "{units}");
        assert!(first.contains(&format!("{price} for a million {}", &units[..units.len() - 1])), "{price}");
    }
}
