//! Sending messages: the outbox of your transactions, and the relay.

mod batcher;
mod expired;
mod kept;
pub(crate) mod outbox;
mod partition;
#[allow(clippy::module_inception, reason = "the relay is the subject of this folder")]
mod relay;
mod run;
mod seen;

pub use outbox::{Outbox, OutboxMessage};
pub use relay::{Relay, RelayReport};
