//! The Lambda functions of the sample shop: adapters that parse an event, call one verb of the
//! library, and map the result. The scheduled functions are those of `locker::lambda`.
//!
//! - `orders`: an HTTP API; `POST /orders` creates an order once per `Idempotency-Key`, and charges
//!   once per order, even under different keys. `POST /purchases` starts a purchase, which is a
//!   workflow.
//! - `worker`: the same orders from SQS, with partial batch responses.
//! - `packer`: packs paid purchases from a FIFO queue, and gives the purchase the event with the
//!   parcel.
//! - `scanner`: every five minutes, reports missing tasks.
//! - `completer`: every minute, drives due purchases that are not finished.
//! - `reaper`: every hour, deletes finished purchases past their retention.
//! - `relay`: every minute, sends messages that could not be sent at once.

mod deployment;
mod environment;
pub mod orders;
pub mod packer;
pub mod payments;
pub mod purchase;
mod secrets;
pub mod telemetry;
pub mod worker;
pub mod workflows;

/// Time reserved at the end of an invocation, for its response.
const RESERVE: std::time::Duration = std::time::Duration::from_secs(1);

#[cfg(feature = "sandbox")]
pub mod sandbox;

pub use deployment::Deployment;
pub use environment::CannotStart;

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse as _, Response};

/// The response to a failure, in the form of RFC 9457.
fn problem(kind: &str, status: StatusCode, title: &str, is_transient: bool) -> Response {
    let body = serde_json::json!({
        "type": format!("urn:locker:{kind}"),
        "title": title,
        "status": status.as_u16(),
        "is_transient": is_transient,
    });
    (status, [(header::CONTENT_TYPE, "application/problem+json")], body.to_string()).into_response()
}
