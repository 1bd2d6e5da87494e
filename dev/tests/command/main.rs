//! The command with the shop as its users run it: real processes, on the embedded engine or on the
//! one that `LOCKER_TEST_ENDPOINT` names.

#![allow(clippy::disallowed_methods, clippy::expect_used, clippy::panic, clippy::unwrap_used)]

mod demo;
mod dev;
mod loopback;
mod runbook;
mod store;
mod usage;
mod workflow;
mod workflow_usage;

use locker_tests::command::Place;

fn place() -> Place {
    Place::new(env!("CARGO_BIN_EXE_locker-dev")).with_rows("ORDERS_TABLE")
}
