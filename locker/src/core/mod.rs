//! Decisions: what a stored record means, what to write next, and whether to try again.
//!
//! Nothing here is async, knows the SDK, reads a clock or draws a random number. Every function is
//! total, so a test can print the state machine as a table.

pub(crate) mod answer;
pub(crate) mod decide;
pub(crate) mod fingerprint;
pub(crate) mod key;
pub(crate) mod record;
pub(crate) mod retry;
pub(crate) mod shard;
pub(crate) mod time;
pub(crate) mod workflow;
pub(crate) mod write;
