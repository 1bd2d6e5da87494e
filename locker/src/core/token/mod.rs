//! Tokens: the record, the writes that change it, and the meaning of a refused write.

pub(crate) mod act;
pub(crate) mod audit;
pub(crate) mod decide;
pub(crate) mod item;
pub(crate) mod record;
pub(crate) mod resolution;
pub(crate) mod work;
pub(crate) mod write;
