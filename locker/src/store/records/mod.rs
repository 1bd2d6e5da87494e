//! Whole items, each write of which has a revision of its own.

mod beat;
mod change;
mod messages;
mod put;

pub(crate) use beat::{StoredBeat, TableOf};
pub(crate) use change::Changed;
