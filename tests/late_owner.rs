//! Promise 3: no stranger ends my token. A late owner gets `LostOwnership` with the record as it is
//! now, and changes nothing.

use std::time::Duration;

use locker::{Error, Lock, Locker, Person, State};
use locker_tests::{Bench, Fault, held_by, record_of};

const LATE: Duration = Duration::from_secs(600);

/// A token whose owner was frozen past its lease, and the machine that takes over.
async fn frozen(bench: &Bench, key: &str) -> (Lock, Locker) {
    let (first, _) = bench.machine();
    let lock = held_by(first.token(key).expect_within(Duration::from_secs(60))).await;
    bench.clock.advance(LATE);
    let (second, _) = bench.machine_with(|settings| settings.owner = "the/second".to_owned());
    (lock, second)
}

async fn take_over(locker: &Locker, key: &str) -> Lock {
    let lock = held_by(locker.token(key).take_over_after(Duration::ZERO)).await;
    assert!(lock.attempt().took_over());
    lock
}

/// Every verb of a late owner: each must say so and change nothing.
async fn every_verb_is_refused(bench: &Bench, mut late: impl AsyncFnMut(&str) -> Lock, state: Option<State>) {
    let large: String = (0..20_000).map(|_| fastrand::alphanumeric()).collect();
    for verb in ["complete", "complete large", "complete_err", "fail", "release", "extend"] {
        let key = format!("late/{}", verb.replace(' ', "-"));
        let lock = late(&key).await;
        let before = bench.items().await;
        let end = match verb {
            "complete" => lock.complete("mine").await,
            "complete large" => lock.complete(&large).await,
            "complete_err" => lock.complete_err("mine").await,
            "fail" => lock.fail("mine").await,
            "release" => lock.release().await,
            _ => lock.extend(Duration::from_secs(900)).await.map(|_| ()),
        };
        let end = end.expect_err(verb);
        let Error::LostOwnership { record, .. } = end.error() else { panic!("{verb}: {end:?}") };
        assert_eq!(record.as_ref().map(|record| record.state()), state, "{verb}");
        assert!(end.into_lock().is_none(), "{verb}");
        assert_eq!(bench.items().await, before, "{verb} changed something");
    }
}

#[tokio::test]
async fn while_the_second_owner_works() {
    let bench = Bench::new().await;
    let mut held = Vec::new();
    every_verb_is_refused(
        &bench,
        async |key| {
            let (lock, second) = frozen(&bench, key).await;
            held.push(take_over(&second, key).await);
            lock
        },
        Some(State::InProgress),
    )
    .await;
    // The second owners are as they were.
    for lock in held {
        lock.complete("second").await.expect("still held");
    }
}

#[tokio::test]
async fn after_the_second_owner_answered() {
    let bench = Bench::new().await;
    every_verb_is_refused(
        &bench,
        async |key| {
            let (lock, second) = frozen(&bench, key).await;
            take_over(&second, key).await.complete("second").await.expect("completed");
            lock
        },
        Some(State::Completed),
    )
    .await;
    let (locker, _) = bench.machine();
    let record = record_of(&locker, "late/complete").await;
    assert_eq!(locker.answer(&record).await.expect("an answer").as_deref(), Some("\"second\""));
}

#[tokio::test]
async fn after_the_second_owner_let_go() {
    let bench = Bench::new().await;
    every_verb_is_refused(
        &bench,
        async |key| {
            let (lock, second) = frozen(&bench, key).await;
            take_over(&second, key).await.release().await.expect("released");
            lock
        },
        None,
    )
    .await;
}

#[tokio::test]
async fn after_a_person_resolved_it() {
    let bench = Bench::new().await;
    let person = Person::new("ada", "it was charged, the provider says").expect("a person");
    every_verb_is_refused(
        &bench,
        async |key| {
            let (lock, second) = frozen(&bench, key).await;
            let record = record_of(&second, key).await;
            second.resolve(&record, &person, &"by hand".into()).await.expect("resolved");
            lock
        },
        Some(State::Completed),
    )
    .await;
}

#[tokio::test]
async fn after_a_person_released_it() {
    let bench = Bench::new().await;
    let person = Person::new("ada", "it was never sent").expect("a person");
    every_verb_is_refused(
        &bench,
        async |key| {
            let (lock, second) = frozen(&bench, key).await;
            let record = record_of(&second, key).await;
            second.release(&record, &person).await.expect("released");
            lock
        },
        Some(State::Released),
    )
    .await;
}

#[tokio::test]
async fn an_owner_that_is_late_and_alone_still_holds() {
    let bench = Bench::new().await;
    let (lock, _) = frozen(&bench, "late/alone").await;
    let lock = lock.extend(Duration::from_secs(60)).await.expect("nobody took it");
    lock.complete("done").await.expect("still held");
}

#[tokio::test]
async fn a_late_release_that_was_not_heard_is_not_taken_for_the_release_of_who_took_over() {
    let bench = Bench::new().await;
    let (first, wire) = bench.machine_with(|settings| {
        settings.backoff_base = Duration::from_secs(1);
        settings.backoff_cap = Duration::from_secs(1);
    });
    let (second, _) = bench.machine();
    for begun_anew in [false, true] {
        let key = format!("late/{begun_anew}");
        let lock = held_by(first.token(&key).expect_within(Duration::from_secs(60))).await;
        bench.clock.advance(LATE);
        let sent = wire.count();
        wire.next([Fault::LoseRequest]);
        let release = tokio::spawn(lock.release());
        while wire.count() == sent {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        // Before it is sent again, another one takes over, and lets go too.
        take_over(&second, &key).await.release().await.expect("released");
        let held = if begun_anew { Some(held_by(second.token(&key)).await) } else { None };
        let end = release.await.expect("no panic").expect_err("nobody knows");
        assert!(matches!(end.error(), Error::Unknown { .. }), "{end:?}");
        if let Some(lock) = held {
            lock.complete("done").await.expect("still held");
        }
    }
}
