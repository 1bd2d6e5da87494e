//! The HTTP layer: the rules of the IETF draft and of Stripe for `Idempotency-Key`, and what
//! happens to the token whatever becomes of the handler. `doors` has the layer in each kind of
//! service; a test that needs only one uses a router of axum.

mod answers;
mod bodies;
mod classes;
mod cut_short;
mod doors;
mod header;
mod keys;
mod layers;
mod operation;
mod passed_on;
mod problems;
mod recognised;
mod resumable;
mod service;
mod set_aside;
mod stored;
mod streams;
mod taken_over;
mod waits;

use std::io;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use bytes::Bytes;
use http::request::{Builder, Parts};
use http::{HeaderMap, HeaderValue, Request, StatusCode, header as names};
use http_body_util::BodyExt as _;
use locker::Locker;
use locker::http::{Disposition, HttpSettings, IdempotencyLayer, Operation};
use locker_tests::{Bench, Wire};
use serde_json::Value;
use tower::ServiceExt as _;
use tracing::Dispatch;
use tracing::subscriber::{DefaultGuard, NoSubscriber};
use tracing_subscriber::fmt::MakeWriter;

/// The caller, as the tests name it.
fn by_user(request: &Parts) -> Option<String> {
    request.headers.get("x-user")?.to_str().ok().map(str::to_owned)
}

fn layer(locker: Locker, change: impl FnOnce(&mut HttpSettings)) -> IdempotencyLayer {
    let mut settings = HttpSettings::default();
    change(&mut settings);
    IdempotencyLayer::new(locker, Operation::method_and_path(), by_user).settings(settings)
}

/// A request of alice with the key `k1`.
fn posted(path: &str) -> Builder {
    Request::post(path).header("x-user", "alice").header("Idempotency-Key", "k1")
}

async fn send(router: &Router, request: Builder, body: impl Into<Body>) -> Got {
    let request = request.body(body.into()).expect("a request");
    let response = router.clone().oneshot(request).await.expect("a response");
    let (parts, body) = response.into_parts();
    Got {
        status: parts.status.as_u16(),
        headers: parts.headers,
        body: body.collect().await.expect("a body").to_bytes(),
    }
}

/// How long a handler of these tests is expected to take, and when it is overdue beyond the
/// allowance for clocks.
const EXPECTED: Duration = Duration::from_secs(60);
const LATE: Duration = Duration::from_secs(66);

/// The keys of what an operator has to look at.
async fn listed(locker: &Locker) -> Vec<String> {
    let mut listed: Vec<_> = Vec::new();
    for list in [locker.in_progress(), locker.overdue(), locker.held()] {
        listed.extend(list.fetch().await.expect("a listing").items.into_iter().map(|token| token.token));
    }
    listed.sort();
    listed.dedup();
    listed
}

/// A received response.
#[derive(Debug)]
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
        assert_eq!(self.headers[names::CONTENT_TYPE], "application/problem+json", "{}", self.text());
        let body: Value = serde_json::from_slice(&self.body).expect("JSON");
        assert_eq!(body["status"], self.status);
        assert!(body["title"].is_string() && body["detail"].is_string(), "{body}");
        let kind =
            body["type"].as_str().expect("a type").strip_prefix("urn:locker:problem:").expect("our type");
        (self.status, kind.to_owned(), body["is_transient"].as_bool().expect("a truth"))
    }

    /// The token is neither free nor answered.
    fn is_open(&self) -> bool {
        self.status == 409 && ["in-progress", "overdue"].contains(&self.problem().1.as_str())
    }
}

fn problem(status: u16, kind: &str, transient: bool) -> (u16, String, bool) {
    (status, kind.to_owned(), transient)
}

/// An API whose handler counts its runs and responds as the test sets.
struct Api {
    bench: Bench,
    router: Router,
    wire: Wire,
    runs: Arc<AtomicU32>,
    answer: Arc<Mutex<Answer>>,
}

