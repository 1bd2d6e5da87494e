//! Messages: what is to be sent, and what a broker's reply means for it.

pub(crate) mod envelope;
pub(crate) mod event;
pub(crate) mod id;
pub(crate) mod letter;
pub(crate) mod receipt;
mod transition;
