//! What the API says of an order whose outcome is not known, and what it keeps of having said so.

use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::request::Parts;
use axum::http::{HeaderMap, Request};
use locker::{Begun, Clock as _, Intervened, Operator, TokenState};
use locker_functions::orders::{Shop, router};
use locker_functions::sandbox::Mood;
use locker_tests::{Fate, Wire, held_by, record_of};
use serde_json::{Value, json};
use tower::ServiceExt as _;

use crate::stack::Stack;

const TOKEN: &str = "@alice/order/create/7";
const REQUEST: &str = "@alice/POST/orders/k1";

fn alice(_: &Parts) -> Option<String> {
    Some("alice".to_owned())
}

/// The API in this process, whose lockers have the clock of the test.
fn api(stack: &Stack) -> (Router, Wire) {
    let (locker, wire) = stack.bench.machine();
    (router(Shop::new(locker, stack.payments()), alice), wire)
}

/// Status, headers and body.
async fn post(api: &Router) -> (u16, HeaderMap, Value) {
    let order = json!({ "orderId": "7", "cents": 1000, "currency": "EUR" }).to_string();
    let request = Request::post("/orders").header("content-type", "application/json");
    let request = request.header("idempotency-key", "k1").body(Body::from(order)).expect("a request");
    let (parts, body) = api.clone().oneshot(request).await.expect("a response").into_parts();
    let body = axum::body::to_bytes(body, usize::MAX).await.expect("a body");
    (parts.status.as_u16(), parts.headers, serde_json::from_slice(&body).expect("JSON"))
}

async fn read(api: &Router) -> (u16, HeaderMap, Value) {
    let request = Request::get("/orders/7").body(Body::empty()).expect("a request");
    let (parts, body) = api.clone().oneshot(request).await.expect("a response").into_parts();
    let body = axum::body::to_bytes(body, usize::MAX).await.expect("a body");
    (parts.status.as_u16(), parts.headers, serde_json::from_slice(&body).expect("JSON"))
}

fn kind(body: &Value) -> (&str, &Value) {
    let kind = body["type"].as_str().expect("a type");
    (kind.strip_prefix("urn:locker:orders:").unwrap_or(kind), &body["is_transient"])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_order_in_doubt_is_said_to_be_so_and_its_later_answer_is_given() {
    let stack = Stack::new().await;
    let (api, _) = api(&stack);
    stack.provider.set_mood(Mood::Failing);
    let (status, _, body) = post(&api).await;
    assert_eq!((status, kind(&body)), (504, ("in-doubt", &json!(false))));
    stack.provider.set_mood(Mood::Well);
    let (status, headers, body) = post(&api).await;
    assert_eq!((status, kind(&body)), (409, ("order-overdue", &json!(false))), "a retry does not help");
    assert!(!headers.contains_key("retry-after"), "{headers:?}");
    // Neither response was kept as the answer of the request, whose token is in no listing.
    let (locker, _) = stack.bench.machine();
    let request = record_of(&locker, REQUEST).await;
    assert_eq!((request.state(), request.is_listed()), (TokenState::InProgress, false));
    let ada = Operator::new("ada", "the provider has it").expect("an operator");
    let answer = json!({ "orderId": "7", "charge": "ch_1" });
    let record = record_of(&locker, TOKEN).await;
    let resolved = locker.resolve(&record, &answer, &ada).await.expect("resolved");
    assert_eq!(resolved, Intervened::Done);
    let (status, _, body) = post(&api).await;
    assert_eq!((status, body), (201, answer));
    assert_eq!(stack.provider.entries()[0].asked, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_order_in_progress_is_to_be_asked_for_again() {
    let stack = Stack::new().await;
    let (api, _) = api(&stack);
    let (locker, _) = stack.bench.machine();
    let order = json!({ "orderId": "7", "cents": 1000, "currency": "EUR" });
    let token = locker.token(("order/create", 7)).tenant("alice").fingerprint(&order);
    // Due in the time of the machine, which tells the API what is overdue.
    let twin = held_by(token.expect_within(Duration::from_secs(24 * 3600))).await;
    let (status, headers, body) = post(&api).await;
    assert_eq!((status, kind(&body)), (409, ("order-in-progress", &json!(true))));
    let after: u64 = headers["retry-after"].to_str().expect("text").parse().expect("seconds");
    assert!((1..=60).contains(&after), "{after}");
    assert!(stack.bench.item(REQUEST).await.is_none(), "the response is not the answer");
    twin.release().await.expect("released");
    assert_eq!(post(&api).await.0, 201);
}

/// The table was restored, and is open again. The order waits for an operator, and the request is
/// new.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_order_held_by_a_restore_is_no_answer_of_the_request() {
    let stack = Stack::new().await;
    let end = stack.bench.clock.now();
    let (closed, _) = stack.bench.machine_with(|settings| settings.restored = Some(end));
    let order = json!({ "orderId": "7", "cents": 1000, "currency": "EUR" });
    let begun = closed.token(("order/create", 7)).tenant("alice").fingerprint(&order).begin().await;
    assert!(matches!(begun, Ok(Begun::Restored(_))), "{begun:?}");
    let (api, _) = api(&stack);
    let (status, _, body) = post(&api).await;
    assert_eq!((status, kind(&body)), (409, ("order-restored", &json!(false))));
    let (status, _, body) = read(&api).await;
    assert_eq!((status, kind(&body)), (409, ("order-restored", &json!(false))));
    let ada = Operator::new("ada", "the provider has it").expect("an operator");
    let answer = json!({ "orderId": "7", "charge": "ch_1" });
    let record = record_of(&closed, TOKEN).await;
    assert_eq!(closed.resolve(&record, &answer, &ada).await.expect("resolved"), Intervened::Done);
    let (status, _, body) = post(&api).await;
    assert_eq!((status, body), (201, answer));
    assert_eq!(stack.charges(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_table_out_of_reach_is_no_failure_of_the_order() {
    let stack = Stack::new().await;
    let (locker, wire) = stack.bench.machine_with(|settings| {
        settings.give_up_after = Duration::from_secs(1);
    });
    let api = router(Shop::new(locker, stack.payments()), alice);
    // The begin of the request goes well, and that of the order does not; then the table is back.
    let throttled = std::iter::repeat_n(Fate::Throttled, 10_000);
    wire.next(std::iter::once(Fate::Ok).chain(throttled));
    let unavailable = tokio::spawn(async move {
        let answered = post(&api).await;
        (api, answered)
    });
    let (api, (status, _, body)) = unavailable.await.expect("no panic");
    assert_eq!((status, kind(&body)), (503, ("unavailable", &json!(true))));
    wire.next([]);
    stack.bench.clock.advance(Duration::from_secs(66));
    assert_eq!(post(&api).await.0, 201, "the request goes on");
    assert_eq!(stack.charges(), 1);
}
