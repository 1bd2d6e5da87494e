//! The rules of the IETF draft and of Stripe for `Idempotency-Key`, as a table of cases, each a test,
//! on an axum router with the layer.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use bytes::Bytes;
use http::request::Builder;
use http::{HeaderMap, HeaderValue, Request, StatusCode, header};
use http_body_util::BodyExt as _;
use locker::http::{HttpSettings, IdempotencyLayer, Outcome, Required};
use locker_tests::{Bench, Fault, Wire, held_by};
use serde_json::Value;
use tower::ServiceExt as _;

/// An API whose handler counts its runs and answers as the test says.
struct Api {
    bench: Bench,
    router: Router,
    wire: Wire,
    runs: Arc<AtomicU32>,
    answer: Arc<std::sync::Mutex<Answer>>,
}

#[derive(Clone)]
struct Answer {
    status: u16,
    outcome: Option<Outcome>,
    body: Bytes,
}

#[derive(Clone)]
struct Handler {
    runs: Arc<AtomicU32>,
    answer: Arc<std::sync::Mutex<Answer>>,
}

async fn create(State(handler): State<Handler>, body: Bytes) -> Response {
    let run = handler.runs.fetch_add(1, Ordering::SeqCst) + 1;
    let answer = handler.answer.lock().expect("an answer").clone();
    let mut response = if answer.body.is_empty() {
        format!("run {run}: {}", String::from_utf8_lossy(&body)).into_response()
    } else {
        answer.body.clone().into_response()
    };
    *response.status_mut() = StatusCode::from_u16(answer.status).expect("a status");
    let headers = response.headers_mut();
    headers.insert(header::LOCATION, HeaderValue::from_static("/orders/7"));
    headers.insert(header::SET_COOKIE, HeaderValue::from_static("session=secret"));
    headers.insert("x-internal", HeaderValue::from_static("yes"));
    if let Some(outcome) = answer.outcome {
        response.extensions_mut().insert(outcome);
    }
    response
}

/// What came back.
struct Got {
    status: u16,
    headers: HeaderMap,
    body: Bytes,
}

impl Got {
    fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("text")
    }

    fn is_replay(&self) -> bool {
        self.headers.get("idempotent-replayed").is_some_and(|value| value == "true")
    }

    /// Status, type and `is_transient` of a problem.
    fn problem(&self) -> (u16, String, bool) {
        assert_eq!(self.headers[header::CONTENT_TYPE], "application/problem+json");
        let body: Value = serde_json::from_slice(&self.body).expect("JSON");
        assert_eq!(body["status"], self.status);
        assert!(body["title"].is_string() && body["detail"].is_string(), "{body}");
        let kind =
            body["type"].as_str().expect("a type").strip_prefix("urn:locker:problem:").expect("our type");
        (self.status, kind.to_owned(), body["is_transient"].as_bool().expect("a truth"))
    }
}

fn problem(status: u16, kind: &str, transient: bool) -> (u16, String, bool) {
    (status, kind.to_owned(), transient)
}

impl Api {
    async fn new() -> Self {
        Self::with(|_| {}).await
    }

    async fn with(change: impl FnOnce(&mut HttpSettings)) -> Self {
        let bench = Bench::new().await;
        let (locker, wire) = bench.impatient_machine();
        let mut settings = HttpSettings::default();
        change(&mut settings);
        let layer = IdempotencyLayer::new(locker, |request: &http::request::Parts| {
            request.headers.get("x-user")?.to_str().ok().map(str::to_owned)
        });
        let answer = Answer { status: 201, outcome: None, body: Bytes::new() };
        let handler = Handler { runs: Arc::default(), answer: Arc::new(std::sync::Mutex::new(answer)) };
        let router = Router::new()
            .route("/orders", post(create).get(create))
            .route("/refunds", post(create))
            .route("/slow", post(async || tokio::time::sleep(Duration::from_secs(60)).await))
            .route(
                "/pause",
                post(async || {
                    tokio::time::sleep(Duration::from_millis(400)).await;
                    "rested"
                }),
            )
            .route("/health", get(async || "well"))
            .layer(layer.settings(settings))
            .with_state(handler.clone());
        Self { bench, router, wire, runs: handler.runs, answer: handler.answer }
    }

