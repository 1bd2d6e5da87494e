//! The lock on an acquired token, and the verbs that end it.

pub(super) mod end;
pub(super) mod guard;
mod verbs;
