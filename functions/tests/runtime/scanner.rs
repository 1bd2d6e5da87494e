//! The scanner: a scheduled event in, a report out, and what an alarm needs on standard output.

use std::time::Duration;

use locker_tests::{Reply, held_by};
use serde_json::json;

use crate::stack::{Stack, measured, said};

const BINARY: &str = env!("CARGO_BIN_EXE_scanner");

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn missing_tasks_are_reported_logged_and_measured() {
    let stack = Stack::new().await;
    let (locker, _) = stack.bench.machine();
    let _fresh = held_by(locker.token("fresh").expect_within(Duration::from_secs(3600))).await;
    let late = held_by(locker.token("late").owner("order/one").expect_within(Duration::from_secs(1))).await;
    held_by(locker.token("failed")).await.fail("odd").await.expect("failed");
    let function = stack.function(BINARY).await;
    tokio::time::sleep(Duration::from_millis(1200)).await;

    let event = json!({
        "version": "0",
        "id": "89d1a02d-5ec7-412e-82f5-13505f849b41",
        "detail-type": "Scheduled Event",
        "source": "aws.scheduler",
        "account": "123456789012",
        "time": "2026-11-21T11:09:09Z",
        "region": "eu-west-1",
        "resources": ["arn:aws:scheduler:eu-west-1:123456789012:schedule/default/scanner"],
        "detail": "{}",
    });
    let report = function.invoke("s1", event.clone()).await;
    let expected = json!({ "missingTasks": 1, "inProgress": 2, "failed": 1, "finished": true });
    assert_eq!(report, Reply::Response(expected));
    let line = said(&function, "a task is missing").await;
    assert_eq!(
        (&line["fields"]["lock.token"], &line["fields"]["lock.owner"]),
        (&json!("late"), &json!("order/one"))
    );
    measured(&function, "missingTasks", json!(1.0)).await;
    measured(&function, "scanFinished", json!(1.0)).await;
    measured(&function, "service", json!("scanner")).await;

    // Zero is said, so that an alarm can tell "none" from "no scan".
    late.complete("done").await.expect("completed");
    let Reply::Response(report) = function.invoke("s2", event).await else { panic!("no report") };
    assert_eq!(report["missingTasks"], 0);
    measured(&function, "missingTasks", json!(0.0)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_scan_that_cannot_read_fails_so_that_the_schedule_tries_again() {
    let stack = Stack::new().await;
    let environment =
        [("LOCKER_TABLE", "nowhere"), ("AWS_ENDPOINT_URL_DYNAMODB", stack.bench.engine.endpoint())];
    let function = locker_tests::Function::start(BINARY, &environment, Duration::from_secs(10)).await;
    let Reply::Error(error) = function.invoke("s1", json!({})).await else { panic!("it worked") };
    assert!(
        error["errorMessage"].as_str().is_some_and(|text| text.contains("the table nowhere does not exist")),
        "{error}"
    );
}
