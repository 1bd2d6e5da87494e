//! Faults between your code, DynamoDB and other services.

mod call_fate;
mod calls;
mod exchange;
mod fate;
mod schedule;
mod wire;

pub use call_fate::CallFate;
pub use calls::Calls;
#[cfg(feature = "sweep")]
pub(crate) use calls::Heard;
pub(crate) use calls::{Effect, Line};
pub use exchange::Exchange;
#[cfg(feature = "sweep")]
pub(crate) use fate::FROZEN;
pub use fate::Fate;
pub use wire::Wire;
