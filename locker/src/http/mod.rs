//! A tower layer that makes an HTTP API once-only, by its `Idempotency-Key` header.
//!
//! It works with axum (enable the feature `axum`), with `lambda_http`, and with any tower service
//! over `http` 1.
//!
//! ```
//! use axum::{Router, routing::post};
//! use locker::Locker;
//! use locker::http::{IdempotencyLayer, Operation};
//!
//! /// What authentication proved about the caller. A layer outside of this one checks it and inserts this.
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
//! | the first with its key | the handler's response, which is stored |
//! | same key, same request | the stored status, headers and body, marked `Idempotent-Replayed: true` |
//! | same key while the first one runs | 409 with `Retry-After`, which grows with the age of the first one |
//! | same key, and the first one is overdue | 409 with a long `Retry-After`; an operator looks into it, or a [resumable](Resumable) handler runs again |
//! | same key, different query or body | 422 |
//! | no key where one is required, two keys, or one that is not allowed | 400 |
//! | no identified caller | 401 |
//! | a body that is too large | 413 |
//! | DynamoDB out of reach | 503 with `Retry-After` |
//!
//! Errors are problem details (RFC 9457) with the members `is_transient` and, where it makes sense,
//! `retry_after`; see [`Problem`]. The rules are those of the IETF draft
//! `draft-ietf-httpapi-idempotency-key-header` and of Stripe's API.
//!
//! # What happens to the token
//!
//! What the handler returned decides whether a response is stored, held, released or in doubt: see
//! [`Disposition`]. Only what cannot have happened is released, unless a handler passes on a status
//! that routers and frameworks answer, or a fallback handler answers an empty 404: [`Disposition`]
//! says what to do about these. A handler can say what it did by inserting a [`Disposition`] into
//! the extensions of its response. Of the headers, the ones in [`HttpSettings::headers`] are
//! stored, and never `Set-Cookie` or a header that authorises.
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
//! The handler runs in a task of its own, and the lock is kept outside of it. A handler that
//! panics, a body that breaks off and an error of the service leave the token in doubt, with the
//! cause; [`Resumable`] has what happens if a repeat of the handler is safe. A time limit *inside*
//! the layer answers for a handler that it dropped: 408 and 504 are in doubt, and the limit must
//! not answer with another status. A time limit *outside* the layer, like a caller that
//! disconnects, does not stop the work: it owns a token, and the caller is expected to retry with
//! the same key. `docs/http.md` has the order of layers.
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
mod body;
mod disposition;
mod end;
mod header;
mod layer;
mod operation;
mod problem;
mod service;
mod settings;
mod stored;

pub use body::Body;
pub use disposition::{Disposition, HandlerError};
pub use header::{IDEMPOTENCY_KEY, IDEMPOTENT_REPLAYED, key_of};
pub use layer::{Deadline, IdempotencyLayer, Identify, Owner};
pub use operation::Operation;
pub use problem::Problem;
pub use service::IdempotencyService;
pub use settings::{HttpSettings, Required, Resumable};
