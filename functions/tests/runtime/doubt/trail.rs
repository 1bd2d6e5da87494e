//! An operator follows a request: through every line of the log, and to the provider.

use locker_tests::{Function, Reply, sqs_message};
use serde_json::{Value, json};

use super::wire::{Wire, answer};
use crate::orders::event;
use crate::stack::{MINUTE, Stack, said};

/// What the Runtime API of the tests hands to every invocation.
const TRACE: &str = "Root=1-5759e988-bd862e3fe1be46a994272793";

fn order() -> Value {
    json!({ "orderId": "7", "cents": 1000, "currency": "EUR" })
}

/// Every line that was logged for an invocation names it.
fn is_traced(function: &Function, id: &str) {
    let lines: Vec<_> = function.logged().into_iter().filter(|line| line.get("fields").is_some()).collect();
    assert!(!lines.is_empty());
    for line in lines {
        assert_eq!(line["span"]["requestId"], id, "{line}");
        assert_eq!(line["span"]["xrayTraceId"], TRACE, "{line}");
    }
}

#[tokio::test]
async fn a_charge_carries_the_trace_of_its_invocation_and_so_does_the_log() {
    let stack = Stack::new().await;
    let provider = Wire::new(|_| Some(answer("500 Internal Server Error", "", ""))).await;
    let orders = stack.start(env!("CARGO_BIN_EXE_orders"), MINUTE, &[("PAYMENTS_URL", &provider.url)]).await;
    let reply =
        orders.invoke("r1", event("POST", "/orders", Some("alice"), Some("k1"), &order().to_string())).await;
    assert!(matches!(reply, Reply::Response(response) if response["statusCode"] == 504));
    let line = said(&orders, "it is unknown whether the work happened; the token stays in progress").await;
    assert_eq!(line["fields"]["lock.token"], "@alice/order/create/7", "{line}");
    is_traced(&orders, "r1");

    let worker = stack.start(env!("CARGO_BIN_EXE_worker"), MINUTE, &[("PAYMENTS_URL", &provider.url)]).await;
    let body = json!({ "customer": "bob", "order": order() }).to_string();
    worker.invoke("w1", json!({ "Records": [sqs_message("m1", &body)] })).await;
    said(&worker, "a message is not done and returns to the queue").await;
    is_traced(&worker, "w1");

    let traces: Vec<_> = provider.asked().into_iter().map(|asked| asked.trace).collect();
    assert_eq!(traces, [TRACE, TRACE]);
}

#[tokio::test]
async fn a_request_that_could_not_be_begun_is_logged_with_its_key_and_its_trace() {
    let stack = Stack::new().await;
    let orders = stack.start(env!("CARGO_BIN_EXE_orders"), MINUTE, &[("LOCKER_TABLE", "nowhere")]).await;
    orders.invoke("r1", event("POST", "/orders", Some("alice"), Some("k1"), &order().to_string())).await;
    let line = said(&orders, "a token could not be begun; the handler does not run").await;
    assert_eq!(line["fields"]["lock.token"], "@alice/POST/orders/k1", "{line}");
    is_traced(&orders, "r1");
}

#[tokio::test]
async fn a_purchase_that_could_not_be_processed_is_logged_with_its_key_as_the_settings_say() {
    let stack = Stack::new().await;
    for (shows, key) in [("clear", "@alice/purchase/k1"), ("digest", "")] {
        let environment = [
            ("LOCKER_WORKFLOWS_TABLE", "nowhere"),
            ("ORDERS_TABLE", "nowhere"),
            ("LOCKER_KEYS_IN_LOGS", shows),
        ];
        let orders = stack.start(env!("CARGO_BIN_EXE_orders"), MINUTE, &environment).await;
        let event = event("POST", "/purchases", Some("alice"), Some("k1"), &order().to_string());
        orders.invoke("p1", event).await;
        let line = said(&orders, "a purchase could not be processed").await;
        let shown = line["fields"]["workflow.key"].as_str().expect("a key");
        assert!(if key.is_empty() { !shown.contains("alice") } else { shown == key }, "{line}");
        is_traced(&orders, "p1");
    }
}
