//! The HTTP layer in an axum service, among other layers in their order.
//!
//! Run it with `cargo run -p locker-examples --bin http_axum`. It sends its requests to itself.

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::{HeaderValue, Method, StatusCode, header, request::Parts};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use lock_token_testing::Embedded;
use locker::http::{IDEMPOTENCY_KEY, IDEMPOTENT_REPLAYED, IdempotencyLayer, Operation};
use locker::{BoxError, Locker};
use tower::ServiceExt as _;
use tower_http::{cors::CorsLayer, trace::TraceLayer};

/// What authentication proved.
#[derive(Clone)]
struct Customer(String);

/// Stands for the check of a real token, such as a JWT.
async fn authenticate(mut request: Request, next: Next) -> Response {
    let customer = match request.headers().get(header::AUTHORIZATION).map(HeaderValue::as_bytes) {
        Some(b"Bearer secret-of-alice") => Customer("alice".to_owned()),
        _ => return StatusCode::UNAUTHORIZED.into_response(),
    };
    request.extensions_mut().insert(customer);
    next.run(request).await
}

async fn order(body: String) -> (StatusCode, String) {
    println!("handler: charge {body}");
    (StatusCode::CREATED, format!("charged {body}"))
}

/// Lets the pages of the shop send the key, and read whether the response is a replay.
fn cors() -> CorsLayer {
    CorsLayer::new()
        .allow_origin(HeaderValue::from_static("https://shop.example"))
        .allow_methods([Method::POST])
        .allow_headers([IDEMPOTENCY_KEY, header::AUTHORIZATION, header::CONTENT_TYPE])
        .expose_headers([IDEMPOTENT_REPLAYED, header::RETRY_AFTER])
}

/// The layer that is added last is the outermost, and sees a request first.
fn app(locker: Locker) -> Router {
    let customer = |request: &Parts| Some(request.extensions.get::<Customer>()?.0.clone());
    Router::new()
        .route("/orders", post(order))
        // Innermost, so that only the handler's answers are stored.
        .layer(IdempotencyLayer::new(locker, Operation::method_and_path(), customer))
        // Outside of it: the layer needs the customer, and a 401 must not become a stored answer.
        .layer(from_fn(authenticate))
        // Outside of both: a preflight request has no credentials, and the CORS headers of a replay
        // must fit the repeated request.
        .layer(cors())
        // Outermost: it also records requests that the other layers refuse.
        .layer(TraceLayer::new_for_http())
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    let dynamodb = Embedded::memory()?.client();
    locker::create_table(&dynamodb, "locks").await?;
    let app = app(Locker::new(&dynamodb, "locks")?);
    let preflight = Request::builder()
        .method(Method::OPTIONS)
        .uri("/orders")
        .header(header::ORIGIN, "https://shop.example")
        .header(header::ACCESS_CONTROL_REQUEST_METHOD, "POST")
        .header(header::ACCESS_CONTROL_REQUEST_HEADERS, "authorization,idempotency-key");
    let response = app.clone().oneshot(preflight.body(Body::empty())?).await?;
    println!(
        "preflight: {} {:?}",
        response.status().as_u16(),
        response.headers()[header::ACCESS_CONTROL_ALLOW_HEADERS]
    );
    for (token, body) in [
        ("of a stranger", "EUR 10.00"),
        ("secret-of-alice", "EUR 10.00"),
        ("secret-of-alice", "EUR 10.00"),
        ("secret-of-alice", "EUR 99.00"),
    ] {
        let request = Request::builder()
            .method(Method::POST)
            .uri("/orders")
            .header(IDEMPOTENCY_KEY, "7f3c")
            .header(header::AUTHORIZATION, format!("Bearer {token}"))
            .header(header::ORIGIN, "https://shop.example");
        let response = app.clone().oneshot(request.body(Body::from(body))?).await?;
        let (status, replayed) = (response.status(), response.headers().contains_key(IDEMPOTENT_REPLAYED));
        assert!(response.headers().contains_key(header::ACCESS_CONTROL_ALLOW_ORIGIN), "also of a replay");
        let text = to_bytes(response.into_body(), 1 << 20).await?;
        println!("{} replay: {replayed} {}", status.as_u16(), String::from_utf8_lossy(&text));
    }
    Ok(())
}
