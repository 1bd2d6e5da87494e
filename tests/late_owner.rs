//! Promise 3: no stranger ends my token. A late owner gets `LostOwnership` with the record as it is
//! now, and changes nothing.

use std::time::Duration;

use locker::{Class, Error, Failure, Intervened, Lock, Locker, Operator, Origin, RunError, TokenState};
use locker_tests::{Bench, Fate, held_by, record_of};

const LATE: Duration = Duration::from_secs(600);

/// A token whose owner was frozen past its expected completion, and the machine that takes over.
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

/// Call every verb of a late owner: each must return `LostOwnership` and change nothing.
async fn every_verb_is_refused(
    bench: &Bench,
    mut late: impl AsyncFnMut(&str) -> Lock,
    state: Option<TokenState>,
) {
    let large: String = (0..20_000).map(|_| fastrand::alphanumeric()).collect();
    for verb in ["complete", "complete large", "fail", "hold", "release", "extend"] {
        let key = format!("late/{}", verb.replace(' ', "-"));
        let lock = late(&key).await;
        let before = bench.items().await;
        let end = match verb {
            "complete" => lock.complete("mine").await,
            "complete large" => lock.complete(&large).await,
            "fail" => lock.fail("mine").await,
            "hold" => lock.hold("mine").await,
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
        Some(TokenState::InProgress),
    )
    .await;
    // The second owners are not affected.
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
        Some(TokenState::Completed),
    )
    .await;
    let (locker, _) = bench.machine();
    let record = record_of(&locker, "late/complete").await;
    assert_eq!(locker.answer(&record).await.expect("an answer").as_deref(), Some("\"second\""));
}

#[tokio::test]
async fn after_the_second_owner_released() {
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
async fn after_an_operator_resolved_it() {
    let bench = Bench::new().await;
    let operator = Operator::new("ada", "it was charged, the provider says").expect("an operator");
    every_verb_is_refused(
        &bench,
        async |key| {
            let (lock, second) = frozen(&bench, key).await;
            let record = record_of(&second, key).await;
            assert_eq!(
                second.resolve(&record, &"by hand".into(), &operator).await.expect("resolved"),
                Intervened::Done
            );
            lock
        },
        Some(TokenState::Completed),
    )
    .await;
}

#[tokio::test]
async fn after_an_operator_released_it() {
    let bench = Bench::new().await;
    let operator = Operator::new("ada", "it was never sent").expect("an operator");
    every_verb_is_refused(
        &bench,
        async |key| {
            let (lock, second) = frozen(&bench, key).await;
            let record = record_of(&second, key).await;
            assert_eq!(second.release(&record, &operator).await.expect("released"), Intervened::Done);
            lock
        },
        Some(TokenState::Released),
    )
    .await;
}

#[tokio::test]
async fn a_late_owner_without_a_successor_still_owns_its_token() {
    let bench = Bench::new().await;
    let (lock, _) = frozen(&bench, "late/alone").await;
    let lock = lock.extend(Duration::from_secs(60)).await.expect("not taken over");
    lock.complete("done").await.expect("still held");
}

#[tokio::test]
async fn a_late_release_without_a_reply_is_not_confused_with_the_release_of_the_next_owner() {
    let bench = Bench::new().await;
    let (first, wire) = bench.machine_with(|settings| {
        settings.attempt_timeout = Duration::from_secs(30);
        settings.give_up_after = Duration::from_secs(60);
    });
    let (second, _) = bench.machine();
    for (round, begun_anew) in [false, true].into_iter().enumerate() {
        let key = format!("late/{begun_anew}");
        let lock = held_by(first.token(&key).expect_within(Duration::from_secs(60))).await;
        bench.clock.advance(LATE);
        wire.next([Fate::Lost, Fate::HeldBefore]);
        let release = tokio::spawn(lock.release());
        while wire.held() == round {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        // While the retry waits, another owner takes over, and releases too.
        take_over(&second, &key).await.release().await.expect("released");
        let held = if begun_anew { Some(held_by(second.token(&key)).await) } else { None };
        wire.let_through();
        let end = release.await.expect("no panic").expect_err("unknown");
        assert!(matches!(end.error(), Error::Unknown { .. }), "{end:?}");
        if let Some(lock) = held {
            lock.complete("done").await.expect("still held");
        }
    }
}

/// The work left its token in doubt, after an operator had resolved it.
#[tokio::test]
async fn doubt_of_a_resolved_token_is_not_recorded() {
    let bench = Bench::new().await;
    let (locker, _) = bench.machine();
    let operator = Operator::new("ada", "it was charged, the provider says").expect("an operator");
    let work = async |_| {
        bench.clock.advance(LATE);
        let record = record_of(&locker, "late").await;
        let resolved = locker.resolve(&record, &"by hand".into(), &operator).await.expect("an answer");
        assert_eq!(resolved, Intervened::Done);
        Err::<String, _>(Failure::in_doubt("no reply".to_owned()))
    };
    let ran = locker.token("late").run(work).await;
    let Err(RunError::Failed { class: Class::InDoubt, origin: Origin::Unrecorded(end), .. }) = &ran else {
        panic!("{ran:?}")
    };
    assert!(matches!(end.error(), Error::LostOwnership { record: Some(_), .. }), "{end:?}");
}
