//! The layer among other layers, in the order that the guide gives.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Extension, Request, State};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use chrono::TimeDelta;
use http::{HeaderValue, Method, StatusCode, header};
use locker::http::{Deadline, IdempotencyLayer, Operation, Owner};
use locker::{Clock as _, Locker};
use locker_tests::{Bench, Provider, record_of};
use tokio::sync::Notify;
use tower::ServiceExt as _;
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::compression::CompressionLayer;
use tower_http::cors::CorsLayer;
use tower_http::timeout::TimeoutLayer;
use tracing::Instrument as _;

use super::{Log, layer, posted, send};

#[derive(Clone)]
struct User(String);

/// Authentication, outside of the layer.
async fn authenticate(mut request: Request, next: Next) -> Response {
    let Some(user) = request.headers().get("x-user").and_then(|user| user.to_str().ok()) else {
        return StatusCode::UNAUTHORIZED.into_response();
    };
    let user = User(user.to_owned());
    request.extensions_mut().insert(user);
    next.run(request).await
}

#[derive(Clone, Default)]
struct Shop {
    provider: Provider,
    goes_on: Arc<Notify>,
}

async fn charge(State(shop): State<Shop>, how: String) -> String {
    let receipt = shop.provider.charge(&how);
    match how.as_str() {
        "panic" => panic!("no such currency"),
        "slow" => shop.goes_on.notified().await,
        _ => {}
    }
    receipt.repeat(100)
}

/// The application: the last layer is the outermost.
fn app(locker: Locker, shop: &Shop, limit: Duration) -> Router {
    let identify = |request: &http::request::Parts| Some(request.extensions.get::<User>()?.0.clone());
    let origin = HeaderValue::from_static("https://shop.example");
    Router::new()
        .route("/orders", post(charge))
        .layer(IdempotencyLayer::new(locker, Operation::method_and_path(), identify))
        .layer(from_fn(authenticate))
        .layer(TimeoutLayer::with_status_code(StatusCode::SERVICE_UNAVAILABLE, limit))
        .layer(CompressionLayer::new())
        .layer(CorsLayer::new().allow_origin(origin).allow_methods([Method::POST]))
        .layer(CatchPanicLayer::new())
        .with_state(shop.clone())
}

#[tokio::test]
async fn the_order_of_the_documentation_works() {
    let bench = Bench::new().await;
    let (locker, _) = bench.machine();
    let shop = Shop::default();
    let app = app(locker, &shop, Duration::from_secs(600));

    let preflight = Request::options("/orders")
        .header(header::ORIGIN, "https://shop.example")
        .header(header::ACCESS_CONTROL_REQUEST_METHOD, "POST");
    let preflight = send(&app, preflight, "").await;
    assert_eq!(
        (preflight.status, &preflight.headers["access-control-allow-methods"]),
        (200, &HeaderValue::from_static("POST"))
    );
    let unknown = send(&app, Request::post("/orders").header("Idempotency-Key", "k1"), "tea").await;
    assert_eq!((unknown.status, bench.items().await.len()), (401, 0), "refused before a token");

    // The first caller takes gzip, and the second does not.
    let first = send(&app, posted("/orders").header(header::ACCEPT_ENCODING, "gzip"), "tea").await;
    assert_eq!(
        (first.status, &first.headers[header::CONTENT_ENCODING]),
        (200, &HeaderValue::from_static("gzip"))
    );
    let again = send(&app, posted("/orders").header(header::ORIGIN, "https://shop.example"), "tea").await;
    assert!(again.is_replay() && again.text().starts_with("receipt 1 for tea"), "{again:?}");
    assert_eq!(again.headers["access-control-allow-origin"], "https://shop.example");
    assert_eq!(shop.provider.charges("tea"), 1);

    let bob = || Request::post("/orders").header("x-user", "bob").header("Idempotency-Key", "k1");
    assert_eq!(send(&app, bob(), "panic").await.status, 500);
    assert!(send(&app, bob(), "panic").await.is_open());
    assert_eq!(shop.provider.charges("panic"), 1);
}

