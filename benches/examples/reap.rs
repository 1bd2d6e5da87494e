//! Costs of the reaper: finished workflows of five steps each, deleted one after the other and side
//! by side.
//!
//! ```sh
//! cargo run --release -p locker-benches --example reap
//! ```
//!
//! It uses an embedded DynamoDB, and each request takes 5 ms longer than there: requests and write
//! units are as on AWS, times as far as that is.

#![allow(clippy::expect_used)]

use std::sync::Arc;
use std::time::Duration;

use locker::Settings;
use locker::workflow::{Completer, Flow, Reaper, Stop, Workflow, Workflows};
use locker_tests::{Bench, Exchange, Wire};
use nix::time::{ClockId, clock_gettime};
use tokio::time::Instant;

const STEPS: usize = 5;
const DELAY: Duration = Duration::from_millis(5);
/// How many are deleted at a time, and how many there are.
const RUNS: [(usize, usize); 5] = [(1, 200), (8, 1_000), (32, 2_000), (64, 2_000), (128, 2_000)];

struct Job;

impl Workflow for Job {
    const NAME: &'static str = "job";
    type Input = ();
    type Output = ();

    async fn run(&self, flow: &Flow, (): ()) -> Result<(), Stop> {
        for step in 0..STEPS {
            flow.step(format!("step#{step}")).run(|_| async { Ok(step) }).await?;
        }
        Ok(())
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let bench = Bench::new().await;
    println!(
        "| at a time | workflows | seconds | workflows a second | requests each | write units each | read units each | CPU ms each |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    for (concurrency, count) in RUNS {
        let table = format!("reap-{concurrency}");
        locker::workflow::create_table(&bench.client, &table).await.expect("a table");
        fill(&bench, &table, count).await;
        bench.clock.advance(Duration::from_secs(366 * 24 * 60 * 60));
        let wire = Wire::default();
        wire.delay(DELAY);
        let workflows = workflows(&bench, &table, &wire);
        let reaper = Reaper::new(&Completer::new(&workflows).register(Job)).concurrency(concurrency);
        let (began, cpu) = (Instant::now(), cpu_of_this_thread());
        let report = reaper.run().await.expect("a run");
        let (took, cpu) = (began.elapsed(), cpu_of_this_thread() - cpu);
        assert_eq!((report.deleted, report.finished), (count, true), "{report:?}");
        let exchanges = wire.take();
        let units = |is_read: bool| -> f64 {
            let these = exchanges.iter().filter(|exchange| (exchange.operation == "Query") == is_read);
            these.map(units).sum::<f64>()
        };
        #[allow(clippy::cast_precision_loss)]
        let each = |sum: f64| sum / count as f64;
        #[allow(clippy::cast_precision_loss)]
        let requests = exchanges.len() as f64;
        println!(
            "| {concurrency} | {count} | {:.1} | {:.0} | {:.1} | {:.1} | {:.1} | {:.2} |",
            took.as_secs_f64(),
            1.0 / each(took.as_secs_f64()),
            each(requests),
            each(units(false)),
            each(units(true)),
            each(cpu.as_secs_f64() * 1e3),
        );
    }
}

fn workflows(bench: &Bench, table: &str, wire: &Wire) -> Workflows {
    let mut settings = Settings::default();
    settings.consumed_capacity = true;
    let client = bench.engine.client_over(wire);
    let builder = Workflows::builder(&client, table).settings(settings);
    builder.with_clock(Arc::new(bench.clock.clone())).build().expect("workflows")
}

async fn fill(bench: &Bench, table: &str, count: usize) {
    let workflows = workflows(bench, table, &Wire::default());
    for number in 0..count {
        workflows.start(&Job, ("job", number), &()).run().await.expect("an outcome");
    }
}

fn units(exchange: &Exchange) -> f64 {
    exchange.consumed.as_ref().and_then(|consumed| consumed["CapacityUnits"].as_f64()).unwrap_or_default()
}

/// The CPU time of this thread, without the engine, which has its own.
fn cpu_of_this_thread() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).expect("a clock").into()
}
