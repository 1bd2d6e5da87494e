//! A restored table has forgotten its latest writes. Older requests are held for an operator.

use std::time::Duration;

use chrono::{DateTime, Utc};
use locker::{
    BeginBuilder, Begun, Class, Clock as _, Error, Failure, Intervened, Locker, Probed, RunError, TokenState,
};
use locker_tests::{Bench, Fate, HOUR, MINUTE, Provider, ada, held_by, record_of};

/// A table that was restored now: a copy of `bench` from an hour ago, in the same bench.
struct Restored {
    bench: Bench,
    end: DateTime<Utc>,
    before: DateTime<Utc>,
    after: DateTime<Utc>,
}

impl Restored {
    /// `snapshot` writes what the backup contains.
    async fn new(snapshot: impl AsyncFnOnce(&Bench)) -> Self {
        let bench = Bench::new().await;
        snapshot(&bench).await;
        let before = bench.clock.now();
        bench.clock.advance(HOUR);
        let end = bench.clock.now();
        bench.clock.advance(MINUTE);
        let after = bench.clock.now();
        Self { bench, end, before, after }
    }

    fn closed(&self) -> Locker {
        self.bench.machine_with(|settings| settings.restored = Some(self.end)).0
    }

    fn open(&self) -> Locker {
        self.bench.machine().0
    }
}

async fn empty(_: &Bench) {}

async fn outcome(token: BeginBuilder) -> String {
    match token.begin().await.expect("an answer") {
        Begun::Acquired(lock) => {
            drop(lock);
            "acquired".to_owned()
        }
        Begun::Restored(record) => format!("restored, {}", record.state().as_str()),
        other => format!("{other:?}").split('(').next().unwrap_or_default().to_lowercase(),
    }
}

/// An hour of charges is lost with the table. Their callers retry, and no card is charged twice.
#[tokio::test(start_paused = true)]
async fn an_hour_of_retries_charges_nobody_twice() {
    let provider = Provider::default();
    let charge = async |locker: &Locker, key: String, at: DateTime<Utc>| {
        let token = locker.token(&key).requested_at(at);
        token.run(async |_| Ok::<_, Failure>(provider.charge(&key))).await
    };
    let bench = Bench::new().await;
    let locker = bench.machine().0;
    let mut requests = Vec::new();
    for number in 0..30 {
        requests.push((format!("order/{number}"), bench.clock.now()));
        charge(&locker, format!("order/{number}"), bench.clock.now()).await.expect("a charge");
        bench.clock.advance(2 * MINUTE);
    }
    // The backup is from the middle of the hour.
    for number in 15..30 {
        bench.delete(&format!("order/{number}")).await;
    }
    let end = bench.clock.now();
    bench.clock.advance(MINUTE);
    let restored = bench.machine_with(|settings| settings.restored = Some(end)).0;
    let mut replayed = 0;
    for (key, at) in &requests {
        for _ in 0..3 {
            match charge(&restored, key.clone(), *at).await {
                Ok(answer) => replayed += usize::from(answer.is_replay()),
                Err(RunError::Restored(record)) => assert!(record.is_held_by_restore()),
                Err(error) => panic!("{key}: {error}"),
            }
        }
    }
    assert_eq!(replayed, 45);
    for (key, _) in &requests {
        assert_eq!(provider.charges(key), 1, "{key}");
    }
    // Each of them waits for an operator, and the scanner counts them.
    let report = locker::Scanner::new(&restored).run().await.expect("a scan");
    assert_eq!(report.held.as_ref().map(|held| held.at_least), Some(15), "{report:?}");
    // A new order is charged.
    let new = charge(&restored, "order/new".to_owned(), bench.clock.now()).await;
    assert!(new.is_ok_and(|answer| !answer.is_replay()));
}

#[tokio::test(start_paused = true)]
async fn the_time_of_a_request_decides_and_no_time_is_old() {
    let table = Restored::new(empty).await;
    let closed = table.closed();
    let skew = Duration::from_secs(5);
    for (number, (at, expected)) in [
        (None, "restored, held"),
        (Some(table.before), "restored, held"),
        (Some(table.end), "restored, held"),
        (Some(table.end + skew), "restored, held"),
        (Some(table.end + skew + Duration::from_millis(1)), "acquired"),
        (Some(table.after), "acquired"),
    ]
    .into_iter()
    .enumerate()
    {
        let mut token = closed.token(("request", number));
        if let Some(at) = at {
            token = token.requested_at(at);
        }
        assert_eq!(outcome(token.clone()).await, expected, "{at:?}");
        if expected != "acquired" {
            // Also for a later caller of the key, and after the table was opened.
            assert_eq!(outcome(token.requested_at(table.after)).await, expected);
            assert_eq!(outcome(table.open().token(("request", number))).await, expected);
        }
    }
    assert_eq!(outcome(table.open().token("request/other")).await, "acquired");
}

