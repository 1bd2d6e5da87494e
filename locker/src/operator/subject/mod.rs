//! The parts of each verb that are about tokens, workflows or messages.

pub(super) mod messages;
pub(super) mod tokens;
pub(super) mod workflows;
