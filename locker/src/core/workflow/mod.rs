//! Workflows: the meaning of a header and of a step's record, and the possible transitions.

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
