//! The Lambda functions of Locker: adapters that parse an event, call one verb of the library, and map
//! the result. The scheduled ones are those of `locker::lambda`.
//!
//! - `orders`: an HTTP API; `POST /orders` creates an order once per `Idempotency-Key`, and charges once per
//!   order, whatever the key.
//! - `worker`: the same from SQS, with partial batch responses.
//! - `scanner`: every five minutes, reports missing tasks.
//! - `completer`: every minute, drives due purchases that are not finished; `POST /purchases` starts them.
//! - `reaper`: every hour, deletes finished purchases past their retention.

pub mod orders;
pub mod packer;
pub mod payments;
pub mod purchase;
pub mod secrets;
pub mod settings;
pub mod telemetry;
pub mod worker;
pub mod workflows;

#[cfg(feature = "sandbox")]
pub mod sandbox;
