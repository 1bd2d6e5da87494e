//! What a release, a takeover, a doubt and an operator's act must not forget: whose view it was,
//! which key the provider has and since when, and why it is in doubt.

use std::collections::HashMap;
use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use locker::{Begun, Class, Failure, Intervened, Operator, Retention, TokenState};
use locker_tests::{Bench, Fate, MINUTE, ada, held_by, record_of};
use serde_json::{Value, json};

const LATE: Duration = Duration::from_secs(66);

fn ben() -> Operator {
    Operator::new("ben", "other books").expect("an operator")
}

#[tokio::test(start_paused = true)]
async fn a_correction_does_not_revive_what_another_operator_released() {
    let bench = Bench::new().await;
    let (locker, _) = bench.machine();
    held_by(locker.token("t")).await.leave_in_doubt("no reply").await;
    assert_eq!(
        locker.resolve(&record_of(&locker, "t").await, &json!("ch_6"), &ada()).await.expect("an answer"),
        Intervened::Done
    );
    let seen = record_of(&locker, "t").await;
    assert_eq!(locker.release_completed(&seen, &ben()).await.expect("an answer"), Intervened::Done);
    assert_ne!(seen.revision(), record_of(&locker, "t").await.revision());
    let corrected = locker.correct(&seen, &json!("ch_7"), &ada()).await.expect("an answer");
    assert_eq!(corrected, Intervened::Changed);
}

#[tokio::test(start_paused = true)]
async fn one_view_is_good_for_one_release() {
    let bench = Bench::new().await;
    let (locker, _) = bench.machine();
    held_by(locker.token("t")).await.complete("receipt").await.expect("an answer");
    let seen = record_of(&locker, "t").await;
    assert_eq!(locker.release_completed(&seen, &ada()).await.expect("an answer"), Intervened::Done);
    assert_eq!(locker.release_completed(&seen, &ben()).await.expect("an answer"), Intervened::Changed);
}

#[tokio::test(start_paused = true)]
async fn a_doubt_past_the_due_time_changes_the_revision() {
    let bench = Bench::new().await;
    let (locker, _) = bench.machine();
    let lock = held_by(locker.token("t").expect_within(MINUTE)).await;
    bench.clock.advance(10 * LATE);
    let seen = record_of(&locker, "t").await;
    lock.leave_in_doubt("the charge was sent, no reply").await;
    let now = record_of(&locker, "t").await;
    assert_ne!(seen.revision(), now.revision());
}

#[tokio::test(start_paused = true)]
async fn a_closed_failure_is_no_refusal_of_the_provider() {
    let bench = Bench::new().await;
    let (locker, _) = bench.machine();
    let lock = held_by(locker.token("t")).await;
    let first = lock.attempt().idempotency_key();
    lock.hold("500 after the charge was sent").await.expect("an answer");
    assert_eq!(
        locker.close(&record_of(&locker, "t").await, &ada()).await.expect("an answer"),
        Intervened::Done
    );
    assert_eq!(
        locker.release_completed(&record_of(&locker, "t").await, &ada()).await.expect("an answer"),
        Intervened::Done
    );
    assert_eq!(held_by(locker.token("t")).await.attempt().idempotency_key(), first);
}

#[tokio::test(start_paused = true)]
async fn a_permanent_failure_after_a_takeover_is_held_and_is_no_refusal_of_the_first_key() {
    let bench = Bench::new().await;
    let (locker, _) = bench.machine();
    let first = held_by(locker.token("t").expect_within(MINUTE)).await; // charged, and died
    bench.clock.advance(LATE);
    let token = locker.token("t").take_over_after(Duration::ZERO);
    let permanent = Failure::permanent("the order was cancelled meanwhile".to_owned());
    token.run(async |_| Err::<(), _>(permanent)).await.expect_err("it failed");
    let record = record_of(&locker, "t").await;
    assert_eq!(record.state(), TokenState::Held);
    assert!(record.cause().is_some_and(|cause| cause.contains("the order was cancelled")), "{record:?}");
    assert_eq!(locker.release(&record, &ada()).await.expect("an answer"), Intervened::Done);
    let next = held_by(locker.token("t")).await;
    assert_eq!(next.attempt().idempotency_key(), first.attempt().idempotency_key());
}

#[tokio::test(start_paused = true)]
async fn a_permanent_failure_after_a_probe_said_that_nothing_happened_is_the_answer() {
    let bench = Bench::new().await;
    let (locker, _) = bench.machine();
    let _first = held_by(locker.token("t").expect_within(MINUTE)).await;
    bench.clock.advance(LATE);
    let token = locker.token("t").take_over_if(Duration::ZERO, async |_| Ok(locker::Probed::Safe));
    let declined = Failure::permanent("declined".to_owned());
    token.run(async |_| Err::<(), _>(declined)).await.expect_err("it failed");
    assert_eq!(record_of(&locker, "t").await.state(), TokenState::Failed);
}

