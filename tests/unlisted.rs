//! A token whose effects have records of their own is in no listing, until nobody else has the
//! record.

use std::time::Duration;

use locker::{BeginBuilder, Begun, Clock as _, Failure, Lock, Locker, Retention, TokenState};
use locker_tests::{Bench, Fate, MINUTE, held_by, record_of};

/// Past the due time of a minute and the allowance for clock skew.
const LATE: Duration = Duration::from_secs(66);

fn unlisted(locker: &Locker, key: &str) -> BeginBuilder {
    locker.token(key).expect_within(MINUTE).take_over_after(Duration::ZERO).unlisted()
}

/// The keys in every listing and in the scanner's report.
async fn listed(locker: &Locker) -> Vec<String> {
    let mut keys = Vec::new();
    for list in [locker.in_progress(), locker.overdue(), locker.held()] {
        keys.extend(list.fetch().await.expect("a listing").items.into_iter().map(|token| token.token));
    }
    let report = locker::Scanner::new(locker).run().await.expect("a scan");
    keys.extend(report.missing.iter().map(|record| record.key().as_str().to_owned()));
    keys.sort();
    keys.dedup();
    keys
}

async fn taken_over(locker: &Locker, key: &str) -> Lock {
    let begun = unlisted(locker, key).begin().await.expect("an answer");
    let Begun::Acquired(lock) = begun else { panic!("not taken over: {begun:?}") };
    assert!(lock.attempt().took_over());
    lock
}

#[tokio::test(start_paused = true)]
async fn unlisted_token_of_a_killed_owner_resumes_without_listing() {
    for shards in [1, 4] {
        let bench = Bench::new().await;
        let locker = bench.machine_with(|settings| settings.shards = shards).0;
        drop(held_by(unlisted(&locker, "outer/1")).await);
        assert!(matches!(unlisted(&locker, "outer/1").begin().await, Ok(Begun::InProgress(_))));
        bench.clock.advance(LATE);
        assert_eq!(listed(&locker).await, [""; 0]);
        let record = record_of(&locker, "outer/1").await;
        assert!(!record.is_listed() && record.state() == TokenState::InProgress);
        drop(taken_over(&locker, "outer/1").await);
        bench.clock.advance(LATE);
        assert_eq!(listed(&locker).await, [""; 0], "taken over, it is unlisted again");
        taken_over(&locker, "outer/1").await.complete("done").await.expect("completed");
        assert!(matches!(unlisted(&locker, "outer/1").begin().await, Ok(Begun::Completed(_))));
    }
}

#[tokio::test(start_paused = true)]
async fn a_doubt_and_a_held_failure_are_listed_and_do_not_expire() {
    let bench = Bench::new().await;
    let locker = bench.machine_with(|settings| settings.shards = 4).0;
    held_by(unlisted(&locker, "outer/doubt")).await.leave_in_doubt("no reply").await;
    held_by(unlisted(&locker, "outer/held")).await.hold("550 relay denied").await.expect("held");
    assert_eq!(listed(&locker).await, ["outer/doubt", "outer/held"]);
    for key in ["outer/doubt", "outer/held"] {
        let record = record_of(&locker, key).await;
        assert_eq!((record.is_listed(), record.expires()), (true, None), "{key}");
    }
    assert_eq!(listed(&locker).await.len(), 2);
}

/// The reply to the takeover is lost, and the token is read back.
#[tokio::test(start_paused = true)]
async fn doubt_that_is_taken_over_without_a_reply_does_not_expire() {
    let bench = Bench::new().await;
    let (locker, wire) = bench.machine();
    held_by(unlisted(&locker, "outer/lost")).await.leave_in_doubt("no reply").await;
    bench.clock.advance(LATE);
    wire.next([Fate::Ok, Fate::ReplyLost]);
    let lock = taken_over(&locker, "outer/lost").await;
    drop(lock.extend(MINUTE * 60).await.expect("extended"));
    let record = record_of(&locker, "outer/lost").await;
    assert_eq!((record.is_listed(), record.expires()), (true, None));
}

#[tokio::test(start_paused = true)]
async fn unlisted_token_released_by_a_takeover_stays_unlisted() {
    let bench = Bench::new().await;
    let (locker, _) = bench.machine();
    drop(held_by(unlisted(&locker, "outer/back")).await);
    bench.clock.advance(LATE);
    let run =
        unlisted(&locker, "outer/back").run(async |_| Err::<(), _>(Failure::transient("busy".to_owned())));
    run.await.expect_err("the work failed");
    assert_eq!(listed(&locker).await, [""; 0]);
    assert!(record_of(&locker, "outer/back").await.expires().is_some());
    taken_over(&locker, "outer/back").await.complete("done").await.expect("completed");
}

