//! A tower layer that makes an HTTP API once-only: `Idempotency-Key` to token to response.
//!
//! Works with axum and with `lambda_http`, and with any tower service over `http` 1.
//!
//! ```
//! # locker_tests::example(async |dynamodb| {
//! use axum::{Router, routing::post};
//! use locker::Locker;
//! use locker::http::IdempotencyLayer;
//!
//! let locker = Locker::new(&dynamodb, "locks")?;
//! // Who calls: from the authoriser, never from what the caller writes.
//! let layer = IdempotencyLayer::new(locker, |request| {
//!     request.headers.get("x-authenticated-user")?.to_str().ok().map(str::to_owned)
//! });
//! let app: Router = Router::new().route("/orders", post(async || "created")).layer(layer);
//! # let _ = app;
//! # Ok(())
//! # });
//! ```
//!
//! # What a caller gets
//!
//! | the request | answer |
//! |---|---|
//! | first with its key | the handler's response, stored |
//! | same key, same body | the stored status, headers and body, marked `Idempotent-Replayed: true` |
//! | same key while the first one runs | 409 with `Retry-After` |
//! | same key, other body | 422 |
//! | no key where one is required, two keys, or one that is not allowed | 400 |
//! | nobody to answer to | 401 |
//! | a body that is too large | 413 |
//! | DynamoDB out of reach | 503 with `Retry-After`; the handler did not run |
//!
//! Errors are problem details (RFC 9457) with the members `is_transient` and, where it makes sense,
//! `retry_after`; see [`Problem`]. The rules are those of the IETF draft
//! `draft-ietf-httpapi-idempotency-key-header` and of Stripe's API.
//!
//! # What is stored
//!
//! A response is stored or not by its status: see [`Outcome`] and [`HttpSettings::outcomes`]. Of its
//! headers, those that are chosen are stored ([`HttpSettings::headers`]), and never `Set-Cookie` or
//! anything that authorises. A handler that knows better puts an [`Outcome`] into the response's
//! extensions.
//!
//! # The token
//!
//! Its key is the caller, the method, the path and the header (`@alice/POST/orders/7f3c`), its
//! fingerprint the query and the body. One caller's keys never meet another's.
//!
//! # When the caller hangs up
//!
//! A server drops the future of a caller that is gone. A protected request goes on all the same, as a
//! task of its own: it holds a token, and the caller will ask again with the same key.
//!
//! # Cost
//!
//! As [`Token::run`](crate::Token::run): 2 requests and 4 write units for the first, 1 and 1 for a replay
//! of a small response.

mod body;
mod config;
mod header;
mod layer;
mod problem;
mod service;
mod stored;

pub use body::Body;
pub use config::{HttpSettings, Outcome, Required};
pub use header::{IDEMPOTENCY_KEY, IDEMPOTENT_REPLAYED, InvalidHeader, MAX_HEADER_BYTES, key_of};
pub use layer::{IdempotencyLayer, Identify};
pub use problem::Problem;
pub use service::IdempotencyService;
