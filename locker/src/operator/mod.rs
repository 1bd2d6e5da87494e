//! The operator's console: one report of needs, one list, one timeline per key, one way to act.

mod list;
mod plan;
mod status;
mod timeline;

pub use crate::session::heartbeat::{LastRun, Machine};
pub use list::*;
pub use plan::*;
pub use status::*;
pub use timeline::*;
