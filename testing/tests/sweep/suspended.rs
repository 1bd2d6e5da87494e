//! A suspension stops the whole process, with its spawned tasks.

use std::time::Duration;

use lock_token_testing::sweep::{Plan, Subject, Sweep, World};
use locker::Failure;

use crate::{KNOWS_NO_KEYS, charged_once};

/// A handler that works in a spawned task. It looks for a receipt, and charges if there is none.
struct LooksInATask;

async fn look_and_charge(world: World) -> Option<String> {
    let locker = world.locker("locks").build().unwrap();
    if let Some(record) = locker.get("order/7").await.ok()? {
        let answer = locker.answer(&record).await.ok()??;
        return serde_json::from_str(&answer).ok();
    }
    let receipt = world.provider().apply("order/7", "charge").await.ok()?;
    let token = locker.token("order/7").expect_within(Duration::from_secs(60));
    let done = token.run(|_| async { Ok::<_, Failure>(receipt) }).await;
    done.ok().map(|receipt| receipt.into_inner())
}

impl Subject for LooksInATask {
    async fn prepare(&self, world: &World) {
        locker::create_table(&world.dynamodb(), "locks").await.unwrap();
    }

    async fn ask(&self, world: &World) -> Option<String> {
        tokio::spawn(look_and_charge(world.clone())).await.unwrap()
    }

    async fn check(&self, world: &World, answer: Option<&str>) -> Vec<String> {
        charged_once(world, answer)
    }
}

#[test]
fn suspension_of_a_spawned_task_between_look_and_charge_is_found() {
    // The second request is the one that takes the token after the charge.
    for plan in ["d1=FrozenAfter", "c1=FrozenBefore", "c1=FrozenAfter", "d2=FrozenBefore"] {
        let plans: Vec<Plan> = vec![plan.parse().unwrap()];
        let swept = Sweep::new(|| LooksInATask).recognises_for(KNOWS_NO_KEYS).over(plans);
        let found = swept.found().first().unwrap_or_else(|| panic!("{plan}: the sweep passed it"));
        assert!(found.wrong().iter().any(|wrong| wrong.starts_with("2 charges")), "{found}");
        // The suspended request continues. A timeout in the task does not end it before.
        let client = found.trace().iter().position(|line| line.contains("client comes again"));
        let put = found.trace().iter().position(|line| line.contains(" caller: asks PutItem"));
        assert!(put > client, "{found}");
    }
}

#[test]
fn other_client_continues_while_a_client_is_suspended() {
    let plans: Vec<Plan> = vec!["c1=Refused,c2=FrozenBefore".parse().unwrap()];
    let swept = Sweep::new(|| LooksInATask).recognises_for(KNOWS_NO_KEYS).over(plans);
    let found = swept.found().first().expect("the second client charges in the meantime");
    assert!(found.wrong().iter().any(|wrong| wrong.starts_with("2 charges")), "{found}");
}

/// A handler that answers at once. Its background work looks for a receipt, and charges if there is
/// none.
struct LooksInTheBackground;

impl Subject for LooksInTheBackground {
    async fn prepare(&self, world: &World) {
        locker::create_table(&world.dynamodb(), "locks").await.unwrap();
    }

    async fn ask(&self, world: &World) -> Option<String> {
        world.dynamodb().describe_table().table_name("locks").send().await.ok()?;
        Some("accepted".to_owned())
    }

    async fn go_on(&self, world: &World) {
        Box::pin(look_and_charge(world.clone())).await;
    }

    async fn check(&self, world: &World, answer: Option<&str>) -> Vec<String> {
        charged_once(world, answer)
    }
}

#[test]
fn other_completer_continues_while_a_completer_is_suspended() {
    // The first request is of the caller, the second is the look.
    for plan in ["d2=FrozenAfter", "c1=FrozenBefore"] {
        let plans: Vec<Plan> = vec![plan.parse().unwrap()];
        let swept = Sweep::new(|| LooksInTheBackground).recognises_for(KNOWS_NO_KEYS).over(plans);
        let found = swept.found().first().unwrap_or_else(|| panic!("{plan}: the sweep passed it"));
        assert!(found.wrong().iter().any(|wrong| wrong.starts_with("2 charges")), "{found}");
    }
}
