//! Tokens: asks `core` what is right, and does it through `store`.

mod begin;
mod begun;
mod classify;
mod end;
mod list;
mod lock;
mod locker;
mod operate;
mod options;
mod place;
mod run;
mod scan;
mod wait;

pub use begun::{Begun, Holder, Replay, StoredFailure};
pub use classify::{Class, Classify, Failure};
pub use end::EndError;
pub use list::{Listed, Listing, Place, Summary};
pub use lock::Lock;
pub use locker::{Builder, Locker};
pub use operate::Person;
pub use options::{Probed, Token};
pub use run::{Answer, Attempt, Origin, RunError};
pub use scan::{Count, Scan, Scanned};
