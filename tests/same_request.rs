//! The same key with a different request is a mismatch, whatever the state of the token.

use locker::{Begun, Error, FingerprintKey, Locker, RunError};
use locker_tests::{Bench, held_by};
use serde_json::json;

#[tokio::test(start_paused = true)]
async fn another_request_is_a_mismatch_in_every_state() {
    let bench = Bench::new().await;
    let (locker, _) = bench.machine();
    let mine = json!({"amount": 100, "to": "alice"});
    let same = json!({"to": "alice", "amount": 100});
    let other = json!({"amount": 999, "to": "alice"});
    for state in ["inProgress", "completed", "failed", "held"] {
        let lock = held_by(locker.token(("same", state)).fingerprint(&mine)).await;
        let mut held = None;
        match state {
            "completed" => lock.complete("done").await.expect("completed"),
            "failed" => lock.fail("no").await.expect("completed"),
            "held" => lock.hold("odd").await.expect("held"),
            _ => held = Some(lock),
        }
        let begun = locker.token(("same", state)).fingerprint(&other).begin().await.expect("an answer");
        assert!(matches!(begun, Begun::Mismatch(_)), "{state}: {begun:?}");
        let looked =
            locker.token(("same", state)).fingerprint(&other).read_first().begin().await.expect("an answer");
        assert!(matches!(looked, Begun::Mismatch(_)), "{state}: {looked:?}");
        let ran = locker
            .token(("same", state))
            .fingerprint(&other)
            .run(async |_| Ok::<(), locker::Failure>(()))
            .await;
        assert!(matches!(ran, Err(RunError::Mismatch(_))), "{state}");
        let begun = locker.token(("same", state)).fingerprint(&same).begin().await.expect("an answer");
        assert!(!matches!(begun, Begun::Mismatch(_)), "{state}: {begun:?}");
        // Without a fingerprint there is nothing to compare.
        let begun = locker.token(("same", state)).begin().await.expect("an answer");
        assert!(!matches!(begun, Begun::Mismatch(_)), "{state}: {begun:?}");
        drop(held);
    }
}

#[tokio::test(start_paused = true)]
async fn a_changed_secret_does_not_turn_replays_into_mismatches() {
    let bench = Bench::new().await;
    let key = |id: &str| FingerprintKey::new(id, format!("a secret of some length {id}")).expect("a key");
    let machine = |keys: Vec<FingerprintKey>| {
        let client = bench.engine.client();
        Locker::builder(&client, &bench.table).with_fingerprint_keys(keys).build().expect("a locker")
    };
    let before = machine(vec![key("2025")]);
    let lock = held_by(before.token("secret").fingerprint_bytes("request")).await;
    lock.complete("done").await.expect("completed");
    let stored = bench.item("secret").await.expect("an item")["fingerprint"].as_s().expect("text").clone();
    assert!(stored.starts_with("hmac-sha256:2025:"), "{stored}");

    let after = machine(vec![key("2026"), key("2025")]);
    let begun = after.token("secret").fingerprint_bytes("request").begin().await.expect("an answer");
    assert!(matches!(begun, Begun::Completed(_)), "{begun:?}");
    let begun = after.token("secret").fingerprint_bytes("other").begin().await.expect("an answer");
    assert!(matches!(begun, Begun::Mismatch(_)), "{begun:?}");

    // Without the old key the fingerprints cannot be compared, and that is an error.
    let forgetful = machine(vec![key("2026")]);
    let error = forgetful.token("secret").fingerprint_bytes("request").begin().await.expect_err("no answer");
    assert!(matches!(error, Error::Fingerprint { .. }), "{error:?}");
}
