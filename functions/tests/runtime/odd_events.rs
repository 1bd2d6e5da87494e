//! Any event gets a response or an error, and the process continues. The real binaries, over the
//! real Runtime API.

use std::collections::BTreeSet;

use locker_functions::worker::OrderMessage;
use locker_tests::{Function, Reply};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::kept;
use crate::odd::{any_json, inputs, mutated, order};
use crate::orders::event;
use crate::stack::Stack;

/// Panics of `lambda_http` before the event reaches the function: an invalid address, a body that
/// is not base64. API Gateway sends neither. The runtime reports them, and the process continues.
const PANICS_OF_THE_ADAPTER: [&str; 3] = [
    "failed to build request",
    "failed to decode aws base64 encoded body",
    "called `Result::unwrap()` on an `Err` value: ",
];
/// The error for an event that is not an HTTP event.
const NO_EVENT: &str = "doesn't match any of those services' events";

/// Check that the reply is an HTTP response, or an error from outside this code.
fn check_http(event: &Value, reply: &Reply) {
    match reply {
        Reply::Response(response) => {
            let status = response["statusCode"].as_u64().expect("a status");
            let known = [200, 201, 400, 401, 402, 404, 405, 409, 413, 415, 422].contains(&status);
            assert!(known, "{status} to {event}: {response}");
        }
        Reply::Error(error) => {
            let said = error["errorMessage"].as_str().expect("a message");
            let known =
                said.contains(NO_EVENT) || PANICS_OF_THE_ADAPTER.iter().any(|panic| said.contains(panic));
            assert!(known, "{said}: {event}");
        }
        Reply::Died => panic!("the function died of {event}"),
    }
}

