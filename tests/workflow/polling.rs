//! The price of a loop that checks every quarter of an hour for four days.

use std::time::Duration;

use locker::workflow::{Completer, Flow, Outcome, Stop, Workflow};
use locker_tests::Wire;

use crate::bench::{Desk, price_of};

const LOOKS: u32 = 4 * 24 * 4;
const QUARTER: Duration = Duration::from_secs(15 * 60);

/// Checks until the last check, and continues as a new version after `in_a_version` checks.
#[derive(Clone)]
struct Polls {
    in_a_version: u32,
}

impl Workflow for Polls {
    const NAME: &'static str = "polls";
    type Input = u32;
    type Output = u32;

    async fn run(&self, flow: &Flow, first: u32) -> Result<u32, Stop> {
        for look in first..LOOKS {
            let found = flow.step(("look", look)).run(async |_| Ok(look + 1 == LOOKS)).await?;
            if found {
                return Ok(look);
            }
            flow.sleep(("pause", look), QUARTER).await?;
            if (look + 1) % self.in_a_version == 0 {
                return Err(flow.continue_as_new(&(look + 1)));
            }
        }
        Err(Stop::fail("not found"))
    }
}

/// Returns the read and write units of the workflow, without the lists that the completer reads for
/// all workflows.
fn units(wire: &Wire) -> [f64; 2] {
    let mut units = [0.0, 0.0];
    for exchange in wire.take() {
        let is_of_all = exchange.request["IndexName"].is_string() || exchange.operation == "UpdateItem";
        let reads = ["GetItem", "Query"].contains(&exchange.operation.as_str());
        if !is_of_all {
            units[usize::from(!reads)] += price_of(&exchange);
        }
    }
    units
}

async fn price(in_a_version: u32) -> [f64; 2] {
    let desk = Desk::new().await;
    let (workflows, wire) = desk.machine();
    let code = Polls { in_a_version };
    workflows.start(&code, "p/1", &0).enqueue().await.unwrap();
    let completer = Completer::new(&workflows).register(code);
    for _ in 0..LOOKS {
        desk.bench.clock.advance(QUARTER + Duration::from_secs(1));
        completer.run().await.unwrap();
    }
    let units = units(&wire);
    let outcome = workflows.outcome::<Polls>("p/1").fetch().await.unwrap();
    assert!(matches!(&outcome, Some(Outcome::Completed(look)) if **look == LOOKS - 1), "{outcome:?}");
    units
}

#[tokio::test]
async fn four_days_of_looks_cost_a_third_in_versions_of_48_looks() {
    // The engine of this repository counts units as DynamoDB does.
    if !Desk::new().await.bench.engine.is_embedded() {
        return;
    }
    let ([reads, writes], [fewer_reads, more_writes]) = (price(u32::MAX).await, price(48).await);
    let (whole, versions) = (reads + writes, fewer_reads + more_writes);
    println!("one version: {reads} + {writes}; versions of 48 looks: {fewer_reads} + {more_writes}");
    assert!(versions * 2.9 < whole, "{whole} {versions}");
}
