//! Attributes that other writers keep on a token stay as they are: no end, of ours or of an
//! operator, touches them. Only a new begin makes a new item.

use std::collections::HashMap;
use std::time::Duration;

use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::AttributeValue;
use locker::{Begun, Intervened, Operator};
use locker_tests::{Bench, held_by, record_of};
use proptest::collection::{hash_map, hash_set, vec};
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::{Config, TestRunner};

type Item = HashMap<String, AttributeValue>;

/// A value as DynamoDB returns it: numbers in their normal form, sets without duplicates.
fn value() -> impl Strategy<Value = AttributeValue> {
    let leaf = prop_oneof![
        "\\PC{0,20}".prop_map(AttributeValue::S),
        any::<i64>().prop_map(|number| AttributeValue::N(number.to_string())),
        "[1-9][0-9]{0,18}\\.[0-9]{0,17}[1-9]".prop_map(AttributeValue::N),
        vec(any::<u8>(), 0..20).prop_map(|bytes| AttributeValue::B(Blob::new(bytes))),
        any::<bool>().prop_map(AttributeValue::Bool),
        Just(AttributeValue::Null(true)),
        hash_set("[a-z]{1,5}", 1..2).prop_map(|texts| AttributeValue::Ss(texts.into_iter().collect())),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(AttributeValue::L),
            hash_map("\\PC{1,8}", inner, 0..4).prop_map(AttributeValue::M),
        ]
    })
}

/// Attributes with names that this library does not use, some of which DynamoDB reserves.
fn attributes() -> impl Strategy<Value = Item> {
    let name = prop_oneof![
        "x[a-zA-Z0-9_.# ]{0,10}",
        prop::sample::select(vec!["name", "size", "Status", "items"]).prop_map(str::to_owned)
    ];
    hash_map(name, value(), 1..6)
}

/// Add attributes to a token without the library.
async fn annotate(bench: &Bench, key: &str, attributes: &Item) {
    let mut item = bench.item(key).await.expect("a token");
    item.extend(attributes.clone());
    bench.put(item).await;
}

async fn check(bench: &Bench, key: &str, attributes: &Item, after: &str) {
    let item = bench.item(key).await.expect("a token");
    for (name, value) in attributes {
        assert_eq!(item.get(name), Some(value), "{name} after {after}");
    }
}

#[tokio::test(start_paused = true)]
async fn they_outlive_every_end() {
    let bench = Bench::new().await;
    let (locker, _) = bench.machine();
    let operator = Operator::new("ada", "seen in the provider's books").expect("an operator");
    let usual = if std::env::var_os("PROPTEST_CASES").is_some() { Config::default().cases } else { 40 };
    let mut runner = TestRunner::new(Config::default());
    for case in 0..usual {
        let theirs = attributes().new_tree(&mut runner).expect("attributes").current();
        let key = format!("others/{case}");
        let lock = held_by(locker.token(&key)).await;
        annotate(&bench, &key, &theirs).await;
        let lock = lock.extend(Duration::from_secs(600)).await.expect("extended");
        check(&bench, &key, &theirs, "an extension").await;
        let answer = if case % 2 == 0 {
            "short".to_owned()
        } else {
            (0..2000).map(|_| fastrand::alphanumeric()).collect()
        };
        match case % 3 {
            0 => lock.complete(&answer).await.expect("completed"),
            1 => lock.fail(&answer).await.expect("completed"),
            _ => {
                lock.hold(&answer).await.expect("held");
                check(&bench, &key, &theirs, "a failure").await;
                let record = record_of(&locker, &key).await;
                assert_eq!(
                    locker.resolve(&record, &serde_json::json!(answer), &operator).await.expect("resolved"),
                    Intervened::Done
                );
            }
        }
        check(&bench, &key, &theirs, "an end").await;
        assert!(!matches!(locker.token(&key).begin().await, Ok(Begun::Acquired(_)) | Err(_)), "{theirs:?}");
        check(&bench, &key, &theirs, "a begin that was refused").await;
        assert_eq!(
            locker.release_completed(&record_of(&locker, &key).await, &operator).await.expect("released"),
            Intervened::Done
        );
        check(&bench, &key, &theirs, "a release").await;
        let _new = held_by(locker.token(&key)).await;
        let item = bench.item(&key).await.expect("a token");
        assert!(theirs.keys().all(|name| !item.contains_key(name)), "a new begin makes a new item");
    }
}

#[tokio::test(start_paused = true)]
async fn a_mark_of_release_on_unfinished_work_frees_nothing() {
    let bench = Bench::new().await;
    let (locker, _) = bench.machine();
    let mark = |name: &str, value: AttributeValue| (name.to_owned(), value);
    let marks = Item::from([
        mark("resolution", AttributeValue::S("released".to_owned())),
        mark("actualCompletion", AttributeValue::S("2000-01-02T03:04:05.000Z".to_owned())),
        mark("ttl", AttributeValue::N("1".to_owned())),
    ]);
    let _lock = held_by(locker.token("working")).await;
    held_by(locker.token("failed")).await.hold("odd").await.expect("held");
    for key in ["working", "failed"] {
        annotate(&bench, key, &marks).await;
        let before = bench.items().await;
        let begun = locker.token(key).begin().await.expect("an answer");
        assert!(matches!(begun, Begun::InProgress(_) | Begun::Held(_)), "{key}: {begun:?}");
        assert_eq!(bench.items().await, before, "{key}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_could_not_be_read_back_gives_the_lock_back() {
    let bench = Bench::new().await;
    let (locker, _) = bench.machine();
    let deep = (0..128).fold(serde_json::Value::Null, |inner, _| serde_json::Value::Array(vec![inner]));
    let lock = held_by(locker.token("deep")).await;
    let error = lock.complete(&deep).await.expect_err("128 levels");
    assert_eq!(
        error.to_string(),
        "the value cannot be stored as JSON: it is nested more than 127 levels deep, which cannot be read back"
    );
    let lock = error.into_lock().expect("the lock");
    lock.complete(&deep[0]).await.expect("127 levels");
    let Ok(Begun::Completed(replay)) = locker.token("deep").begin().await else { panic!("no replay") };
    assert_eq!(replay.result::<serde_json::Value>().expect("JSON"), deep[0]);
}
