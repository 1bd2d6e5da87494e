//! What the library reports, as text and as JSON: what needs an operator, and what happened to one key.

pub(crate) mod status;
pub(crate) mod timeline;
