//! Tests for code on `lock-token`: an embedded DynamoDB in one line, faults on demand, and your own
//! code under every fault.
//!
//! ```no_run
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let dynamodb = lock_token_testing::Embedded::memory()?.client();
//! # Ok(()) }
//! ```
//!
//! [`Embedded`] runs the engine on a separate thread and provides an SDK client that reaches it
//! inside the process. There is no port, so no other program and no web page can reach the tables.
//! The requests are those that the SDK would send to AWS, only unsigned. [`Database`] is the engine
//! without the thread, for a test that decides itself when a request takes effect.
//!
//! | you want to test | use | feature |
//! |---|---|---|
//! | against a DynamoDB | [`Embedded`] | |
//! | overdue and expired items | [`TestClock`] | `kit` |
//! | the same attempt ids in each run | [`NumberedIds`] | `kit` |
//! | a request that is lost, late, throttled or refused | [`Wire`] with a [`Fate`] | `kit` |
//! | a call of yours that is lost, late or declined | [`Calls`] with a [`CallFate`] | `kit` |
//! | how often an effect took place | [`Provider`] | `kit` |
//! | which messages were sent, in which order | [`Broker`] | `kit` |
//! | faults at each request and call, with death, a second caller, a completer and an operator | [`sweep`] | `sweep` |
//!
//! `sweep` includes `kit`.
//!
//! # Limits of a test
//!
//! The embedded engine differs from DynamoDB in these points. A program that passes its tests may
//! still be wrong about them.
//!
//! - Every read is current, also without `ConsistentRead` and of an index.
//! - Batches leave nothing unprocessed, unless their items exceed 16 MB.
//! - Expired items are not deleted.
//! - A sort key of an index may be longer than 1,024 bytes.
//! - A `ClientRequestToken` is recognised for 10 minutes by the clock of the machine, and not by a
//!   [`TestClock`]. In a [`sweep`], the 10 minutes pass by the clock of the play.
//!
//! A sweep plays no faults on a [`Broker`]. Let the code of your target send through
//! [`World::call`](sweep::World::call).

#[cfg(feature = "kit")]
mod broker;
#[cfg(feature = "kit")]
mod clock;
mod database;
mod dispatch;
mod embedded;
#[cfg(feature = "kit")]
mod faults;
#[cfg(feature = "kit")]
mod ids;
mod open;
#[cfg(unix)]
mod private;
#[cfg(feature = "kit")]
mod provider;
#[cfg(feature = "sweep")]
pub mod sweep;

#[cfg(feature = "kit")]
pub use broker::Broker;
#[cfg(feature = "kit")]
pub use clock::{PausedClock, TestClock};
pub use database::{Database, Reply};
pub use embedded::Embedded;
#[cfg(feature = "kit")]
pub use faults::{CallFate, Calls, Exchange, Fate, Wire};
#[cfg(feature = "kit")]
pub use ids::NumberedIds;
pub use open::OpenError;
#[cfg(feature = "kit")]
pub use provider::{Entry, Provider};

/// The examples of the package's README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;

/// Compiles the examples of the guide to testing.
#[cfg(all(doctest, feature = "sweep"))]
#[doc = include_str!("../../docs/book/src/testing.md")]
struct Guide;
