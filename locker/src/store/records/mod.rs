//! Reads and writes whole items. Each write has its own revision.

mod beat;
#[cfg(feature = "workflow")]
mod change;
#[cfg(feature = "messages")]
mod failures;
#[cfg(feature = "messages")]
mod messages;
mod put;

pub(crate) use beat::{StoredBeat, TableOf};
#[cfg(feature = "workflow")]
pub(crate) use change::{Changed, Over, Versioned};
