//! The scan finds overdue tokens and reads no others, reports each, and reports when it could not
//! finish.

use std::time::Duration;

use aws_sdk_dynamodb::types::{AttributeValue, PutRequest, WriteRequest};
use locker::{Clock as _, TokenState};
use locker_tests::{Bench, Fate, MINUTE, Recorded, held_by, record_of};

/// Write this many tokens in progress, 25 at a time, over this many shards, due at this time.
async fn fill(bench: &Bench, name: &str, shards: u16, count: usize, due: chrono::DateTime<chrono::Utc>) {
    let text = |value: String| AttributeValue::S(value);
    let time =
        |at: chrono::DateTime<chrono::Utc>| text(at.to_rfc3339_opts(chrono::SecondsFormat::Millis, true));
    for chunk in (0..count).collect::<Vec<_>>().chunks(25) {
        let puts = chunk.iter().map(|number| {
            let status = if shards == 1 {
                "inProgress".to_owned()
            } else {
                format!("inProgress_{}", number % usize::from(shards))
            };
            let put = PutRequest::builder()
                .item("lockToken", text(format!("{name}/{number}")))
                .item("lockedBy", text("somebody/else".to_owned()))
                .item("attempt", text(format!("{name}-{number}")))
                .item("created", time(bench.clock.now()))
                .item(
                    "expectedCompletion",
                    time(due + chrono::TimeDelta::milliseconds(i64::try_from(*number).expect("small"))),
                )
                .item("status", text(status))
                .item("version", AttributeValue::N("1".to_owned()));
            WriteRequest::builder().put_request(put.build().expect("built")).build()
        });
        let batch = bench.client.batch_write_item().request_items(&bench.table, puts.collect());
        assert!(batch.send().await.expect("put").unprocessed_items.is_none_or(|left| left.is_empty()));
    }
}

#[tokio::test(start_paused = true)]
async fn a_hundred_overdue_among_a_hundred_thousand_cost_a_hundred_rows() {
    let bench = Bench::new().await;
    let in_time = bench.clock.now() + Duration::from_secs(24 * 60 * 60);
    for shards in [1, 4] {
        fill(&bench, &format!("fresh{shards}"), shards, 50_000, in_time).await;
        fill(&bench, &format!("late{shards}"), shards, 50, bench.clock.now() + MINUTE).await;
    }
    bench.clock.advance(MINUTE * 10);
    let (locker, wire) = bench.machine_with(|settings| settings.shards = 4);
    let scanned = locker::Scanner::new(&locker).count_to(10).run().await.expect("a scan");
    assert_eq!((scanned.missing.len(), scanned.finished), (100, true));
    assert!(scanned.rows_read <= 110, "{} rows were read", scanned.rows_read);
    assert!(scanned.oldest >= MINUTE * 9 - Duration::from_secs(1), "{:?}", scanned.oldest);
    let counted = scanned.in_progress.expect("a count");
    assert_eq!((counted.at_least, counted.exact), (10, false));
    assert!(
        scanned.missing.windows(2).all(|pair| pair[0].expected_completion() <= pair[1].expected_completion())
    );
    let reads: f64 = wire
        .take()
        .iter()
        .filter(|exchange| exchange.operation == "Query")
        .filter_map(|exchange| exchange.consumed.as_ref()?["CapacityUnits"].as_f64())
        .sum();
    assert!(reads < 30.0, "{reads} read units for queries");
}

#[tokio::test(start_paused = true)]
async fn a_token_that_ended_meanwhile_is_not_reported_and_metrics_show_the_rest() {
    let bench = Bench::new().await;
    let (locker, wire) = bench.machine();
    let late = held_by(locker.token("scan/late").expect_within(MINUTE)).await;
    let done = held_by(locker.token("scan/done").expect_within(MINUTE)).await;
    held_by(locker.token("scan/failed")).await.hold("odd").await.expect("held");
    bench.clock.advance(MINUTE * 3);

    let recorded = Recorded::start();
    wire.take();
    done.complete("done").await.expect("completed");
    let scanned = locker::Scanner::new(&locker).run().await.expect("a scan");
    let names: Vec<_> = scanned.missing.iter().map(|record| record.key().as_str()).collect();
    assert_eq!(names, ["scan/late"]);
    let counted = |count: Option<locker::Count>| count.expect("a count").at_least;
    assert_eq!((counted(scanned.in_progress), counted(scanned.held), scanned.finished), (1, 1, true));
    let expected = [
        ("missingTasks", 1.0),
        ("oldestMissingTask", 120.0),
        ("scanFinished", 1.0),
        ("tokensHeld", 1.0),
        ("tokensInProgress", 1.0),
    ];
    assert_eq!(recorded.take().gauges(), expected.map(|(name, value)| (name.to_owned(), value)).into());
    late.release().await.expect("released");
    assert_eq!(record_of(&locker, "scan/failed").await.state(), TokenState::Held);
}

