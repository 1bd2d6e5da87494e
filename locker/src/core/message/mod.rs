//! Messages to send and messages received: records, transitions, and replies of brokers.

pub(crate) mod attributes;
pub(crate) mod breaker;
pub(crate) mod envelope;
pub(crate) mod event;
#[cfg(feature = "messages")]
pub(crate) mod failures;
#[cfg(feature = "messages")]
mod given_up;
pub(crate) mod id;
pub(crate) mod letter;
#[cfg(feature = "messages")]
pub(crate) mod outlook;
#[cfg(test)]
pub(in crate::core) mod proof;
#[cfg(feature = "messages")]
pub(crate) mod receipt;
pub(crate) mod revision;
pub(crate) mod ticks;
mod transition;
#[cfg(feature = "messages")]
pub(crate) mod window;