#[tokio::test(start_paused = true)]
async fn held_request_shows_its_cause_and_takes_two_requests() {
    let table = Restored::new(empty).await;
    let (closed, wire) = table.bench.machine_with(|settings| settings.restored = Some(table.end));
    assert_eq!(outcome(closed.token("t").requested_at(table.before)).await, "restored, held");
    assert_eq!(wire.count(), 2);
    let record = record_of(&closed, "t").await;
    assert_eq!((record.state(), record.class()), (TokenState::Held, Some(Class::InDoubt)));
    assert!(record.cause().is_some_and(|cause| cause.contains("may have forgotten this work")), "{record:?}");
    assert!(record.is_listed() && record.expires().is_none());
}

/// Each fault, at each request of a begin of an old key, of a released key and of unfinished work.
#[tokio::test(start_paused = true)]
async fn no_fault_lets_an_old_request_through() {
    use Fate::{ErrorAfter, ErrorBefore, Garbled, Lost, ReplyLost, Throttled, UnavailableAfter};
    let faults = [ReplyLost, Lost, ErrorAfter, ErrorBefore, UnavailableAfter, Garbled, Throttled];
    let table = Restored::new(async |bench| {
        let locker = bench.machine().0;
        for number in 0..64 {
            let token = locker.token(("released", number)).expect_within(MINUTE);
            held_by(token).await.hold("no").await.expect("held");
            let record = record_of(&locker, &format!("released/{number}")).await;
            assert_eq!(locker.release(&record, &ada()).await.expect("released"), Intervened::Done);
            drop(held_by(locker.token(("unfinished", number)).expect_within(MINUTE)).await);
        }
    })
    .await;
    let mut number = 0;
    for fault in faults {
        for faulty in 0..4 {
            let (locker, wire) = table.bench.machine_with(|settings| settings.restored = Some(table.end));
            for name in ["absent", "released", "unfinished"] {
                let token = || locker.token((name, number)).requested_at(table.before);
                wire.next(std::iter::repeat_n(Fate::Ok, faulty).chain([fault, fault]));
                let first = outcome(token().take_over_after(Duration::ZERO)).await;
                assert_eq!(first, "restored, held", "{name}: {fault:?} at {faulty}");
                wire.next([]);
                assert_eq!(outcome(token()).await, first, "{name}: {fault:?} at {faulty}");
                assert!(record_of(&locker, &format!("{name}/{number}")).await.is_held_by_restore());
            }
            number += 1;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn records_of_the_backup_keep_their_outcomes() {
    let table = Restored::new(async |bench| {
        let locker = bench.machine().0;
        held_by(locker.token("completed")).await.complete(&1).await.expect("an end");
        held_by(locker.token("failed")).await.fail(&1).await.expect("an end");
        held_by(locker.token("held")).await.hold(&1).await.expect("an end");
        drop(held_by(locker.token("dead")).await);
    })
    .await;
    let closed = table.closed();
    for (key, expected) in
        [("completed", "completed"), ("failed", "failed"), ("held", "held"), ("dead", "inprogress")]
    {
        assert_eq!(outcome(closed.token(key)).await, expected, "{key}");
    }
}

#[tokio::test(start_paused = true)]
async fn unfinished_work_of_the_backup_is_held_and_not_taken_over() {
    let begin = |locker: &Locker, key: &'static str| locker.token(key).expect_within(MINUTE);
    let table = Restored::new(async |bench| {
        let locker = bench.machine().0;
        for key in ["listed", "probed", "unlisted"] {
            let token = begin(&locker, key).take_over_after(Duration::ZERO);
            drop(held_by(if key == "unlisted" { token.unlisted() } else { token }).await);
        }
    })
    .await;
    let closed = table.closed();
    // Even a new request: its key is that of the unfinished work.
    for key in ["listed", "unlisted"] {
        let token = begin(&closed, key).take_over_after(Duration::ZERO).requested_at(table.after);
        assert_eq!(outcome(token).await, "restored, held", "{key}");
        assert!(record_of(&closed, key).await.is_listed(), "{key}");
    }
    // The probe asked the provider after the restore.
    let safe = async |_: locker::Record| Ok(Probed::Safe);
    let probed = begin(&closed, "probed").take_over_if(Duration::ZERO, safe);
    assert_eq!(outcome(probed).await, "acquired");
}

#[tokio::test(start_paused = true)]
async fn work_that_began_after_the_restore_is_taken_over() {
    let table = Restored::new(empty).await;
    let closed = table.closed();
    let token = || closed.token("t").expect_within(MINUTE).take_over_after(Duration::ZERO);
    drop(held_by(token().requested_at(table.after)).await);
    table.bench.clock.advance(HOUR);
    assert_eq!(outcome(token().requested_at(table.after)).await, "acquired");
}

#[tokio::test(start_paused = true)]
async fn an_operators_release_opens_the_key_until_its_work_has_ended() {
    let table = Restored::new(empty).await;
    let closed = table.closed();
    let token = || closed.token("t").requested_at(table.before);
    assert_eq!(outcome(token()).await, "restored, held");
    table.bench.clock.advance(MINUTE);
    let record = record_of(&closed, "t").await;
    assert_eq!(closed.release(&record, &ada()).await.expect("an answer"), Intervened::Done);
    // A failure that allows a retry does not close the key again.
    for _ in 0..3 {
        let ran = token().run(async |_| Err::<(), _>(Failure::transient("busy".to_owned()))).await;
        assert!(matches!(ran, Err(RunError::Failed { .. })), "{ran:?}");
    }
    // All that its work begins is part of the operator's decision.
    let inner = token().run(async |_| {
        let inner = closed.token("inner").run(async |_| Ok::<_, Failure>(7)).await;
        inner.map(|answer| *answer).map_err(|error| Failure::permanent(error.to_string()))
    });
    assert_eq!(*inner.await.expect("an answer"), 7);
}

#[tokio::test(start_paused = true)]
async fn a_release_from_before_the_restore_opens_nothing() {
    let table = Restored::new(async |bench| {
        let locker = bench.machine().0;
        held_by(locker.token("t")).await.leave_in_doubt("no reply").await;
        let record = record_of(&locker, "t").await;
        assert_eq!(locker.release(&record, &ada()).await.expect("an answer"), Intervened::Done);
    })
    .await;
    assert_eq!(outcome(table.closed().token("t").requested_at(table.before)).await, "restored, held");
}

#[tokio::test(start_paused = true)]
async fn an_operators_answer_is_replayed_and_there_is_no_failure_to_close() {
    let table = Restored::new(empty).await;
    let closed = table.closed();
    assert_eq!(outcome(closed.token("t")).await, "restored, held");
    let record = record_of(&closed, "t").await;
    assert_eq!(closed.close(&record, &ada()).await.expect("an answer"), Intervened::NotPossible);
    assert_eq!(closed.resolve(&record, &7.into(), &ada()).await.expect("an answer"), Intervened::Done);
    let ran = closed.token("t").run(async |_| Ok::<u32, Failure>(0)).await.expect("an answer");
    assert!(ran.is_replay());
    assert_eq!(*ran, 7);
}

#[tokio::test(start_paused = true)]
async fn work_inherits_the_time_of_the_request_that_it_is_part_of() {
    let table = Restored::new(empty).await;
    let closed = table.closed();
    let inner = async |key: &str| outcome(closed.token(("inner", key))).await;
    let run = async |key: &'static str, at: DateTime<Utc>| {
        let ran = closed.token(key).requested_at(at);
        ran.run(async |_| Ok::<_, Failure>(inner(key).await)).await.map(|answer| answer.into_inner())
    };
    assert_eq!(run("new", table.after).await.expect("an answer"), "acquired");
    assert!(matches!(run("old", table.before).await, Err(RunError::Restored(_))));
    assert!(record_of(&closed, "old").await.is_held_by_restore());
}

/// A key that was held by the restore and that an operator has released.
async fn released(table: &Restored, closed: &Locker, key: &'static str) -> BeginBuilder {
    let token = closed.token(key).requested_at(table.before).expect_within(MINUTE);
    assert_eq!(outcome(token.clone()).await, "restored, held");
    table.bench.clock.advance(MINUTE);
    let record = record_of(closed, key).await;
    assert_eq!(closed.release(&record, &ada()).await.expect("an answer"), Intervened::Done);
    token
}

/// The outcome of an old request inside the work of this token.
async fn inside(closed: &Locker, token: BeginBuilder, inner: &str, at: Option<DateTime<Utc>>) -> String {
    let mut inner = closed.token(("inner", inner));
    if let Some(at) = at {
        inner = inner.requested_at(at);
    }
    let ran = token.run(async move |_| Ok::<_, Failure>(outcome(inner).await)).await;
    ran.expect("an answer").into_inner()
}

#[tokio::test(start_paused = true)]
async fn time_that_the_work_sets_does_not_close_an_opened_key() {
    let table = Restored::new(empty).await;
    let closed = table.closed();
    let token = released(&table, &closed, "t").await;
    assert_eq!(inside(&closed, token, "old", Some(table.before)).await, "acquired");
    // Without an act of an operator, the older time counts.
    let new = closed.token("new").requested_at(table.after);
    assert_eq!(inside(&closed, new, "other", Some(table.before)).await, "restored, held");
}

#[tokio::test(start_paused = true)]
async fn takeover_of_opened_work_is_open_as_well() {
    let table = Restored::new(empty).await;
    let closed = table.closed();
    let token = released(&table, &closed, "t").await.take_over_after(Duration::ZERO);
    drop(held_by(token.clone()).await);
    table.bench.clock.advance(HOUR);
    assert_eq!(inside(&closed, token, "t", None).await, "acquired");
}

/// The table may have forgotten an attempt that gave the provider the key, once its request came.
#[tokio::test(start_paused = true)]
async fn key_of_forgotten_work_is_as_old_as_its_request() {
    for (hours, outcome_then) in [(22, "acquired"), (23, "inprogress")] {
        let table = Restored::new(empty).await;
        let token = released(&table, &table.closed(), "t").await.expect_within(MINUTE);
        let token = token.take_over_after(Duration::ZERO).recognised_for(24 * HOUR);
        drop(held_by(token.clone()).await);
        table.bench.clock.advance(hours * HOUR);
        assert_eq!(outcome(token).await, outcome_then, "{hours} hours after the hold");
    }
}

/// An operator allowed the work inside which the key is used.
#[tokio::test(start_paused = true)]
async fn key_inside_opened_work_is_as_old_as_its_request() {
    // A newer time may be that of the operator's act.
    for (is_old, hours, outcome_then) in
        [(true, 22, "acquired"), (true, 23, "inprogress"), (false, 1, "inprogress")]
    {
        let table = Restored::new(empty).await;
        let closed = table.closed();
        let outer = released(&table, &closed, "t").await;
        let inner = closed.token("inner").expect_within(MINUTE).take_over_after(Duration::ZERO);
        let inner = inner.recognised_for(24 * HOUR);
        let inner = inner.requested_at(if is_old { table.before } else { table.after });
        let begun = inner.clone();
        let ran = outer.run(async move |_| {
            drop(held_by(begun).await);
            Ok::<_, Failure>(())
        });
        ran.await.expect("an answer");
        table.bench.clock.advance(hours * HOUR);
        assert_eq!(outcome(inner).await, outcome_then, "{is_old}, after {hours} hours");
    }
}

#[tokio::test(start_paused = true)]
async fn lost_reply_does_not_close_an_opened_key() {
    let table = Restored::new(empty).await;
    let (closed, wire) = table.bench.machine_with(|settings| settings.restored = Some(table.end));
    let token = released(&table, &closed, "t").await;
    wire.next([Fate::Ok, Fate::ReplyLost]);
    assert_eq!(inside(&closed, token, "t", None).await, "acquired");
}

/// The work that the probe allows is that of the backup, and its inner work may be forgotten.
#[tokio::test(start_paused = true)]
async fn work_of_the_backup_stays_old_after_a_takeover_by_a_new_request() {
    let lost = [vec![], vec![Fate::Ok, Fate::ReplyLost]];
    for (number, fates) in lost.into_iter().enumerate() {
        let table = Restored::new(async |bench| {
            drop(held_by(bench.machine().0.token("t").expect_within(MINUTE)).await);
        })
        .await;
        let (closed, wire) = table.bench.machine_with(|settings| settings.restored = Some(table.end));
        let safe = async |_: locker::Record| Ok(Probed::Safe);
        let token = closed.token("t").requested_at(table.after).expect_within(MINUTE);
        wire.next(fates);
        let began = inside(&closed, token.take_over_if(Duration::ZERO, safe), "t", None).await;
        assert_eq!(began, "restored, held", "{number}");
    }
}

#[tokio::test(start_paused = true)]
async fn begin_that_fails_after_its_hold_is_unknown() {
    let table = Restored::new(empty).await;
    let (closed, wire) = table.bench.machine_with(|settings| {
        settings.restored = Some(table.end);
        settings.give_up_after = Duration::from_millis(400);
    });
    wire.next([[Fate::Ok].as_slice(), &[Fate::Throttled; 200]].concat());
    let error = closed.token("t").begin().await.expect_err("no answer");
    wire.next([]);
    assert!(record_of(&closed, "t").await.is_held_by_restore());
    assert!(matches!(error, Error::Unknown { verb: "begin", .. }), "{error}");
}
