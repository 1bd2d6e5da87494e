//! The stock command as its users run it: real processes, on the embedded engine or on the one that
//! `LOCKER_TEST_ENDPOINT` names.

#![allow(clippy::disallowed_methods, clippy::expect_used, clippy::panic, clippy::unwrap_used)]

mod acts;
mod bulk;
mod bulk_stopped;
mod bulk_which;
#[cfg(feature = "console")]
mod console;
#[cfg(feature = "console")]
mod console_acts;
#[cfg(feature = "console")]
mod console_pages;
#[cfg(feature = "console")]
mod console_plans;
#[cfg(feature = "console")]
mod console_plans_wrong;
#[cfg(feature = "console")]
mod console_unread;
#[cfg(feature = "console")]
mod console_wrong;
mod cut_short;
mod dead;
mod dead_correct;
mod dead_file;
mod dead_import;
mod dead_said;
mod events;
mod fingerprint;
mod guide;
mod history;
mod hostile;
mod importing;
mod json;
mod left_running;
mod listed;
mod once;
mod once_output;
mod operate;
mod own_workflows;
mod place;
mod policy;
mod redact;
mod repeated;
mod sqs;
mod status;
mod store;
mod terminal;
mod usage;
mod width;
mod workflow;

use locker_tests::command::{Place, Ran};

fn place() -> Place {
    Place::new(env!("CARGO_BIN_EXE_locker"))
}

/// A call without the options of its place.
fn bare(place: &Place, arguments: &[&str], variables: &[(&str, &str)]) -> Ran {
    let mut command = place.bare(arguments);
    Ran::of(command.envs(variables.iter().copied()).output().expect("the command runs"))
}
