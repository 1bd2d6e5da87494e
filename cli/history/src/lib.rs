//! The history of calls on lock tokens: write it, read it, check that it keeps the promises.
//!
//! The library tells its calls as events of `tracing` (target `locker::history`). [`Writer`] writes them
//! to a file that many processes may share, [`History`] reads them back, from there or from a log of
//! Lambda, and [`check`] compares them with what is promised, and with the books of the provider.

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
