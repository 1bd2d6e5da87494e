//! Tokens: acquires, completes, lists and settles them. `core` decides, `store` reads and writes.

mod answer;
mod attempt;
mod begin;
mod list;
mod lock;
mod locker;
mod operator;
mod run;
mod scan;

pub use attempt::Attempt;
pub use begin::begun::{Begun, Holder, Replay, StoredFailure};
pub use begin::builder::BeginBuilder;
#[cfg(feature = "http")]
pub(crate) use begin::rounds::NotBegun;
pub use begin::take_over::Probed;
pub use list::TokenSummary;
pub use lock::end::EndError;
pub use lock::guard::Lock;
pub use locker::{Locker, LockerBuilder};
pub use run::{Answer, Origin, RunError};
pub use scan::{ScanReport, Scanner};
