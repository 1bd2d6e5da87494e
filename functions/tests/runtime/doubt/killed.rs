//! A function that Lambda kills after the provider charged and before the charge is recorded: one
//! charge, listed once it is overdue, resolved by an operator, and answered to the customer.

use std::time::Duration;

use locker::workflow::{List, StepState};
use locker::{Clock as _, Intervened, Record, SystemClock};
use locker_functions::sandbox::Mood;
use locker_tests::{Function, Reply, ada, sqs_message};
use serde_json::{Value, json};

use crate::orders::event;
use crate::stack::{MINUTE, Stack, said};
use crate::till::{Till, order, workflow};

const ORDERS: &str = env!("CARGO_BIN_EXE_orders");
const WORKER: &str = env!("CARGO_BIN_EXE_worker");
const SCANNER: &str = env!("CARGO_BIN_EXE_scanner");
const TOKEN: &str = "@alice/order/create/9";

/// A function whose charges are overdue after the shortest time that is allowed.
async fn function(stack: &Stack, binary: &str) -> Function {
    let soon = [("PAYMENTS_TIMEOUT_MS", "5000"), ("LOCKER_EXPECT_MS", "1000")];
    stack.start(binary, MINUTE, &soon).await
}

/// Kill a function between the provider's charge and the reply that never comes.
async fn kill_after_the_charge(stack: &Stack, mut function: Function, event: Value) {
    stack.provider.set_mood(Mood::Slow);
    let charged = async {
        while stack.charges() == 0 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::select! {
        reply = function.invoke("killed", event) => panic!("it was charging: {reply:?}"),
        () = charged => {}
    }
    function.kill().await;
    stack.provider.set_mood(Mood::Well);
}

/// Wait until all of these tokens are overdue, and listed.
async fn overdue(stack: &Stack, tokens: &[&str]) -> Vec<Record> {
    let locker = stack.locker();
    let limit = SystemClock.now() + chrono::TimeDelta::seconds(60);
    loop {
        let listed = locker.overdue().fetch().await.expect("a listing").items;
        if listed.len() == tokens.len() {
            let mut records = Vec::new();
            for token in tokens {
                assert!(listed.iter().any(|listed| listed.token == **token), "{listed:?}");
                let key = locker::Key::existing(*token).expect("a key");
                records.push(locker.get(key).await.expect("an answer").expect("a record"));
            }
            // The owner's clock may be behind.
            if records.iter().all(|record| locker.needs_operator(record)) {
                return records;
            }
        }
        assert!(SystemClock.now() < limit, "{listed:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// The scanner reports the token, and an operator resolves it from the provider's books.
async fn reported_and_resolved(stack: &Stack, record: &Record) -> Value {
    let scanner = function(stack, SCANNER).await;
    let Reply::Response(report) = scanner.invoke("s1", json!({})).await else { panic!("no report") };
    assert!(report["missing"].as_u64() >= Some(1), "{report}");
    said(&scanner, "a task is missing").await;
    let booked = stack.provider.entries();
    assert_eq!((booked.len(), booked[0].key.as_str()), (1, TOKEN));
    let answer = json!({ "orderId": "9", "charge": booked[0].receipt.charge });
    let resolved = stack.locker().resolve(record, &answer, &ada()).await.expect("an answer");
    assert_eq!(resolved, Intervened::Done);
    answer
}

/// Status and body.
async fn send(function: &Function, id: &str, event: Value) -> (u64, Value) {
    let (status, body, _) = crate::orders::send(function, id, event).await;
    (status, body)
}

async fn the_customer_gets(stack: &Stack, answer: &Value) -> Function {
    let orders = function(stack, ORDERS).await;
    let read = event("GET", "/orders/9", Some("alice"), None, "");
    assert_eq!(send(&orders, "read", read).await, (200, answer.clone()));
    let create = event("POST", "/orders", Some("alice"), Some("a-new-key"), &order("9", 1000));
    assert_eq!(send(&orders, "create", create).await, (201, answer.clone()));
    let books = stack.provider.entries();
    assert_eq!((books.len(), books[0].asked), (1, 1), "charged once, and asked for once");
    orders
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_killed_after_the_charge_is_listed_resolved_and_answered() {
    let stack = Stack::new().await;
    let message = json!({ "customer": "alice", "order": serde_json::from_str::<Value>(&order("9", 1000)).expect("JSON") });
    let batch = || json!({ "Records": [sqs_message("m1", &message.to_string())] });
    kill_after_the_charge(&stack, function(&stack, WORKER).await, batch()).await;

    // The redelivered message does nothing while nobody has looked.
    let worker = function(&stack, WORKER).await;
    let back = worker.invoke("again", batch()).await;
    assert_eq!(back, Reply::Response(json!({ "batchItemFailures": [{ "itemIdentifier": "m1" }] })));

    let records = overdue(&stack, &[TOKEN]).await;
    let answer = reported_and_resolved(&stack, &records[0]).await;
    let done = worker.invoke("resolved", batch()).await;
    assert_eq!(done, Reply::Response(json!({ "batchItemFailures": [] })));
    the_customer_gets(&stack, &answer).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_order_killed_after_the_charge_is_listed_resolved_and_answered() {
    let stack = Stack::new().await;
    let create = || event("POST", "/orders", Some("alice"), Some("k1"), &order("9", 1000));
    kill_after_the_charge(&stack, function(&stack, ORDERS).await, create()).await;

    let orders = function(&stack, ORDERS).await;
    let (status, body) = send(&orders, "again", create()).await;
    assert_eq!(status, 409, "{body}");

    // The order has the record; the token of the customer's request has no line of its own.
    let records = overdue(&stack, &[TOKEN]).await;
    let answer = reported_and_resolved(&stack, &records[0]).await;
    let orders = the_customer_gets(&stack, &answer).await;
    // The customer's own request takes the one over that was killed, and gets the answer.
    assert!(stack.locker().in_progress().fetch().await.expect("a listing").items.is_empty());
    assert_eq!(send(&orders, "retry", create()).await, (201, answer));
    assert_eq!(stack.provider.entries()[0].asked, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_purchase_killed_after_the_charge_that_stays_in_doubt_is_quarantined_resolved_and_answered() {
    let till = Till::new().await;
    let buy = || event("POST", "/purchases", Some("alice"), Some("k1"), &order("9", 1000));
    kill_after_the_charge(&till.stack, till.function(ORDERS, &[]).await, buy()).await;
    // The provider does not say what it charged, so the second run is the last one.
    till.stack.provider.set_mood(Mood::Mute);
    let (report, completer) = till.completed(&[("LOCKER_ATTEMPTS", "2"), ("LOCKER_RETRY_HOURS", "0")]).await;
    assert_eq!((&report["quarantined"], &report["completed"]), (&json!(1), &json!(0)), "{report}");
    said(&completer, "a workflow is in quarantine").await;
    let listed = till.workflows().list(List::Quarantine).fetch().await.expect("a listing").items;
    assert_eq!(listed.len(), 1, "{listed:?}");

    let view = till.view("k1").await;
    let charge = view.steps().iter().find(|step| step.name() == "charge").expect("the step");
    assert_eq!(charge.state(), StepState::Started);
    let receipt = json!({ "charge": till.stack.provider.entries()[0].receipt.charge });
    let resolved = till.workflows().resolve_step(&view, "charge", &receipt, &ada()).await;
    assert_eq!(resolved.expect("an answer"), Intervened::Done);
    let view = till.view("k1").await;
    if view.listed() == Some(List::Quarantine) {
        let retried = till.workflows().retry(&view, &ada()).await;
        assert_eq!(retried.expect("an answer"), Intervened::Done);
    }
    till.stack.provider.set_mood(Mood::Well);
    let (report, _) = till.completed(&[]).await;
    assert_eq!(report["completed"], 1, "{report}");
    assert_eq!(till.row("9").await, Some(("paid".to_owned(), Some("ch_1".to_owned()))));
    assert_eq!(
        till.workflows().get(workflow("k1"), 1).await.expect("an answer").map(|view| view.steps().len()),
        Some(3)
    );
    let orders = till.function(ORDERS, &[]).await;
    assert_eq!(send(&orders, "late", buy()).await, (200, json!({ "orderId": "9", "charge": "ch_1" })));
    let books = till.stack.provider.entries();
    assert_eq!(books.len(), 1, "charged once");
}
