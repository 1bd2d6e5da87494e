//! A test of your own code under every fault: lost, late and refused requests, and processes that
//! die.
//!
//! Run it with `cargo test -p locker-examples --test sweep`. Its dependency is `lock-token-testing`
//! with the feature `sweep`. The second test shows that the sweep finds a defect that no test
//! without faults finds.

#![allow(clippy::unwrap_used, clippy::panic, reason = "it is a test")]

use std::time::Duration;

use lock_token_testing::Provider;
use lock_token_testing::sweep::{Subject, Sweep, World};
use locker::{Class, Failure, Locker, RunError};

/// The code under test: it charges an order once.
async fn checkout(
    locker: &Locker,
    bank: Provider,
    order: u64,
    careful: bool,
) -> Result<String, RunError<Failure>> {
    let token = locker.token(("order/charge", order)).expect_within(Duration::from_secs(60));
    let charged = token.run(|attempt| async move {
        let charge = bank.apply(&attempt.idempotency_key(), "charge").await;
        charge.map_err(|failure| match failure.class {
            // The defect: after a time-out the card may have been charged.
            Class::InDoubt if !careful => Failure::transient(failure.error),
            _ => failure,
        })
    });
    Ok(charged.await?.into_inner())
}

struct Checkout {
    careful: bool,
}

impl Subject for Checkout {
    async fn prepare(&self, world: &World) {
        locker::create_table(&world.dynamodb(), "locks").await.unwrap();
    }

    async fn ask(&self, world: &World) -> Option<String> {
        let locker = world.locker("locks").build().unwrap();
        checkout(&locker, world.provider(), 7, self.careful).await.ok()
    }

    async fn check(&self, world: &World, answer: Option<&str>) -> Vec<String> {
        match (world.provider().count("charge"), answer) {
            (1, _) | (0, None) => Vec::new(),
            (charges, answer) => vec![format!("{charges} charges, and the answer is {answer:?}")],
        }
    }
}

#[test]
fn an_order_is_charged_once_under_every_fault() {
    // A bank that knows no idempotency keys: each call is another charge.
    let swept = Sweep::new(|| Checkout { careful: true }).recognises_for(Duration::ZERO).random(40, 1).run();
    println!("{} plans", swept.expect_nothing_wrong().plans());
}

#[test]
fn a_lost_reply_that_is_called_transient_is_found() {
    let broken =
        Sweep::new(|| Checkout { careful: false }).recognises_for(Duration::ZERO).stop_at_first().run();
    let found = broken.found().first().expect("the second charge");
    // `LOCKER_SWEEP=<plan> cargo test` plays it again, and prints each request.
    println!("plan {}: {:?}", found.plan(), found.wrong());
    assert!(found.wrong().iter().any(|wrong| wrong.starts_with("2 charges")), "{:?}", found.wrong());
}
