//! Finding tokens, workflows and messages: by key, customer, name, state, cause, time and owner, over all lists of both tables.
//!
//! ```no_run
//! # async fn example(locker: locker::Locker, workflows: locker::workflow::Workflows) -> Result<(), locker::Error> {
//! use locker::operator::{Filter, FindBuilder};
//!
//! let filter = Filter::new().tenant("cust8").cause("connection reset");
//! let found = FindBuilder::new().tokens(&locker).workflows(&workflows).filter(filter).read().await?;
//! for it in &found.matches {
//!     println!("{} {:?} since {:?}: {:?}", it.work.to_text(), it.need, it.since, it.cause);
//! }
//! # Ok(()) }
//! ```
//!
//! The lists have what is in progress, overdue, in doubt, held, unfinished, failing or in quarantine, messages that are kept, and finished workflows and archived messages if they are
//! asked for. A token that has its answer is in no list: [`Locker::get`](crate::Locker::get) reads it by its key.

mod builder;
mod filter;
mod matched;
pub(super) mod times;
mod words;

pub use builder::{FindBuilder, Found};
pub use filter::Filter;
pub use matched::Match;
