//! An operator acts on what was shown, only in the states that the verb is for; answers in the form
//! that callers read; and leaves an audit record that outlives the token.

use std::time::Duration;

use locker::{
    AuditRecord, Begun, Clock as _, Error, Failure, Form, Intervened, Locker, Operator, Resolution,
    TokenState,
};
use locker_tests::{Bench, Fate, ada, held_by, record_of};
use serde_json::json;

const LATE: Duration = Duration::from_secs(66);

fn ben() -> Operator {
    Operator::new("ben@ops", "ada mistyped it").expect("an operator")
}

async fn audit(bench: &Bench, locker: &Locker) -> Vec<AuditRecord> {
    let since = bench.clock.now() - chrono::TimeDelta::days(1);
    locker.audit(since).fetch().await.expect("a listing").items
}

#[tokio::test(start_paused = true)]
async fn running_and_completed_tokens_are_refused_by_release_and_resolve() {
    let bench = Bench::new().await;
    let (locker, _) = bench.machine();
    let running = held_by(locker.token("running")).await;
    held_by(locker.token("completed")).await.complete("receipt").await.expect("completed");
    held_by(locker.token("failed")).await.fail("declined").await.expect("completed");
    let before = bench.items().await;
    for key in ["running", "completed", "failed"] {
        let record = record_of(&locker, key).await;
        assert_eq!(
            locker.release(&record, &ada()).await.expect("an answer"),
            Intervened::NotPossible,
            "{key}"
        );
        let resolved = locker.resolve(&record, &json!("by hand"), &ada()).await.expect("an answer");
        assert_eq!(resolved, Intervened::NotPossible, "{key}");
    }
    let record = record_of(&locker, "running").await;
    assert_eq!(locker.release_completed(&record, &ada()).await.expect("an answer"), Intervened::NotPossible);
    let record = record_of(&locker, "completed").await;
    assert_eq!(locker.release_running(&record, &ada()).await.expect("an answer"), Intervened::NotPossible);
    assert_eq!(
        locker.resolve_running(&record, &json!(1), &ada()).await.expect("an answer"),
        Intervened::NotPossible
    );
    assert_eq!(locker.correct(&record, &json!(1), &ada()).await.expect("an answer"), Intervened::NotPossible);
    assert_eq!(locker.close(&record, &ada()).await.expect("an answer"), Intervened::NotPossible);
    assert_eq!(bench.items().await, before, "and no audit record of what was not done");
    running.complete("done").await.expect("still held");
}

