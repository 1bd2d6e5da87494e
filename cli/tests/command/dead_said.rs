//! What `locker dead` and `locker relay` do with each of their options, and what they say of it: in
//! words, numbers and exit codes.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use aws_sdk_dynamodb::types::TransactWriteItem;
use lock_token_testing::Embedded;
use locker::inbox::Delivery;
use locker::message::{MessageState, NewMessage};
use locker::workflow::Workflows;
use locker::{Class, Operator};
use locker_tests::command::{Place, Ran};
use locker_tests::filled::Behind;
use serde_json::{Value, json};

use crate::dead::{are_dead, groups, messages, shown};
use crate::place;
use crate::sqs::{Queue, relay};
use crate::terminal::Terminal;

fn in_runtime<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Runtime::new().expect("a runtime").block_on(work)
}

fn workflows(place: &Place) -> Workflows {
    let builder = Workflows::builder(&place.client(), place.workflows()).with_clock(Arc::new(Behind));
    builder.source("/orders").build().expect("workflows")
}

/// Dead messages of a consumer, each of a group of its own.
pub(crate) fn set_aside(place: &Place, consumer: &str, orders: std::ops::Range<u32>, cause: &str) {
    in_runtime(async {
        let consumer = workflows(place).inbox(consumer).expect("a name").consumer();
        for order in orders {
            let delivery = Delivery::new(format!("sqs-{order}"), format!("order {order}"));
            let delivery = delivery.group(format!("order/{order}"));
            consumer.dead_letter(&delivery, Class::Permanent, cause).await.expect("it is kept");
        }
    });
}

/// Commit messages of these topics, each of a subject of its own: due, and not sent.
fn commit(place: &Place, topics: &[&str]) {
    in_runtime(async {
        let workflows = workflows(place);
        for (number, topic) in topics.iter().enumerate() {
            let message = NewMessage::new(*topic, &number).subject(format!("order/{number}"));
            let put = workflows.outbox().message(message).expect("a message");
            let put = TransactWriteItem::builder().put(put.put()).build();
            place.client().transact_write_items().transact_items(put).send().await.expect("committed");
        }
    });
}

pub(crate) fn shown_as_json(place: &Place, id: &str, more: &[&str]) -> Value {
    place.run(&[&["dead", "show", id, "--output", "json"], more].concat()).json()
}

pub(crate) fn said(ran: &Ran, code: i32, part: &str) {
    assert!(ran.code == code && ran.said.contains(part), "{} and not {code}, {part}: {}", ran.code, ran.said);
}

/// Says what is shown, and does it.
fn act(place: &Place, arguments: &[&str]) -> Ran {
    let seen = shown(&place.run(arguments).said);
    place.run(&[arguments, &["--seen", &seen]].concat())
}

#[test]
fn each_option_narrows_what_is_meant() {
    let place = place();
    set_aside(&place, "packer", 0..3, "it is no order");
    set_aside(&place, "books", 3..5, "the warehouse is closed");
    in_runtime(async {
        let workflows = Workflows::new(&place.client(), place.workflows()).expect("workflows");
        let consumer = workflows.inbox("books").expect("a name").consumer();
        let delivery = Delivery::new("new", "order 9");
        consumer
            .dead_letter(&delivery, Class::Permanent, "it is no order, either")
            .await
            .expect("it is kept");
    });
    // A key is no prefix, and that of a workflow.
    let of_a_prefix = place.run(&["dead", "discard", "--key", "locker", "--reason", "x"]);
    said(&of_a_prefix, 3, "nothing would be changed");
    let a_while_ago = (locker::Clock::now(&locker::SystemClock) - Duration::from_secs(30))
        .format("%Y-%m-%dT%H:%M:%SZ")
        .to_string();
    for (option, value, count) in [
        ("--consumer", "packer", 3),
        ("--consumer", "books", 3),
        ("--cause", "warehouse", 2),
        ("--at-least-for", "30s", 5),
        ("--since", &a_while_ago, 1),
        ("--topic", "unreadable", 6),
    ] {
        assert_eq!(messages(&place, &[option, value]).len(), count, "{option} {value}");
        let planned =
            place.run(&["dead", "discard", option, value, "--reason", "x", "--output", "json"]).json();
        assert_eq!(planned["plan"]["items"].as_array().map(Vec::len), Some(count), "{option} {value}");
    }
}

