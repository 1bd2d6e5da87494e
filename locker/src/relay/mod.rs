//! Sends messages: the outbox of your transactions, and the relay.
//!
//! A message is stored in the transaction that commits your rows ([`Outbox`]). A [`Relay`] sends it
//! to the target of its topic until the target accepts it, so it is sent at least once. Run the
//! relay each minute. Senders that send their own messages need it too, because a sender may crash.
//! If the target refuses the content of a message, the message is dead: see
//! [`dead_letters`](crate::dead_letters).

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