/// The key for the provider is that of the attempt, however the header is written.
#[tokio::test]
async fn the_handler_is_given_the_attempt_for_its_provider() {
    let bench = Bench::new().await;
    let (locker, _) = bench.machine();
    let charge = async |Extension(attempt): Extension<locker::Attempt>| {
        format!("charged under {}", attempt.idempotency_key())
    };
    let identify = |_: &axum::http::request::Parts| Some("alice".to_owned());
    let app = Router::new().route("/orders", post(charge)).layer(IdempotencyLayer::new(
        locker,
        Operation::method_and_path(),
        identify,
    ));
    let quoted = Request::post("/orders").header("Idempotency-Key", "\"k1\"");
    let first = send(&app, quoted, "tea").await.text().to_owned();
    assert!(first.starts_with("charged under @alice/") && first.ends_with("/k1"), "{first}");
    let again = send(&app, Request::post("/orders").header("Idempotency-Key", "k1"), "tea").await;
    assert!(again.is_replay() && again.text() == first);
}

#[tokio::test]
async fn a_time_limit_outside_answers_the_caller_and_does_not_stop_the_work() {
    let bench = Bench::new().await;
    let (locker, _) = bench.machine();
    let shop = Shop::default();
    // The handler waits for the test, so the limit is always reached first.
    let limited = app(locker.clone(), &shop, Duration::from_millis(50));
    let mut statuses = Vec::new();
    while shop.provider.charges("slow") == 0 {
        statuses.push(send(&limited, posted("/orders"), "slow").await.status);
    }
    assert!(statuses.iter().all(|status| [409, 503].contains(status)), "{statuses:?}");
    shop.goes_on.notify_one();
    let patient = app(locker, &shop, Duration::from_secs(600));
    let answer = loop {
        let got = send(&patient, posted("/orders"), "slow").await;
        if got.status != 409 {
            break got;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    };
    assert!(answer.text().starts_with("receipt 1 for slow"), "{answer:?}");
    assert_eq!(shop.provider.charges("slow"), 1);
}

#[tokio::test]
async fn the_span_of_the_request_reaches_the_handler_and_what_is_logged_about_its_token() {
    let bench = Bench::new().await;
    let (locker, _) = bench.machine();
    let charge = async || {
        tracing::info!("charged");
        StatusCode::GATEWAY_TIMEOUT
    };
    let app: Router = Router::new().route("/", post(charge)).layer(layer(locker, |_| {}));
    let (log, _guard) = Log::listen();
    let span = tracing::info_span!("invocation", request = "r-17");
    send(&app, posted("/"), "").instrument(span).await;
    let said = log.text();
    for event in ["charged", "the handler answered 504"] {
        let line = said.lines().find(|line| line.contains(event)).expect(&said);
        assert!(line.contains("r-17"), "{line}");
    }
}

#[tokio::test]
async fn deadline_and_owner_of_the_request_reach_the_token_and_the_handler() {
    let bench = Bench::new().await;
    let (locker, wire) = bench.machine();
    let seen = async |Extension(deadline): Extension<Deadline>| deadline.0.to_rfc3339();
    let app: Router = Router::new().route("/", post(seen)).layer(layer(locker.clone(), |_| {}));
    let ask = async |deadline| {
        let mut request = posted("/").body(Body::empty()).expect("a request");
        request.extensions_mut().insert(Deadline(deadline));
        request.extensions_mut().insert(Owner("orders/r-17".to_owned()));
        app.clone().oneshot(request).await.expect("a response")
    };
    let now = bench.clock.now();
    let past = ask(now - TimeDelta::seconds(1)).await;
    let body = axum::body::to_bytes(past.into_body(), 10_000).await.expect("a body");
    assert!(String::from_utf8_lossy(&body).contains("urn:locker:problem:unavailable"), "{body:?}");
    assert_eq!(wire.count(), 0, "nothing is sent after the deadline");

    let deadline = now + TimeDelta::minutes(1);
    let response = ask(deadline).await;
    let body = axum::body::to_bytes(response.into_body(), 10_000).await.expect("a body");
    assert_eq!(body, deadline.to_rfc3339());
    assert_eq!(record_of(&locker, "@alice/POST/<>/k1").await.locked_by(), "orders/r-17");
}
