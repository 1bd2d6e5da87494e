//! Promise 7: an overdue token is reported by the next scan; the scan reads only overdue rows, over
//! all shards, oldest first, and says so if it could not finish.

use std::time::Duration;

use locker::{Lock, Locker, Page, TokenState, TokenSummary};
use locker_tests::{Bench, Fate, MINUTE, held_by};

async fn begin_many(locker: &Locker, name: &str, count: usize, expected: Duration) -> Vec<Lock> {
    let mut locks = Vec::new();
    for number in 0..count {
        // Each is due a little later than the one before.
        let expected = expected + Duration::from_millis(u64::try_from(number).expect("small"));
        locks.push(held_by(locker.token((name, number)).expect_within(expected)).await);
    }
    locks
}

fn tokens(listed: &Page<TokenSummary>) -> Vec<&str> {
    listed.items.iter().map(|summary| summary.token.as_str()).collect()
}

#[tokio::test(start_paused = true)]
async fn only_overdue_rows_are_read() {
    let bench = Bench::new().await;
    for shards in [1, 5] {
        let (locker, _) = bench.machine_with(|settings| settings.shards = shards);
        let name = format!("shards{shards}");
        let _fresh = begin_many(&locker, &format!("{name}/fresh"), 60, MINUTE * 60 * 24).await;
        let late = begin_many(&locker, &format!("{name}/late"), 12, MINUTE).await;
        assert_eq!(locker.overdue().fetch().await.expect("a listing").items.len(), 0);
        bench.clock.advance(MINUTE * 2);

        let listed = locker.overdue().fetch().await.expect("a listing");
        assert!(listed.is_complete());
        let expected: Vec<_> = (0..12).map(|number| format!("{name}/late/{number}")).collect();
        assert_eq!(tokens(&listed), expected, "oldest first over all shards");
        assert_eq!(listed.rows_read, 12, "nothing but what is overdue");
        let first = &listed.items[0];
        assert_eq!(first.state, TokenState::InProgress);
        assert_eq!(first.locked_by.as_deref(), Some("test/machine"));
        assert!(first.created.is_some() && first.expected_completion.is_some());

        for lock in late {
            lock.complete("done").await.expect("completed");
        }
        assert_eq!(locker.overdue().fetch().await.expect("a listing").items.len(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn pages_go_on_where_the_last_one_ended() {
    let bench = Bench::new().await;
    let (locker, _) = bench.machine_with(|settings| settings.shards = 4);
    let _locks = begin_many(&locker, "pages", 25, MINUTE).await;
    bench.clock.advance(MINUTE * 2);
    for limit in [1, 4, 7, 24, 25] {
        let mut seen = Vec::new();
        let mut place = None;
        loop {
            let listing = locker.overdue().limit(limit);
            let listing = match place.take() {
                Some(place) => listing.from(place),
                None => listing,
            };
            let listed = listing.fetch().await.expect("a listing");
            seen.extend(tokens(&listed).into_iter().map(str::to_owned));
            match listed.next {
                Some(next) => place = Some(next),
                None => break,
            }
            assert!(seen.len() <= 25, "a listing that does not end");
        }
        let expected: Vec<_> = (0..25).map(|number| format!("pages/{number}")).collect();
        assert_eq!(seen, expected, "limit {limit}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_listing_that_is_cut_short_says_so() {
    let bench = Bench::new().await;
    let (locker, wire) = bench.impatient_machine();
    let _locks = begin_many(&locker, "cut", 120, MINUTE).await;
    bench.clock.advance(MINUTE * 10);

    let listed = locker.overdue().limit(10).fetch().await.expect("a listing");
    assert_eq!((listed.items.len(), listed.is_complete()), (10, false));

    // The second request of the listing keeps failing.
    wire.next(std::iter::once(Fate::Ok).chain(std::iter::repeat_n(Fate::Throttled, 10_000)));
    let listed = locker.overdue().fetch().await.expect("a part");
    assert_eq!((listed.items.len(), listed.is_complete()), (100, false));
    assert!(matches!(listed.stopped_by, Some(locker::Error::Unavailable { .. })), "{:?}", listed.stopped_by);
    wire.next([]);
    let rest = locker.overdue().from(listed.next.expect("a place")).fetch().await.expect("the rest");
    assert_eq!((rest.items.len(), rest.is_complete()), (20, true));
}

#[tokio::test(start_paused = true)]
async fn shards_may_be_raised_while_running() {
    let bench = Bench::new().await;
    let mut locks = Vec::new();
    for shards in [1, 3, 8] {
        let (locker, _) = bench.machine_with(|settings| settings.shards = shards);
        locks.extend(begin_many(&locker, &format!("raised{shards}"), 6, MINUTE).await);
        let listed = locker.in_progress().fetch().await.expect("a listing");
        assert_eq!(listed.items.len(), locks.len(), "{shards} shards lose nothing");
    }
    // A token begun under fewer shards fails and is listed under more.
    locks.remove(0).hold("odd").await.expect("held");
    let (locker, _) = bench.machine_with(|settings| settings.shards = 8);
    let failed = locker.held().fetch().await.expect("a listing");
    assert_eq!(tokens(&failed), ["raised1/0"]);
    assert_eq!(failed.items[0].state, TokenState::Held);
}

/// The command of an operator has more shards than the functions.
#[tokio::test(start_paused = true)]
async fn process_that_does_not_spread_its_writes_hides_nothing() {
    let bench = Bench::new().await;
    let (many, _) = bench.machine_with(|settings| {
        settings.shards = 8;
        settings.spread_writes = false;
    });
    let locks = begin_many(&many, "command", 6, MINUTE).await;
    let (one, _) = bench.machine_with(|settings| settings.shards = 1);
    for locker in [one, many] {
        let listed = locker.in_progress().fetch().await.expect("a listing");
        assert_eq!(listed.items.len(), locks.len());
    }
}

#[tokio::test(start_paused = true)]
async fn a_listing_that_failed_is_not_an_empty_one() {
    let bench = Bench::new().await;
    let (locker, wire) = bench.impatient_machine();
    for fault in [Fate::Throttled, Fate::ErrorBefore, Fate::ReplyLost, Fate::Denied, Fate::Hangs] {
        wire.always(fault);
        locker.overdue().fetch().await.expect_err("no listing");
    }
}

#[tokio::test(start_paused = true)]
async fn a_listing_of_nothing_is_not_complete_and_one_without_time_is_not_sent() {
    let bench = locker_tests::Bench::new().await;
    let (locker, wire) = bench.machine();
    let _lock = locker_tests::held_by(locker.token("list/one")).await;
    assert!(!locker.in_progress().limit(0).fetch().await.expect("a page").is_complete());
    wire.take();
    let late = chrono::DateTime::UNIX_EPOCH;
    let error = locker.in_progress().deadline(late).fetch().await.expect_err("no time");
    assert!(matches!(error, locker::Error::Expired { .. }), "{error:?}");
    let error = locker.in_progress().deadline(late).count(9).await.expect_err("no time");
    assert!(matches!(error, locker::Error::Expired { .. }), "{error:?}");
    assert_eq!(wire.count(), 0);
}
