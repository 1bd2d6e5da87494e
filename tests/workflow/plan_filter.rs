//! A filter, an act and a reason for a plan: which are refused before a request, and which match.

use std::collections::BTreeSet;
use std::time::Duration;

use chrono::DateTime;
use locker::operator::{Act, Console, Filter, Need};
use locker::{Error, Operator};
use locker_tests::{ada, held_by, record_of};
use serde_json::json;

use crate::bench::{Desk, LATER};
use crate::plan::hold;

#[tokio::test(start_paused = true)]
async fn empty_condition_of_a_filter_is_refused_before_a_request() {
    let desk = Desk::new().await;
    let (locker, wire) = desk.bench.machine();
    hold(&locker, 2).await;
    wire.take();
    let console = Console::new().tokens(&locker);
    let new = Filter::new;
    for (name, filter) in [
        ("prefix", new().prefix("")),
        ("key", new().key("")),
        ("tenant", new().tenant("")),
        ("workflow", new().workflow("")),
        ("topic", new().topic("")),
        ("consumer", new().consumer("")),
        ("message", new().message("")),
        ("group", new().group("")),
        ("cause", new().cause("")),
        ("owner", new().owner("")),
        ("within", new().within("")),
        ("text", new().text("")),
    ] {
        let filter = filter.need(Need::Held);
        let listed = console.list(&filter).await.unwrap_err();
        let planned = console.plan(filter, Act::release(), &ada()).await.unwrap_err();
        for error in [listed, planned] {
            assert!(matches!(error, Error::Invalid(_)), "{name}: {error}");
            assert!(error.to_string().contains(&format!("the {name} of a filter is empty")), "{error}");
        }
    }
    assert_eq!(wire.count(), 0);
}

#[tokio::test(start_paused = true)]
async fn reason_without_room_for_the_plan_is_refused_when_planned() {
    let desk = Desk::new().await;
    let (locker, _) = desk.bench.machine();
    hold(&locker, 1).await;
    let console = Console::new().tokens(&locker);
    let plan = async |bytes: usize| {
        let operator = Operator::new("ada", "x".repeat(bytes)).unwrap();
        console.plan(Filter::new().need(Need::Held), Act::release(), &operator).await
    };
    // A blank and the mark of the plan: ` (plan 9a8fac0a)`.
    let room = 1000 - " (plan 9a8fac0a)".len();
    assert_eq!(plan(room).await.unwrap().items.len(), 1);
    let refused = plan(room + 1).await.unwrap_err();
    assert!(matches!(refused, Error::Invalid(_)), "{refused}");
}

/// Their owners died, so nothing but their keys tells a charge from a mail.
#[tokio::test(start_paused = true)]
async fn overdue_tokens_without_a_cause_are_selected_by_more_than_their_group() {
    let desk = Desk::new().await;
    let (locker, _) = desk.bench.machine();
    for key in ["charge/1", "mail/1", "mail/2"] {
        drop(held_by(locker.token(key)).await);
    }
    hold(&locker, 1).await;
    desk.bench.clock.advance(LATER);
    let console = Console::new().tokens(&locker);
    let plan = async |filter: Filter| {
        let plan = console.plan(filter, Act::release(), &ada()).await.unwrap();
        let because: BTreeSet<_> = plan.left_out.iter().map(|left_out| left_out.because.clone()).collect();
        (plan.items.len(), plan.left_out.len(), because.into_iter().collect::<Vec<_>>())
    };
    let groups = console.status().await.unwrap().groups;
    let of = |need: Need| groups.iter().find(|group| group.need == need).unwrap().id.clone();
    let said = "it has no cause, and other tokens without a cause may be other work: select them by their keys, their \
                owner or a text as well";
    let overdue = of(Need::Overdue);
    for filter in [
        Filter::new().group(&overdue),
        Filter::new().text(&overdue),
        Filter::new().need(Need::Overdue),
        Filter::new().due().since(DateTime::UNIX_EPOCH),
    ] {
        assert_eq!(plan(filter.clone()).await, (0, 3, vec![said.to_owned()]), "{filter:?}");
        assert_eq!(plan(filter.clone().prefix("mail/")).await, (2, 0, vec![]), "{filter:?}");
        assert_eq!(plan(filter.clone().owner("test")).await, (3, 0, vec![]), "{filter:?}");
    }
    assert_eq!(plan(Filter::new().need(Need::Overdue).text("mail/")).await, (2, 0, vec![]));
    assert_eq!(plan(Filter::new().group(of(Need::Held))).await, (1, 0, vec![]), "it has a cause");
}

#[tokio::test(start_paused = true)]
async fn until_excludes_records_that_wait_since_its_own_time() {
    let desk = Desk::new().await;
    let (locker, _) = desk.bench.machine();
    hold(&locker, 1).await;
    let since = record_of(&locker, "mail/0").await.created();
    let console = Console::new().tokens(&locker);
    let find = async |filter: Filter| console.list(&filter).await.unwrap().matches.len();
    assert_eq!(find(Filter::new().until(since)).await, 0);
    assert_eq!(find(Filter::new().until(since + Duration::from_millis(1))).await, 1);
    assert_eq!(find(Filter::new().since(since)).await, 1);
    assert_eq!(find(Filter::new().since(since + Duration::from_millis(1))).await, 0);
}

#[tokio::test(start_paused = true)]
async fn plan_counts_each_distinct_cause() {
    let desk = Desk::new().await;
    let (locker, _) = desk.bench.machine();
    for (number, cause) in ["\"declined\"", "\"accepted\"", "\"declined\""].into_iter().enumerate() {
        let lock = held_by(locker.token(("pay", number))).await;
        lock.hold(&format!("the provider said: {cause}")).await.unwrap();
    }
    let console = Console::new().tokens(&locker);
    let status = console.status().await.unwrap();
    let counts: Vec<_> = status.groups.iter().map(|group| group.count).collect();
    assert_eq!(counts, [2, 1], "accepted is another cause than declined: {:?}", status.groups);
    let plan = console.plan(Filter::new().need(Need::Held), Act::release(), &ada()).await.unwrap();
    let causes = plan.causes();
    let expected = [("the provider said: \"declined\"", 2), ("the provider said: \"accepted\"", 1)];
    assert_eq!(causes, expected.map(|(cause, count)| (cause.to_owned(), count)));
}

#[tokio::test(start_paused = true)]
async fn act_for_one_record_is_refused_in_a_plan_before_a_request() {
    let desk = Desk::new().await;
    let (locker, wire) = desk.bench.machine();
    let console = Console::new().tokens(&locker);
    for act in [
        Act::release().running(),
        Act::release().completed(),
        Act::release().new_key(),
        Act::resolve(json!(1)).step("ship").not_started(),
        Act::correct(json!(1)),
        Act::cancel().step("ship"),
    ] {
        let planned = console.plan(Filter::new(), act.clone(), &ada()).await;
        assert!(matches!(planned, Err(Error::Invalid(_))), "{act:?}: {planned:?}");
    }
    assert_eq!(wire.count(), 0);
}
