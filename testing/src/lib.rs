//! An embedded DynamoDB, for tests and for local use.
//!
//! [`Embedded`] runs the engine on a thread of its own and gives an SDK client that reaches it inside the process.
//! There is no port, so no other program and no web page can reach the tables. The requests are those that the SDK
//! would send to AWS, only unsigned: the same operations, the same JSON, the same errors.
//!
//! ```no_run
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let dynamodb = lock_token_testing::Embedded::memory()?.client();
//! # Ok(()) }
//! ```
//!
//! [`Database`] is the engine without the thread, for a test that decides itself when a request takes effect.

mod database;
mod dispatch;
mod embedded;
mod open;
#[cfg(feature = "sweep")]
pub mod sweep;

pub use database::{Database, Reply};
pub use embedded::Embedded;
pub use open::OpenError;

/// The examples of the package's README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
