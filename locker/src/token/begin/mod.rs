//! Beginning a token: the builder, the plan it makes, waiting for another caller, and every
//! outcome.

pub(super) mod begun;
pub(super) mod builder;
pub(super) mod plan;
pub(super) mod rounds;
pub(super) mod take_over;
mod wait;