#[tokio::test(start_paused = true)]
async fn a_wrong_resolve_is_corrected_by_another_operator_and_the_audit_has_both() {
    let bench = Bench::new().await;
    let (locker, _) = bench.machine();
    let token = || locker.token("order/1").expect_within(Duration::from_secs(60));
    held_by(token()).await.leave_in_doubt("no reply").await;
    let record = record_of(&locker, "order/1").await;
    assert_eq!(locker.resolve(&record, &json!("ch_6"), &ada()).await.expect("resolved"), Intervened::Done);
    bench.clock.advance(Duration::from_secs(1));
    let record = record_of(&locker, "order/1").await;
    assert!(record.is_answered_by_operator());
    assert_eq!(locker.correct(&record, &json!("ch_7"), &ben()).await.expect("corrected"), Intervened::Done);
    // The first operator acts on what he saw, and that is over.
    assert_eq!(
        locker.correct(&record, &json!("ch_8"), &ada()).await.expect("an answer"),
        Intervened::Changed
    );
    let replayed = token().run(async |_| Ok::<_, Failure>(String::new())).await.expect("a replay");
    assert_eq!(*replayed, "ch_7");

    let acts = audit(&bench, &locker).await;
    let told: Vec<_> = acts
        .iter()
        .map(|act| (act.key.as_str(), act.by.as_deref().unwrap_or_default(), act.resolution))
        .collect();
    assert_eq!(
        told,
        [("order/1", "ada", Some(Resolution::Resolved)), ("order/1", "ben@ops", Some(Resolution::Corrected)),]
    );
    assert_eq!(acts[0].cause.as_deref(), Some("no reply"));
    assert_eq!(acts[1].reason.as_deref(), Some("ada mistyped it"));
    let items = bench.items().await;
    let said: Vec<_> = items
        .iter()
        .filter(|item| item["lockToken"].as_s().is_ok_and(|key| key.starts_with("order/1 audit ")))
        .filter_map(|item| item["result"].as_s().ok().cloned())
        .collect();
    assert_eq!(said.len(), 2, "{items:?}");
    assert!(said.contains(&r#""ch_6""#.to_owned()) && said.contains(&r#""ch_7""#.to_owned()), "{said:?}");
}

#[tokio::test(start_paused = true)]
async fn an_answer_of_the_work_is_never_corrected() {
    let bench = Bench::new().await;
    let (locker, _) = bench.machine();
    held_by(locker.token("work")).await.complete("receipt").await.expect("completed");
    held_by(locker.token("closed")).await.hold("odd").await.expect("held");
    let held = record_of(&locker, "closed").await;
    assert_eq!(locker.close(&held, &ada()).await.expect("closed"), Intervened::Done);
    for key in ["work", "closed"] {
        let record = record_of(&locker, key).await;
        let corrected = locker.correct(&record, &json!("other"), &ada()).await.expect("an answer");
        assert_eq!(corrected, Intervened::NotPossible, "{key}");
    }
}

#[tokio::test(start_paused = true)]
async fn closing_a_held_failure_makes_it_the_answer_and_takes_it_off_the_list() {
    let bench = Bench::new().await;
    let (locker, _) = bench.machine();
    let large: String = (0..20_000).map(|_| fastrand::alphanumeric()).collect();
    for (key, failure) in [("small", "odd"), ("large", large.as_str())] {
        held_by(locker.token(key)).await.hold(failure).await.expect("held");
        let record = record_of(&locker, key).await;
        assert_eq!(locker.close(&record, &ada()).await.expect("closed"), Intervened::Done);
        let Begun::Failed(stored) = locker.token(key).begin().await.expect("an answer") else {
            panic!("{key} is not a failure")
        };
        assert_eq!(stored.error::<String>().expect("text"), failure);
        let record = stored.record();
        assert_eq!((record.state(), record.resolution()), (TokenState::Failed, Some(Resolution::Closed)));
        assert!(record.expires().is_some());
        let items = bench.items().await;
        let beside = items
            .iter()
            .find(|item| item["lockToken"].as_s().is_ok_and(|key| key.starts_with("large result ")));
        assert!(
            beside.is_none_or(|item| item.contains_key("ttl")),
            "what is beside a closed token expires with it"
        );
    }
    assert!(locker.held().fetch().await.expect("a listing").items.is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_audit_record_outlives_the_token_and_is_no_unfinished_work() {
    let bench = Bench::new().await;
    let (locker, _) = bench.machine_with(|settings| settings.shards = 3);
    held_by(locker.token("gone")).await.hold("odd").await.expect("held");
    let record = record_of(&locker, "gone").await;
    assert_eq!(locker.release(&record, &ada()).await.expect("released"), Intervened::Done);
    held_by(locker.token("gone")).await.release().await.expect("released");
    bench.delete("gone").await;
    let acts = audit(&bench, &locker).await;
    assert_eq!((acts.len(), acts[0].resolution), (1, Some(Resolution::Released)));
    assert_eq!(acts[0].locked_by.as_deref(), Some("test/machine"));
    bench.clock.advance(LATE);
    let report = locker::Scanner::new(&locker).run().await.expect("a scan");
    assert!(report.missing.is_empty() && report.unreadable == 0, "{report:?}");
    let later = locker.audit(bench.clock.now()).fetch().await.expect("a listing");
    assert!(later.items.is_empty(), "only what happened since");
    let kept = &bench.items().await[0]["ttl"];
    let kept: i64 = kept.as_n().expect("a number").parse().expect("seconds");
    let days = (kept - acts[0].at.expect("a time").timestamp()) / (24 * 60 * 60);
    assert_eq!(days, 400);
}

#[tokio::test(start_paused = true)]
async fn act_and_audit_record_are_both_written_or_neither() {
    let bench = Bench::new().await;
    for fault in [Fate::Lost, Fate::ReplyLost, Fate::ErrorAfter, Fate::Throttled, Fate::Garbled] {
        let (locker, wire) = bench.machine();
        let key = format!("both/{fault:?}");
        held_by(locker.token(&key)).await.hold("odd").await.expect("held");
        let record = record_of(&locker, &key).await;
        wire.next([fault]);
        assert_eq!(locker.release(&record, &ada()).await.expect("released"), Intervened::Done);
        let acts = audit(&bench, &locker).await;
        assert_eq!(acts.iter().filter(|act| act.key == key).count(), 1, "{fault:?}");
    }
    let (locker, _) = bench.machine();
    held_by(locker.token("both/raced")).await.hold("odd").await.expect("held");
    let record = record_of(&locker, "both/raced").await;
    assert_eq!(locker.close(&record, &ben()).await.expect("closed"), Intervened::Done);
    assert_eq!(locker.release(&record, &ada()).await.expect("an answer"), Intervened::Changed);
    let acts = audit(&bench, &locker).await;
    assert_eq!(acts.iter().filter(|act| act.key == "both/raced").count(), 1, "only the one that was applied");
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_callers_cannot_read_is_refused_before_anything_is_sent() {
    let bench = Bench::new().await;
    let (locker, wire) = bench.machine();
    let doubt = Failure::in_doubt("no reply".to_owned());
    let failed = locker.token("typed").run(async |_| Err::<u64, _>(doubt)).await;
    failed.expect_err("in doubt");
    let record = record_of(&locker, "typed").await;
    assert_eq!(record.form().map(Form::as_str), Some("u64"));
    wire.take();
    for wrong in [json!(null), json!("7"), json!({"id": 7})] {
        let error = locker.resolve(&record, &wrong, &ada()).await.expect_err("refused");
        assert!(matches!(error, Error::Form { .. }), "{error:?}");
    }
    assert_eq!(wire.count(), 0);
    assert_eq!(locker.resolve(&record, &json!(7), &ada()).await.expect("resolved"), Intervened::Done);
    let answer = locker.token("typed").run(async |_| Ok::<u64, Failure>(0)).await.expect("a replay");
    assert_eq!(*answer, 7);
}

#[tokio::test(start_paused = true)]
async fn the_providers_key_changes_only_after_a_refusal_that_is_on_record() {
    let bench = Bench::new().await;
    let (locker, _) = bench.machine();
    let key_of = async |key: &str| {
        let lock = held_by(locker.token(key)).await;
        let provider = lock.attempt().idempotency_key();
        (lock, provider)
    };
    let (lock, first) = key_of("key/doubt").await;
    lock.leave_in_doubt("no reply").await;
    let record = record_of(&locker, "key/doubt").await;
    assert_eq!(locker.release(&record, &ada()).await.expect("released"), Intervened::Done);
    let (_lock, second) = key_of("key/doubt").await;
    assert_eq!(second, first, "the provider recognises what may have happened");

    let mut keys = Vec::new();
    for _ in 0..3 {
        let (lock, key) = key_of("key/refused").await;
        keys.push(key);
        lock.fail("declined").await.expect("stored");
        let record = record_of(&locker, "key/refused").await;
        assert_eq!(locker.release_completed(&record, &ada()).await.expect("released"), Intervened::Done);
    }
    assert_eq!(keys, ["key/refused", "key/refused ~v2", "key/refused ~v3"]);
    // The version stays when the next attempt is in doubt, is released, or is taken over.
    let (lock, _) = key_of("key/refused").await;
    lock.leave_in_doubt("no reply").await;
    bench.clock.advance(LATE);
    let taken = held_by(locker.token("key/refused").take_over_after(Duration::ZERO)).await;
    assert_eq!(taken.attempt().idempotency_key(), "key/refused ~v4");
}

#[tokio::test(start_paused = true)]
async fn one_begins_over_a_versioned_release_and_lost_replies_do_not_matter() {
    let bench = Bench::new().await;
    for (number, faults) in [
        [Fate::Ok, Fate::ReplyLost],
        [Fate::Ok, Fate::ErrorAfter],
        [Fate::Lost, Fate::ReplyLost],
        [Fate::Throttled, Fate::Ok],
    ]
    .into_iter()
    .enumerate()
    {
        let (locker, wire) = bench.machine();
        let key = format!("over/{number}");
        held_by(locker.token(&key)).await.fail("declined").await.expect("stored");
        let record = record_of(&locker, &key).await;
        assert_eq!(locker.release_completed(&record, &ada()).await.expect("released"), Intervened::Done);
        wire.next(faults);
        let lock = held_by(locker.token(&key)).await;
        assert_eq!(lock.attempt().idempotency_key(), format!("{key} ~v2"));
        let (other, _) = bench.machine();
        assert!(matches!(other.token(&key).begin().await.expect("an answer"), Begun::InProgress(_)));
        lock.complete("done").await.expect("still held");
    }
    let (locker, _) = bench.machine();
    held_by(locker.token("over/race")).await.fail("declined").await.expect("stored");
    let record = record_of(&locker, "over/race").await;
    assert_eq!(locker.release_completed(&record, &ada()).await.expect("released"), Intervened::Done);
    let racing: Vec<_> = (0..8).map(|_| tokio::spawn(bench.machine().0.token("over/race").begin())).collect();
    let mut locks = Vec::new();
    for begun in racing {
        if let Begun::Acquired(lock) = begun.await.expect("no panic").expect("an answer") {
            locks.push(lock);
        }
    }
    assert_eq!(locks.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn every_write_of_a_token_changes_its_revision() {
    let bench = Bench::new().await;
    let (locker, _) = bench.machine();
    let mut revisions = std::collections::BTreeSet::new();
    let mut note = async |key: &str| {
        let record = record_of(&locker, key).await;
        assert!(revisions.insert(record.revision()), "{record:?}");
    };
    let lock = held_by(locker.token("r/1")).await;
    note("r/1").await;
    let lock = lock.extend(Duration::from_secs(600)).await.expect("extended");
    note("r/1").await;
    lock.hold("odd").await.expect("held");
    note("r/1").await;
    assert_eq!(
        locker.close(&record_of(&locker, "r/1").await, &ada()).await.expect("closed"),
        Intervened::Done
    );
    note("r/1").await;
    held_by(locker.token("r/2")).await.leave_in_doubt("no reply").await;
    note("r/2").await;
    let record = record_of(&locker, "r/2").await;
    assert_eq!(locker.resolve(&record, &json!(1), &ada()).await.expect("resolved"), Intervened::Done);
    note("r/2").await;
    let record = record_of(&locker, "r/2").await;
    assert_eq!(locker.correct(&record, &json!(2), &ada()).await.expect("corrected"), Intervened::Done);
    note("r/2").await;
}