#[tokio::test(start_paused = true)]
async fn a_failure_of_the_articles_library_is_not_closed() {
    let bench = Bench::new().await;
    let (locker, _) = bench.machine();
    let s = |text: &str| AttributeValue::S(text.to_owned());
    let item: HashMap<_, _> = [
        ("lockToken", s("t")),
        ("lockedBy", s("some-host")),
        ("created", s("2000-01-02T03:04:05.000Z")),
        ("expectedCompletion", s("2000-01-02T03:04:06.000Z")),
        ("actualCompletion", s("2000-01-02T03:04:05.500Z")),
        ("status", s("error")),
        ("result", AttributeValue::Null(true)),
        ("error", s("card declined")),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_owned(), value))
    .collect();
    bench.put(item).await;
    let record = record_of(&locker, "t").await;
    assert_eq!(locker.close(&record, &ada()).await.expect("an answer"), Intervened::NotPossible);
    let begun = locker.token("t").begin().await.expect("an answer");
    assert!(matches!(begun, Begun::Held(_)), "{begun:?}");
}

#[tokio::test(start_paused = true)]
async fn giving_back_keeps_the_cause_of_the_first_doubt() {
    let bench = Bench::new().await;
    let (locker, _) = bench.machine();
    held_by(locker.token("t").expect_within(MINUTE))
        .await
        .leave_in_doubt("POST /charges was sent, no reply")
        .await;
    bench.clock.advance(LATE);
    let ran = locker
        .token("t")
        .take_over_after(Duration::ZERO)
        .run(async |_| Err::<(), _>(Failure::transient("connection refused".to_owned())))
        .await;
    drop(ran);
    let record = record_of(&locker, "t").await;
    assert!(record.cause().expect("an answer").contains("POST /charges was sent"));
}

#[tokio::test(start_paused = true)]
async fn a_late_extension_does_not_hide_a_doubt() {
    let bench = Bench::new().await;
    let (locker, wire) = bench.impatient_machine();
    let lock = held_by(locker.token("t").expect_within(MINUTE)).await;
    wire.take();
    wire.always(Fate::Lost);
    let error = lock.extend(Duration::from_secs(24 * 3600)).await.expect_err("no reply");
    let late = wire.take().remove(0).request;
    wire.next([]);
    let lock = error.into_lock().expect("kept");
    lock.leave_in_doubt("no reply").await;
    assert_eq!(locker.overdue().fetch().await.expect("an answer").items.len(), 1);
    // The request of the extend arrives now.
    let value = |value: &Value| match (value["S"].as_str(), value["N"].as_str()) {
        (Some(text), _) => AttributeValue::S(text.to_owned()),
        (_, Some(number)) => AttributeValue::N(number.to_owned()),
        _ => panic!("{value}"),
    };
    let map = |name: &str| late[name].as_object().expect("an answer").clone();
    let sent = bench
        .client
        .update_item()
        .table_name(&bench.table)
        .set_key(Some(map("Key").iter().map(|(k, v)| (k.clone(), value(v))).collect()))
        .update_expression(late["UpdateExpression"].as_str().expect("an answer"))
        .condition_expression(late["ConditionExpression"].as_str().expect("an answer"))
        .set_expression_attribute_names(Some(
            map("ExpressionAttributeNames")
                .iter()
                .map(|(k, v)| (k.clone(), v.as_str().expect("an answer").to_owned()))
                .collect(),
        ))
        .set_expression_attribute_values(Some(
            map("ExpressionAttributeValues").iter().map(|(k, v)| (k.clone(), value(v))).collect(),
        ))
        .send()
        .await;
    assert!(sent.is_err(), "it was applied");
    assert_eq!(locker.overdue().fetch().await.expect("an answer").items.len(), 1, "still listed");
}

#[tokio::test(start_paused = true)]
async fn a_held_failure_fits_into_one_unit() {
    let bench = Bench::new().await;
    let (locker, _) = bench.machine();
    let mut worst = 0;
    for length in [100, 300, 400, 500, 550] {
        let key = format!("t{length}");
        held_by(locker.token(&key)).await.hold(&"e".repeat(length)).await.expect("an answer");
        let item = bench.item(&key).await.expect("an answer");
        let size: usize = item
            .iter()
            .map(|(name, value)| {
                name.len()
                    + match value {
                        AttributeValue::S(text) => text.len(),
                        AttributeValue::N(number) => number.len().div_ceil(2) + 1,
                        AttributeValue::B(bytes) => bytes.as_ref().len(),
                        _ => 1,
                    }
            })
            .sum();
        worst = worst.max(size);
    }
    assert!(worst <= 1024, "{worst}");
}

