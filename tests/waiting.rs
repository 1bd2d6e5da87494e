//! A second caller may wait for the first one's answer instead of being refused.

use std::time::Duration;

use locker::{Begun, Failure};
use locker_tests::{Bench, held_by};

const PATIENCE: Duration = Duration::from_secs(30);

#[tokio::test(start_paused = true)]
async fn it_gets_the_answer_when_it_comes() {
    let bench = Bench::new().await;
    let (locker, _) = bench.machine();
    let lock = held_by(locker.token("wait/answer")).await;
    let (other, wire) = bench.machine();
    let waiting = tokio::spawn(async move { other.token("wait/answer").wait_for(PATIENCE).begin().await });
    while wire.count() < 3 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    lock.complete("done").await.expect("completed");
    let begun = waiting.await.expect("no panic").expect("an answer");
    let Begun::Completed(replay) = begun else { panic!("{begun:?}") };
    assert_eq!(replay.result::<String>().expect("text"), "done");
    // It polled with reads, which are cheaper than another refused put.
    let looks: Vec<_> = wire.take().into_iter().map(|exchange| exchange.operation).collect();
    assert_eq!(looks[0], "PutItem");
    assert!(looks[1..].iter().all(|operation| operation == "GetItem"), "{looks:?}");
}

#[tokio::test(start_paused = true)]
async fn it_acquires_the_token_when_the_first_caller_releases_it() {
    let bench = Bench::new().await;
    let (locker, _) = bench.machine();
    let lock = held_by(locker.token("wait/released")).await;
    let (other, _) = bench.machine();
    let waiting = tokio::spawn(async move {
        other.token("wait/released").wait_for(PATIENCE).run(async |_| Ok::<_, Failure>(7)).await
    });
    tokio::time::sleep(Duration::from_millis(50)).await;
    lock.release().await.expect("released");
    let answer = waiting.await.expect("no panic").expect("an answer");
    assert_eq!((*answer, answer.is_replay()), (7, false));
}

#[tokio::test(start_paused = true)]
async fn it_stops_waiting_when_its_time_is_up() {
    let bench = Bench::new().await;
    let (locker, _) = bench.machine();
    let _lock = held_by(locker.token("wait/ends")).await;
    let begun =
        locker.token("wait/ends").wait_for(Duration::from_millis(200)).begin().await.expect("an answer");
    assert!(matches!(begun, Begun::InProgress(_)), "{begun:?}");
}

#[tokio::test(start_paused = true)]
async fn it_takes_over_when_the_work_becomes_overdue_while_it_waits() {
    let bench = Bench::new().await;
    let (locker, _) = bench.machine();
    let _lock = held_by(locker.token("wait/overdue").expect_within(Duration::from_secs(60))).await;
    let (other, wire) = bench.machine();
    let waiting = tokio::spawn(async move {
        other.token("wait/overdue").take_over_after(Duration::ZERO).wait_for(PATIENCE).begin().await
    });
    while wire.count() < 2 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    bench.clock.advance(Duration::from_secs(600));
    let begun = waiting.await.expect("no panic").expect("an answer");
    let Begun::Acquired(lock) = begun else { panic!("{begun:?}") };
    assert!(lock.attempt().took_over());
}

#[tokio::test(start_paused = true)]
async fn work_that_goes_on_is_kept_from_being_overdue() {
    let bench = Bench::new().await;
    let (locker, _) = bench.machine();
    let token = locker.token("wait/extended").expect_within(Duration::from_secs(1)).keep_extended();
    let clock = bench.clock.clone();
    let answer = token
        .run(async |_| {
            for _ in 0..4 {
                clock.advance(Duration::from_millis(500));
                tokio::time::sleep(Duration::from_millis(500)).await;
                let overdue = locker.overdue().fetch().await.expect("a listing");
                assert_eq!(overdue.items.len(), 0);
            }
            Ok::<_, Failure>("done".to_owned())
        })
        .await
        .expect("an answer");
    assert_eq!(*answer, "done");
}

