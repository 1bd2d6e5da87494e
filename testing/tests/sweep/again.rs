//! A plan that is played again is played as before, and its trace has the numbers of the plan.

use std::collections::HashSet;
use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use chrono::{DateTime, TimeDelta, Utc};
use lock_token_testing::sweep::{Found, Plan, Subject, Sweep, World};

/// Writes rows with requests of its own, which the SDK tries again; and always finds fault, so that the trace is kept.
struct Rows;

impl Subject for Rows {
    async fn prepare(&self, world: &World) {
        locker::create_table(&world.dynamodb(), "rows").await.unwrap();
    }

    async fn ask(&self, world: &World) -> Option<String> {
        for row in 0..20 {
            tokio::time::sleep(Duration::from_millis(50)).await;
            let (dynamodb, row) = (world.dynamodb(), AttributeValue::S(row.to_string()));
            dynamodb.put_item().table_name("rows").item("lockToken", row).send().await.ok()?;
        }
        Some("done".to_owned())
    }

    async fn check(&self, _: &World, _: Option<&str>) -> Vec<String> {
        vec!["look at the trace".to_owned()]
    }
}

fn played(plan: &str) -> Found {
    let plan: Plan = plan.parse().unwrap();
    Sweep::new(|| Rows).over(vec![plan]).found()[0].clone()
}

#[test]
fn a_plan_is_played_the_same_each_time_also_where_the_sdk_tries_again() {
    let traces: HashSet<_> = (0..20).map(|_| played("d1=Throttled,two=3").trace().to_owned()).collect();
    assert_eq!(traces.len(), 1, "{traces:#?}");
}

#[test]
fn a_line_of_the_trace_has_the_number_of_its_request() {
    let found = played("d1=Throttled,two=3");
    let faulty = found.trace().iter().find(|line| line.contains("<- Throttled")).expect("it is throttled");
    assert!(faulty.starts_with("d1 "), "{found}");
    let numbered = found.trace().iter().filter_map(|line| line.strip_prefix('d')?.split(' ').next());
    let numbers: Vec<_> = numbered.collect();
    assert_eq!(numbers.iter().collect::<HashSet<_>>().len(), numbers.len(), "{found}");
}

/// Has its answer at once.
struct Soon(std::sync::Mutex<Option<DateTime<Utc>>>);

impl Subject for Soon {
    async fn prepare(&self, world: &World) {
        *self.0.lock().unwrap() = Some(world.clock().now());
        locker::create_table(&world.dynamodb(), "locks").await.unwrap();
    }

    async fn ask(&self, world: &World) -> Option<String> {
        world.dynamodb().describe_table().table_name("locks").send().await.ok()?;
        Some("done".to_owned())
    }

    async fn check(&self, world: &World, _: Option<&str>) -> Vec<String> {
        let passed = world.clock().now() - self.0.lock().unwrap().expect("when it began");
        (passed < TimeDelta::days(4)).then(|| format!("only {passed} have passed")).into_iter().collect()
    }
}

#[test]
fn four_days_pass_before_the_check_also_where_the_answer_comes_at_once() {
    let _ = Sweep::new(|| Soon(std::sync::Mutex::default())).random(0, 1).run().expect_nothing_wrong();
}
