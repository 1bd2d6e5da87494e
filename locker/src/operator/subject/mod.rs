//! The parts of each verb that are about tokens, workflows or messages.

#[cfg(feature = "workflow")]
mod events;
#[cfg(feature = "messages")]
pub(super) mod messages;
pub(super) mod tokens;
#[cfg(feature = "workflow")]
pub(super) mod workflows;
