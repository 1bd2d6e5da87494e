//! The scanner: a scheduled event in, a report out, and what an alarm needs on standard output.

use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use locker::Locker;
use locker_tests::{Reply, held_by};
use serde_json::json;

use crate::stack::{MINUTE, Stack, measured, said};
use crate::till::{Till, request};

const BINARY: &str = env!("CARGO_BIN_EXE_scanner");

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn missing_tasks_are_reported_logged_and_measured() {
    let stack = Stack::new().await;
    let (locker, _) = stack.bench.machine();
    let _fresh = held_by(locker.token("fresh").expect_within(Duration::from_secs(3600))).await;
    // Its clock is behind that of the function, so the token is overdue at once.
    let behind = std::sync::Arc::new(stack.bench.clock.behind(Duration::from_secs(3600)));
    let begun_long_ago = Locker::builder(&stack.bench.client, &stack.bench.table).with_clock(behind);
    let begun_long_ago = begun_long_ago.build().expect("a locker");
    let late = begun_long_ago.token("late").owner("order/one").expect_within(Duration::from_secs(1));
    let late = held_by(late).await;
    held_by(locker.token("failed")).await.hold("odd").await.expect("held");
    let function = stack.function(BINARY).await;

    let event = crate::kept::scheduled();
    let Reply::Response(mut report) = function.invoke("s1", event.clone()).await else { panic!("no report") };
    let oldest = report.as_object_mut().and_then(|report| report.remove("oldestSeconds"));
    assert!(oldest.is_some_and(|seconds| seconds.is_u64()), "how long depends on the machine");
    let count = |number: usize| json!({ "atLeast": number, "exact": true });
    assert_eq!(
        report,
        json!({
            "missing": 1, "unreadable": 0, "inProgress": count(2), "held": count(1), "finished": true, "rowsRead": 1
        })
    );
    let line = said(&function, "a task is missing").await;
    assert_eq!(
        (&line["fields"]["lock.token"], &line["fields"]["lock.owner"]),
        (&json!("late"), &json!("order/one"))
    );
    measured(&function, "missingTasks", json!(1.0)).await;
    measured(&function, "scanFinished", json!(1.0)).await;
    measured(&function, "service", json!("scanner")).await;

    // Zero is written, so that an alarm can tell "none" from "no scan".
    late.complete("done").await.expect("completed");
    let Reply::Response(report) = function.invoke("s2", event).await else { panic!("no report") };
    assert_eq!(report["missing"], 0);
    measured(&function, "missingTasks", json!(0.0)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_scan_that_cannot_read_fails_so_that_the_schedule_retries() {
    let stack = Stack::new().await;
    let function = stack.start(BINARY, MINUTE, &[("LOCKER_TABLE", "nowhere")]).await;
    let Reply::Error(error) = function.invoke("s1", json!({})).await else { panic!("it worked") };
    assert!(
        error["errorMessage"].as_str().is_some_and(|text| text.contains("the table nowhere does not exist")),
        "{error}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_that_cannot_be_read_is_missing_in_the_report_and_in_the_metric() {
    let stack = Stack::new().await;
    let text = |text: &str| AttributeValue::S(text.to_owned());
    let item = [
        ("lockToken", text("damaged")),
        ("status", text("inProgress")),
        ("expectedCompletion", text("2020-01-02T03:05:05.000Z")),
    ];
    stack.bench.put(item.map(|(name, value)| (name.to_owned(), value)).into()).await;
    let function = stack.function(BINARY).await;
    let Reply::Response(report) = function.invoke("s1", json!({})).await else { panic!("no report") };
    assert_eq!((&report["missing"], &report["unreadable"]), (&json!(1), &json!(1)), "{report}");
    said(&function, "an overdue token cannot be read").await;
    measured(&function, "missingTasks", json!(1.0)).await;
}

/// Lambda kills what outlasts its time, and nobody hears what it has found: each keeps a reserve,
/// and says that there is more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn function_with_only_its_reserve_left_begins_nothing() {
    let till = Till::new().await;
    let month = Duration::from_secs(40 * 24 * 60 * 60);
    let purchases = till.purchases(&till.stack.bench.client, month);
    for (key, is_run) in [("done", true), ("due", false)] {
        let start = purchases.start("alice", key, &request(key)).expect("a key");
        if is_run {
            start.run().await.expect("an outcome");
            for message in till.view(key).await.messages() {
                let told = till.workflows().sent(message).await.expect("told");
                assert_eq!(told, locker::workflow::SentReport::Deleted);
            }
        } else {
            start.enqueue().await.expect("an outcome");
        }
    }
    for (binary, seconds) in
        [(BINARY, 1), (env!("CARGO_BIN_EXE_completer"), 4), (env!("CARGO_BIN_EXE_reaper"), 4)]
    {
        let function = till.function_within(Duration::from_secs(seconds), binary, &[]).await;
        let reply = function.invoke("r1", json!({})).await;
        assert!(
            !matches!(&reply, Reply::Response(report) if report["finished"] == true),
            "{binary}: {reply:?}"
        );
    }
    assert_eq!(till.stack.charges(), 1, "that of the one that was run before");
    assert!(till.view("done").await.ended().is_some(), "it is not deleted");
}
