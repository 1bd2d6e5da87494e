//! The state machine of a message: printed, and walked with relays, a broker, an operator, time and
//! late requests.

#![allow(clippy::expect_used, clippy::panic, reason = "tests")]

mod page;
mod relays;
mod walk;
mod world;

pub(in crate::core) use page::table;
