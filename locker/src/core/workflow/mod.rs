//! Workflows: what a header and a step's record mean, and what may be done about them.

pub(crate) mod audit;
pub(crate) mod compensation;
pub(crate) mod decide;
pub(crate) mod ending;
pub(crate) mod event;
pub(crate) mod header;
pub(crate) mod place;
#[cfg(test)]
pub(in crate::core) mod proof;
pub(crate) mod step;