fn status(reply: &Reply) -> Value {
    match reply {
        Reply::Response(response) => response["statusCode"].clone(),
        Reply::Error(error) => error["errorMessage"].clone(),
        Reply::Died => Value::Null,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_orders_api_outlives_any_event() {
    let stack = Stack::new().await;
    let function = stack.function(env!("CARGO_BIN_EXE_orders")).await;
    let mut others = Vec::new();
    for (name, event, expected) in kept::http() {
        let reply = function.invoke(name, event.clone()).await;
        check_http(&event, &reply);
        let status = status(&reply);
        let said = status.as_str().zip(expected.as_str()).is_some_and(|(said, part)| said.contains(part));
        if status != expected && !said {
            others.push(format!("{name}: {status} and not {expected}"));
        }
    }
    assert!(others.is_empty(), "{others:#?}");
    let whole = event("POST", "/orders", Some("alice"), Some("k1"), &order("1").to_string());
    let read = event("GET", "/orders/1", Some("alice"), None, "");
    let odd = prop_oneof![6 => mutated(whole.clone()), 2 => mutated(read), 1 => any_json()];
    for (number, event) in inputs(250, &odd).enumerate() {
        check_http(&event, &function.invoke(&format!("e{number}"), event.clone()).await);
    }
    let last = event("POST", "/orders", Some("alice"), Some("last"), &order("last").to_string());
    assert_eq!(status(&function.invoke("last", last).await), 201);
}

/// The ids of the messages to be redelivered.
async fn batch(function: &Function, id: &str, event: Value) -> Result<Vec<String>, String> {
    match function.invoke(id, event.clone()).await {
        Reply::Response(response) => {
            let failures = response["batchItemFailures"].as_array().expect("failures").iter();
            Ok(failures
                .map(|failure| failure["itemIdentifier"].as_str().expect("an id").to_owned())
                .collect())
        }
        Reply::Error(error) => Err(error["errorMessage"].as_str().expect("a message").to_owned()),
        Reply::Died => panic!("the worker died of {event}"),
    }
}

/// A message that is an order, or one that cannot be: by its body, or as a whole.
fn poison() -> impl Strategy<Value = Value> {
    let whole =
        json!({ "messageId": "?", "body": json!({ "customer": "alice", "order": order("?") }).to_string() });
    let body = prop_oneof![
        2 => any_json().prop_map(|json| json.to_string()),
        2 => mutated(json!({ "customer": "alice", "order": order("?") })).prop_map(|json| json.to_string()),
        1 => "\\PC{0,40}",
        1 => Just("[".repeat(5000)),
    ];
    prop_oneof![
        3 => body.prop_map(|body| json!({ "messageId": "?", "body": body })),
        2 => mutated(whole),
        1 => any_json(),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn poison_is_redelivered_and_the_other_orders_are_done() {
    let stack = Stack::new().await;
    let function = stack.function(env!("CARGO_BIN_EXE_worker")).await;
    for (name, event, expected) in kept::sqs() {
        match batch(&function, name, event).await {
            Ok(failures) => assert_eq!(json!(failures), expected, "{name}"),
            Err(said) => assert!(said.contains(expected.as_str().expect("an error")), "{name}: {said}"),
        }
    }
    let charged = stack.charges();
    let batches = prop::collection::vec(prop_oneof![1 => Just(None), 2 => poison().prop_map(Some)], 1..6);
    let mut orders = 0;
    for (number, records) in inputs(80, &batches).enumerate() {
        let mut back = BTreeSet::new();
        let mut event = Vec::new();
        for (index, record) in records.into_iter().enumerate() {
            let id = format!("{number}-{index}");
            let mut record = record.unwrap_or_else(|| {
                orders += 1;
                json!({ "body": json!({ "customer": "bob", "order": order(&id) }).to_string() })
            });
            if record.get("messageId").is_none_or(|id| id == "?") && record.is_object() {
                record["messageId"] = json!(id);
            }
            if !is_order(&record) {
                back.insert(record["messageId"].as_str().unwrap_or_default().to_owned());
            }
            event.push(record);
        }
        let event = json!({ "Records": event });
        let failures = match batch(&function, &format!("b{number}"), event.clone()).await {
            Ok(failures) => failures,
            // What cannot be named: everything comes back.
            Err(said) => {
                assert!(said.contains("without an id") && back.contains(""), "{said}: {event}");
                continue;
            }
        };
        // A mutated order of alice may still be an order, and the same as an earlier one.
        let unsaid: Vec<_> =
            failures.iter().filter(|id| !back.contains(*id) && !of_alice(&event, id)).collect();
        assert!(unsaid.is_empty(), "{unsaid:?} came back: {event}");
        let kept: Vec<_> = back.iter().filter(|id| !failures.contains(id)).collect();
        assert!(kept.is_empty(), "{kept:?} was taken for an order: {event}");
    }
    let of_bob = stack.provider.entries().into_iter().filter(|entry| entry.key.starts_with("@bob/")).count();
    assert!(charged <= stack.charges());
    assert_eq!(of_bob, orders, "an order in a batch with poison was not charged");
}

/// Whether the message is a complete order.
fn is_order(record: &Value) -> bool {
    let message: Option<OrderMessage> =
        record["body"].as_str().and_then(|body| serde_json::from_str(body).ok());
    message.is_some_and(|message| {
        locker::Key::new("order/create", &message.order.order_id)
            .and_then(|key| key.tenant(&message.customer))
            .is_ok()
    })
}

fn of_alice(event: &Value, id: &str) -> bool {
    let records = event["Records"].as_array().expect("records").iter();
    records.filter(|record| record["messageId"] == id).any(is_order)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_that_are_no_batch_are_errors_and_the_worker_continues() {
    let stack = Stack::new().await;
    let function = stack.function(env!("CARGO_BIN_EXE_worker")).await;
    for (number, event) in inputs(60, &any_json()).enumerate() {
        // serde reads a struct from an array of its members too.
        if event["Records"].is_array() || event.is_array() {
            continue;
        }
        let said = batch(&function, &format!("e{number}"), event.clone()).await.expect_err("no batch");
        assert!(said.starts_with("failed to deserialize the incoming data"), "{said}: {event}");
    }
    let one =
        json!({ "messageId": "m", "body": json!({ "customer": "alice", "order": order("1") }).to_string() });
    assert_eq!(batch(&function, "last", json!({ "Records": [one] })).await, Ok(vec![]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_scanner_scans_on_any_event() {
    let stack = Stack::new().await;
    let function = stack.function(env!("CARGO_BIN_EXE_scanner")).await;
    let odd = prop_oneof![1 => mutated(kept::scheduled()), 1 => any_json()];
    for (number, event) in inputs(60, &odd).enumerate() {
        let Reply::Response(report) = function.invoke(&format!("e{number}"), event.clone()).await else {
            panic!("no report for {event}")
        };
        assert_eq!(report["finished"], true, "{event}");
    }
}
