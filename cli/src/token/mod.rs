//! The verbs on lock tokens.

mod audit;
mod change;
mod once;
pub(crate) mod process;
mod show;

pub(crate) use audit::Audit;
#[cfg(feature = "console")]
pub(crate) use audit::subject;
pub(crate) use change::{Close, Correct, Redact, Release, Resolve};
pub(crate) use once::{Once, wait_and_become, waiting_arguments};
pub(crate) use show::Show;