#[tokio::test(start_paused = true)]
async fn an_audit_record_is_no_damaged_token() {
    let bench = Bench::new().await;
    let (locker, _) = bench.machine();
    held_by(locker.token("t")).await.hold("odd").await.expect("an answer");
    assert_eq!(
        locker.close(&record_of(&locker, "t").await, &ada()).await.expect("an answer"),
        Intervened::Done
    );
    for item in bench.items().await {
        let key = item["lockToken"].as_s().expect("an answer");
        if key.contains(" audit ") {
            let error = locker.get(locker::Key::existing(key).expect("a key")).await.expect_err("no token");
            assert!(error.to_string().contains("audit record of an operator's act"), "{error}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_wrong_release_is_taken_back() {
    let bench = Bench::new().await;
    let (locker, _) = bench.machine();
    held_by(locker.token("t")).await.leave_in_doubt("no reply").await;
    assert_eq!(
        locker.release(&record_of(&locker, "t").await, &ada()).await.expect("an answer"),
        Intervened::Done
    );
    let record = record_of(&locker, "t").await;
    let back = [
        locker.resolve(&record, &json!(1), &ben()).await.expect("an answer"),
        locker.correct(&record, &json!(1), &ben()).await.expect("an answer"),
        locker.resolve_running(&record, &json!(1), &ben()).await.expect("an answer"),
    ];
    assert!(back.contains(&Intervened::Done), "{back:?}");
}

#[tokio::test(start_paused = true)]
async fn a_refusal_after_a_takeover_does_not_change_the_key() {
    let bench = Bench::new().await;
    let (locker, _) = bench.machine();
    let first = held_by(locker.token("t").expect_within(MINUTE)).await;
    bench.clock.advance(LATE);
    let second = held_by(locker.token("t").take_over_after(Duration::ZERO)).await;
    second.fail("declined").await.expect("stored");
    let record = record_of(&locker, "t").await;
    assert_eq!(locker.release_completed(&record, &ada()).await.expect("an answer"), Intervened::Done);
    let next = held_by(locker.token("t")).await;
    assert_eq!(next.attempt().idempotency_key(), first.attempt().idempotency_key());
}

#[tokio::test(start_paused = true)]
async fn a_new_key_is_not_given_while_the_work_may_be_alive() {
    let bench = Bench::new().await;
    let (locker, _) = bench.machine();
    let lock = held_by(locker.token("t").expect_within(MINUTE)).await;
    let record = record_of(&locker, "t").await;
    assert_eq!(
        locker.release_with_new_key(&record, &ada()).await.expect("an answer"),
        Intervened::NotPossible
    );
    bench.clock.advance(LATE);
    assert_eq!(locker.release_with_new_key(&record, &ada()).await.expect("an answer"), Intervened::Done);
    lock.complete("late").await.expect_err("lost");
    assert_eq!(held_by(locker.token("t")).await.attempt().idempotency_key(), "t ~v2");
}

#[tokio::test(start_paused = true)]
async fn overdue_time_of_an_operator_allows_for_clock_skew() {
    let bench = Bench::new().await;
    let (locker, _) = bench.machine();
    let _lock = held_by(locker.token("t").expect_within(MINUTE)).await;
    let record = record_of(&locker, "t").await;
    bench.clock.advance(MINUTE + Duration::from_secs(4));
    assert!(!locker.needs_operator(&record));
    assert_eq!(locker.release(&record, &ada()).await.expect("an answer"), Intervened::NotPossible);
    assert_eq!(locker.resolve(&record, &json!(1), &ada()).await.expect("an answer"), Intervened::NotPossible);
    bench.clock.advance(Duration::from_secs(2));
    assert!(locker.needs_operator(&record));
    assert_eq!(locker.release(&record, &ada()).await.expect("an answer"), Intervened::Done);
}

#[tokio::test(start_paused = true)]
async fn a_doubt_remembers_an_extension_whose_reply_was_lost() {
    let bench = Bench::new().await;
    for fault in [Fate::Ok, Fate::ReplyLost, Fate::Lost] {
        let (locker, wire) = bench.impatient_machine();
        let key = format!("t/{fault:?}");
        let lock = held_by(locker.token(&key).expect_within(MINUTE)).await;
        wire.always(fault);
        let lock = match lock.extend(10 * MINUTE).await {
            Ok(lock) => lock,
            Err(end) => end.into_lock().expect("kept"),
        };
        wire.next([]);
        lock.leave_in_doubt("no reply").await;
        bench.clock.advance(2 * MINUTE);
        let take = || locker.token(&key).take_over_after(Duration::ZERO).begin();
        let begun = take().await.expect("an answer");
        assert!(matches!(begun, Begun::InProgress(_)), "{fault:?}: {begun:?}");
        bench.clock.advance(9 * MINUTE);
        let begun = take().await.expect("an answer");
        assert!(matches!(begun, Begun::Acquired(_)), "{fault:?}: {begun:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn owners_release_cannot_be_taken_back_by_an_operator() {
    let bench = Bench::new().await;
    let (locker, wire) = bench.machine();
    held_by(locker.token("t")).await.fail("declined").await.expect("stored");
    let record = record_of(&locker, "t").await;
    assert_eq!(locker.release_completed(&record, &ada()).await.expect("an answer"), Intervened::Done);
    let lock = held_by(locker.token("t").retention(Retention::For(Duration::from_secs(3600)))).await;
    wire.next([Fate::ReplyLost]);
    lock.release().await.expect("released");
    let record = record_of(&locker, "t").await;
    assert_eq!((record.state(), record.intervention()), (TokenState::Released, None));
    assert_eq!(locker.resolve(&record, &json!(1), &ada()).await.expect("an answer"), Intervened::NotPossible);
    // It is kept as long as what operators did, and not as long as an answer.
    assert!(record.expires().is_some_and(|at| at > record.created() + chrono::TimeDelta::days(365)));
}

#[tokio::test(start_paused = true)]
async fn a_takeover_keeps_the_cause_until_the_token_ends() {
    let bench = Bench::new().await;
    let (locker, _) = bench.machine();
    held_by(locker.token("t").expect_within(MINUTE)).await.leave_in_doubt("timeout").await;
    bench.clock.advance(LATE);
    let lock = held_by(locker.token("t").take_over_after(Duration::ZERO)).await;
    let record = record_of(&locker, "t").await;
    assert_eq!((record.class(), record.cause()), (Some(Class::InDoubt), Some("timeout")));
    lock.complete("done").await.expect("completed");
    let record = record_of(&locker, "t").await;
    assert_eq!((record.class(), record.cause()), (None, None));
}

#[tokio::test(start_paused = true)]
async fn the_audit_has_the_answer_that_a_release_gave_up() {
    let bench = Bench::new().await;
    let (locker, _) = bench.machine_with(|settings| settings.shards = 4);
    for number in 0..20 {
        let key = format!("t/{number}");
        held_by(locker.token(&key)).await.complete("receipt").await.expect("completed");
        bench.clock.advance(MINUTE);
        let record = record_of(&locker, &key).await;
        assert_eq!(locker.release_completed(&record, &ada()).await.expect("an answer"), Intervened::Done);
    }
    let audits: Vec<_> = bench
        .items()
        .await
        .into_iter()
        .filter(|item| item["lockToken"].as_s().is_ok_and(|key| key.contains(" audit ")))
        .collect();
    assert!(audits.iter().all(|item| item["result"].as_s().is_ok_and(|answer| answer == "\"receipt\"")));
    let shards: std::collections::BTreeSet<_> =
        audits.iter().filter_map(|item| item["status"].as_s().ok()).collect();
    assert!(shards.len() > 1, "{shards:?}");
    let since = locker::Clock::now(&bench.clock) - chrono::TimeDelta::minutes(10);
    let listed = locker.audit(since).fetch().await.expect("a listing").items;
    assert_eq!(listed.len(), 11, "those of the last ten minutes, by the time of the act");
}

#[tokio::test(start_paused = true)]
async fn a_corrected_answer_is_corrected_again() {
    let bench = Bench::new().await;
    let (locker, _) = bench.machine();
    held_by(locker.token("t")).await.leave_in_doubt("no reply").await;
    let record = record_of(&locker, "t").await;
    assert_eq!(locker.resolve(&record, &json!(1), &ada()).await.expect("an answer"), Intervened::Done);
    for answer in [2, 3] {
        let record = record_of(&locker, "t").await;
        assert_eq!(
            locker.correct(&record, &json!(answer), &ben()).await.expect("an answer"),
            Intervened::Done
        );
    }
    let replayed = locker.token("t").run(async |_| Ok::<u64, Failure>(0)).await.expect("a replay");
    assert_eq!(*replayed, 3);
}
