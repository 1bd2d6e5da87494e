//! Tools for the promises: a DynamoDB engine, a wire that fails on demand, a clock that stands
//! still, and a provider that keeps its own books.
//!
//! Without anything set, the engine is embedded, one in memory for each test, and its clients reach
//! it in process. With `LOCKER_TEST_ENDPOINT=http://127.0.0.1:8000` it is whatever listens there,
//! reached over HTTP, and each test makes a table of its own.

// Test tools fail by panicking, which is how a test says what is wrong.
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

mod bench;
pub mod command;
mod engine;
#[path = "../explorer/mod.rs"]
pub mod explorer;
pub mod filled;
mod gate;
#[path = "../history/mod.rs"]
pub mod history;
mod provider;
mod recorded;
mod runtime_api;
#[path = "../scenarios/mod.rs"]
pub mod scenarios;
mod served;
mod unhurried;
pub mod web;

use std::time::Duration;

pub use bench::{Bench, held_by, record_of};
pub use engine::{Engine, client_for};
pub use gate::Gate;
pub use lock_token_testing::{Exchange, Fate, NumberedIds, PausedClock, TestClock, Wire};
pub use provider::Provider;
pub use recorded::{Metrics, Recorded};
pub use runtime_api::{Function, Reply, fifo_message, sqs_message};
pub use served::{Asked, Counted};
pub use unhurried::unhurried;

/// One second.
pub const SECOND: Duration = Duration::from_secs(1);
/// One minute.
pub const MINUTE: Duration = Duration::from_secs(60);
/// One hour.
pub const HOUR: Duration = Duration::from_secs(60 * 60);
/// One day.
pub const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Ends the task of a process that dies, and waits until it sends no more requests.
///
/// The embedded engine executes requests in their order. So each later request finds what the task
/// has sent.
pub async fn kill<T>(process: tokio::task::JoinHandle<T>) {
    process.abort();
    drop(process.await);
}

/// The operator of a test that needs only one.
pub fn ada() -> locker::Operator {
    locker::Operator::new("ada", "the provider's books say so").expect("an operator")
}