#[tokio::test(start_paused = true)]
async fn it_expires_a_week_after_it_is_due() {
    let bench = Bench::new().await;
    let (locker, _) = bench.machine();
    let key = "outer/ttl";
    let lock = held_by(unlisted(&locker, key).retention(Retention::Forever)).await;
    let week = chrono::TimeDelta::days(7);
    let kept = async || {
        let record = record_of(&locker, key).await;
        record.expires().expect("a ttl") - record.expected_completion()
    };
    let second = chrono::TimeDelta::seconds(1);
    assert!(kept().await > week - second && kept().await <= week + second);
    let lock = lock.extend(Duration::from_secs(3600)).await.expect("extended");
    assert!(kept().await > week - second && kept().await <= week + second);
    assert!(
        record_of(&locker, key).await.expected_completion()
            > bench.clock.now() + chrono::TimeDelta::minutes(59)
    );
    lock.complete("done").await.expect("completed");
    assert_eq!(record_of(&locker, key).await.expires(), None, "kept for ever, as it was begun");

    let listed = held_by(locker.token("outer/listed")).await;
    let listed = listed.extend(Duration::from_secs(3600)).await.expect("extended");
    assert_eq!(record_of(&locker, "outer/listed").await.expires(), None);
    listed.complete("done").await.expect("completed");
}

#[tokio::test(start_paused = true)]
async fn a_doubt_is_written_until_it_is_stored() {
    let bench = Bench::new().await;
    for fault in [Fate::Throttled, Fate::Lost, Fate::ReplyLost, Fate::ErrorBefore] {
        let (locker, wire) = bench.machine();
        let key = format!("outer/{fault:?}");
        let lock = held_by(unlisted(&locker, &key)).await;
        wire.next([fault, fault]);
        lock.leave_in_doubt("POST /charges was sent, no reply").await;
        assert!(listed(&locker).await.contains(&key), "{fault:?}");
        assert_eq!(record_of(&locker, &key).await.expires(), None, "{fault:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn it_takes_a_takeover_and_no_age_of_a_key() {
    let bench = Bench::new().await;
    let (locker, wire) = bench.machine();
    wire.take();
    let stays = locker.token("outer/stays").unlisted();
    let ages = unlisted(&locker, "outer/ages").recognised_for(Duration::from_secs(86_400));
    for begin in [stays, ages] {
        let error = begin.begin().await.expect_err("it is refused");
        let said = "an unlisted token needs take_over_after or take_over_if, and cannot have recognised_for";
        assert!(error.to_string().ends_with(said), "{error}");
    }
    assert_eq!(wire.count(), 0, "nothing was sent");
}

#[tokio::test(start_paused = true)]
async fn a_doubt_that_was_listed_stays_listed_when_a_takeover_gives_it_back() {
    let bench = Bench::new().await;
    let (locker, _) = bench.machine();
    for (how, first) in [
        ("listed-caller", locker.token("t/listed-caller").expect_within(MINUTE)),
        ("unlisted-caller", unlisted(&locker, "t/unlisted-caller")),
    ] {
        let key = &format!("t/{how}");
        held_by(first).await.leave_in_doubt("POST /charges was sent, no reply").await;
        assert!(listed(&locker).await.contains(key), "{how}");
        bench.clock.advance(LATE);
        let run = unlisted(&locker, key)
            .run(async |_| Err::<(), _>(Failure::transient("connection refused".to_owned())));
        run.await.expect_err("the work failed");
        let record = record_of(&locker, key).await;
        assert!(record.is_in_doubt());
        let seen = listed(&locker).await;
        assert!(
            seen.contains(key) && record.expires().is_none(),
            "{how}: in doubt={}, is_listed={}, listings={seen:?}, deleted at {:?}, cause={:?}",
            record.is_in_doubt(),
            record.is_listed(),
            record.expires(),
            record.cause()
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_doubt_that_was_listed_stays_listed_when_the_process_that_took_it_over_dies() {
    let bench = Bench::new().await;
    let (locker, _) = bench.machine();
    let key = "t";
    held_by(unlisted(&locker, key)).await.leave_in_doubt("POST /charges was sent, no reply").await;
    assert_eq!(listed(&locker).await, [key]);
    bench.clock.advance(LATE);
    drop(taken_over(&locker, key).await);
    bench.clock.advance(LATE);
    let seen = listed(&locker).await;
    let record = record_of(&locker, key).await;
    assert_eq!((seen, record.expires()), (vec![key.to_owned()], None));
    assert_eq!(record.cause(), Some("POST /charges was sent, no reply"));
}
