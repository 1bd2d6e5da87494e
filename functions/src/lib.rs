//! The Lambda functions of Locker: adapters that parse an event, call one verb of the library, and map
//! the result.
//!
//! - `orders`: an HTTP API; `POST /orders` creates an order once per `Idempotency-Key`, and charges for it
//!   once per order, whoever asks.
//! - `worker`: the same from SQS, with partial batch responses.
//! - `scanner`: every five minutes, tells of missing tasks.

pub mod deadline;
pub mod orders;
pub mod payments;
pub mod scanner;
pub mod settings;
pub mod telemetry;
pub mod worker;

#[cfg(feature = "sandbox")]
pub mod sandbox;
