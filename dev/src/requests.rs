//! A line in the log for each request to the API.

use axum::Router;
use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use axum::response::Response;
use tokio::time::Instant;

/// Logs each request when it was answered.
pub(crate) fn logged(router: Router) -> Router {
    router.layer(from_fn(log))
}

async fn log(request: Request, next: Next) -> Response {
    let key = request.headers().get("idempotency-key").and_then(|key| key.to_str().ok()).map(str::to_owned);
    let asked = format!("{} {}", request.method(), request.uri().path());
    let before = Instant::now();
    let response = next.run(request).await;
    let status = response.status().as_u16();
    let ms = before.elapsed().as_millis();
    tracing::info!(key, status, ms, "{asked}");
    response
}
