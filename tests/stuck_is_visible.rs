//! Promise 7: an overdue token is reported by the next scan; the scan reads only overdue rows, over
//! all shards, oldest first, and says so when it could not finish.

use std::time::Duration;

use locker::{Listed, Lock, Locker, State};
use locker_tests::{Bench, Fault, held_by};

const MINUTE: Duration = Duration::from_secs(60);

async fn begin_many(locker: &Locker, name: &str, count: usize, expected: Duration) -> Vec<Lock> {
    let mut locks = Vec::new();
    for number in 0..count {
        // Each is due a little later than the one before.
        let expected = expected + Duration::from_millis(u64::try_from(number).expect("small"));
        locks.push(held_by(locker.token((name, number)).expect_within(expected)).await);
    }
    locks
}

fn tokens(listed: &Listed) -> Vec<&str> {
    listed.tokens.iter().map(|summary| summary.token.as_str()).collect()
}

#[tokio::test]
async fn only_overdue_rows_are_read() {
    let bench = Bench::new().await;
    for shards in [1, 5] {
        let (locker, _) = bench.machine_with(|settings| settings.shards = shards);
        let name = format!("shards{shards}");
        let _fresh = begin_many(&locker, &format!("{name}/fresh"), 60, MINUTE * 60 * 24).await;
        let late = begin_many(&locker, &format!("{name}/late"), 12, MINUTE).await;
        assert_eq!(locker.overdue().fetch().await.expect("a listing").tokens.len(), 0);
        bench.clock.advance(MINUTE * 2);

        let listed = locker.overdue().fetch().await.expect("a listing");
        assert!(listed.is_complete());
        let expected: Vec<_> = (0..12).map(|number| format!("{name}/late/{number}")).collect();
        assert_eq!(tokens(&listed), expected, "oldest first over all shards");
        assert_eq!(listed.rows_read, 12, "nothing but what is overdue");
        let first = &listed.tokens[0];
        assert_eq!(first.state, State::InProgress);
        assert_eq!(first.locked_by.as_deref(), Some("test/machine"));
        assert!(first.created.is_some() && first.expected_completion.is_some());

        for lock in late {
            lock.complete("done").await.expect("completed");
        }
        assert_eq!(locker.overdue().fetch().await.expect("a listing").tokens.len(), 0);
    }
}

#[tokio::test]
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

#[tokio::test]
async fn a_listing_that_is_cut_short_says_so() {
    let bench = Bench::new().await;
    let (locker, wire) = bench.impatient_machine();
    let _locks = begin_many(&locker, "cut", 120, MINUTE).await;
    bench.clock.advance(MINUTE * 10);

    let listed = locker.overdue().limit(10).fetch().await.expect("a listing");
    assert_eq!((listed.tokens.len(), listed.is_complete()), (10, false));

    // The second request of the listing fails, again and again.
    wire.next(std::iter::once(Fault::None).chain(std::iter::repeat_n(Fault::Throttle, 10_000)));
    let listed = locker.overdue().fetch().await.expect("a part");
    assert_eq!((listed.tokens.len(), listed.is_complete()), (100, false));
    assert!(matches!(listed.stopped_by, Some(locker::Error::Unavailable { .. })), "{:?}", listed.stopped_by);
    wire.next([]);
    let rest = locker.overdue().from(listed.next.expect("a place")).fetch().await.expect("the rest");
    assert_eq!((rest.tokens.len(), rest.is_complete()), (20, true));
}

#[tokio::test]
async fn shards_may_be_raised_while_running() {
    let bench = Bench::new().await;
    let mut locks = Vec::new();
    for shards in [1, 3, 8] {
        let (locker, _) = bench.machine_with(|settings| settings.shards = shards);
        locks.extend(begin_many(&locker, &format!("raised{shards}"), 6, MINUTE).await);
        let listed = locker.in_progress().fetch().await.expect("a listing");
        assert_eq!(listed.tokens.len(), locks.len(), "{shards} shards lose nothing");
    }
    // A token begun under fewer shards fails and is listed under more.
    locks.remove(0).fail("odd").await.expect("failed");
    let (locker, _) = bench.machine_with(|settings| settings.shards = 8);
    let failed = locker.failed().fetch().await.expect("a listing");
    assert_eq!(tokens(&failed), ["raised1/0"]);
    assert_eq!(failed.tokens[0].state, State::Failed);
}

#[tokio::test]
async fn a_listing_that_could_not_be_made_is_not_an_empty_one() {
    let bench = Bench::new().await;
    let (locker, wire) = bench.impatient_machine();
    for fault in [Fault::Throttle, Fault::ErrorBefore, Fault::LoseReply, Fault::AccessDenied, Fault::Hang] {
        wire.always(fault);
        locker.overdue().fetch().await.expect_err("no listing");
    }
}
