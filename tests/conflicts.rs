//! Promise 9: a conflict is not an answer. Throttling, transaction conflicts, timeouts and errors
//! of the server are never interpreted as "completed", "absent" or "not acquired".

use std::time::Duration;

use locker::{Begun, Error};
use locker_tests::{Bench, Fate, held_by};

const FAULTS: [Fate; 6] =
    [Fate::Throttled, Fate::Conflict, Fate::Lost, Fate::ReplyLost, Fate::ErrorBefore, Fate::ErrorAfter];

#[tokio::test(start_paused = true)]
async fn a_conflict_that_passes_is_retried() {
    let bench = Bench::new().await;
    for fault in FAULTS {
        let (locker, wire) = bench.machine();
        let key = format!("passes/{fault:?}");
        wire.next([fault; 3]);
        let lock = held_by(locker.token(&key)).await;
        wire.next([fault; 3]);
        lock.complete("done").await.expect("completed");
        wire.next([fault; 3]);
        let begun = locker.token(&key).begin().await.expect("an answer");
        assert!(matches!(begun, Begun::Completed(_)), "{fault:?}: {begun:?}");
        wire.next([fault; 3]);
        assert!(locker.get(&key).await.expect("an answer").is_some(), "{fault:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_conflict_that_does_not_pass_is_an_error_and_nothing_was_written() {
    let bench = Bench::new().await;
    for fault in [Fate::Throttled, Fate::Conflict] {
        let (locker, wire) = bench.impatient_machine();
        let key = format!("stays/{fault:?}");
        wire.always(fault);
        let error = locker.token(&key).begin().await.expect_err("no answer");
        assert!(
            matches!(error, Error::Unavailable { verb: "begin", tries: 2.., .. }),
            "{fault:?}: {error:?}"
        );
        let error = locker.token(&key).read_first().begin().await.expect_err("no answer");
        assert!(matches!(error, Error::Unavailable { .. }), "{fault:?}: {error:?}");
        assert!(bench.item(&key).await.is_none(), "{fault:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_certainly_was_not_ended_comes_back() {
    let bench = Bench::new().await;
    for fault in [Fate::Throttled, Fate::Conflict, Fate::Denied] {
        let (locker, wire) = bench.impatient_machine();
        let lock = held_by(locker.token(format!("back/{fault:?}"))).await;
        wire.always(fault);
        let end = lock.complete("done").await.expect_err("not stored");
        let end = end.again().await.expect_err("there is nothing to send again");
        wire.next([]);
        end.into_lock().expect("the lock").complete("done").await.expect("completed");
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_never_answers_ends_in_time() {
    let bench = Bench::new().await;
    let (locker, wire) = bench.impatient_machine();
    wire.always(Fate::Hangs);
    let call = locker.token("hangs").begin();
    let error =
        tokio::time::timeout(Duration::from_secs(30), call).await.expect("in time").expect_err("no answer");
    assert!(matches!(error, Error::Unknown { .. }), "{error:?}");
}

#[tokio::test(start_paused = true)]
async fn the_callers_deadline_bounds_the_tries() {
    let bench = Bench::new().await;
    let (locker, wire) = bench.machine();
    wire.always(Fate::Throttled);
    // The settings would go on for 20 seconds.
    let deadline = locker::Clock::now(&bench.clock) + Duration::from_millis(300);
    let call = locker.token("deadline").deadline(deadline).begin();
    let error =
        tokio::time::timeout(Duration::from_secs(10), call).await.expect("in time").expect_err("no answer");
    assert!(matches!(error, Error::Unavailable { .. }), "{error:?}");
}