    fn answers(&self, status: u16) {
        self.answer.lock().expect("an answer").status = status;
    }

    fn runs(&self) -> u32 {
        self.runs.load(Ordering::SeqCst)
    }

    async fn send(&self, request: Builder, body: impl Into<Body>) -> Got {
        let request = request.body(body.into()).expect("a request");
        let response = self.router.clone().oneshot(request).await.expect("a response");
        let (parts, body) = response.into_parts();
        Got {
            status: parts.status.as_u16(),
            headers: parts.headers,
            body: body.collect().await.expect("a body").to_bytes(),
        }
    }

    /// POST /orders by alice, with these keys.
    async fn post(&self, keys: &[&str], body: &'static str) -> Got {
        let request = Request::post("/orders").header("x-user", "alice");
        let request = keys.iter().fold(request, |request, key| request.header("Idempotency-Key", *key));
        self.send(request, body).await
    }
}

#[tokio::test]
async fn after_success_the_stored_response_comes_back_marked() {
    let api = Api::new().await;
    let first = api.post(&["k1"], "tea").await;
    assert_eq!((first.status, first.text(), first.is_replay()), (201, "run 1: tea", false));
    assert_eq!(first.headers[header::SET_COOKIE], "session=secret");
    let again = api.post(&["k1"], "tea").await;
    assert_eq!((again.status, again.text(), again.is_replay()), (201, "run 1: tea", true));
    // Chosen headers, and never what authorises.
    assert_eq!(again.headers[header::LOCATION], "/orders/7");
    assert_eq!(again.headers[header::CONTENT_TYPE], first.headers[header::CONTENT_TYPE]);
    assert!(!again.headers.contains_key(header::SET_COOKIE) && !again.headers.contains_key("x-internal"));
    assert_eq!(api.runs(), 1);
}

#[tokio::test]
async fn quoted_and_bare_keys_are_the_same() {
    let api = Api::new().await;
    api.post(&["\"k1\""], "tea").await;
    assert!(api.post(&["k1"], "tea").await.is_replay());
}

#[tokio::test]
async fn keys_that_are_not_one_key_are_refused() {
    let api = Api::new().await;
    let long = "k".repeat(256);
    for (keys, kind) in [
        (&[][..], "key-missing"),
        (&[""], "key-invalid"),
        (&["\"\""], "key-invalid"),
        (&["a", "b"], "key-invalid"),
        (&["a", "a"], "key-invalid"),
        (&["\"a\", \"b\""], "key-invalid"),
        (&["\"open"], "key-invalid"),
        (&["a b"], "key-invalid"),
        (&[long.as_str()], "key-invalid"),
    ] {
        let got = api.post(keys, "tea").await;
        assert_eq!(got.problem(), problem(400, kind, false), "{keys:?}");
    }
    assert_eq!((api.runs(), api.wire.count()), (0, 0), "nothing ran and nothing was sent");
}

#[tokio::test]
async fn another_body_or_query_under_the_same_key_is_refused() {
    let api = Api::new().await;
    api.post(&["k1"], "tea").await;
    assert_eq!(api.post(&["k1"], "coffee").await.problem(), problem(422, "key-reused", false));
    let query = Request::post("/orders?cents=9").header("x-user", "alice").header("Idempotency-Key", "k1");
    assert_eq!(api.send(query, "tea").await.problem(), problem(422, "key-reused", false));
    assert_eq!(api.runs(), 1);
}

#[tokio::test]
async fn while_the_first_runs_the_second_is_told_when_to_come_back() {
    let api = Api::new().await;
    let slow = || Request::post("/slow").header("x-user", "alice").header("Idempotency-Key", "k1");
    let router = api.router.clone();
    let first = tokio::spawn(router.oneshot(slow().body(Body::empty()).expect("a request")));
    while api.wire.count() == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let second = api.send(slow(), "").await;
    assert_eq!(second.problem(), problem(409, "in-progress", true));
    assert_eq!(second.headers[header::RETRY_AFTER], "60", "when it is due");
    // Another body is another body, running or not.
    assert_eq!(api.send(slow(), "other").await.problem(), problem(422, "key-reused", false));
    first.abort();
}

