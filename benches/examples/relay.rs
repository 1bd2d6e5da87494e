//! Throughput of a relay: messages that were left, of many subjects and of few, sent by one thread.
//!
//! ```sh
//! cargo run --release -p locker-benches --example relay
//! ```
//!
//! It uses an embedded DynamoDB and a target in this process; each request to either takes 5 ms
//! longer than there. Requests and write units are as on AWS, times as far as that is.

#![allow(clippy::expect_used)]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use aws_sdk_dynamodb::types::TransactWriteItem;
use futures_util::stream::{self, StreamExt as _};
use locker::Settings;
use locker::message::{Envelope, NewMessage, Router, Sent, Target};
use locker::relay::Relay;
use locker::workflow::Workflows;
use locker_tests::{Bench, Exchange, Wire};
use tokio::time::Instant;

const DELAY: Duration = Duration::from_millis(5);
/// How many subjects a relay works on at a time, subjects, and messages of each.
const RUNS: [(usize, usize, usize); 4] = [(1, 200, 1), (50, 5_000, 1), (200, 5_000, 1), (50, 10, 500)];

/// A queue that takes ten messages in a request.
#[derive(Debug, Clone, Default)]
struct Queue(Arc<AtomicUsize>);

impl Target for Queue {
    async fn send(&self, batch: &[Envelope]) -> Vec<Sent> {
        self.0.fetch_add(1, Ordering::Relaxed);
        tokio::time::sleep(DELAY).await;
        batch.iter().map(|_| Sent::Done).collect()
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let bench = Bench::new().await;
    println!(
        "| at a time | subjects | messages | seconds | messages a second | requests to DynamoDB each | requests to the queue each | write units each |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    for (concurrency, subjects, each_of) in RUNS {
        let table = format!("relay-{concurrency}-{subjects}");
        locker::workflow::create_table(&bench.client, &table).await.expect("a table");
        fill(&bench, &table, subjects, each_of).await;
        bench.clock.advance(Duration::from_secs(60));
        let wire = Wire::default();
        wire.delay(DELAY);
        let queue = Queue::default();
        let router = Router::new().route("*", queue.clone());
        let relay = Relay::new(&workflows(&bench, &table, &wire), router).concurrency(concurrency);
        let count = subjects * each_of;
        let began = Instant::now();
        let mut sent = 0;
        // A run takes what is due when it begins, and no more than ten of a subject between two
        // writes.
        while sent < count {
            let report = relay.run().await.expect("a run");
            assert!(report.finished && report.waiting == 0, "{report:?}");
            sent += report.sent;
        }
        let took = began.elapsed();
        let exchanges = wire.take();
        #[allow(clippy::cast_precision_loss)]
        let each = |sum: f64| sum / count as f64;
        #[allow(clippy::cast_precision_loss)]
        let requests = (exchanges.len() as f64, queue.0.load(Ordering::Relaxed) as f64);
        let is_write = |exchange: &&Exchange| exchange.operation != "Query";
        let writes: f64 = exchanges.iter().filter(is_write).map(units).sum();
        println!(
            "| {concurrency} | {subjects} | {count} | {:.1} | {:.0} | {:.2} | {:.2} | {:.1} |",
            took.as_secs_f64(),
            1.0 / each(took.as_secs_f64()),
            each(requests.0),
            each(requests.1),
            each(writes),
        );
    }
}

fn workflows(bench: &Bench, table: &str, wire: &Wire) -> Workflows {
    let mut settings = Settings::default();
    settings.consumed_capacity = true;
    let client = bench.engine.client_over(wire);
    let builder = Workflows::builder(&client, table).settings(settings).source("/bench");
    builder.with_clock(Arc::new(bench.clock.clone())).build().expect("workflows")
}

async fn fill(bench: &Bench, table: &str, subjects: usize, each_of: usize) {
    let outbox = workflows(bench, table, &Wire::default()).outbox();
    for place in 0..each_of {
        // Its place among those of its subject is that of its time.
        bench.clock.advance(Duration::from_millis(1));
        let put = |subject: usize| {
            let message = NewMessage::new("order/placed", &place).subject(format!("order/{subject}"));
            let put = outbox.message(message).expect("a message");
            let action = TransactWriteItem::builder().put(put.put()).build();
            bench.client.transact_write_items().transact_items(action).send()
        };
        let mut puts = stream::iter((0..subjects).map(put)).buffer_unordered(16);
        while let Some(done) = puts.next().await {
            done.expect("it is committed");
        }
    }
}

fn units(exchange: &Exchange) -> f64 {
    exchange.consumed.as_ref().and_then(|consumed| consumed["CapacityUnits"].as_f64()).unwrap_or_default()
}
