//! Reliable messages: a message is sent if and only if its step was committed.
//!
//! A message is committed in the transaction of its step
//! ([`Atomic::message`](crate::workflow::Atomic::message)), and sent afterwards: at once by the
//! process that committed it, if its [`workflow::Builder`](crate::workflow::Builder::sending) has a
//! [`Router`], and otherwise, or if that fails, by a [`Relay`](crate::relay::Relay) that runs every
//! minute.
//!
//! **A message is sent at least once if its step was committed, and never if not.** Messages of one
//! *subject* are sent in the order of their commits within one workflow; steps that run
//! concurrently have no order. A copy may arrive later than newer messages of its subject. The
//! receiver detects this by the [`sequence`](Envelope::sequence).
//!
//! | the process dies, or | result |
//! |---|---|
//! | before the commit | no message, no step: the next run does both |
//! | after the commit, before sending | a relay sends it, 30 to 90 seconds later |
//! | after sending, before deleting | it is sent again under the same id: a FIFO queue drops it within 5 minutes, a receiver that remembers ids always |
//! | the target is out of reach, or refuses messages | it waits with a growing pause, and the later ones of its subject wait; after 72 hours it is dead |
//! | the target refuses it for a reason in the message | it is dead at once, and waits for an operator |
//! | it [expires](NewMessage::expires) | a relay deletes and counts it |
//!
//! The commit stores the [source](crate::workflow::Builder::source) with the message. A message may
//! have [attributes](NewMessage::attribute), a [delay](NewMessage::delay) and an
//! [expiry](NewMessage::expires).
//!
//! Messages travel as CloudEvents 1.0 ([`Envelope`]).

pub(crate) mod actions;
mod claim;
pub(crate) mod gate;
mod new;
pub(crate) mod router;
pub(crate) mod target;

pub use claim::{Bodies, Claim, ClaimCheck};
pub use new::NewMessage;
pub use router::Router;
pub use target::{Sent, Target};

pub use crate::core::message::envelope::Envelope;
pub use crate::core::message::id::MAX_BODY_BYTES;
pub use crate::core::message::letter::MessageState;