/// The request for the second page gets no reply before the deadline.
#[tokio::test(start_paused = true)]
async fn deadline_within_a_listing_is_not_an_error() {
    let bench = Bench::new().await;
    fill(&bench, "backlog", 1, 250, bench.clock.now() + MINUTE).await;
    bench.clock.advance(MINUTE * 10);
    let (locker, wire) = bench.impatient_machine();
    wire.next(std::iter::once(Fate::Ok).chain(std::iter::repeat_n(Fate::HeldBefore, 100)));
    let deadline = bench.clock.now() + Duration::from_secs(30);
    let listing = tokio::spawn(locker.overdue().deadline(deadline).fetch());
    while wire.held() == 0 {
        tokio::task::yield_now().await;
    }
    bench.clock.advance(MINUTE);
    let page = listing.await.expect("no panic").expect("a part");
    assert!(page.items.len() == 100 && !page.is_complete(), "{}", page.items.len());
    assert!(page.stopped_by.is_none(), "its deadline did: {:?}", page.stopped_by);

    let (locker, wire) = bench.impatient_machine();
    wire.next(std::iter::repeat_n(Fate::HeldBefore, 100));
    let listing = tokio::spawn(locker.overdue().deadline(bench.clock.now() + MINUTE).fetch());
    while wire.held() == 0 {
        tokio::task::yield_now().await;
    }
    bench.clock.advance(MINUTE);
    let expired = listing.await.expect("no panic");
    assert!(matches!(expired, Err(locker::Error::Expired { .. })), "{expired:?}");
}

#[tokio::test(start_paused = true)]
async fn a_scan_that_is_cut_short_says_so() {
    let bench = Bench::new().await;
    fill(&bench, "backlog", 1, 250, bench.clock.now() + MINUTE).await;
    bench.clock.advance(MINUTE * 10);
    let (locker, wire) = bench.impatient_machine();

    let deadline = bench.clock.now() + Duration::from_secs(30);
    let clock = bench.clock.clone();
    // Two counts, a page and some tokens are read before the deadline. The other reads wait until
    // it is past.
    wire.next(std::iter::repeat_n(Fate::Ok, 20).chain(std::iter::repeat_n(Fate::HeldBefore, 250)));
    let scanner = locker::Scanner::new(&locker).deadline(deadline);
    let scan = tokio::spawn(async move { scanner.run().await });
    while wire.held() == 0 {
        tokio::task::yield_now().await;
    }
    clock.advance(MINUTE);
    (0..250).for_each(|_| wire.let_through());
    let scanned = scan.await.expect("no panic").expect("a part");
    assert!(!scanned.finished && scanned.missing.len() < 250, "{}", scanned.missing.len());
    assert!(scanned.stopped_by.is_none(), "its deadline did: {:?}", scanned.stopped_by);

    wire.next(std::iter::repeat_n(Fate::Ok, 120).chain(std::iter::repeat_n(Fate::Throttled, 100_000)));
    let scanned = locker::Scanner::new(&locker).run().await.expect("a part");
    assert!(!scanned.finished && scanned.missing.len() > 100, "{}", scanned.missing.len());
    assert!(
        matches!(scanned.stopped_by, Some(locker::Error::Unavailable { .. })),
        "{:?}",
        scanned.stopped_by
    );

    wire.always(Fate::Throttled);
    locker::Scanner::new(&locker).run().await.expect_err("nothing at all");
}

#[tokio::test(start_paused = true)]
async fn a_scan_that_fails_after_a_good_one_shows_in_the_metrics() {
    let bench = Bench::new().await;
    let (locker, wire) = bench.impatient_machine();
    let recorded = Recorded::start();
    locker::Scanner::new(&locker).run().await.expect("a scan");
    assert_eq!(recorded.take().gauge("scanFinished"), Some(1.0));
    wire.always(Fate::Throttled);
    locker::Scanner::new(&locker).run().await.expect_err("nothing could be read");
    assert_eq!(recorded.take().gauge("scanFinished"), Some(0.0));
}

