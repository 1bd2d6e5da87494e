//! Promise 8: taking over is a choice, per call: never, after a grace, or after a probe says that
//! it is safe. It is decided inside the condition, never after a read.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use locker::{Begun, Error, Probed};
use locker_tests::{Bench, MINUTE, held_by, record_of};

const SKEW: Duration = Duration::from_secs(5);

#[tokio::test(start_paused = true)]
async fn never_unless_it_was_chosen() {
    let bench = Bench::new().await;
    let (locker, _) = bench.machine();
    let _first = held_by(locker.token("over/never").expect_within(MINUTE)).await;
    bench.clock.advance(MINUTE * 60 * 24 * 365);
    let begun = locker.token("over/never").begin().await.expect("an answer");
    let Begun::InProgress(holder) = begun else { panic!("{begun:?}") };
    assert_eq!(holder.locked_by(), "test/machine");
    assert_eq!(holder.due() - holder.since(), chrono::TimeDelta::minutes(1));
    assert_eq!(holder.retry_after(), MINUTE, "it grows with the age of the work");
}

#[tokio::test(start_paused = true)]
async fn after_the_grace_and_the_allowance_for_skew_and_no_sooner() {
    let bench = Bench::new().await;
    let (locker, _) = bench.machine();
    let first = held_by(locker.token("over/grace").expect_within(MINUTE)).await;
    let second = || locker.token("over/grace").owner("the/second").take_over_after(MINUTE);
    bench.clock.advance(MINUTE + MINUTE + SKEW);
    let begun = second().begin().await.expect("an answer");
    assert!(matches!(begun, Begun::InProgress(_)), "one millisecond early: {begun:?}");
    bench.clock.advance(Duration::from_millis(1));
    let lock = held_by(second()).await;
    assert_eq!(lock.predecessor().expect("a predecessor").attempt(), Some(first.attempt().id()));
    let record = record_of(&locker, "over/grace").await;
    assert_eq!(record.taken_over_from(), Some(first.attempt().id()));
    assert_eq!(record.locked_by(), "the/second");
    lock.complete("second").await.expect("completed");
}

#[tokio::test(start_paused = true)]
async fn a_machine_whose_clock_is_ahead_does_not_take_over_early() {
    let bench = Bench::new().await;
    let (behind, _) = bench.machine();
    let _first = held_by(behind.token("over/skew").expect_within(MINUTE)).await;
    // Just before it is due by the owner's clock, by a clock that is 5 seconds ahead.
    bench.clock.advance(MINUTE + SKEW);
    let (ahead, _) = bench.machine();
    let begun = ahead.token("over/skew").take_over_after(Duration::ZERO).begin().await.expect("an answer");
    assert!(matches!(begun, Begun::InProgress(_)), "{begun:?}");
}

#[tokio::test(start_paused = true)]
async fn an_owner_that_extends_at_the_last_moment_keeps_its_token() {
    let bench = Bench::new().await;
    let (locker, _) = bench.machine();
    let first = held_by(locker.token("over/race").expect_within(MINUTE)).await;
    bench.clock.advance(MINUTE * 2);
    // The probe runs between the read and the write.
    let slot = Arc::new(tokio::sync::Mutex::new(Some(first)));
    let owner = Arc::clone(&slot);
    let taking = locker.token("over/race").take_over_if(Duration::ZERO, move |_| {
        let owner = Arc::clone(&owner);
        async move {
            let mut owner = owner.lock().await;
            if let Some(lock) = owner.take() {
                *owner = Some(lock.extend(MINUTE * 5).await.expect("still held"));
            }
            Ok(Probed::Safe)
        }
    });
    let begun = taking.begin().await.expect("an answer");
    assert!(matches!(begun, Begun::InProgress(_)), "{begun:?}");
    let first = slot.lock().await.take().expect("the first lock");
    first.complete("first").await.expect("still held");
}

#[tokio::test(start_paused = true)]
async fn the_probe_decides_and_is_asked_only_when_it_matters() {
    let bench = Bench::new().await;
    let (locker, _) = bench.machine();
    let asked = Arc::new(AtomicU32::new(0));
    let probing = |probed: Result<Probed, &'static str>| {
        let asked = Arc::clone(&asked);
        locker.token("over/probe").take_over_if(MINUTE, move |record| {
            asked.fetch_add(1, Ordering::SeqCst);
            async move {
                assert_eq!(record.key().as_str(), "over/probe");
                probed.map_err(Into::into)
            }
        })
    };
    let _first = held_by(locker.token("over/probe").expect_within(MINUTE)).await;
    let early = probing(Ok(Probed::Safe)).begin().await.expect("an answer");
    assert!(matches!(early, Begun::InProgress(_)), "{early:?}");
    assert_eq!(asked.load(Ordering::SeqCst), 0);

    bench.clock.advance(MINUTE * 3);
    let no = probing(Ok(Probed::Unsafe)).begin().await.expect("an answer");
    assert!(matches!(no, Begun::InProgress(_)), "{no:?}");
    let error = probing(Err("the provider is down")).begin().await.expect_err("no answer");
    assert!(matches!(error, Error::Probe { .. }), "{error:?}");
    let lock = held_by(probing(Ok(Probed::Safe))).await;
    assert_eq!(asked.load(Ordering::SeqCst), 3);
    lock.complete("second").await.expect("completed");
}

#[tokio::test(start_paused = true)]
async fn of_many_that_try_to_take_over_one_does() {
    let bench = Bench::new().await;
    let (locker, _) = bench.machine();
    let _first = held_by(locker.token("over/many").expect_within(MINUTE)).await;
    bench.clock.advance(MINUTE * 10);
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..16 {
        let (locker, _) = bench.machine();
        tasks.spawn(async move {
            locker.token("over/many").take_over_after(Duration::ZERO).begin().await.expect("an answer")
        });
    }
    let begun = tasks.join_all().await;
    assert_eq!(begun.iter().filter(|begun| matches!(begun, Begun::Acquired(_))).count(), 1);
    assert_eq!(begun.iter().filter(|begun| matches!(begun, Begun::InProgress(_))).count(), 15);
}

#[tokio::test(start_paused = true)]
async fn a_lost_reply_to_a_takeover_is_recognised() {
    use locker_tests::Fate::{ErrorAfter, Lost, Ok, ReplyLost, Throttled};
    let bench = Bench::new().await;
    for (number, fault) in [ReplyLost, Lost, ErrorAfter, Throttled].into_iter().enumerate() {
        let (locker, wire) = bench.machine();
        let first = held_by(locker.token(("over/lost", number)).expect_within(MINUTE)).await;
        bench.clock.advance(MINUTE * 2);
        wire.next([Ok, fault, fault]);
        let lock = held_by(locker.token(("over/lost", number)).take_over_after(Duration::ZERO)).await;
        let predecessor = lock.predecessor().and_then(|record| record.attempt().map(str::to_owned));
        assert_eq!(predecessor.as_deref(), Some(first.attempt().id()), "{fault:?}");
        lock.complete("second").await.expect("completed");
    }
}
