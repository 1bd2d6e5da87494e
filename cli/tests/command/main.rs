//! The command as its users run it: real processes, on the embedded engine or on the one that
//! `LOCKER_TEST_ENDPOINT` names.

#![allow(clippy::disallowed_methods, clippy::expect_used, clippy::panic, clippy::unwrap_used)]

mod dev;
mod history;
mod once;
mod operate;
mod place;
mod usage;
mod workflow;
mod workflow_usage;
