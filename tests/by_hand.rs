//! What a person does is one conditional write, guarded by what the person saw; who and why stay on
//! the record.

use std::time::Duration;

use locker::{Begun, Error, Person, State};
use locker_tests::{Bench, Fault, held_by, record_of};
use serde_json::json;

fn ada() -> Person {
    Person::new("ada@ops", "the provider's books say so").expect("a person")
}

#[tokio::test]
async fn resolving_gives_everyone_after_the_answer() {
    let bench = Bench::new().await;
    let (locker, _) = bench.machine();
    let large: String = (0..20_000).map(|_| fastrand::alphanumeric()).collect();
    for (key, answer) in
        [("hand/small", json!({"id": 7})), ("hand/null", json!(null)), ("hand/large", json!(large))]
    {
        held_by(locker.token(key)).await.fail("odd").await.expect("failed");
        let record = record_of(&locker, key).await;
        locker.resolve(&record, &ada(), &answer).await.expect("resolved");
        let begun = locker.token(key).begin().await.expect("an answer");
        let Begun::Completed(replay) = begun else { panic!("{begun:?}") };
        assert_eq!(replay.result::<serde_json::Value>().expect("JSON"), answer);
        let person = replay.record().intervention().expect("who and why");
        assert_eq!((person.by.as_str(), person.reason.as_str()), ("ada@ops", "the provider's books say so"));
        assert!(replay.record().expires().is_some(), "kept as long as any answer");
    }
    assert_eq!(locker.failed().fetch().await.expect("a listing").tokens.len(), 0);
}

#[tokio::test]
async fn releasing_lets_the_work_be_done_anew_and_shows_who_and_why_until_then() {
    let bench = Bench::new().await;
    let (locker, _) = bench.machine();
    for state in ["inProgress", "completed", "failed"] {
        let key = format!("hand/{state}");
        let lock = held_by(locker.token(&key)).await;
        let mut held = None;
        match state {
            "completed" => lock.complete("done").await.expect("completed"),
            "failed" => lock.fail("odd").await.expect("failed"),
            _ => held = Some(lock),
        }
        let record = record_of(&locker, &key).await;
        locker.release(&record, &ada()).await.expect("released");
        let record = record_of(&locker, &key).await;
        assert_eq!(record.state(), State::Released);
        assert_eq!(record.intervention().expect("who and why").by, "ada@ops");
        let error = locker.release(&record, &ada()).await.expect_err("released already");
        assert!(matches!(error, Error::Ended { state: State::Released, .. }), "{error:?}");
        held_by(locker.token(&key)).await.complete("anew").await.expect("completed");
        drop(held);
    }
}

#[tokio::test]
async fn what_changed_since_it_was_shown_is_not_touched() {
    let bench = Bench::new().await;
    let (locker, _) = bench.machine();
    for change in ["completed", "failed", "extended", "gone", "begun anew"] {
        for verb in ["resolve", "release"] {
            let key = format!("raced/{}/{verb}", change.replace(' ', "-"));
            let lock = held_by(locker.token(&key)).await;
            let shown = record_of(&locker, &key).await;
            let mut held = None;
            match change {
                "completed" => lock.complete("done").await.expect("completed"),
                "failed" => lock.fail("odd").await.expect("failed"),
                "extended" => held = Some(lock.extend(Duration::from_secs(600)).await.expect("extended")),
                _ => lock.release().await.expect("released"),
            }
            if change == "begun anew" {
                held = Some(held_by(locker.token(&key)).await);
            }
            let before = bench.items().await;
            let result = match verb {
                "resolve" => locker.resolve(&shown, &ada(), &json!("by hand")).await,
                _ => locker.release(&shown, &ada()).await,
            };
            let error = result.expect_err(&key);
            let Error::Changed { record, .. } = error else { panic!("{key}: {error:?}") };
            assert_eq!(record.is_none(), change == "gone", "{key}");
            assert_eq!(bench.items().await, before, "{key}");
            drop(held);
        }
    }
}

#[tokio::test]
async fn there_is_nothing_to_resolve_in_an_answer() {
    let bench = Bench::new().await;
    let (locker, _) = bench.machine();
    held_by(locker.token("hand/done")).await.complete("done").await.expect("completed");
    let record = record_of(&locker, "hand/done").await;
    let error = locker.resolve(&record, &ada(), &json!("other")).await.expect_err("it has an answer");
    assert_eq!(error.to_string(), "could not resolve: the token has ended already, as completed");
}

