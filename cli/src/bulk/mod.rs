//! The verbs on all records that are selected: `plan` and `apply`.

mod apply;
mod file;
mod plan;
mod stop;

pub(crate) use apply::Apply;
pub(crate) use plan::{Plan, print};
pub(crate) use stop::on_interrupt;