#[test]
fn dead_messages_are_listed_in_order_without_their_bodies() {
    let place = place();
    set_aside(&place, "zebra", 0..1, "first");
    set_aside(&place, "packer", 1..3, "second");
    std::thread::sleep(Duration::from_millis(1100));
    set_aside(&place, "packer", 3..5, "second");
    let groups = groups(&place);
    assert_eq!((&groups[0]["count"], &groups[1]["count"]), (&json!(4), &json!(1)), "the largest first");
    let time = |name: &str| groups[0][name].as_str().expect("a time").to_owned();
    assert!(time("first") < time("last"), "{groups:?}");
    let sample = groups[0]["sample"].as_str().expect("an id").to_owned();
    assert_eq!(shown_as_json(&place, &sample, &[])["body"], Value::Null, "bodies may be private");
    assert_eq!(shown_as_json(&place, &sample, &["--content"])["body"], "order 1");
    assert!(place.run(&["dead", "show", &sample]).text().contains("dead since"));

    // A note stands beside it, and an archived one is shown and exported as such only.
    assert_eq!(act(&place, &["dead", "note", &sample, "--reason", "ask the warehouse"]).code, 0);
    assert!(place.run(&["ls", "messages", "--consumer", "packer"]).text().contains("ask the warehouse"));
    assert_eq!(act(&place, &["dead", "archive", &sample, "--reason", "later"]).code, 0);
    assert_eq!(shown_as_json(&place, &sample, &[])["state"], "archived");
    said(&place.run(&["dead", "export", "--archived"]), 0, "1 exported");
    said(&place.run(&["dead", "export"]), 0, "4 exported");
    assert_eq!(act(&place, &["dead", "restore", &sample, "--reason", "now"]).code, 0);
    let acts = place.run(&["audit", "--output", "json"]).json()["acts"].clone();
    let acts: BTreeSet<_> =
        acts.as_array().expect("acts").iter().map(|it| it["resolution"].to_string()).collect();
    let expected = ["\"noted\"", "\"archived\"", "\"restored\""].map(str::to_owned);
    assert_eq!(acts, BTreeSet::from(expected));
}

#[test]
fn an_act_is_on_what_was_shown_and_not_on_as_many_others() {
    let place = place();
    set_aside(&place, "packer", 0..2, "it is no order");
    let discard = ["dead", "discard", "--consumer", "packer", "--reason", "no orders"];
    let seen = shown(&place.run(&discard).said);
    // One is archived, and another one comes.
    let first = groups(&place)[0]["sample"].clone();
    assert_eq!(act(&place, &["dead", "archive", first.as_str().expect("an id"), "--reason", "x"]).code, 0);
    set_aside(&place, "packer", 7..8, "it is no order");
    let other = place.run(&[&discard[..], &["--seen", &seen]].concat());
    // The message that was shown, and not the one that came instead.
    said(&other, 4, "1 done, 1 changed meanwhile");
    are_dead(&place, 1);
    set_aside(&place, "packer", 8..9, "it is no order");
    // As many as it was told: the oldest.
    let last = [&discard[..], &["--limit", "1", "--output", "json"]].concat();
    let planned = place.run(&last).json();
    let item = planned["plan"]["items"][0]["work"].clone();
    let listed = messages(&place, &["--consumer", "packer"]);
    let oldest = listed.iter().min_by_key(|it| it["since"].to_string());
    assert_eq!(item, oldest.expect("one")["work"], "the oldest first");
}

#[test]
fn an_act_keeps_its_rate_and_says_what_changed_meanwhile() {
    let place = place();
    set_aside(&place, "packer", 0..5, "it is no order");
    let archive = ["dead", "archive", "--all", "--reason", "no orders", "--rate", "1"];
    let seen = shown(&place.run(&archive).said);
    let began = Instant::now();
    let mut command = place.command(&[&archive[..], &["--seen", &seen]].concat());
    command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let running = command.spawn().expect("started");
    std::thread::sleep(Duration::from_millis(1500));
    // An operator is faster with the newest one.
    in_runtime(async {
        let workflows = workflows(&place);
        let listed = workflows.messages(MessageState::Dead).fetch().await.expect("a list").items;
        let last = listed.last().expect("one");
        let message = workflows.message(&last.work).await.expect("read").expect("there");
        let ada = Operator::new("ada", "I know better").expect("an operator");
        let done = workflows.discard(&message, &ada).await.expect("done");
        assert_eq!(done, locker::Intervened::Done);
    });
    let done = Ran::of(running.wait_with_output().expect("ended"));
    said(&done, 4, "4 done, 1 changed meanwhile");
    assert!(began.elapsed() > Duration::from_millis(3500), "{:?}", began.elapsed());
}

#[test]
fn more_canaries_than_one_are_waited_for() {
    let place = place();
    set_aside(&place, "packer", 0..4, "it is no order");
    let redrive = ["dead", "redrive", "--all", "--reason", "x", "--canary", "2", "--patience", "1s"];
    said(
        &act(&place, &redrive),
        5,
        "stopped: 2 done, 2 of them not known to be sent or handled yet, 2 not begun",
    );
}

