//! An engine that refuses a write without returning the item: a begin reads the item instead.

use std::time::Duration;

use locker::{Begun, Error, Locker};
use locker_tests::{Bench, Gate, HOUR, held_by};

async fn locker(bench: &Bench, gate: &Gate) -> Locker {
    gate.keep_items();
    // The item that refused a write may be younger than any eventually consistent read.
    gate.keep_reads_behind();
    bench.locker(&bench.engine.client_behind(gate), &bench.clock, |_| {})
}

#[tokio::test(start_paused = true)]
async fn begin_finds_each_state_on_an_engine_without_items() {
    let bench = Bench::new().await;
    let gate = Gate::default();
    let locker = locker(&bench, &gate).await;
    held_by(locker.token("done").fingerprint(&1)).await.complete("receipt").await.expect("completed");
    let begun = locker.token("done").begin().await.expect("an answer");
    assert!(matches!(begun, Begun::Completed(_)), "{begun:?}");
    let begun = locker.token("done").fingerprint(&2).begin().await.expect("an answer");
    assert!(matches!(begun, Begun::Mismatch(_)), "{begun:?}");
    held_by(locker.token("failed")).await.fail("declined").await.expect("failed");
    let begun = locker.token("failed").begin().await.expect("an answer");
    assert!(matches!(begun, Begun::Failed(_)), "{begun:?}");
    held_by(locker.token("held")).await.hold("odd").await.expect("held");
    let begun = locker.token("held").begin().await.expect("an answer");
    assert!(matches!(begun, Begun::Held(_)), "{begun:?}");
    drop(held_by(locker.token("working")).await);
    let begun = locker.token("working").begin().await.expect("an answer");
    assert!(matches!(begun, Begun::InProgress(_)), "{begun:?}");
    bench.clock.advance(HOUR);
    let taken = held_by(locker.token("working").take_over_after(Duration::ZERO)).await;
    assert!(taken.attempt().took_over());
}

#[tokio::test(start_paused = true)]
async fn begin_recognises_its_own_token_on_an_engine_without_items() {
    let bench = Bench::new().await;
    let gate = Gate::default();
    let locker = locker(&bench, &gate).await;
    gate.lose_reply(0, "the reply was lost");
    let lock = held_by(locker.token("lost/reply")).await;
    lock.complete("done").await.expect("it is its own");
}

/// The refusal proves that the token exists, and the read that follows fails.
#[tokio::test(start_paused = true)]
async fn begin_that_cannot_read_what_refused_it_does_not_say_that_others_changed_it() {
    let bench = Bench::new().await;
    let gate = Gate::default();
    let locker = locker(&bench, &gate).await;
    drop(held_by(locker.token("unread")).await);
    gate.refuse(1..2, (400, "AccessDeniedException"));
    let error = locker.token("unread").begin().await.expect_err("no answer");
    assert!(matches!(error, Error::Denied { .. }), "{error:?}");
}
