//! A tower layer that runs the handler of an HTTP service once for each idempotency key.
//!
//! The layer works with handlers of `lambda_http`, with routers of axum (feature `axum`) and with
//! any tower service over `http` 1. It builds a new body of the request for the handler. So the
//! type of the body has to implement `Default`, `From<String>` and `From<Vec<u8>>`, as
//! `lambda_http::Body`, `axum::body::Body` and `http_body_util::Full<Bytes>` do. A handler of
//! `lambda_http` receives a body of UTF-8 as `Body::Text`. The directory `examples` of the
//! repository has a program for each kind of service.
//!
//! ```
//! use axum::{Router, routing::post};
//! use locker::Locker;
//! use locker::http::{IdempotencyLayer, Operation};
//!
//! /// The caller, as a layer outside of this one has authenticated it.
//! #[derive(Clone)]
//! struct Claims { subject: String }
//!
//! #[tokio::main]
//! async fn main() -> Result<(), locker::BoxError> {
//!     // From the package `lock-token-testing`; on AWS Lambda, `locker::client::lambda()?`.
//!     let dynamodb = lock_token_testing::Embedded::memory()?.client();
//!     locker::create_table(&dynamodb, "locks").await?;
//!     let locker = Locker::new(&dynamodb, "locks")?;
//!     let layer = IdempotencyLayer::new(locker, Operation::method_and_path(), |request| {
//!         request.extensions.get::<Claims>().map(|claims| claims.subject.clone())
//!     });
//!     let app: Router = Router::new().route("/orders", post(async || "created")).layer(layer);
//!     # let _ = app;
//!     Ok(())
//! }
//! ```
//!
//! # Responses
//!
//! | request | response |
//! |---|---|
//! | the first with its key | the handler's response, which is stored before its caller receives it |
//! | same key, same request | the stored status, headers, body and trailers, marked `Idempotent-Replayed: true` |
//! | same key while the first one runs | 409 with `Retry-After`, which grows with the age of the first one |
//! | same key, and the first one is overdue | 409 with a long `Retry-After`; an operator looks into it, or a [resumable](Resumable) handler runs again |
//! | same key, and the response of the first one was a [stream](Disposition::Stream) | 409: the request was processed |
//! | same key, different query or body | 422 |
//! | no key where one is required, two keys, or one that is not allowed | 400 |
//! | no identified caller | 401 |
//! | a body that is too large | 413 |
//! | DynamoDB out of reach | 503 |
//!
//! Errors are problem details (RFC 9457) with the members `is_transient` and, where it makes sense,
//! `retry_after`; see [`Problem`]. The rules are those of the IETF draft
//! `draft-ietf-httpapi-idempotency-key-header` and of Stripe's API.
//!
//! [`KeySource`] takes the key from another place than the header `Idempotency-Key`, such as the id
//! of a webhook.
//!
//! # What happens to the token
//!
//! The response of the handler decides whether the layer stores it, holds it for an operator,
//! releases the token or leaves it in doubt: see [`Disposition`]. A handler can decide itself: it
//! inserts a [`Disposition`] into the extensions of its response. The layer stores the headers in
//! [`HttpSettings::headers`], and never `Set-Cookie` or a header that authorises.
//!
//! # The key for a provider
//!
//! The layer inserts the [`Attempt`](crate::Attempt) into the extensions of the request. Give your
//! provider its [`idempotency_key`](crate::Attempt::idempotency_key), such as by
//! `Extension<Attempt>` in axum, and not the header: the same key may be written with and without
//! quotes, and two callers may have the same.
//!
//! # A handler that is cut short
//!
//! The handler runs in a separate task, and the lock is kept outside of it. A handler that panics,
//! a body that is cut off and an error of the service leave the token in doubt, with the cause; see
//! [`Resumable`] for a handler that is safe to repeat. A time limit *inside* the layer answers for
//! a handler that it dropped. It must answer 408 or 504: both leave the token in doubt. A time
//! limit *outside* the layer does not stop the work, and neither does a caller that disconnects.
//! On AWS Lambda use no limit outside: after the answer, Lambda freezes the work. Insert a
//! [`Deadline`], and give the client of the provider a shorter timeout.
//! The work owns a token, and the caller is expected to retry with the same key. The chapter "HTTP
//! idempotency" of the guide describes the order of layers.
//!
//! # A handler with its own token
//!
//! [`Begun::response`](crate::Begun::response) and
//! [`RunError::response`](crate::RunError::response) return the responses of the layer. Use them in
//! a handler that begins a token itself. Behind the layer, set [`Resumable::one_effect`].
//!
//! # The token
//!
//! The key of the token consists of the caller, the [`Operation`] and the header
//! (`@alice/POST/orders/7f3c`). Its fingerprint covers the query and the body. Callers never share
//! keys.
//!
//! # Cost
//!
//! Same as [`BeginBuilder::run`](crate::BeginBuilder::run): 2 requests and 4 write units for the
//! first request, 1 request and 1 write unit for the replay of a small response.

mod admit;
mod answer;
mod body;
mod disposition;
mod end;
mod header;
mod key;
mod layer;
mod operation;
mod problem;
mod service;
mod settings;
mod stored;
mod stream;

pub use body::Body;
pub use disposition::{Disposition, HandlerError};
pub use header::{IDEMPOTENCY_KEY, IDEMPOTENT_REPLAYED, key_of};
pub use key::KeySource;
pub use layer::{Deadline, IdempotencyLayer, Identify, Owner, RequestedAt};
pub use operation::Operation;
pub use problem::Problem;
pub use service::IdempotencyService;
pub use settings::{HttpSettings, Required, Resumable};
