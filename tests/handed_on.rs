//! What a begin hands on from the token before it, and until when it may begin.

use std::time::Duration;

use locker::{Begun, Clock as _, Error, Form, Intervened, Locker, Probed, TokenState};
use locker_tests::{Bench, Fate, HOUR, MINUTE, TestClock, Wire, ada, held_by, record_of};

/// Past the due time of a minute and the allowance for clock skew.
const LATE: Duration = Duration::from_secs(66);

/// Let an attempt fail with a refusal, and an operator release it: the next attempt has another
/// key.
async fn refused_and_released(locker: &Locker, key: &str) {
    held_by(locker.token(key)).await.fail("declined").await.expect("stored");
    let record = record_of(locker, key).await;
    assert_eq!(locker.release_completed(&record, &ada()).await.expect("released"), Intervened::Done);
}

/// A machine whose requests wait as long as the test does.
fn patient(bench: &Bench) -> (Locker, Wire) {
    bench.machine_with(|settings| {
        settings.attempt_timeout = Duration::from_secs(30);
        settings.give_up_after = Duration::from_secs(60);
    })
}

async fn until_held(wire: &Wire) {
    while wire.held() == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_takeover_by_one_who_names_neither_keeps_the_form_and_the_fingerprint() {
    let bench = Bench::new().await;
    let (locker, _) = bench.machine();
    let first = locker.token("t").expect_within(MINUTE).form(Form::ONCE).fingerprint("request");
    drop(held_by(first).await);
    bench.clock.advance(LATE);
    let lock = held_by(locker.token("t").take_over_after(Duration::ZERO)).await;
    assert_eq!(record_of(&locker, "t").await.form(), Some(&Form::ONCE));
    lock.complete("done").await.expect("completed");
    let other = locker.token("t").fingerprint("another request").begin().await.expect("an answer");
    assert!(matches!(other, Begun::Mismatch(_)), "{other:?}");
    let same = locker.token("t").fingerprint("request").begin().await.expect("an answer");
    assert!(matches!(same, Begun::Completed(_)), "{same:?}");
}

#[tokio::test(start_paused = true)]
async fn a_key_is_recognised_until_the_work_has_ended_less_the_clock_skew() {
    let bench = Bench::new().await;
    let (locker, _) = bench.machine();
    let skew = Duration::from_secs(5);
    let take = || {
        let token = locker.token("t").expect_within(MINUTE).take_over_after(Duration::ZERO);
        token.recognised_for(24 * HOUR).begin()
    };
    drop(held_by(locker.token("t").expect_within(MINUTE)).await);
    bench.clock.advance(24 * HOUR - MINUTE - skew);
    let begun = take().await.expect("an answer");
    assert!(matches!(begun, Begun::InProgress(_)), "the clock that noted the first use may be behind");
    drop(held_by(locker.token("sooner").expect_within(MINUTE)).await);
    bench.clock.advance(24 * HOUR - MINUTE - skew - Duration::from_millis(1));
    let token = locker.token("sooner").expect_within(MINUTE).take_over_after(Duration::ZERO);
    held_by(token.recognised_for(24 * HOUR)).await.complete("done").await.expect("completed");
}

#[tokio::test(start_paused = true)]
async fn another_key_is_not_as_old_as_one_that_was_released_before_it() {
    let bench = Bench::new().await;
    let (locker, _) = bench.machine();
    let begin = || locker.token("t").expect_within(MINUTE);
    // The first release keeps the key and its age, the second gives both up.
    held_by(begin()).await.leave_in_doubt("no reply").await;
    let record = record_of(&locker, "t").await;
    assert_eq!(locker.release(&record, &ada()).await.expect("released"), Intervened::Done);
    bench.clock.advance(11 * HOUR);
    held_by(begin()).await.leave_in_doubt("no reply").await;
    let record = record_of(&locker, "t").await;
    assert_eq!(locker.release_with_new_key(&record, &ada()).await.expect("released"), Intervened::Done);
    drop(held_by(begin()).await);
    bench.clock.advance(5 * HOUR);
    let lock = held_by(begin().take_over_after(Duration::ZERO).recognised_for(10 * HOUR)).await;
    assert_eq!(lock.attempt().idempotency_key(), "t ~v2");
    lock.complete("done").await.expect("completed");
}

#[tokio::test(start_paused = true)]
async fn a_probe_that_answers_after_the_deadline_allows_nothing() {
    let bench = Bench::new().await;
    let (locker, _) = bench.machine();
    drop(held_by(locker.token("t").expect_within(MINUTE)).await);
    bench.clock.advance(LATE);
    let before = bench.items().await;
    let deadline = bench.clock.now() + chrono::TimeDelta::seconds(10);
    // The clock of the wall goes on while the probe asks; the timer of the probe does not.
    let clock: TestClock = bench.clock.clone();
    let slow = move |_| {
        clock.advance(Duration::from_secs(11));
        async { Ok(Probed::Safe) }
    };
    let begun = locker.token("t").take_over_if(Duration::ZERO, slow).deadline(deadline).begin().await;
    let error = begun.expect_err("too late to begin");
    assert!(matches!(error, Error::Expired { .. }), "{error:?}");
    assert_eq!(bench.items().await, before);
}

#[tokio::test]
async fn a_begin_over_a_release_does_not_begin_after_the_deadline() {
    let bench = Bench::new().await;
    let (locker, wire) = patient(&bench);
    refused_and_released(&locker, "t").await;
    let before = bench.items().await;
    let deadline = bench.clock.now() + chrono::TimeDelta::seconds(30);
    wire.next([Fate::HeldAfter]);
    let begun = tokio::spawn(locker.token("t").deadline(deadline).begin());
    until_held(&wire).await;
    bench.clock.advance(Duration::from_secs(31));
    wire.let_through();
    let error = begun.await.expect("no panic").expect_err("too late to begin");
    assert!(matches!(error, Error::Expired { .. }), "{error:?}");
    assert_eq!(bench.items().await, before);
}

#[tokio::test]
async fn a_begin_over_a_release_depends_on_the_release_that_it_saw() {
    let bench = Bench::new().await;
    let (slow, wire) = patient(&bench);
    let (other, _) = bench.machine();
    refused_and_released(&other, "t").await;
    wire.next([Fate::Ok, Fate::HeldBefore]);
    let begun = tokio::spawn(slow.token("t").begin());
    until_held(&wire).await;
    // Meanwhile another attempt has the second key, is refused, and is released.
    bench.clock.advance(Duration::from_secs(1));
    refused_and_released(&other, "t").await;
    wire.let_through();
    let begun = begun.await.expect("no panic").expect("an answer");
    let Begun::Acquired(lock) = begun else { panic!("not acquired: {begun:?}") };
    assert_eq!(lock.attempt().idempotency_key(), "t ~v3", "the provider has refused the second");
    lock.complete("done").await.expect("completed");
}

#[tokio::test(start_paused = true)]
async fn a_doubt_takes_no_longer_than_the_deadline_allows() {
    let bench = Bench::new().await;
    let (locker, wire) = bench.machine();
    let deadline = bench.clock.now() + chrono::TimeDelta::seconds(2);
    let lock = held_by(locker.token("t").deadline(deadline)).await;
    wire.always(Fate::Stalls);
    let began = tokio::time::Instant::now();
    lock.leave_in_doubt("no reply").await;
    // A request may take 5 seconds by the settings, in the time of the timer, which is paused.
    assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
    wire.next([]);
    assert_eq!(record_of(&locker, "t").await.state(), TokenState::InProgress);
}
