//! Costs of a scan, by the size of the backlog that it finds.
//!
//! ```sh
//! cargo run -p locker-benches --example scan
//! ```
//!
//! It uses an embedded DynamoDB: requests, rows and read units are as on AWS. Each request takes 5
//! ms longer than the engine needs, so that the seconds show how many wait for each other.

#![allow(clippy::expect_used)]

use std::time::Duration;

use aws_sdk_dynamodb::types::{AttributeValue, PutRequest, WriteRequest};
use chrono::{DateTime, SecondsFormat, TimeDelta, Utc};
use locker::Clock as _;
use locker_tests::{Bench, Exchange};
use nix::time::{ClockId, clock_gettime};
use tokio::time::Instant;

/// Tokens in progress that are not due yet.
const IN_TIME: usize = 20_000;
const BACKLOGS: [usize; 4] = [0, 100, 1_000, 10_000];

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let bench = Bench::new().await;
    fill(&bench, "fresh", 0..IN_TIME, bench.clock.now() + Duration::from_secs(24 * 60 * 60)).await;
    bench.clock.advance(Duration::from_secs(600));
    let due = bench.clock.now() - Duration::from_secs(300);
    println!("Tokens in progress that are not due yet: {IN_TIME}\n");
    println!("| overdue | found | requests | Query | GetItem | rows read | read units | CPU ms | seconds |");
    println!("|---|---|---|---|---|---|---|---|---|");
    let mut before = 0;
    for backlog in BACKLOGS {
        fill(&bench, "late", before..backlog, due).await;
        before = backlog;
        let (locker, wire) = bench.machine_with(|settings| settings.give_up_after = Duration::from_secs(60));
        wire.delay(Duration::from_millis(5));
        let (started, began) = (cpu_of_this_thread(), Instant::now());
        // Tokens in progress are counted only up to the limit that a dashboard needs.
        let scanned = locker::Scanner::new(&locker).run().await.expect("a scan");
        let (cpu, took) = (cpu_of_this_thread() - started, began.elapsed());
        assert!(scanned.finished, "{:?}", scanned.stopped_by);
        let exchanges = wire.take();
        let count =
            |operation: &str| exchanges.iter().filter(|exchange| exchange.operation == operation).count();
        println!(
            "| {backlog} | {} | {} | {} | {} | {} | {:.1} | {:.1} | {:.1} |",
            scanned.missing.len(),
            exchanges.len(),
            count("Query"),
            count("GetItem"),
            scanned.rows_read,
            exchanges.iter().map(units).sum::<f64>(),
            cpu.as_secs_f64() * 1e3,
            took.as_secs_f64(),
        );
    }
}

/// Write tokens in progress without the library, 25 at a time.
async fn fill(bench: &Bench, name: &str, numbers: std::ops::Range<usize>, due: DateTime<Utc>) {
    let text = |text: &str| AttributeValue::S(text.to_owned());
    let time = |at: DateTime<Utc>| text(&at.to_rfc3339_opts(SecondsFormat::Millis, true));
    for chunk in numbers.collect::<Vec<_>>().chunks(25) {
        let puts = chunk.iter().map(|number| {
            let late = TimeDelta::milliseconds(i64::try_from(*number).expect("small"));
            let put = PutRequest::builder()
                .item("lockToken", text(&format!("{name}/{number}")))
                .item("lockedBy", text("order_update/2026/11/21/[$LATEST]0123"))
                .item("attempt", text(&format!("0f8fad5b-d9cb-469f-a165-{number:012}")))
                .item("created", time(due - TimeDelta::seconds(60)))
                .item("expectedCompletion", time(due + late))
                .item("status", text("inProgress"))
                .item("version", AttributeValue::N("1".to_owned()))
                .item("retention", AttributeValue::N("2592000".to_owned()));
            WriteRequest::builder().put_request(put.build().expect("built")).build()
        });
        let batch = bench.client.batch_write_item().request_items(&bench.table, puts.collect());
        batch.send().await.expect("put");
    }
}

fn units(exchange: &Exchange) -> f64 {
    exchange.consumed.as_ref().and_then(|consumed| consumed["CapacityUnits"].as_f64()).unwrap_or_default()
}

/// The CPU time of this thread, without the engine, which has its own.
fn cpu_of_this_thread() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).expect("a clock").into()
}
