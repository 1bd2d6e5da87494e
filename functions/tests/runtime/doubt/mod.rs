//! Charges whose outcome is unknown, or would be: what is sent, what is not sent, and how each one
//! is closed.

mod customers;
mod killed;
mod payments;
mod said;
mod time;
mod trail;
pub(crate) mod wire;