#[tokio::test(start_paused = true)]
async fn an_overdue_token_that_cannot_be_read_is_missing_too() {
    let bench = Bench::new().await;
    let (locker, _) = bench.machine();
    let recorded = Recorded::start();
    let _lock = held_by(locker.token("scan/damaged").expect_within(MINUTE)).await;
    let key = AttributeValue::S("scan/damaged".to_owned());
    let damage = bench.client.update_item().table_name(&bench.table).key("lockToken", key);
    damage.update_expression("REMOVE attempt").send().await.expect("damaged");
    bench.clock.advance(MINUTE * 3);
    let scanned = locker::Scanner::new(&locker).run().await.expect("a scan");
    assert_eq!((scanned.missing.len(), scanned.unreadable, scanned.finished), (0, 1, true));
    assert_eq!(recorded.take().gauge("missingTasks"), Some(1.0), "the alarm sees it");
}

#[tokio::test(start_paused = true)]
async fn overdue_tokens_are_read_side_by_side_and_reported_in_order() {
    const AT_ONCE: usize = 16;
    let bench = Bench::new().await;
    fill(&bench, "beside", 1, 40, bench.clock.now() + MINUTE).await;
    bench.clock.advance(MINUTE * 10);
    let (locker, wire) = bench.machine();
    // Two counts and a page come before the tokens.
    wire.next(std::iter::repeat_n(Fate::Ok, 3).chain(std::iter::repeat_n(Fate::HeldAfter, 40)));
    let scan = tokio::spawn(async move { locker::Scanner::new(&locker).run().await });
    while wire.held() < AT_ONCE {
        tokio::task::yield_now().await;
    }
    for _ in 0..1000 {
        tokio::task::yield_now().await;
        assert_eq!(wire.held(), AT_ONCE, "more reads at a time than were said");
    }
    (0..40).for_each(|_| wire.let_through());
    let scanned = scan.await.expect("no panic").expect("a scan");
    let numbers: Vec<_> = scanned.missing.iter().map(|record| record.key().as_str().to_owned()).collect();
    let in_order: Vec<_> = (0..40).map(|number| format!("beside/{number}")).collect();
    assert_eq!(numbers, in_order);
}

#[tokio::test(start_paused = true)]
async fn a_token_that_ends_between_the_listing_and_the_look_at_it_is_not_missing() {
    let bench = Bench::new().await;
    let (locker, wire) = bench.machine();
    let owner = held_by(bench.machine().0.token("slow").expect_within(MINUTE)).await;
    bench.clock.advance(MINUTE * 3);
    wire.matching(|exchange| exchange.operation == "GetItem", Fate::HeldBefore);
    let scanner = locker::Scanner::new(&locker);
    let ends = async {
        while wire.held() == 0 {
            tokio::task::yield_now().await;
        }
        owner.complete("after all").await.expect("still held");
        wire.let_through();
    };
    let (scanned, ()) = tokio::join!(scanner.run(), ends);
    let scanned = scanned.expect("a scan");
    assert_eq!((scanned.missing.len(), scanned.finished), (0, true));
}

#[tokio::test(start_paused = true)]
async fn a_shard_that_cannot_be_listed_hides_no_token_of_another() {
    let bench = Bench::new().await;
    fill(&bench, "busy", 3, 600, bench.clock.now() + MINUTE).await;
    bench.clock.advance(MINUTE * 10);
    let (locker, wire) = bench.machine_with(|settings| settings.shards = 3);
    let is_dead = |it: &locker_tests::Exchange| {
        it.request["Select"] == "ALL_PROJECTED_ATTRIBUTES"
            && it.request.to_string().contains("\"inProgress_1\"")
    };
    wire.matching(is_dead, Fate::Denied);
    let scanned = locker::Scanner::new(&locker).run().await.expect("a part");
    assert_eq!((scanned.missing.len(), scanned.finished), (400, false), "{:?}", scanned.stopped_by);
    assert!(matches!(scanned.stopped_by, Some(locker::Error::Denied { .. })), "{:?}", scanned.stopped_by);
}

#[tokio::test(start_paused = true)]
async fn a_token_that_cannot_be_read_closes_its_shard_and_no_other() {
    let bench = Bench::new().await;
    fill(&bench, "busy", 3, 60, bench.clock.now() + MINUTE).await;
    bench.clock.advance(MINUTE * 10);
    let (locker, wire) = bench.machine_with(|settings| settings.shards = 3);
    // Of the second shard.
    let is_dead = |it: &locker_tests::Exchange| {
        it.operation == "GetItem" && it.request["Key"]["lockToken"]["S"] == "busy/1"
    };
    wire.matching(is_dead, Fate::Denied);
    let scanned = locker::Scanner::new(&locker).run().await.expect("a part");
    assert!((40..60).contains(&scanned.missing.len()) && !scanned.finished, "{}", scanned.missing.len());
    assert!(matches!(scanned.stopped_by, Some(locker::Error::Denied { .. })), "{:?}", scanned.stopped_by);
}
