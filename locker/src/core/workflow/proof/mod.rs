//! The state machine of a workflow and its steps: printed, walked, and broken rule by rule.

#![allow(clippy::expect_used, clippy::panic, clippy::print_stdout, reason = "tests")]

mod driver;
mod ending;
mod event_page;
mod events_walk;
mod header_page;
mod page;
mod report_page;
mod reports;
mod rules;
mod sample;
mod step_page;
mod steps;
mod walk;
mod world;

pub(in crate::core) use page::{Table, cell};
