//! What a plan costs at most, what stops it, and what a search is bounded by.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use locker::operator::{Act, Acted, ApplyOptions, Console, Filter, Need, Plan};
use locker::{Class, Error};
use locker_tests::{Fate, MINUTE, ada, held_by};

use crate::bench::Desk;
use crate::bench::price_of;
use crate::plan::{fast, goes_on, hold};

#[tokio::test(start_paused = true)]
async fn no_more_requests_are_under_way_than_it_was_told() {
    for most in [1, 4] {
        let desk = Desk::new().await;
        let (locker, _) = desk.bench.machine();
        hold(&locker, 40).await;
        let filter = Filter::new().need(Need::Held);
        let plan = Console::new().tokens(&locker).plan(filter, Act::release(), &ada()).await.unwrap();
        let (asking, wire) = desk.bench.machine();
        wire.always(Fate::HeldBefore);
        let console = Console::new().tokens(&asking);
        let options = ApplyOptions { concurrency: most, ..fast() };
        let run = tokio::spawn(async move { console.apply(&plan, &options, goes_on).await });
        let (mut let_through, mut at_once) = (0, 0);
        while !run.is_finished() {
            tokio::time::sleep(Duration::from_millis(2)).await;
            let under_way = wire.held() - let_through;
            at_once = at_once.max(under_way);
            if under_way > 0 {
                wire.let_through();
                let_through += 1;
            }
        }
        let report = run.await.unwrap().unwrap();
        assert_eq!((report.done, at_once), (40, most), "{report:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_new_is_begun_once_it_is_told_to_stop_even_while_it_waits_for_its_turn() {
    let desk = Desk::new().await;
    let (locker, _) = desk.bench.machine();
    hold(&locker, 5).await;
    let stop = Arc::new(AtomicBool::new(false));
    let console = Console::new().tokens(&locker);
    let options = ApplyOptions { per_second: 1, stop: Arc::clone(&stop), ..ApplyOptions::default() };
    let plan = console.plan(Filter::new().need(Need::Held), Act::release(), &ada()).await.unwrap();
    let mut told = 0;
    let each = |_: &Acted| {
        told += 1;
        ControlFlow::Continue(())
    };
    let stopping = async {
        tokio::time::sleep(Duration::from_millis(1500)).await;
        stop.store(true, Ordering::SeqCst);
    };
    let (report, ()) = tokio::join!(console.apply(&plan, &options, each), stopping);
    let report = report.unwrap();
    assert_eq!((report.done, report.left, told), (2, 3, 2), "{report:?}");
}

#[tokio::test]
async fn plan_of_tokens_costs_its_estimate() {
    for act in [Act::release(), Act::close(), Act::resolve("by hand".into())] {
        let desk = Desk::new().await;
        let (locker, wire) = desk.bench.machine();
        hold(&locker, 5).await;
        let console = Console::new().tokens(&locker);
        let plan = console.plan(Filter::new().need(Need::Held), act, &ada()).await.unwrap();
        wire.take();
        assert_eq!(console.apply(&plan, &fast(), goes_on).await.unwrap().done, 5);
        let exchanges = wire.take();
        assert!((plan.requests()..=plan.requests() + 2).contains(&exchanges.len()), "{}", exchanges.len());
        let writes = exchanges.iter().filter(|exchange| exchange.operation == "TransactWriteItems");
        let units: f64 = writes.map(price_of).sum();
        // DynamoDB Local reports fewer units of a transaction than the published rule has.
        if desk.bench.engine.is_embedded() {
            assert_eq!(units.to_string(), plan.write_units().to_string());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_time_that_is_none_is_refused_in_a_plan() {
    let desk = Desk::new().await;
    let (locker, _) = desk.bench.machine();
    hold(&locker, 1).await;
    let from = desk.now() - MINUTE;
    let filter = Filter::new().need(Need::Held).since(from).until(desk.now() + MINUTE);
    let plan = Console::new().tokens(&locker).plan(filter.clone(), Act::release(), &ada()).await.unwrap();
    assert_eq!(plan.items.len(), 1);
    let text = serde_json::to_value(&plan).unwrap();
    let kept: Plan = serde_json::from_value(text.clone()).unwrap();
    assert_eq!((kept.items[0].since, &kept.filter), (plan.items[0].since, &filter));
    for place in ["/items/0/since", "/made", "/filter/since", "/filter/until"] {
        let mut odd = text.clone();
        *odd.pointer_mut(place).unwrap() = "yesterday".into();
        let refused = serde_json::from_value::<Plan>(odd).unwrap_err().to_string();
        assert!(refused.contains("\"yesterday\" is no time"), "{place}: {refused}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_search_says_that_its_deadline_stopped_it() {
    let desk = Desk::new().await;
    let (locker, wire) = desk.bench.machine();
    hold(&locker, 120).await;
    let console = Console::new().tokens(&locker).deadline(desk.now() + MINUTE);
    let filter = Filter::new();
    let all = console.list(&filter).await.unwrap();
    assert!(all.finished && all.stopped_by.is_none());
    wire.always(Fate::HeldBefore);
    let passes = async {
        // The first list has nothing. The second one takes two requests, and the time is over after
        // one.
        for request in 1..=2 {
            while wire.held() < request {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            desk.bench.clock.advance(MINUTE * u32::from(request == 2));
            wire.let_through();
        }
    };
    let (found, ()) = tokio::join!(console.list(&filter), passes);
    let found = found.unwrap();
    assert_eq!((found.matches.len(), found.finished), (100, false));
    assert!(matches!(found.stopped_by, Some(Error::Expired { .. })), "{found:?}");
}

#[tokio::test(start_paused = true)]
async fn a_filter_is_said_in_words_and_finds_by_time_and_class() {
    let desk = Desk::new().await;
    let (locker, _) = desk.bench.machine();
    hold(&locker, 2).await;
    let middle = desk.now() + MINUTE;
    desk.bench.clock.advance(MINUTE * 2);
    let lock = held_by(locker.token("late")).await;
    lock.hold("disk full").await.unwrap();
    for (filter, words, expected) in [
        (Filter::new(), "all", 3),
        (Filter::new().need(Need::Held).cause("RELAY"), "held; cause contains \"RELAY\"", 2),
        (Filter::new().since(middle).prefix("la"), "key begins with \"la\"; since ", 1),
        (Filter::new().until(middle), "since before ", 2),
        (Filter::new().class(Class::NeedsOperator), "class needsOperator", 3),
        (Filter::new().due(), "due", 0),
    ] {
        let said = filter.to_string();
        assert!(said.starts_with(words), "{said}");
        let found = Console::new().tokens(&locker).list(&filter).await.unwrap();
        assert_eq!(found.matches.len(), expected, "{said}: {found:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn deadline_that_passes_while_records_are_read_ends_the_plan() {
    let desk = Desk::new().await;
    let (locker, wire) = desk.bench.machine();
    // More than are read concurrently.
    hold(&locker, 20).await;
    let console = Console::new().tokens(&locker).deadline(desk.now() + MINUTE);
    wire.matching(|exchange| exchange.operation == "GetItem", Fate::HeldBefore);
    let operator = ada();
    let planning = console.plan(Filter::new().need(Need::Held), Act::release(), &operator);
    let passes = async {
        while wire.held() == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        desk.bench.clock.advance(MINUTE);
        wire.let_through();
    };
    let (plan, ()) = tokio::join!(planning, passes);
    assert!(matches!(plan, Err(Error::Expired { .. })), "{plan:?}");
}

#[tokio::test(start_paused = true)]
async fn items_of_a_plan_are_in_the_order_of_their_age() {
    let hours = |hours: u32| MINUTE * 60 * hours;
    for (held, overdue, order) in [(3, 5, ["overdue", "held"]), (5, 3, ["held", "overdue"])] {
        let desk = Desk::new().await;
        let (locker, _) = desk.bench.machine();
        let end = desk.now() + hours(6);
        let mut starts = [(held, "held"), (overdue, "overdue")];
        starts.sort_by_key(|(age, _)| std::cmp::Reverse(*age));
        for (age, key) in starts {
            desk.bench.clock.set(end - hours(age));
            let lock = held_by(locker.token(key).expect_within(Duration::from_secs(1))).await;
            if key == "held" {
                lock.hold("odd").await.unwrap();
            }
        }
        desk.bench.clock.set(end);
        let console = Console::new().tokens(&locker);
        let plan = console.plan(Filter::new().owner("test"), Act::release(), &ada()).await.unwrap();
        let keys: Vec<_> = plan.items.iter().map(|item| item.work.key()).collect();
        assert_eq!(keys, order, "{plan:?}");
    }
}
