//! What comes after the first answer is swept, and a client that comes again has faults, too.

use std::sync::Mutex;
use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use chrono::{DateTime, TimeDelta, Utc};
use lock_token_testing::sweep::{Plan, Subject, Sweep, World};

fn id(id: &str) -> AttributeValue {
    AttributeValue::S(id.to_owned())
}

/// A handler that answers "accepted" at once; what goes on by itself ships it 30 minutes later, and
/// notes it afterwards.
struct Accepts;

impl Subject for Accepts {
    async fn prepare(&self, world: &World) {
        locker::create_table(&world.dynamodb(), "rows").await.unwrap();
    }

    async fn ask(&self, world: &World) -> Option<String> {
        let due = (world.clock().now() + TimeDelta::minutes(30)).timestamp().to_string();
        let put = world.dynamodb().put_item().table_name("rows").item("lockToken", id("7"));
        let put =
            put.item("due", AttributeValue::N(due)).condition_expression("attribute_not_exists(lockToken)");
        match put.send().await {
            Ok(_) => Some("accepted".to_owned()),
            Err(e) if e.as_service_error().is_some_and(|e| e.is_conditional_check_failed_exception()) => {
                Some("accepted".to_owned())
            }
            Err(_) => None,
        }
    }

    async fn go_on(&self, world: &World) {
        let db = world.dynamodb();
        // It looks at ten orders, of which one is there.
        for order in 100..110 {
            let _ = db.get_item().table_name("rows").key("lockToken", id(&order.to_string())).send().await;
        }
        let Ok(row) = db.get_item().table_name("rows").key("lockToken", id("7")).send().await else { return };
        let Some(row) = row.item else { return };
        let due: i64 = row["due"].as_n().unwrap().parse().unwrap();
        if world.clock().now().timestamp() < due || row.contains_key("shipped") {
            return;
        }
        // The defect: an effect under a fresh key, noted afterwards.
        let key = world.ids().attempt();
        if world.provider().apply(&key, "ship").await.is_err() {
            return;
        }
        let update = db.update_item().table_name("rows").key("lockToken", id("7"));
        let _ = update
            .update_expression("SET shipped = :t")
            .expression_attribute_values(":t", AttributeValue::Bool(true))
            .send()
            .await;
    }

    async fn check(&self, world: &World, _: Option<&str>) -> Vec<String> {
        let ships = world.provider().count("ship");
        if ships > 1 { vec![format!("shipped {ships} times")] } else { Vec::new() }
    }
}

#[test]
fn work_after_the_answer_is_swept() {
    let known: Plan = "c1=DiesAfter".parse().unwrap();
    let by_hand = Sweep::new(|| Accepts).over(vec![known]);
    assert!(!by_hand.found().is_empty(), "the program is wrong, and one fault shows it");
    let swept = Sweep::new(|| Accepts).stop_at_first().run();
    assert!(!swept.found().is_empty(), "the sweep of {} plans passed it", swept.plans());
}

/// A handler whose second try, after a death, makes up for it by a gift, under a fresh key, before
/// it completes.
struct MakesUp;

impl Subject for MakesUp {
    async fn prepare(&self, world: &World) {
        locker::create_table(&world.dynamodb(), "locks").await.unwrap();
    }

    async fn ask(&self, world: &World) -> Option<String> {
        let locker = world.locker("locks").build().unwrap();
        let token = locker.token("it").expect_within(Duration::from_secs(60));
        let token = token.take_over_after(Duration::from_secs(60));
        let done = token
            .run(|attempt| async move {
                let bank = world.provider();
                if attempt.took_over() {
                    bank.apply(attempt.id(), "gift").await?;
                }
                bank.apply(&attempt.idempotency_key(), "charge").await
            })
            .await;
        done.ok().map(|done| done.into_inner())
    }

    async fn check(&self, world: &World, _: Option<&str>) -> Vec<String> {
        let gifts = world.provider().count("gift");
        if gifts > 1 { vec![format!("{gifts} gifts")] } else { Vec::new() }
    }
}

#[test]
fn a_client_that_comes_again_has_faults_too() {
    let swept = Sweep::new(|| MakesUp)
        .recognises_for(Duration::from_secs(10 * 24 * 3600))
        .random(3000, 1)
        .stop_at_first()
        .run();
    assert!(!swept.found().is_empty(), "the sweep of {} plans passed it", swept.plans());
}

/// A handler that waits for a message that a process sends which has died.
#[derive(Default)]
struct Waits(tokio::sync::Notify);

impl Subject for Waits {
    async fn prepare(&self, world: &World) {
        locker::create_table(&world.dynamodb(), "locks").await.unwrap();
    }

    async fn ask(&self, world: &World) -> Option<String> {
        world.dynamodb().scan().table_name("locks").send().await.ok()?;
        if world.call("describe", || ()).await.is_err() {
            self.0.notified().await;
        }
        Some("done".to_owned())
    }

    async fn check(&self, _: &World, _: Option<&str>) -> Vec<String> {
        Vec::new()
    }
}

#[test]
fn a_play_that_waits_for_ever_ends_and_says_so() {
    let swept = Sweep::new(Waits::default).over(vec!["c1=Refused".parse().unwrap(), "none".parse().unwrap()]);
    let [found] = swept.found() else { panic!("{:?}", swept.found()) };
    assert!(found.wrong()[0].starts_with("it does not come to an end"), "{found}");
}

/// Background work that makes one call, in the first round after this time. The check always
/// returns an error: the hours until the effect of the call.
struct CallsOnce {
    after: TimeDelta,
    begun: Mutex<Option<DateTime<Utc>>>,
    called: Mutex<Option<DateTime<Utc>>>,
}

impl Subject for CallsOnce {
    async fn prepare(&self, world: &World) {
        *self.begun.lock().unwrap() = Some(world.clock().now());
        locker::create_table(&world.dynamodb(), "locks").await.unwrap();
    }

    async fn ask(&self, world: &World) -> Option<String> {
        world.dynamodb().describe_table().table_name("locks").send().await.ok()?;
        Some("accepted".to_owned())
    }

    async fn go_on(&self, world: &World) {
        let now = world.clock().now();
        let is_due = now - self.begun.lock().unwrap().unwrap() >= self.after;
        if is_due && self.called.lock().unwrap().is_none() {
            *self.called.lock().unwrap() = Some(now);
            let _ = world.provider().apply("order/7", "ship").await;
        }
    }

    async fn check(&self, world: &World, _: Option<&str>) -> Vec<String> {
        let called = self.called.lock().unwrap().unwrap();
        let books = world.provider().books();
        books.iter().map(|entry| format!("after {} h", (entry.at - called).num_hours())).collect()
    }
}

#[test]
fn late_call_of_background_work_arrives_after_half_a_day_or_at_the_end() {
    let late: Plan = "c1=Late".parse().unwrap();
    // The last round is after four days.
    for (after, arrives) in [(TimeDelta::minutes(30), "after 12 h"), (TimeDelta::hours(90), "after 0 h")] {
        let calls_once = move || CallsOnce { after, begun: Mutex::default(), called: Mutex::default() };
        let swept = Sweep::new(calls_once).over(vec![late.clone()]);
        let found = swept.found().first().unwrap_or_else(|| panic!("{after}: the call never arrives"));
        assert_eq!(found.wrong(), [arrives], "{found}");
    }
}
