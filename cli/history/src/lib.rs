//! The history of calls on lock tokens: written, read, and checked against the promises.
//!
//! The library emits its calls as `tracing` events (target `locker::history`). [`Writer`] writes them to a file that
//! many processes may share, [`History`] reads them from such a file or from a log of Lambda, and [`check`] checks
//! them against the promises and the books of the provider.

mod check;
mod effect;
mod event;
mod history;
mod report;
mod writer;

pub use check::{Rules, check};
pub use effect::Effect;
pub use event::{Event, Op, Outcome, Phase, Time};
pub use history::{Call, History, Token};
pub use report::{Finding, Report, Rule, Severity};
pub use writer::Writer;
