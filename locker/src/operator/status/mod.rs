//! What needs an operator: one report over tokens and workflows, grouped by cause.
//!
//! ```no_run
//! # async fn example(locker: locker::Locker, workflows: locker::workflow::Workflows) -> Result<(), locker::Error> {
//! let status = locker::operator::StatusBuilder::new().tokens(&locker).workflows(&workflows).read().await?;
//! for group in &status.groups {
//!     println!("{} {}: {}, since {:?}, such as {}", group.count, group.need, group.cause, group.first, group.sample);
//! }
//! # Ok(()) }
//! ```
//!
//! | what | need |
//! |---|---|
//! | a token in progress past its due time | [`Need::Overdue`] |
//! | a token in doubt: it is unknown whether its work happened | [`Need::InDoubt`] |
//! | a token that is held | [`Need::Held`] |
//! | a workflow without progress for an hour, which is still retried | [`Need::Failing`] |
//! | a workflow in quarantine | [`Need::Quarantined`] |
//! | a message that is dead | [`Need::Dead`] |
//! | a message that has been unsent, or has waited for its consumer, for five minutes | [`Need::Unsent`] |
//! | a workflow that has been due for a quarter of an hour, and that no completer drives | [`Need::Undriven`] |
//!
//! It also tells when the scanner, the completer, the reaper and the relay ran last ([`Status::runs`]): each of them writes that down at the end of a run.
//!
//! Causes are alike if they differ only by ids, numbers of four digits or more, times, addresses and quoted names. A cause that begins with
//! a code in square brackets, such as `[card.declined] ...` ([`Failure::code`](crate::Failure::code)), belongs to the group of that code.

mod builder;
mod group;

pub use builder::{Status, StatusBuilder};
pub use group::{Group, Need, Subject};
