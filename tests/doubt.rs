//! What is in doubt says why, is listed at once, and is not taken over any earlier for it.

use std::time::Duration;

use locker::{
    BoxError, Class, Clock as _, Error, Failure, FingerprintKey, Locker, Origin, Probed, RunError, TokenState,
};
use locker_tests::{Bench, Fate, MINUTE, held_by, record_of};

/// Past the due time of a minute and the allowance for clock skew.
const LATE: Duration = Duration::from_secs(66);

async fn missing(locker: &Locker) -> Vec<String> {
    let report = locker::Scanner::new(locker).run().await.expect("a scan");
    report.missing.iter().map(|record| record.key().as_str().to_owned()).collect()
}

async fn fails(locker: &Locker, key: &str, failure: Failure) -> RunError<Failure> {
    let failed = locker.token(key).expect_within(MINUTE).run(async |_| Err::<(), _>(failure)).await;
    failed.expect_err("the work failed")
}

#[tokio::test(start_paused = true)]
async fn the_cause_of_a_doubt_is_on_the_record_in_the_listing_and_in_the_error() {
    let bench = Bench::new().await;
    let (locker, _) = bench.machine();
    let error = fails(&locker, "doubt/why", Failure::in_doubt("no reply\n within 5 s".to_owned())).await;
    assert_eq!(error.to_string(), "the work failed: class=inDoubt: no reply within 5 s");
    let record = record_of(&locker, "doubt/why").await;
    assert_eq!((record.class(), record.cause()), (Some(Class::InDoubt), Some("no reply within 5 s")));
    assert!(record.is_in_doubt());
    let listed = locker.overdue().fetch().await.expect("a listing").items.remove(0);
    assert_eq!((listed.class, listed.cause.as_deref()), (Some(Class::InDoubt), Some("no reply within 5 s")));
    assert_eq!(listed.revision, Some(record.revision()));
}