/// The clocks of others decide whether the token is overdue.
#[tokio::test(start_paused = true)]
async fn work_stays_extended_while_the_clock_of_its_owner_is_set_back() {
    let bench = Bench::new().await;
    let own = bench.clock.behind(Duration::ZERO);
    let owner = bench.locker(&bench.client, &own, |_| {});
    let (other, _) = bench.machine();
    let token = owner.token("wait/set/back").expect_within(Duration::from_secs(1)).keep_extended();
    let answer = token
        .run(async |_| {
            own.set(locker::Clock::now(&own) - chrono::TimeDelta::hours(1));
            for _ in 0..8 {
                bench.clock.advance(Duration::from_millis(500));
                tokio::time::sleep(Duration::from_millis(500)).await;
                let overdue = other.overdue().fetch().await.expect("a listing");
                assert_eq!(overdue.items.len(), 0);
            }
            Ok::<_, Failure>("done".to_owned())
        })
        .await
        .expect("an answer");
    assert_eq!(*answer, "done");
}

#[tokio::test(start_paused = true)]
async fn no_token_is_acquired_after_the_deadline() {
    let bench = Bench::new().await;
    let (locker, _) = bench.machine();
    let lock = held_by(locker.token("wait/deadline")).await;
    let (other, wire) = bench.machine();
    let deadline = locker::Clock::now(&bench.clock) + Duration::from_secs(30);
    let waiting = tokio::spawn(async move {
        other.token("wait/deadline").deadline(deadline).wait_for(Duration::from_secs(600)).begin().await
    });
    while wire.count() < 2 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    bench.clock.advance(Duration::from_secs(31));
    lock.release().await.expect("released");
    let error = waiting.await.expect("no panic").expect_err("there is no time left to work");
    assert_eq!(
        error.to_string(),
        "could not begin: the deadline has passed; nothing was written, call again with more time"
    );
    assert!(bench.item("wait/deadline").await.is_none());
}

#[tokio::test(start_paused = true)]
async fn work_is_due_at_the_deadline_however_long_the_caller_waited() {
    let bench = Bench::new().await;
    let (locker, _) = bench.machine();
    let lock = held_by(locker.token("wait/due")).await;
    let (other, wire) = bench.machine();
    let deadline = locker::Clock::now(&bench.clock) + Duration::from_secs(900);
    let waiting = tokio::spawn(async move {
        other.token("wait/due").deadline(deadline).wait_for(Duration::from_secs(600)).begin().await
    });
    while wire.count() < 2 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    bench.clock.advance(Duration::from_secs(600));
    lock.release().await.expect("released");
    let Begun::Acquired(lock) = waiting.await.expect("no panic").expect("an answer") else {
        panic!("not acquired")
    };
    assert_eq!(lock.due(), deadline + Duration::from_secs(5), "the deadline, and the allowance for skew");
}

#[tokio::test(start_paused = true)]
async fn a_probe_that_refuses_is_not_asked_at_every_poll() {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};
    let bench = Bench::new().await;
    let (locker, wire) = bench.machine();
    let _lock = held_by(locker.token("wait/probe").expect_within(Duration::from_secs(60))).await;
    bench.clock.advance(Duration::from_secs(600));
    let asked = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&asked);
    wire.take();
    let begun = locker
        .token("wait/probe")
        .wait_for(Duration::from_secs(3))
        .take_over_if(Duration::ZERO, move |_| {
            count.fetch_add(1, Ordering::SeqCst);
            async { Ok(locker::Probed::Unsafe) }
        })
        .begin()
        .await
        .expect("an answer");
    assert!(matches!(begun, Begun::InProgress(_)), "{begun:?}");
    assert_eq!(asked.load(Ordering::SeqCst), 1);
    let writes = wire.take().into_iter().filter(|exchange| exchange.operation == "PutItem").count();
    assert_eq!(writes, 1);
}
