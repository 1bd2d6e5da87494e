//! Answers in an item of their own: how long each is kept, and who still refers to it.

use std::collections::HashMap;
use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use locker::{Intervened, Retention};
use locker_tests::{Bench, ada, held_by, record_of};
use serde_json::json;

const DAY: i64 = 24 * 60 * 60;
const DAYS: Duration = Duration::from_secs(3 * 24 * 60 * 60);

type Item = HashMap<String, AttributeValue>;

/// An answer of about 20 KB, which no token has room for.
fn large() -> String {
    (0..20_000).map(|_| fastrand::alphanumeric()).collect()
}

/// The items whose keys have this infix: ` result ` or ` audit `.
async fn items(bench: &Bench, infix: &str) -> Vec<Item> {
    let has = |item: &Item| item["lockToken"].as_s().is_ok_and(|key| key.contains(infix));
    bench.items().await.into_iter().filter(has).collect()
}

fn ttl(item: &Item) -> Option<i64> {
    item.get("ttl").map(|ttl| ttl.as_n().expect("a number").parse().expect("seconds"))
}

#[tokio::test(start_paused = true)]
async fn an_answer_is_kept_a_day_longer_than_its_token() {
    let bench = Bench::new().await;
    let (locker, _) = bench.machine();
    for (key, forever) in [("for/days", false), ("for/ever", true)] {
        let token = locker.token(key);
        let token =
            if forever { token.retention(Retention::Forever) } else { token.retention(Retention::For(DAYS)) };
        held_by(token).await.complete(&large()).await.expect("completed");
        let token = ttl(&bench.item(key).await.expect("a token"));
        let answer = items(&bench, &format!("{key} result ")).await.remove(0);
        assert_eq!(token.is_none(), forever);
        assert_eq!(ttl(&answer), token.map(|token| token + DAY), "{key}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_closed_failure_is_kept_as_long_as_its_token() {
    let bench = Bench::new().await;
    let (locker, _) = bench.machine();
    for (key, forever) in [("for/days", false), ("for/ever", true)] {
        let token = locker.token(key);
        let token =
            if forever { token.retention(Retention::Forever) } else { token.retention(Retention::For(DAYS)) };
        held_by(token).await.hold(&large()).await.expect("held");
        let failure = items(&bench, &format!("{key} result ")).await.remove(0);
        assert_eq!(ttl(&failure), None, "{key}: as long as it is held");
        let record = record_of(&locker, key).await;
        assert_eq!(locker.close(&record, &ada()).await.expect("closed"), Intervened::Done);
        let token = ttl(&bench.item(key).await.expect("a token"));
        let failure = items(&bench, &format!("{key} result ")).await.remove(0);
        assert_eq!(token.is_none(), forever);
        assert_eq!(ttl(&failure), token.map(|token| token + DAY), "{key}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_only_the_audit_refers_to_is_kept_as_long_as_the_audit() {
    let bench = Bench::new().await;
    let (locker, _) = bench.machine();
    for verb in ["release", "release_completed"] {
        let lock = held_by(locker.token(verb).retention(Retention::For(DAYS))).await;
        match verb {
            "release_completed" => lock.complete(&large()).await.expect("completed"),
            _ => lock.hold(&large()).await.expect("held"),
        }
        let record = record_of(&locker, verb).await;
        let done = match verb {
            "release" => locker.release(&record, &ada()).await,
            _ => locker.release_completed(&record, &ada()).await,
        };
        assert_eq!(done.expect("an answer"), Intervened::Done, "{verb}");
        let audit = items(&bench, &format!("{verb} audit ")).await.remove(0);
        let found = items(&bench, &format!("{verb} result ")).await.remove(0);
        assert_eq!(ttl(&found), ttl(&audit).map(|audit| audit + DAY), "{verb}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_audit_names_the_item_of_its_answer_and_the_size_of_it() {
    let bench = Bench::new().await;
    let (locker, _) = bench.machine();
    held_by(locker.token("found")).await.hold(&large()).await.expect("held");
    let record = record_of(&locker, "found").await;
    assert_eq!(locker.release(&record, &ada()).await.expect("released"), Intervened::Done);
    held_by(locker.token("given")).await.leave_in_doubt("no reply").await;
    let record = record_of(&locker, "given").await;
    assert_eq!(locker.resolve(&record, &json!(large()), &ada()).await.expect("resolved"), Intervened::Done);
    for key in ["found", "given"] {
        let audit = items(&bench, &format!("{key} audit ")).await.remove(0);
        let answer = items(&bench, &format!("{key} result ")).await.remove(0);
        let id = audit["resultId"].as_s().expect("an id");
        assert_eq!(answer["lockToken"].as_s().expect("a key"), &format!("{key} result {id}"));
        let bytes = match &answer["result"] {
            AttributeValue::B(bytes) => bytes.as_ref().len(),
            AttributeValue::S(text) => text.len(),
            other => panic!("no answer is {other:?}"),
        };
        assert_eq!(audit["resultBytes"].as_n().expect("a number"), &bytes.to_string(), "{key}");
        assert_eq!(audit["resultCodec"], answer["resultCodec"], "{key}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_resolved_token_has_nothing_left_of_its_doubt_or_failure() {
    let bench = Bench::new().await;
    let (locker, _) = bench.machine();
    held_by(locker.token("doubt")).await.leave_in_doubt("no reply").await;
    held_by(locker.token("held")).await.hold("odd").await.expect("held");
    for key in ["doubt", "held"] {
        let record = record_of(&locker, key).await;
        assert!(record.cause().is_some());
        assert_eq!(locker.resolve(&record, &json!(1), &ada()).await.expect("resolved"), Intervened::Done);
        let item = bench.item(key).await.expect("a token");
        for name in ["class", "cause", "promisedCompletion"] {
            assert!(!item.contains_key(name), "{key}: {name}");
        }
        let record = record_of(&locker, key).await;
        assert_eq!(locker.release_completed(&record, &ada()).await.expect("released"), Intervened::Done);
        assert_eq!(record_of(&locker, key).await.cause(), None, "{key}");
    }
}
