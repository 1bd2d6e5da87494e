//! Promise 6: nothing in progress vanishes. Retention starts at completion; only a terminal record
//! past its `ttl` counts as absent, while DynamoDB has not yet deleted it.

use std::collections::HashMap;
use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use locker::{Begun, Clock as _, Retention, TokenState};
use locker_tests::{Bench, DAY, held_by, record_of};

async fn ttl(bench: &Bench, key: &str) -> Option<i64> {
    let item = bench.item(key).await.expect("an item");
    item.get("ttl").map(|ttl| ttl.as_n().expect("a number").parse().expect("a whole number"))
}

#[tokio::test(start_paused = true)]
async fn only_a_token_with_an_answer_has_a_ttl() {
    let bench = Bench::new().await;
    let (locker, _) = bench.machine();
    let token = |key: &str| locker.token(key).retention(Retention::For(DAY));

    let lock = held_by(token("vanish/completed")).await;
    assert_eq!(ttl(&bench, "vanish/completed").await, None, "in progress");
    let lock = lock.extend(Duration::from_secs(600)).await.expect("extended");
    assert_eq!(ttl(&bench, "vanish/completed").await, None, "extended");
    bench.clock.advance(Duration::from_secs(500));
    lock.complete("done").await.expect("completed");
    // Epoch seconds, counted from the completion, and never rounded down.
    let expected = (bench.clock.now() + DAY).timestamp() + 1;
    assert_eq!(ttl(&bench, "vanish/completed").await, Some(expected), "completed");

    held_by(token("vanish/rejected")).await.fail("no").await.expect("completed");
    assert_eq!(ttl(&bench, "vanish/rejected").await, Some(expected), "completed with an error");
    held_by(token("vanish/failed")).await.hold("odd").await.expect("held");
    assert_eq!(ttl(&bench, "vanish/failed").await, None, "failed");
    held_by(locker.token("vanish/never").retention(Retention::Forever))
        .await
        .complete("x")
        .await
        .expect("completed");
    assert_eq!(ttl(&bench, "vanish/never").await, None, "kept for ever");
}

#[tokio::test(start_paused = true)]
async fn an_expired_answer_counts_as_absent_to_the_second() {
    let bench = Bench::new().await;
    let (locker, _) = bench.machine();
    let token = || locker.token("vanish/expired").retention(Retention::For(DAY));
    for completion in [Some("done"), None] {
        let lock = held_by(token()).await;
        match completion {
            Some(answer) => lock.complete(answer).await.expect("completed"),
            None => lock.fail("no").await.expect("completed"),
        }
        let ttl = ttl(&bench, "vanish/expired").await.expect("a ttl");
        let left = ttl * 1000 - bench.clock.now().timestamp_millis();
        bench.clock.advance(Duration::from_millis(u64::try_from(left).expect("in the future")));
        assert_eq!(bench.clock.now().timestamp(), ttl);
        let begun = token().begin().await.expect("an answer");
        assert!(
            matches!(begun, Begun::Completed(_) | Begun::Failed(_)),
            "at its ttl it is still there: {begun:?}"
        );
        let looked = token().read_first().begin().await.expect("an answer");
        assert!(matches!(looked, Begun::Completed(_) | Begun::Failed(_)), "{looked:?}");

        // Another machine's clock may be 5 seconds ahead of the one that wrote the ttl.
        bench.clock.advance(Duration::from_secs(5));
        let begun = token().begin().await.expect("an answer");
        assert!(matches!(begun, Begun::Completed(_) | Begun::Failed(_)), "within the skew: {begun:?}");
        bench.clock.advance(Duration::from_secs(1));
        assert!(bench.item("vanish/expired").await.is_some(), "DynamoDB has not deleted it");
        let lock = held_by(token().read_first()).await;
        lock.release().await.expect("released");
    }
}

#[tokio::test(start_paused = true)]
async fn unfinished_and_held_tokens_never_expire() {
    let bench = Bench::new().await;
    let (locker, _) = bench.machine();
    let _held = held_by(locker.token("vanish/working")).await;
    held_by(locker.token("vanish/broken")).await.hold("odd").await.expect("held");
    bench.clock.advance(DAY * 3650);
    let working = locker.token("vanish/working").begin().await.expect("an answer");
    assert!(matches!(working, Begun::InProgress(_)), "{working:?}");
    let broken = locker.token("vanish/broken").begin().await.expect("an answer");
    assert!(matches!(broken, Begun::Held(_)), "{broken:?}");
}

#[tokio::test(start_paused = true)]
async fn a_foreign_ttl_on_unfinished_work_is_ignored() {
    let bench = Bench::new().await;
    let (locker, _) = bench.machine();
    for status in ["inProgress", "error", "inProgress_2", "error_0"] {
        let key = format!("vanish/{status}");
        let past = (bench.clock.now() - DAY).timestamp();
        let text = |value: &str| AttributeValue::S(value.to_owned());
        bench
            .put(HashMap::from([
                ("lockToken".to_owned(), text(&key)),
                ("lockedBy".to_owned(), text("somebody/else")),
                ("created".to_owned(), text("2026-01-01T00:00:00.000Z")),
                ("expectedCompletion".to_owned(), text("2026-01-01T00:01:00.000Z")),
                ("actualCompletion".to_owned(), text("2026-01-01T00:01:00.000Z")),
                ("status".to_owned(), text(status)),
                ("ttl".to_owned(), AttributeValue::N(past.to_string())),
            ]))
            .await;
        let begun = locker.token(&key).begin().await.expect("an answer");
        assert!(matches!(begun, Begun::InProgress(_) | Begun::Held(_)), "{status}: {begun:?}");
        assert!(
            matches!(record_of(&locker, &key).await.state(), TokenState::InProgress | TokenState::Held),
            "{status}"
        );
    }
}