#[tokio::test]
async fn what_is_stored_is_decided_by_class() {
    for (status, stored) in [
        (200, true),
        (204, true),
        (302, true),
        (400, true),
        (404, true),
        (409, true),
        (422, true),
        (500, true),
        (502, true),
        (408, false),
        (425, false),
        (429, false),
        (503, false),
    ] {
        let api = Api::new().await;
        api.answers(status);
        assert_eq!(api.post(&["k1"], "tea").await.status, status);
        let again = api.post(&["k1"], "tea").await;
        assert_eq!(
            (again.status, again.is_replay(), api.runs()),
            (status, stored, if stored { 1 } else { 2 }),
            "{status}"
        );
    }
}

#[tokio::test]
async fn what_is_stored_can_be_chosen() {
    let api = Api::with(|settings| {
        settings.outcomes = |status| if status.is_success() { Outcome::Store } else { Outcome::Release };
    })
    .await;
    api.answers(422);
    api.post(&["k1"], "tea").await;
    api.answers(201);
    assert_eq!(api.post(&["k1"], "tea").await.text(), "run 2: tea");
    assert!(api.post(&["k1"], "tea").await.is_replay());
}

#[tokio::test]
async fn a_handler_that_knows_better_says_so() {
    let api = Api::new().await;
    api.answer.lock().expect("an answer").outcome = Some(Outcome::InDoubt);
    api.answers(504);
    assert_eq!(api.post(&["k1"], "tea").await.status, 504);
    assert_eq!(api.post(&["k1"], "tea").await.problem(), problem(409, "in-progress", true));
    api.answer.lock().expect("an answer").outcome = Some(Outcome::Release);
    api.post(&["k2"], "tea").await;
    assert!(!api.post(&["k2"], "tea").await.is_replay());
}

#[tokio::test]
async fn after_expiry_the_key_is_new() {
    let api = Api::new().await;
    api.post(&["k1"], "tea").await;
    api.bench.clock.advance(Duration::from_secs(31 * 24 * 60 * 60));
    let got = api.post(&["k1"], "coffee").await;
    assert_eq!((got.status, got.text(), got.is_replay()), (201, "run 2: coffee", false));
}

#[tokio::test]
async fn callers_methods_and_routes_do_not_share_keys() {
    let api = Api::new().await;
    api.post(&["k1"], "tea").await;
    let other =
        |user: &str, path: &str| Request::post(path).header("x-user", user).header("Idempotency-Key", "k1");
    for (user, path) in [("bob", "/orders"), ("alice", "/refunds")] {
        let got = api.send(other(user, path), "tea").await;
        assert_eq!((got.status, got.is_replay()), (201, false), "{user} {path}");
    }
    let keys: Vec<_> =
        api.bench.items().await.iter().map(|item| item["lockToken"].as_s().expect("text").clone()).collect();
    assert_eq!(keys, ["@alice/POST/orders/k1", "@alice/POST/refunds/k1", "@bob/POST/orders/k1"]);
    let nobody = api.send(Request::post("/orders").header("Idempotency-Key", "k1"), "tea").await;
    assert_eq!(nobody.problem(), problem(401, "unidentified", false));
}

#[tokio::test]
async fn methods_that_are_idempotent_anyway_go_through() {
    let api = Api::new().await;
    assert_eq!(api.send(Request::get("/health"), "").await.text(), "well");
    let read = || Request::get("/orders").header("x-user", "alice").header("Idempotency-Key", "k1");
    api.send(read(), "").await;
    api.send(read(), "").await;
    assert_eq!((api.runs(), api.wire.count()), (2, 0));
}

