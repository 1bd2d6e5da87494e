//! The verbs on all that matches: `find`, `plan`, `apply`.

mod apply;
mod file;
mod filter;
mod find;
mod plan;
mod stop;

pub(crate) use apply::Apply;
pub(crate) use find::Find;
pub(crate) use plan::{Plan, print};
pub(crate) use stop::on_interrupt;