#[tokio::test]
async fn a_lost_reply_does_not_make_a_person_look_late() {
    let bench = Bench::new().await;
    for fault in [Fault::LoseReply, Fault::ErrorAfter, Fault::LoseRequest, Fault::Throttle] {
        let (locker, wire) = bench.machine();
        let key = format!("hand/lost/{fault:?}");
        held_by(locker.token(&key)).await.fail("odd").await.expect("failed");
        let record = record_of(&locker, &key).await;
        wire.next([fault, fault]);
        locker.resolve(&record, &ada(), &json!("by hand")).await.expect("resolved");
        let record = record_of(&locker, &key).await;
        wire.next([fault, fault]);
        locker.release(&record, &ada()).await.expect("released");
        assert_eq!(record_of(&locker, &key).await.state(), State::Released);
    }
}

#[tokio::test]
async fn a_release_that_may_have_been_begun_over_is_unknown_and_not_no() {
    let bench = Bench::new().await;
    let (locker, wire) = bench.machine_with(|settings| {
        settings.backoff_base = Duration::from_millis(500);
        settings.backoff_cap = Duration::from_millis(500);
    });
    let (other, _) = bench.machine();
    held_by(locker.token("hand/over")).await.fail("odd").await.expect("failed");
    let record = record_of(&locker, "hand/over").await;
    // The reply is lost, and in the pause before the second try somebody begins over the tombstone.
    wire.next([Fault::LoseReply, Fault::Throttle, Fault::Throttle, Fault::Throttle]);
    let person = ada();
    let releasing = tokio::spawn(async move { locker.release(&record, &person).await });
    let lock = loop {
        match other.token("hand/over").begin().await.expect("an answer") {
            Begun::Acquired(lock) => break lock,
            _ => tokio::task::yield_now().await,
        }
    };
    let error = releasing.await.expect("no panic").expect_err("nobody can tell");
    assert!(matches!(error, Error::Unknown { .. }), "{error:?}");
    lock.complete("anew").await.expect("still held");
}

#[tokio::test]
async fn a_resolved_answer_is_kept_as_long_as_the_token_was_begun_to_be() {
    let bench = Bench::new().await;
    let (locker, _) = bench.machine();
    let day = Duration::from_secs(24 * 60 * 60);
    let lock = held_by(locker.token("kept/forever").retain_forever()).await;
    let record = record_of(&locker, "kept/forever").await;
    locker.resolve(&record, &ada(), &json!(1)).await.expect("resolved");
    assert_eq!(record_of(&locker, "kept/forever").await.expires(), None);
    drop(lock);
    let lock = held_by(locker.token("kept/long").retain_for(day * 1000)).await;
    let record = record_of(&locker, "kept/long").await;
    locker.resolve(&record, &ada(), &json!(1)).await.expect("resolved");
    let expires = record_of(&locker, "kept/long").await.expires().expect("a ttl");
    assert!(expires > record.created() + chrono::TimeDelta::days(1000), "{expires}");
    drop(lock);
}

#[tokio::test]
async fn a_failure_beside_its_token_expires_when_a_person_is_done_with_it() {
    let bench = Bench::new().await;
    let (locker, _) = bench.machine();
    let large: String = (0..20_000).map(|_| fastrand::alphanumeric()).collect();
    for verb in ["resolve", "release"] {
        held_by(locker.token(verb)).await.fail(&large).await.expect("failed");
        let record = record_of(&locker, verb).await;
        match verb {
            "resolve" => locker.resolve(&record, &ada(), &json!(1)).await.expect("resolved"),
            _ => locker.release(&record, &ada()).await.expect("released"),
        }
        let items = bench.items().await;
        let beside: Vec<_> = items
            .iter()
            .filter(|item| {
                item["lockToken"].as_s().is_ok_and(|key| key.starts_with(&format!("{verb} result ")))
            })
            .collect();
        assert_eq!(beside.len(), 1, "{verb}");
        assert!(beside[0].contains_key("ttl"), "{verb}");
    }
}
