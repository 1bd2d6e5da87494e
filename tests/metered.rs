//! Metrics: every outcome is counted, under the operation and never the key.

use std::time::Duration;

use locker::{Failure, Intervened};
use locker_tests::{Bench, Fate, Recorded, ada, held_by, record_of};
use serde_json::json;

#[tokio::test(start_paused = true)]
async fn every_outcome_is_counted_and_no_label_holds_a_key() {
    let bench = Bench::new().await;
    let (locker, wire) = bench.machine();
    let recorded = Recorded::start();

    let token = |id: &str| locker.token(("card/charge", id)).fingerprint("request");
    for _ in 0..2 {
        token("secret-1").run(async |_| Ok::<_, Failure>(1)).await.expect("an answer");
    }
    let lock = held_by(token("secret-2")).await;
    let _ = token("secret-2").begin().await.expect("an answer");
    let _ = locker.token(("card/charge", "secret-2")).fingerprint("other").begin().await.expect("an answer");
    wire.next([Fate::ReplyLost]);
    let lock = lock.extend(Duration::from_secs(600)).await.expect("extended");
    lock.leave_in_doubt("no reply").await;
    held_by(token("secret-3")).await.release().await.expect("released");
    held_by(token("secret-4")).await.hold("odd").await.expect("held");
    let _ = token("secret-5").run(async |_| Ok::<_, Failure>(f64::NAN)).await.expect("done");
    // It has no result.
    let fails = token("secret-7").run(async |_| {
        wire.next([Fate::Denied]);
        Err::<i32, _>(Failure::transient("no route".to_owned()))
    });
    fails.await.expect_err("it failed");
    let late = held_by(token("secret-6")).await;
    bench.clock.advance(Duration::from_secs(3600));
    let _over = held_by(token("secret-6").take_over_after(Duration::ZERO)).await;
    late.release().await.expect_err("lost");

    let metrics = recorded.take();
    for key in metrics.keys() {
        for label in key.labels() {
            assert!(!label.value().contains("secret"), "{key}");
        }
        let operation =
            key.labels().find(|label| label.key() == "operation").map(|label| label.value().to_owned());
        assert!(operation.is_none_or(|operation| operation == "card/charge"));
    }
    let expected = [
        ("lockTokensAcquired", 8),
        ("lockTokensReplayed", 1),
        ("lockTokensInProgress", 1),
        ("lockTokensMismatched", 1),
        // Completed, released and held; and held because its answer could not be stored.
        ("lockTokensEnded", 4),
        ("lockTokensExtended", 1),
        ("lostOwnership", 1),
        ("unrecordedResults", 1),
        ("inDoubt", 1),
        ("workDuration", 3),
        ("silentRequests", 1),
    ];
    for (name, count) in expected {
        assert_eq!(metrics.count(name), count, "{name} in {metrics:?}");
    }
    for name in ["requests", "consumedWriteUnits"] {
        assert!(metrics.keys().any(|key| key.name() == name), "{name} in {metrics:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn only_acts_that_end_a_token_are_counted() {
    let bench = Bench::new().await;
    let (locker, _) = bench.machine();
    let operator = ada();
    for key in ["resolved", "closed", "released"] {
        held_by(locker.token(key)).await.hold("odd").await.expect("held");
    }
    let record = async |key: &str| record_of(&locker, key).await;
    let recorded = Recorded::start();
    for act in [
        locker.resolve(&record("resolved").await, &json!(1), &operator).await,
        locker.close(&record("closed").await, &operator).await,
        locker.release(&record("released").await, &operator).await,
    ] {
        assert_eq!(act.expect("an answer"), Intervened::Done);
    }
    let ended = recorded.take().counts("lockTokensEnded", "outcome");
    let ended: Vec<_> = ended.iter().map(|(outcome, count)| (outcome.as_str(), *count)).collect();
    assert_eq!(ended, [("closed", 1), ("released", 1), ("resolved", 1)]);

    // These tokens have ended before.
    for act in [
        locker.correct(&record("resolved").await, &json!(2), &operator).await,
        locker.redact(&record("closed").await, &operator).await,
    ] {
        assert_eq!(act.expect("an answer"), Intervened::Done);
    }
    assert_eq!(recorded.take().count("lockTokensEnded"), 0);
}
