//! The access rule of the servers of `dev`: programs on this machine, but no web page.
//!
//! A browser lets every page send requests to `127.0.0.1`. Some need no permission of the server,
//! such as a `POST` without a body: they have the `Origin` of the page. A page whose host name
//! resolves to `127.0.0.1` may also read the responses: its requests have that name in `Host`.

use std::net::SocketAddr;

use axum::Router;
use axum::extract::Request;
use axum::http::header::{HOST, HeaderName, ORIGIN};
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse as _, Response};
use tokio::time::Instant;

/// Answers 403 unless the request names the server as `127.0.0.1` or `localhost`, and no page of
/// another origin sent it.
pub(crate) fn refuse_web_pages(router: Router, address: SocketAddr) -> Router {
    router.layer(from_fn(move |request: Request, next: Next| async move {
        if is_meant_for(request.headers(), address.port()) {
            return next.run(request).await;
        }
        let text = format!(
            "This server answers programs on this machine, at http://{address}. The request names another host, or a web \
             page sent it; nothing was done.\n"
        );
        (StatusCode::FORBIDDEN, text).into_response()
    }))
}

fn is_meant_for(headers: &HeaderMap, port: u16) -> bool {
    let is_here = |authority: &str| {
        let (host, named) = authority.split_once(':').unwrap_or((authority, "80"));
        (host == "127.0.0.1" || host.eq_ignore_ascii_case("localhost")) && named == port.to_string()
    };
    let all_are_here = |header: HeaderName, scheme: &str| {
        let mut values = headers.get_all(header).iter().map(|value| value.to_str().unwrap_or_default());
        values.all(|value| value.strip_prefix(scheme).is_some_and(is_here))
    };
    headers.contains_key(HOST) && all_are_here(HOST, "") && all_are_here(ORIGIN, "http://")
}

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
