//! A plan that is played again is played as before, and its trace has the numbers of the plan.

use std::collections::HashSet;
use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use chrono::{DateTime, TimeDelta, Utc};
use lock_token_testing::sweep::{Found, Plan, Subject, Sweep, World};

/// Writes rows with requests of its own, which the SDK tries again; and always finds fault, so that
/// the trace is kept.
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

/// A row that is lost if its process dies after the first request; the rest of the plan does not
/// matter.
struct Lost;

impl Subject for Lost {
    async fn prepare(&self, world: &World) {
        locker::create_table(&world.dynamodb(), "rows").await.unwrap();
    }

    async fn ask(&self, world: &World) -> Option<String> {
        let row = |id: &str| {
            world.dynamodb().put_item().table_name("rows").item("lockToken", AttributeValue::S(id.to_owned()))
        };
        row("begun").condition_expression("attribute_not_exists(lockToken)").send().await.ok();
        let begun = world.dynamodb().scan().table_name("rows").send().await.ok()?.count;
        if begun == 1 && format!("{world:?}").contains("\"caller\"") {
            row("done").send().await.ok()?;
        }
        Some("done".to_owned())
    }

    const CANCELS: bool = true;

    async fn cancel(&self, world: &World) {
        let _ = world.clock();
    }

    async fn check(&self, world: &World, _: Option<&str>) -> Vec<String> {
        let rows = world.dynamodb().scan().table_name("rows").send().await.unwrap().count;
        (rows < 2).then(|| "a row is missing".to_owned()).into_iter().collect()
    }
}

#[test]
fn random_finding_is_shown_without_faults_that_do_not_matter() {
    // Only plans by chance are looked at: those with one fault come first otherwise.
    let sweep = Sweep::new(|| Lost).random(300, 5);
    let one_fault = sweep.run();
    let shown = &one_fault.found()[0];
    assert_eq!(shown.plan().to_string().split(',').count(), 1, "{shown}");
    assert!(shown.trace().iter().any(|line| line.starts_with("the same again")), "{shown}");
}

#[test]
fn the_trace_has_the_operator() {
    let plan: Plan = "cancel=2,d1=DiesAfter".parse().unwrap();
    let swept = Sweep::new(|| Lost).over(vec![plan]);
    let found = &swept.found()[0];
    let place = |part: &str| found.trace().iter().position(|line| line.contains(part));
    assert!(
        place("operator: cancels").is_some() && place("operator: cancels") < place("operator: has cancelled"),
        "{found}"
    );
}

#[test]
fn the_names_of_faults_are_said_and_their_case_does_not_matter() {
    let plan: Plan = "d1=diesafter,c2=REPLYLOST".parse().unwrap();
    assert_eq!(plan.to_string(), "d1=DiesAfter,c2=ReplyLost");
    let error = "d1=Dies".parse::<Plan>().unwrap_err().to_string();
    assert!(
        error.starts_with("\"d1=Dies\" is no fault of a plan")
            && error.contains("FrozenAfter")
            && error.contains("Declined"),
        "{error}"
    );
}

/// A call that is late arrives while its provider still knows the key.
#[test]
fn late_call_arrives_while_the_provider_recognises_its_key() {
    struct Stuck;
    impl Subject for Stuck {
        async fn prepare(&self, world: &World) {
            locker::create_table(&world.dynamodb(), "locks").await.unwrap();
        }

        async fn ask(&self, world: &World) -> Option<String> {
            let _ = world.dynamodb().describe_table().table_name("locks").send().await;
            world.provider().apply("key", "charge").await.ok();
            None
        }

        async fn check(&self, world: &World, _: Option<&str>) -> Vec<String> {
            vec![format!("{} charges", world.provider().count("charge"))]
        }
    }
    let plan: Plan = "c1=Late".parse().unwrap();
    let swept = Sweep::new(|| Stuck).over(vec![plan]);
    let trace = swept.found()[0].trace();
    let place = |part: &str| trace.iter().position(|line| line.contains(part)).expect(part);
    assert!(place("late: charge") < place("after 86400s"), "{}", swept.found()[0]);
}
