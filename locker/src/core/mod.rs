//! Decisions: the meaning of a stored record, the next write, and whether to retry.
//!
//! Nothing here is async, uses the SDK, reads a clock or draws a random number. Every function is
//! total, so a test can print the state machine as a table.

pub(crate) mod alike;
pub(crate) mod answer;
pub(crate) mod argument;
pub(crate) mod canonical;
pub(crate) mod cause;
pub(crate) mod class;
pub(crate) mod fingerprint;
pub(crate) mod finite;
pub(crate) mod form;
pub(crate) mod invalid;
pub(crate) mod key;
#[cfg(any(feature = "workflow", feature = "operator"))]
pub(crate) mod listed;
#[cfg(feature = "workflow")]
pub(crate) mod message;
pub(crate) mod name;
pub(crate) mod panicked;
pub(crate) mod private;
pub(crate) mod reply;
pub(crate) mod restored;
pub(crate) mod retention;
pub(crate) mod retry;
pub(crate) mod rounds;
pub(crate) mod shard;
pub(crate) mod time;
pub(crate) mod token;
#[cfg(feature = "workflow")]
pub(crate) mod workflow;
