//! The verbs on lock tokens.

mod audit;
mod change;
mod ls;
mod once;
pub(crate) mod process;
mod scan;
mod seen;
mod show;
mod top;

pub(crate) use audit::Audit;
pub(crate) use change::{Close, Correct, Release, Resolve};
pub(crate) use ls::Ls;
pub(crate) use once::{Once, wait_and_become, waiting_arguments};
pub(crate) use scan::run as scan;
pub(crate) use show::Show;
pub(crate) use top::Top;