/// A relay that runs beside it finds that the queue refuses them still.
#[test]
fn the_breaker_stops_what_is_dead_again() {
    let place = place();
    let topics = ["order/placed"; 12];
    commit(&place, &topics);
    let queue = Queue::start(Vec::new());
    queue.kept.lock().expect("no panic").refuses = Some("InvalidMessageContents");
    let route = format!("*={}", queue.url);
    let relays = ["--route", &route];
    let refused = relay(&place, &queue, &relays);
    said(&refused, 5, "0 sent, 0 waiting, 12 dead; see `locker --");
    said(&refused, 5, " ls messages --need dead`");
    let redrive =
        ["dead", "redrive", "--all", "--reason", "x", "--canary", "0", "--breaker", "2", "--rate", "1"];
    let seen = shown(&place.run(&redrive).said);
    let done = std::thread::scope(|scope| {
        let running = scope.spawn(|| place.run(&[&redrive[..], &["--seen", &seen]].concat()));
        while !running.is_finished() {
            relay(&place, &queue, &relays);
        }
        running.join().expect("it ends")
    });
    said(&done, 5, "of them dead again");
    assert!(done.said.contains("stopped: 5 done") && done.said.contains("7 not begun"), "{}", done.said);
}

#[test]
fn a_canary_that_is_dead_again_is_no_success_though_there_is_no_other() {
    let place = place();
    commit(&place, &["order/placed"]);
    let queue = Queue::start(Vec::new());
    queue.kept.lock().expect("no panic").refuses = Some("InvalidMessageContents");
    let route = format!("*={}", queue.url);
    let relays = ["--route", &route];
    relay(&place, &queue, &relays);
    let redrive = ["dead", "redrive", "--all", "--reason", "x", "--patience", "20s"];
    let seen = shown(&place.run(&redrive).said);
    let done = std::thread::scope(|scope| {
        let running = scope.spawn(|| place.run(&[&redrive[..], &["--seen", &seen]].concat()));
        while !running.is_finished() {
            relay(&place, &queue, &relays);
        }
        running.join().expect("it ends")
    });
    said(&done, 5, "1 done, 1 of them dead again");
}

/// An engine with three dead messages.
fn with_three() -> Embedded {
    let engine = Embedded::memory().expect("an engine");
    in_runtime(async {
        locker::create_table(&engine.client(), "locks").await.expect("a table");
        locker::workflow::create_table(&engine.client(), "workflows").await.expect("a table");
        let workflows = Workflows::new(&engine.client(), "workflows").expect("workflows");
        let consumer = workflows.inbox("packer").expect("a name").consumer();
        for order in 0..3 {
            let delivery = Delivery::new(format!("sqs-{order}"), format!("order {order}"));
            consumer.dead_letter(&delivery, Class::Permanent, "it is no order").await.expect("it is kept");
        }
    });
    engine
}

/// Reads are denied after the first act.
#[test]
fn failed_acts_are_printed_and_set_the_exit_code() {
    let engine = with_three();
    let served = locker_tests::Counted::start(&engine);
    let place = place();
    let tables = ["--table", "locks", "--workflows", "workflows", "--endpoint-url", served.endpoint()];
    let archive = ["dead", "archive", "--all", "--reason", "x", "--rate", "1"];
    let run = |more: &[&str]| {
        Ran::of(place.bare(&[&tables[..], &archive, more].concat()).output().expect("the command runs"))
    };
    let seen = shown(&run(&[]).said);
    served.blind_after_a_transaction();
    let done = run(&["--seen", &seen, "--output", "json"]);
    said(&done, 5, "1 done, 2 failed");
    assert_eq!(
        done.said.lines().filter(|line| line.contains("AccessDenied") || line.contains("denied")).count(),
        2,
        "{}",
        done.said
    );
    let errors = done.json()["errors"].clone();
    assert_eq!((errors.as_array().map(Vec::len), &errors[0]["count"]), (Some(1), &json!(2)), "{errors}");
}

/// A bar leaves no place for a line at each failure.
#[test]
fn failed_acts_are_counted_by_error_on_a_terminal() {
    let engine = with_three();
    let served = locker_tests::Counted::start(&engine);
    let place = place();
    let tables = ["--table", "locks", "--workflows", "workflows", "--endpoint-url", served.endpoint()];
    let archive = ["dead", "archive", "--all", "--reason", "x", "--rate", "1"];
    let dry = place.bare(&[&tables[..], &archive].concat()).output().expect("the command runs");
    let seen = shown(&Ran::of(dry).said);
    served.blind_after_a_transaction();
    let mut call = place.bare(&[&tables[..], &archive, &["--seen", &seen]].concat());
    let (text, status) = Terminal::start_with_errors(&mut call, 200).end();
    assert_eq!(status.code(), Some(5), "{text}");
    assert!(text.contains("1 done, 2 failed"), "{text}");
    assert_eq!(
        text.lines().filter(|line| line.starts_with("locker: 2 acts: could not ")).count(),
        1,
        "{text}"
    );
}

