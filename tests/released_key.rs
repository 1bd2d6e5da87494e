//! After an operator's release, the provider's key and its age are remembered: a charge that did
//! happen is recognised.

use std::time::Duration;

use locker::{Begun, Class, Clock as _, Failure, Intervened, Retention, RunError, TokenState};
use locker_tests::{Bench, HOUR, MINUTE, ada, held_by, record_of};

/// A provider that recognises a key for a day from its first use.
struct Forgetful {
    bench: Bench,
    charges: Vec<(String, chrono::DateTime<chrono::Utc>)>,
}

impl Forgetful {
    fn charge(&mut self, key: &str) {
        let now = self.bench.clock.now();
        let known = self.charges.iter().any(|(of, at)| of == key && now - *at < chrono::TimeDelta::hours(24));
        if !known {
            self.charges.push((key.to_owned(), now));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_transient_failure_after_an_operators_release_keeps_the_age_of_the_key() {
    let bench = Bench::new().await;
    let (locker, _) = bench.machine();
    let mut provider = Forgetful { bench, charges: Vec::new() };
    let begin = || {
        let token = locker.token("t").expect_within(MINUTE).take_over_after(Duration::ZERO);
        token.recognised_for(24 * HOUR)
    };
    let first = held_by(begin()).await;
    provider.charge(&first.attempt().idempotency_key());
    first.leave_in_doubt("no reply").await;
    provider.bench.clock.advance(HOUR);
    let record = record_of(&locker, "t").await;
    assert_eq!(locker.release(&record, &ada()).await.expect("an answer"), Intervened::Done);
    // It sends nothing.
    let ran = begin().run(async |_| Err::<(), _>(Failure::transient("connection refused".to_owned()))).await;
    assert!(matches!(ran, Err(RunError::Failed { .. })));
    provider.bench.clock.advance(22 * HOUR + HOUR / 2);
    // It sends the charge again, which the provider recognises, and dies.
    let third = held_by(begin()).await;
    provider.charge(&third.attempt().idempotency_key());
    drop(third);
    provider.bench.clock.advance(HOUR);
    // 24.5 hours after the first use of the key.
    if let Begun::Acquired(fourth) = begin().begin().await.expect("an answer") {
        provider.charge(&fourth.attempt().idempotency_key());
    }
    assert_eq!(provider.charges.len(), 1, "charged: {:?}", provider.charges);
}

#[tokio::test(start_paused = true)]
async fn a_refusal_after_an_operators_release_does_not_change_the_key() {
    let bench = Bench::new().await;
    let (locker, _) = bench.machine();
    let mut provider = Forgetful { bench, charges: Vec::new() };
    let first = held_by(locker.token("t").expect_within(MINUTE)).await;
    provider.charge(&first.attempt().idempotency_key());
    first.leave_in_doubt("no reply").await;
    let record = record_of(&locker, "t").await;
    assert_eq!(locker.release(&record, &ada()).await.expect("an answer"), Intervened::Done);
    // Refused by our own checks, before anything is sent; the provider still has the first charge.
    let ran =
        locker.token("t").run(async |_| Err::<(), _>(Failure::permanent("no address".to_owned()))).await;
    assert!(matches!(ran, Err(RunError::Failed { .. })));
    let record = record_of(&locker, "t").await;
    assert_eq!(record.state(), TokenState::Failed);
    assert_eq!(locker.release_completed(&record, &ada()).await.expect("an answer"), Intervened::Done);
    let third = held_by(locker.token("t")).await;
    provider.charge(&third.attempt().idempotency_key());
    assert_eq!(provider.charges.len(), 1, "charged: {:?}", provider.charges);
}

#[tokio::test(start_paused = true)]
async fn a_release_gives_the_provider_the_same_key_however_late_the_next_caller_comes() {
    let bench = Bench::new().await;
    let (locker, _) = bench.machine();
    let begin = || locker.token("t").expect_within(MINUTE).retention(Retention::For(HOUR));
    held_by(begin()).await.fail("declined").await.expect("stored");
    let record = record_of(&locker, "t").await;
    assert_eq!(locker.release_completed(&record, &ada()).await.expect("an answer"), Intervened::Done);
    let second = held_by(begin()).await;
    let key = second.attempt().idempotency_key();
    second.leave_in_doubt("charged, no reply").await;
    let record = record_of(&locker, "t").await;
    assert_eq!(locker.release(&record, &ada()).await.expect("an answer"), Intervened::Done);
    bench.clock.advance(2 * HOUR);
    let expires = record_of(&locker, "t").await.expires().expect("a ttl");
    assert!(expires > bench.clock.now() + chrono::TimeDelta::days(365), "it outlives the answers");
    assert_eq!(held_by(begin()).await.attempt().idempotency_key(), key, "the provider recognises {key}");
}

#[tokio::test(start_paused = true)]
async fn a_wrong_release_is_taken_back_after_an_attempt_that_did_nothing() {
    let bench = Bench::new().await;
    let (locker, _) = bench.machine();
    held_by(locker.token("t")).await.leave_in_doubt("POST /charges was sent, no reply").await;
    let record = record_of(&locker, "t").await;
    assert_eq!(locker.release(&record, &ada()).await.expect("an answer"), Intervened::Done);
    let busy = Failure::transient("connection refused".to_owned());
    locker.token("t").run(async |_| Err::<String, _>(busy)).await.expect_err("it failed");
    let record = record_of(&locker, "t").await;
    let resolved = locker.resolve(&record, &"charged".into(), &ada()).await.expect("an answer");
    assert_eq!(resolved, Intervened::Done);
    assert!(matches!(locker.token("t").begin().await, Ok(Begun::Completed(_))));
}

#[tokio::test(start_paused = true)]
async fn a_transient_failure_keeps_the_version_of_the_key() {
    let bench = Bench::new().await;
    let (locker, _) = bench.machine();
    held_by(locker.token("t")).await.fail("declined").await.expect("an answer");
    assert_eq!(
        locker.release_completed(&record_of(&locker, "t").await, &ada()).await.expect("an answer"),
        Intervened::Done
    );
    let mut key = String::new();
    let ran = locker
        .token("t")
        .run(async |attempt| {
            key = attempt.idempotency_key();
            Err::<(), _>(Failure::transient("connection refused".to_owned()))
        })
        .await;
    assert!(matches!(ran, Err(RunError::Failed { class: Class::Transient, .. })));
    assert_eq!(key, "t ~v2");
    assert_eq!(held_by(locker.token("t")).await.attempt().idempotency_key(), "t ~v2");
}

#[tokio::test(start_paused = true)]
async fn a_probe_and_an_operator_read_the_key_that_the_provider_was_given() {
    let bench = Bench::new().await;
    let (locker, _) = bench.machine();
    for (key, version) in [("t".to_owned(), 1), ("t".to_owned(), 2), ("k".repeat(300), 1)] {
        let lock = held_by(locker.token(key.as_str())).await;
        let given = lock.attempt().idempotency_key();
        assert_eq!(given.ends_with(" ~v2"), version == 2, "{given}");
        assert_eq!(record_of(&locker, &key).await.idempotency_key(), given);
        lock.fail("declined").await.expect("an answer");
        let record = record_of(&locker, &key).await;
        assert_eq!(record.idempotency_key(), given);
        assert_eq!(locker.release_completed(&record, &ada()).await.expect("an answer"), Intervened::Done);
    }
}

#[tokio::test(start_paused = true)]
async fn the_age_of_the_key_survives_a_release() {
    let bench = Bench::new().await;
    let (locker, _) = bench.machine();
    let hour = Duration::from_secs(3600);
    let first = held_by(locker.token("t").expect_within(MINUTE)).await; // charged, and died
    bench.clock.advance(23 * hour);
    assert_eq!(
        locker.release(&record_of(&locker, "t").await, &ada()).await.expect("an answer"),
        Intervened::Done
    );
    let second = held_by(locker.token("t").expect_within(MINUTE)).await; // died
    assert_eq!(first.attempt().idempotency_key(), second.attempt().idempotency_key());
    bench.clock.advance(2 * hour);
    let begun = locker
        .token("t")
        .expect_within(MINUTE)
        .take_over_after(Duration::ZERO)
        .recognised_for(24 * hour)
        .begin()
        .await
        .expect("an answer");
    assert!(matches!(begun, Begun::InProgress(_)), "{begun:?}");
}

#[tokio::test(start_paused = true)]
async fn a_release_after_a_takeover_remembers_the_first_use_of_the_key() {
    let bench = Bench::new().await;
    let (locker, _) = bench.machine();
    let hour = Duration::from_secs(3600);
    let begin = || locker.token("t").expect_within(MINUTE);
    let _first = held_by(begin()).await;
    bench.clock.advance(5 * hour);
    let _second = held_by(begin().take_over_after(Duration::ZERO)).await;
    bench.clock.advance(hour);
    let record = record_of(&locker, "t").await;
    assert_eq!(locker.release(&record, &ada()).await.expect("an answer"), Intervened::Done);
    let _third = held_by(begin()).await;
    bench.clock.advance(5 * hour);
    let take = begin().take_over_after(Duration::ZERO).recognised_for(10 * hour).begin();
    let begun = take.await.expect("an answer");
    assert!(matches!(begun, Begun::InProgress(_)), "{begun:?}");
}

#[tokio::test(start_paused = true)]
async fn a_new_key_is_as_young_as_its_first_attempt() {
    let bench = Bench::new().await;
    let (locker, _) = bench.machine();
    let hour = Duration::from_secs(3600);
    let begin = || locker.token("t").expect_within(MINUTE);
    held_by(begin()).await.leave_in_doubt("no reply").await;
    bench.clock.advance(11 * hour);
    let record = record_of(&locker, "t").await;
    assert_eq!(locker.release_with_new_key(&record, &ada()).await.expect("an answer"), Intervened::Done);
    let _second = held_by(begin()).await;
    bench.clock.advance(5 * hour);
    let take = begin().take_over_after(Duration::ZERO).recognised_for(10 * hour).begin();
    let Begun::Acquired(lock) = take.await.expect("an answer") else { panic!("the key is young") };
    assert_eq!(lock.attempt().idempotency_key(), "t ~v2");
}

/// The provider may have done the first request, and would answer the second with its receipt.
#[tokio::test(start_paused = true)]
async fn another_request_does_not_get_a_released_key_that_was_given_out() {
    let bench = Bench::new().await;
    let (locker, _) = bench.machine();
    let begin = |cents: u32| locker.token("t").fingerprint(&cents);
    let first = held_by(begin(10)).await;
    let key = first.attempt().idempotency_key();
    first.leave_in_doubt("no reply").await;
    let record = record_of(&locker, "t").await;
    assert_eq!(locker.release(&record, &ada()).await.expect("an answer"), Intervened::Done);
    let other = begin(99).begin().await.expect("an answer");
    assert!(matches!(other, Begun::Mismatch(_)), "{other:?}");
    let same = held_by(begin(10)).await;
    assert_eq!(same.attempt().idempotency_key(), key);
    // Given back by a program, which knows of its own attempt only.
    same.release().await.expect("released");
    let other = begin(99).begin().await.expect("an answer");
    assert!(matches!(other, Begun::Mismatch(_)), "{other:?}");
    // A caller without a fingerprint begins and gives back the token in between.
    held_by(locker.token("t")).await.release().await.expect("released");
    let other = begin(99).begin().await.expect("an answer");
    assert!(matches!(other, Begun::Mismatch(_)), "{other:?}");
}

#[tokio::test(start_paused = true)]
async fn another_request_gets_a_new_key_of_a_released_token() {
    let bench = Bench::new().await;
    let (locker, _) = bench.machine();
    let begin = |cents: u32| locker.token("t").fingerprint(&cents);
    held_by(begin(10)).await.fail("declined").await.expect("an answer");
    let record = record_of(&locker, "t").await;
    let released = locker.release_with_new_key(&record, &ada()).await.expect("an answer");
    assert_eq!(released, Intervened::Done);
    assert_eq!(held_by(begin(99)).await.attempt().idempotency_key(), "t ~v2");
}
