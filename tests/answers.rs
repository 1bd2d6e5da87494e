//! Promise 4: the answer is the answer. Every caller sees the same result, bit for bit.

use std::collections::BTreeMap;
use std::fmt::Debug;

use locker::{AnswerError, Begun, Error, Failure, Origin};
use locker_tests::{Bench, held_by, record_of};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

async fn comes_back<T: Serialize + DeserializeOwned + PartialEq + Debug + Clone>(
    bench: &Bench,
    name: &str,
    value: T,
) {
    let (locker, _) = bench.machine();
    let first =
        locker.token(("answer", name)).run(async |_| Ok::<_, Failure>(value.clone())).await.expect(name);
    assert!(matches!(first.origin(), Origin::Fresh), "{name}: {:?}", first.origin());
    let again = locker
        .token(("answer", name))
        .run(async |_| -> Result<T, Failure> { panic!("{name} ran twice") })
        .await
        .expect(name);
    assert!(again.is_replay(), "{name}");
    assert_eq!((&*first, &*again), (&value, &value), "{name}");
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Order {
    id: u64,
    note: Option<String>,
    lines: Vec<(String, i32)>,
    paid: bool,
}

#[tokio::test(start_paused = true)]
async fn every_kind_of_value_comes_back_equal() {
    let bench = Bench::new().await;
    comes_back(&bench, "unit", ()).await;
    comes_back(&bench, "null", serde_json::Value::Null).await;
    comes_back(&bench, "false", false).await;
    comes_back(&bench, "zero", 0).await;
    comes_back(&bench, "empty text", String::new()).await;
    comes_back(&bench, "empty list", Vec::<u8>::new()).await;
    comes_back(&bench, "empty map", BTreeMap::<String, u8>::new()).await;
    comes_back(&bench, "none", None::<u8>).await;
    comes_back(&bench, "some", Some(0_u8)).await;
    comes_back(&bench, "large number", u64::MAX).await;
    comes_back(&bench, "small number", i64::MIN).await;
    comes_back(&bench, "float", 0.1_f64 + 0.2).await;
    comes_back(&bench, "minus zero", -0.0_f64).await;
    comes_back(&bench, "text", "\u{0}\u{7f}\"\\ \u{1f980} e\u{301}".to_owned()).await;
    let order = Order { id: 7, note: None, lines: vec![("a".into(), -1)], paid: false };
    comes_back(&bench, "order", order).await;
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Partly {
    kept: u8,
    #[serde(skip)]
    skipped: u8,
}

#[tokio::test(start_paused = true)]
async fn the_first_caller_sees_what_all_others_do() {
    let bench = Bench::new().await;
    let (locker, _) = bench.machine();
    for run in 0..2 {
        let nested = locker.token("same/nested").run(async |_| Ok::<_, Failure>(Some(None::<u8>))).await;
        assert_eq!(nested.expect("an answer").into_inner(), None, "run {run}");
        let partly =
            locker.token("same/partly").run(async |_| Ok::<_, Failure>(Partly { kept: 1, skipped: 2 })).await;
        assert_eq!(partly.expect("an answer").into_inner(), Partly { kept: 1, skipped: 0 }, "run {run}");
    }
}

#[tokio::test(start_paused = true)]
async fn every_size_comes_back_equal() {
    let bench = Bench::new().await;
    for kilobytes in [1, 4, 64, 399] {
        let same = "a".repeat(kilobytes * 1024 - 2);
        comes_back(&bench, &format!("same {kilobytes}"), same).await;
        // Characters of three bytes each, at random: gzip finds little to save.
        let noise: String =
            (0..(kilobytes * 1024 - 2) / 3).map(|_| fastrand::char('\u{4e00}'..'\u{9fff}')).collect();
        comes_back(&bench, &format!("noise {kilobytes}"), noise).await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_size_at_which_an_answer_moves_to_a_separate_item_makes_no_difference() {
    let bench = Bench::new().await;
    for length in (500..1100).step_by(13) {
        let noise: String = (0..length).map(|_| fastrand::alphanumeric()).collect();
        comes_back(&bench, &format!("border {length}"), noise).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_permanent_failure_comes_back_as_itself() {
    let bench = Bench::new().await;
    let (locker, _) = bench.machine();
    let declined =
        Failure::permanent(Order { id: 9, note: Some("declined".into()), lines: vec![], paid: false });
    for run in 0..3 {
        let error = declined.clone();
        let failed =
            locker.token("card/declined").run(async |_| Err::<(), _>(error)).await.expect_err("declined");
        let locker::RunError::Failed { error, origin, .. } = failed else { panic!("{failed:?}") };
        assert_eq!(error, declined);
        assert_eq!(matches!(origin, Origin::Replayed(_)), run > 0);
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_too_large_gives_the_lock_back() {
    let bench = Bench::new().await;
    let (locker, wire) = bench.machine();
    let lock = held_by(locker.token("too/large")).await;
    wire.take();
    let noise: String = (0..400_000).map(|_| fastrand::char('\u{4e00}'..'\u{9fff}')).collect();
    let end = lock.complete(&noise).await.expect_err("too large");
    assert!(matches!(end.error(), Error::Answer(AnswerError::TooLarge { .. })), "{end:?}");
    assert_eq!(wire.count(), 0, "nothing was sent");
    let lock = end.into_lock().expect("the lock");
    lock.complete("s3://bucket/answer").await.expect("completed");
    let begun = locker.token("too/large").begin().await.expect("an answer");
    let Begun::Completed(replay) = begun else { panic!("{begun:?}") };
    assert_eq!(replay.result::<String>().expect("text"), "s3://bucket/answer");
}

#[tokio::test(start_paused = true)]
async fn a_missing_answer_is_an_error_and_not_a_reason_to_repeat_the_work() {
    let bench = Bench::new().await;
    let (locker, _) = bench.machine();
    let noise: String = (0..20_000).map(|_| fastrand::alphanumeric()).collect();
    held_by(locker.token("gone")).await.complete(&noise).await.expect("completed");
    let beside: Vec<_> =
        bench.items().await.into_iter().filter_map(|item| item["lockToken"].as_s().ok().cloned()).collect();
    let beside = beside.iter().find(|key| key.contains(" result ")).expect("an answer beside");
    bench.delete(beside).await;
    let error = locker.token("gone").begin().await.expect_err("no answer");
    assert!(matches!(error, Error::Answer(AnswerError::Missing)), "{error:?}");
    assert_eq!(record_of(&locker, "gone").await.state(), locker::TokenState::Completed);
}