#[test]
fn a_relay_sends_to_the_first_route_that_fits_under_its_source_and_says_what_it_left() {
    let place = place();
    commit(&place, &["order/placed", "order/paid", "bill/sent"]);
    let queue = Queue::start(Vec::new());
    let (orders, others) = (format!("{}/orders", queue.url), format!("{}/others", queue.url));
    let (to_orders, to_others) = (format!("order/placed={orders}"), format!("order/*={others}"));
    let relays = ["--route", &to_orders, "--route", &to_others];
    let limited = relay(&place, &queue, &[&relays[..], &["--limit", "1"]].concat());
    said(&limited, 5, "1 sent");
    assert!(limited.said.contains("there may be more"), "{}", limited.said);
    let done = relay(&place, &queue, &relays);
    said(&done, 5, "1 sent, 0 waiting, 0 dead; no route here for 1 of bill/sent");
    let of = |url: &str| {
        let sent = queue.sent(url).into_iter();
        sent.map(|it| (it["source"].to_string(), it["type"].to_string())).collect::<Vec<_>>()
    };
    assert_eq!(of(&orders), [("\"/orders\"".to_owned(), "\"order.placed\"".to_owned())]);
    assert_eq!(of(&others), [("\"/orders\"".to_owned(), "\"order.paid\"".to_owned())]);
}

#[test]
fn relay_that_skips_messages_exits_with_5() {
    let place = place();
    commit(&place, &["order/placed"; 200]);
    let queue = Queue::start(Vec::new());
    queue.kept.lock().expect("no panic").refuses = Some("RequestThrottled");
    let skipped = relay(&place, &queue, &["--route", &format!("*={}/orders", queue.url)]);
    said(&skipped, 5, "skipped, since their target is down");
    said(&skipped, 5, "0 sent");
}

/// One that code holds, and one that code held when it died.
#[test]
fn message_held_by_code_is_shown_as_held() {
    for (behind, words) in
        [(60, "code decides about it"), (20 * 60, "code did not return: it may have compensated")]
    {
        let place = place();
        set_aside(&place, "packer", 0..1, "it is no order");
        in_runtime(async {
            let clock = locker_tests::TestClock::new().behind(Duration::from_secs(behind));
            let builder = Workflows::builder(&place.client(), place.workflows()).with_clock(Arc::new(clock));
            let workflows = builder.build().expect("workflows");
            let orders = Operator::new("orders", "x").expect("an operator");
            let dies = async |_: &locker::workflow::Message| std::future::pending().await;
            let dead = locker::dead_letters::DeadLetters::new(&workflows, orders);
            assert!(tokio::time::timeout(Duration::from_secs(1), dead.run(dies)).await.is_err());
        });
        let id = groups(&place)[0]["sample"].clone();
        let one = place.run(&["dead", "show", id.as_str().expect("an id")]);
        assert!(one.text().contains(words), "{behind}: {}", one.text());
    }
}

/// A list that could not be read is no empty one.
#[test]
fn unreadable_list_is_reported_and_is_no_success() {
    let engine = Embedded::memory().expect("an engine");
    let workflows = Workflows::new(&engine.client(), "workflows").expect("workflows");
    in_runtime(async {
        locker::create_table(&engine.client(), "locks").await.expect("a table");
        locker::workflow::create_table(&engine.client(), "workflows").await.expect("a table");
        let consumer = workflows.inbox("packer").expect("a name").consumer();
        for order in 0..3 {
            let delivery = Delivery::new(format!("sqs-{order}"), format!("order {order}"));
            consumer.dead_letter(&delivery, Class::Permanent, "it is no order").await.expect("it is kept");
        }
    });
    let served = locker_tests::Counted::start(&engine);
    let place = place();
    let tables = ["--table", "locks", "--workflows", "workflows", "--endpoint-url", served.endpoint()];
    let run = |more: &[&str]| Ran::of(place.bare(&[&tables[..], more].concat()).output().expect("it runs"));
    let archive = ["dead", "archive", "--all", "--limit", "1", "--reason", "x"];
    let seen = shown(&run(&archive).said);
    served.blind_after_a_transaction();
    said(&run(&[&archive[..], &["--seen", &seen]].concat()), 0, "1 done");
    for verb in [
        &["ls", "messages", "--need", "dead"][..],
        &["ls", "messages", "--archived", "--output", "json"],
        &["dead", "export"],
        &["dead", "show", "00000000"],
    ] {
        let ran = run(verb);
        assert!(![0, 3].contains(&ran.code), "{verb:?}: {} {} {}", ran.code, ran.said, ran.text());
    }
}