#[derive(Clone)]
struct Answer {
    status: u16,
    outcome: Option<Disposition>,
    body: Bytes,
}

#[derive(Clone)]
struct Handler {
    runs: Arc<AtomicU32>,
    answer: Arc<Mutex<Answer>>,
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
    headers.insert(names::LOCATION, HeaderValue::from_static("/orders/7"));
    headers.insert(names::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(names::SET_COOKIE, HeaderValue::from_static("session=secret"));
    headers.insert(names::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    headers.insert("x-internal", HeaderValue::from_static("yes"));
    if let Some(outcome) = answer.outcome {
        response.extensions_mut().insert(outcome);
    }
    response
}

impl Api {
    async fn new() -> Self {
        Self::with(|_| {}).await
    }

    async fn with(change: impl FnOnce(&mut HttpSettings)) -> Self {
        Self::layered(|locker| layer(locker, change)).await
    }

    async fn layered(layer: impl FnOnce(Locker) -> IdempotencyLayer) -> Self {
        let bench = Bench::new().await;
        let machine = bench.machine();
        Self::on(bench, machine, layer)
    }

    /// For faults that never end.
    async fn impatient() -> Self {
        let bench = Bench::new().await;
        let machine = bench.machine_with(|settings| settings.give_up_after = Duration::from_secs(2));
        Self::on(bench, machine, |locker| layer(locker, |_| {}))
    }

    fn on(
        bench: Bench,
        (locker, wire): (Locker, Wire),
        layer: impl FnOnce(Locker) -> IdempotencyLayer,
    ) -> Self {
        let answer = Answer { status: 201, outcome: None, body: Bytes::new() };
        let handler = Handler { runs: Arc::default(), answer: Arc::new(Mutex::new(answer)) };
        let router = Router::new()
            .route("/orders", post(create).get(create))
            .route("/refunds", post(create))
            .route("/slow", post(async || tokio::time::sleep(Duration::from_secs(60)).await))
            .route("/health", get(async || "well"))
            .layer(layer(locker))
            .with_state(handler.clone());
        Self { bench, router, wire, runs: handler.runs, answer: handler.answer }
    }

    fn answers(&self, status: u16) {
        self.answer.lock().expect("an answer").status = status;
    }

    fn says(&self, outcome: Option<Disposition>) {
        self.answer.lock().expect("an answer").outcome = outcome;
    }

    fn responds(&self, body: Vec<u8>) {
        self.answer.lock().expect("an answer").body = body.into();
    }

    fn runs(&self) -> u32 {
        self.runs.load(Ordering::SeqCst)
    }

    async fn send(&self, request: Builder, body: impl Into<Body>) -> Got {
        send(&self.router, request, body).await
    }

    /// POST /orders by alice, with these keys.
    async fn post(&self, keys: &[&str], body: &'static str) -> Got {
        let request = Request::post("/orders").header("x-user", "alice");
        let request = keys.iter().fold(request, |request, key| request.header("Idempotency-Key", *key));
        self.send(request, body).await
    }

    async fn held(&self) -> Vec<String> {
        let (locker, _) = self.bench.machine();
        let held = locker.held().fetch().await.expect("a listing");
        held.items.into_iter().map(|token| token.token).collect()
    }
}

/// What was logged on this thread.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    fn listen() -> (Self, DefaultGuard) {
        // While a process has one subscriber only, an event that another thread meets first is
        // judged by the subscriber of that thread, which may be none.
        static SECOND: OnceLock<Dispatch> = OnceLock::new();
        SECOND.get_or_init(|| Dispatch::new(NoSubscriber::new()));
        let log = Self::default();
        let subscriber = tracing_subscriber::fmt().with_writer(log.clone()).with_ansi(false).finish();
        (log, tracing::subscriber::set_default(subscriber))
    }

    fn text(&self) -> String {
        String::from_utf8(self.0.lock().expect("the log").clone()).expect("text")
    }
}

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("the log").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}