#[tokio::test(start_paused = true)]
async fn the_cause_of_a_held_failure_is_in_the_listing() {
    let bench = Bench::new().await;
    let (locker, _) = bench.machine();
    let error =
        fails(&locker, "held/why", Failure::needs_operator("smtp: 550 relay denied".to_owned())).await;
    assert_eq!(error.to_string(), "the work failed: class=needsOperator: smtp: 550 relay denied");
    held_by(locker.token("held/in-json")).await.hold(&serde_json::json!({"code": 7})).await.expect("held");
    let listed = locker.held().fetch().await.expect("a listing").items;
    let causes: Vec<_> = listed.iter().map(|token| token.cause.as_deref().unwrap_or_default()).collect();
    assert_eq!(causes, [r#"{"code":7}"#, "smtp: 550 relay denied"]);
    assert!(listed.iter().all(|token| token.class == Some(Class::NeedsOperator)));
}

#[tokio::test(start_paused = true)]
async fn a_token_in_doubt_is_listed_at_once_and_taken_over_only_when_it_would_have_been() {
    let bench = Bench::new().await;
    let (locker, _) = bench.machine();
    held_by(locker.token("doubt/due").expect_within(MINUTE)).await.leave_in_doubt("no reply").await;
    assert_eq!(missing(&locker).await, ["doubt/due"]);
    let take = || locker.token("doubt/due").take_over_after(Duration::ZERO).begin();
    bench.clock.advance(Duration::from_secs(60));
    assert!(matches!(take().await.expect("an answer"), locker::Begun::InProgress(_)), "not yet");
    bench.clock.advance(Duration::from_secs(6));
    let locker::Begun::Acquired(lock) = take().await.expect("an answer") else { panic!("not taken over") };
    assert!(lock.attempt().took_over());
    lock.complete("done").await.expect("completed");
}

#[tokio::test(start_paused = true)]
async fn a_doubt_that_cannot_be_stored_is_tried_once_and_listed_when_due() {
    let bench = Bench::new().await;
    for fault in [Fate::Lost, Fate::Throttled, Fate::ErrorBefore, Fate::Denied] {
        let (locker, wire) = bench.machine();
        let key = format!("doubt/{fault:?}");
        let lock = held_by(locker.token(&key).expect_within(MINUTE)).await;
        wire.take();
        wire.always(fault);
        lock.leave_in_doubt("no reply").await;
        assert_eq!(wire.take().len(), 1, "{fault:?}: tried once");
        wire.next([]);
        assert!(!missing(&locker).await.contains(&key), "{fault:?}");
        bench.clock.advance(LATE);
        assert!(missing(&locker).await.contains(&key), "{fault:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_late_doubt_changes_nothing_of_its_successor() {
    let bench = Bench::new().await;
    let (locker, _) = bench.machine();
    let late = held_by(locker.token("doubt/late").expect_within(MINUTE)).await;
    bench.clock.advance(LATE);
    let second =
        held_by(locker.token("doubt/late").expect_within(MINUTE).take_over_after(Duration::ZERO)).await;
    let before = bench.items().await;
    late.leave_in_doubt("no reply").await;
    assert_eq!(bench.items().await, before);
    second.complete("done").await.expect("completed");
}

#[tokio::test(start_paused = true)]
async fn a_transient_failure_after_a_takeover_says_nothing_of_the_first_owner() {
    let bench = Bench::new().await;
    let (locker, _) = bench.machine();
    // The first owner charged and died.
    let first = held_by(locker.token("taken").expect_within(MINUTE)).await;
    bench.clock.advance(LATE);
    let unreachable = locker.token("taken").expect_within(MINUTE).take_over_after(Duration::ZERO);
    let failed = unreachable
        .run(async |attempt| {
            assert!(attempt.took_over());
            Err::<(), _>(Failure::transient("connection refused".to_owned()))
        })
        .await;
    assert!(matches!(failed, Err(RunError::Failed { class: Class::Transient, .. })), "{failed:?}");
    let record = record_of(&locker, "taken").await;
    assert_eq!(record.state(), TokenState::InProgress);
    let cause = record.cause().unwrap_or_default();
    assert!(cause.starts_with("the attempt before") && cause.ends_with("connection refused"), "{cause}");
    assert_eq!(missing(&locker).await, ["taken"]);
    // Who never chose to take over does not do the work.
    let third = locker.token("taken").begin().await.expect("an answer");
    assert!(matches!(third, locker::Begun::InProgress(_)), "{third:?}");
    // Who did need not wait for another minute.
    let fourth = held_by(locker.token("taken").take_over_after(Duration::ZERO)).await;
    fourth.complete("charged").await.expect("completed");
    drop(first);
}

/// Its caller must not retry at once, since the token is still in progress.
#[tokio::test(start_paused = true)]
async fn token_that_could_not_be_given_back_is_not_reported_as_given_back() {
    let bench = Bench::new().await;
    let (locker, wire) = bench.machine();
    let _first = held_by(locker.token("taken").expect_within(MINUTE)).await;
    bench.clock.advance(LATE);
    let work = async |_| {
        wire.next([Fate::Throttled; 20]);
        Err::<(), _>(Failure::transient("connection refused".to_owned()))
    };
    let ran = locker.token("taken").take_over_after(Duration::ZERO).run(work).await;
    let is_unrecorded =
        matches!(&ran, Err(RunError::Failed { class: Class::Transient, origin: Origin::Unrecorded(_), .. }));
    assert!(is_unrecorded, "{ran:?}");
}

#[tokio::test(start_paused = true)]
async fn a_probe_that_never_answers_ends_at_the_deadline() {
    let bench = Bench::new().await;
    let (locker, _) = bench.machine();
    let _dead = held_by(locker.token("probed").expect_within(MINUTE)).await;
    bench.clock.advance(LATE);
    let deadline = bench.clock.now() + chrono::TimeDelta::seconds(3);
    let never = |_| std::future::pending::<Result<Probed, BoxError>>();
    let begun = locker.token("probed").take_over_if(Duration::ZERO, never).deadline(deadline).begin();
    let begun = tokio::time::timeout(Duration::from_secs(30), begun).await.expect("the deadline ends it");
    let error = begun.expect_err("no answer");
    assert!(matches!(error, Error::Probe { .. }), "{error:?}");
}

#[tokio::test(start_paused = true)]
async fn a_token_is_not_taken_over_once_the_provider_may_have_forgotten_its_key() {
    let bench = Bench::new().await;
    let (locker, _) = bench.machine();
    let day = Duration::from_secs(24 * 60 * 60);
    let take = || {
        let token = locker.token("remembered").expect_within(MINUTE).take_over_after(Duration::ZERO);
        token.recognised_for(day).begin()
    };
    let _first = held_by(locker.token("remembered").expect_within(MINUTE)).await;
    bench.clock.advance(day / 2);
    let locker::Begun::Acquired(second) = take().await.expect("an answer") else { panic!("not taken over") };
    second.leave_in_doubt("no reply").await;
    // The second attempt is young; its key is as old as the first.
    bench.clock.advance(day / 2 - MINUTE);
    let begun = take().await.expect("an answer");
    assert!(matches!(begun, locker::Begun::InProgress(_)), "{begun:?}");
}

#[tokio::test(start_paused = true)]
async fn a_secret_replaced_under_its_old_name_is_an_error_of_setup_and_not_a_mismatch() {
    let bench = Bench::new().await;
    let with = |secret: u8| {
        let key = FingerprintKey::new("k1", vec![secret; 32]).expect("a key");
        Locker::builder(&bench.client, &bench.table).with_fingerprint_keys([key]).build().expect("a locker")
    };
    held_by(with(1).token("secret").fingerprint("request")).await.complete("done").await.expect("completed");
    let begun = with(2).token("secret").fingerprint("request").begin().await;
    let error = begun.expect_err("no answer");
    assert!(matches!(error, Error::Fingerprint { .. }), "{error:?}");
    assert!(error.to_string().contains("another secret under the name k1"), "{error}");
}