#[tokio::test]
async fn a_key_may_be_optional() {
    let api = Api::with(|settings| settings.required = Required::No).await;
    api.post(&[], "tea").await;
    api.post(&[], "tea").await;
    assert_eq!(api.runs(), 2);
    api.post(&["k1"], "tea").await;
    assert!(api.post(&["k1"], "tea").await.is_replay());
}

#[tokio::test]
async fn a_body_that_is_too_large_is_refused_before_it_is_hashed() {
    let api = Api::with(|settings| settings.max_request_bytes = 8).await;
    assert_eq!(api.post(&["k1"], "nine byte").await.problem(), problem(413, "body-too-large", false));
    assert_eq!((api.runs(), api.wire.count()), (0, 0));
    assert_eq!(api.post(&["k1"], "eight by").await.status, 201);
}

#[tokio::test]
async fn bytes_come_back_as_bytes() {
    let api = Api::new().await;
    let noise: Vec<u8> = (0..30_000).map(|_| fastrand::u8(..)).collect();
    api.answer.lock().expect("an answer").body = noise.clone().into();
    assert_eq!(api.post(&["k1"], "tea").await.body, noise);
    let again = api.post(&["k1"], "tea").await;
    assert!(again.is_replay() && again.body == noise);
}

#[tokio::test]
async fn out_of_reach_means_that_the_handler_did_not_run() {
    let api = Api::new().await;
    for fault in [Fault::Throttle, Fault::LoseReply, Fault::ErrorBefore] {
        api.wire.always(fault);
        let got = api.post(&["k1"], "tea").await;
        assert_eq!(got.problem(), problem(503, "unavailable", true), "{fault:?}");
        assert_eq!(got.headers[header::RETRY_AFTER], "1");
    }
    api.wire.always(Fault::AccessDenied);
    assert_eq!(api.post(&["k2"], "tea").await.problem(), problem(500, "internal", false));
    assert_eq!(api.runs(), 0);
}

#[tokio::test]
async fn a_response_that_could_not_be_stored_is_given_all_the_same() {
    let api = Api::new().await;
    api.wire.next(std::iter::once(Fault::None).chain(std::iter::repeat_n(Fault::Throttle, 10_000)));
    assert_eq!(api.post(&["k1"], "tea").await.text(), "run 1: tea");
    api.wire.next([]);
    assert_eq!(api.post(&["k1"], "tea").await.problem(), problem(409, "in-progress", true));
    assert_eq!(api.runs(), 1);
}

#[tokio::test]
async fn what_waits_for_a_person_is_a_conflict_that_does_not_pass() {
    let api = Api::new().await;
    let (locker, _) = api.bench.machine();
    let token = locker.token("@alice/POST/orders/k1");
    held_by(token).await.fail("odd").await.expect("failed");
    assert_eq!(api.post(&["k1"], "tea").await.problem(), problem(409, "held", false));
}

#[tokio::test]
async fn a_caller_that_hangs_up_does_not_stop_the_work() {
    let api = Api::new().await;
    let slow = || Request::post("/pause").header("x-user", "alice").header("Idempotency-Key", "k1");
    let send = api.router.clone().oneshot(slow().body(Body::empty()).expect("a request"));
    // It hangs up while the handler works.
    let hung_up = tokio::time::timeout(Duration::from_millis(100), send).await;
    assert!(hung_up.is_err());
    let answer = loop {
        let got = api.send(slow(), "").await;
        if got.status != 409 {
            break got;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    assert_eq!((answer.status, answer.text(), answer.is_replay()), (200, "rested", true));
}

#[tokio::test]
async fn a_response_that_is_too_large_is_passed_on_whole_and_not_repeated() {
    let api = Api::with(|settings| settings.max_response_bytes = 1000).await;
    let noise: Vec<u8> = (0..5000).map(|_| fastrand::u8(..)).collect();
    api.answer.lock().expect("an answer").body = noise.clone().into();
    assert_eq!(api.post(&["k1"], "tea").await.body, noise);
    assert_eq!(api.post(&["k1"], "tea").await.problem(), problem(409, "in-progress", true));
    assert_eq!(api.runs(), 1);
}
