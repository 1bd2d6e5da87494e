//! Each verb of an operator is one conditional write, guarded by what the operator saw; the name
//! and the reason stay on the record.

use std::time::Duration;

use locker::{Begun, Intervened, Retention, TokenState};
use locker_tests::{Bench, Fate, Recorded, ada, held_by, record_of};
use serde_json::json;

#[tokio::test(start_paused = true)]
async fn resolving_gives_every_later_caller_the_answer() {
    let bench = Bench::new().await;
    let (locker, _) = bench.machine();
    let large: String = (0..20_000).map(|_| fastrand::alphanumeric()).collect();
    for (key, answer) in
        [("hand/small", json!({"id": 7})), ("hand/null", json!(null)), ("hand/large", json!(large))]
    {
        held_by(locker.token(key)).await.hold("odd").await.expect("held");
        let record = record_of(&locker, key).await;
        assert_eq!(locker.resolve(&record, &answer, &ada()).await.expect("resolved"), Intervened::Done);
        let begun = locker.token(key).begin().await.expect("an answer");
        let Begun::Completed(replay) = begun else { panic!("{begun:?}") };
        assert_eq!(replay.result::<serde_json::Value>().expect("JSON"), answer);
        let operator = replay.record().intervention().expect("who and why");
        assert_eq!((operator.by.as_str(), operator.reason.as_str()), ("ada", "the provider's books say so"));
        assert!(replay.record().expires().is_some(), "kept as long as any answer");
    }
    assert_eq!(locker.held().fetch().await.expect("a listing").items.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn releasing_lets_the_work_run_again_and_leaves_an_audit_record_until_then() {
    let bench = Bench::new().await;
    let (locker, _) = bench.machine();
    for state in ["inProgress", "completed", "held"] {
        let key = format!("hand/{state}");
        let lock = held_by(locker.token(&key)).await;
        let mut held = None;
        match state {
            "completed" => lock.complete("done").await.expect("completed"),
            "held" => lock.hold("odd").await.expect("held"),
            _ => held = Some(lock),
        }
        let record = record_of(&locker, &key).await;
        let released = match state {
            "completed" => locker.release_completed(&record, &ada()).await,
            "held" => locker.release(&record, &ada()).await,
            _ => locker.release_running(&record, &ada()).await,
        };
        assert_eq!(released.expect("released"), Intervened::Done);
        let record = record_of(&locker, &key).await;
        assert_eq!(record.state(), TokenState::Released);
        assert_eq!(record.intervention().expect("who and why").by, "ada");
        let again = locker.release(&record, &ada()).await.expect("an answer");
        assert_eq!(again, Intervened::NotPossible, "released already");
        held_by(locker.token(&key)).await.complete("anew").await.expect("completed");
        drop(held);
    }
}

#[tokio::test(start_paused = true)]
async fn a_token_that_changed_since_it_was_seen_is_not_touched() {
    let bench = Bench::new().await;
    let (locker, _) = bench.machine();
    for change in ["completed", "held", "extended", "gone", "begun anew"] {
        for verb in ["resolve", "release"] {
            let key = format!("raced/{}/{verb}", change.replace(' ', "-"));
            let lock = held_by(locker.token(&key)).await;
            let shown = record_of(&locker, &key).await;
            let mut held = None;
            match change {
                "completed" => lock.complete("done").await.expect("completed"),
                "held" => lock.hold("odd").await.expect("held"),
                "extended" => held = Some(lock.extend(Duration::from_secs(600)).await.expect("extended")),
                _ => lock.release().await.expect("released"),
            }
            if change == "begun anew" {
                held = Some(held_by(locker.token(&key)).await);
            }
            let before = bench.items().await;
            let result = match verb {
                "resolve" => locker.resolve_running(&shown, &json!("by hand"), &ada()).await,
                _ => locker.release_running(&shown, &ada()).await,
            };
            assert_eq!(result.expect(&key), Intervened::Changed, "{key}");
            assert_eq!(bench.items().await, before, "{key}");
            drop(held);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn there_is_nothing_to_resolve_in_an_answer() {
    let bench = Bench::new().await;
    let (locker, _) = bench.machine();
    held_by(locker.token("hand/done")).await.complete("done").await.expect("completed");
    let record = record_of(&locker, "hand/done").await;
    let resolved = locker.resolve(&record, &json!("other"), &ada()).await.expect("an answer");
    assert_eq!(resolved, Intervened::NotPossible, "it has an answer");
}

#[tokio::test(start_paused = true)]
async fn a_lost_reply_does_not_make_an_applied_act_look_late() {
    let bench = Bench::new().await;
    for fault in [Fate::ReplyLost, Fate::ErrorAfter, Fate::Lost, Fate::Throttled] {
        let (locker, wire) = bench.machine();
        let key = format!("hand/lost/{fault:?}");
        held_by(locker.token(&key)).await.hold("odd").await.expect("held");
        let record = record_of(&locker, &key).await;
        wire.next([fault, fault]);
        assert_eq!(
            locker.resolve(&record, &json!("by hand"), &ada()).await.expect("resolved"),
            Intervened::Done
        );
        let record = record_of(&locker, &key).await;
        wire.next([fault, fault]);
        assert_eq!(locker.release_completed(&record, &ada()).await.expect("released"), Intervened::Done);
        assert_eq!(record_of(&locker, &key).await.state(), TokenState::Released);
    }
}

#[tokio::test(start_paused = true)]
async fn a_release_that_a_begin_has_replaced_is_still_known_to_be_done() {
    let bench = Bench::new().await;
    let (locker, wire) = bench.machine_with(|settings| {
        settings.backoff_base = Duration::from_millis(500);
        settings.backoff_cap = Duration::from_millis(500);
    });
    let (other, _) = bench.machine();
    held_by(locker.token("hand/over")).await.hold("odd").await.expect("held");
    let record = record_of(&locker, "hand/over").await;
    // The reply is lost, and in the pause before the retry another caller begins over the
    // tombstone.
    wire.next([Fate::ReplyLost, Fate::Throttled, Fate::Throttled, Fate::Throttled]);
    let operator = ada();
    let releasing = tokio::spawn(async move { locker.release(&record, &operator).await });
    let lock = loop {
        match other.token("hand/over").begin().await.expect("an answer") {
            Begun::Acquired(lock) => break lock,
            _ => tokio::task::yield_now().await,
        }
    };
    // DynamoDB recognises the transaction, though nothing on the token shows it any more.
    assert_eq!(releasing.await.expect("no panic").expect("an answer"), Intervened::Done);
    lock.complete("anew").await.expect("still held");
}

#[tokio::test(start_paused = true)]
async fn a_resolved_answer_keeps_the_retention_of_its_token() {
    let bench = Bench::new().await;
    let (locker, _) = bench.machine();
    let day = Duration::from_secs(24 * 60 * 60);
    let lock = held_by(locker.token("kept/forever").retention(Retention::Forever)).await;
    let record = record_of(&locker, "kept/forever").await;
    assert_eq!(locker.resolve_running(&record, &json!(1), &ada()).await.expect("resolved"), Intervened::Done);
    assert_eq!(record_of(&locker, "kept/forever").await.expires(), None);
    drop(lock);
    let lock = held_by(locker.token("kept/long").retention(Retention::For(day * 1000))).await;
    let record = record_of(&locker, "kept/long").await;
    assert_eq!(locker.resolve_running(&record, &json!(1), &ada()).await.expect("resolved"), Intervened::Done);
    let expires = record_of(&locker, "kept/long").await.expires().expect("a ttl");
    assert!(expires > record.created() + chrono::TimeDelta::days(1000), "{expires}");
    drop(lock);
}

#[tokio::test(start_paused = true)]
async fn separate_failure_is_deleted_or_expires_after_an_act() {
    let bench = Bench::new().await;
    let (locker, _) = bench.machine();
    let large: String = (0..20_000).map(|_| fastrand::alphanumeric()).collect();
    for (verb, kept) in [("resolve", 0), ("release", 1)] {
        held_by(locker.token(verb)).await.hold(&large).await.expect("held");
        let record = record_of(&locker, verb).await;
        let done = match verb {
            "resolve" => locker.resolve(&record, &json!(1), &ada()).await.expect("resolved"),
            _ => locker.release(&record, &ada()).await.expect("released"),
        };
        assert_eq!(done, Intervened::Done, "{verb}");
        let items = bench.items().await;
        let beside: Vec<_> = items
            .iter()
            .filter(|item| {
                item["lockToken"].as_s().is_ok_and(|key| key.starts_with(&format!("{verb} result ")))
            })
            .collect();
        assert_eq!(beside.len(), kept, "{verb}");
        assert!(beside.iter().all(|item| item.contains_key("ttl")), "{verb}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_refused_resolve_leaves_no_answer_beside_and_an_applied_one_is_counted() {
    let bench = Bench::new().await;
    let (locker, _) = bench.machine();
    let large: String = (0..20_000).map(|_| fastrand::alphanumeric()).collect();
    let shown = {
        let lock = held_by(locker.token("hand/stale")).await;
        let shown = record_of(&locker, "hand/stale").await;
        lock.complete("done").await.expect("completed");
        shown
    };
    let before = bench.items().await;
    assert_eq!(
        locker.resolve_running(&shown, &json!(large), &ada()).await.expect("an answer"),
        Intervened::Changed
    );
    assert_eq!(bench.items().await, before);

    let recorded = Recorded::start();
    let record = record_of(&locker, "hand/stale").await;
    assert_eq!(locker.release_completed(&record, &ada()).await.expect("released"), Intervened::Done);
    let metrics = recorded.take();
    for name in ["lockTokensEnded", "consumedReadUnits"] {
        assert!(metrics.keys().any(|key| key.name() == name), "{name} in {metrics:?}");
    }
}
