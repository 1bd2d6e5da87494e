//! The audit record of an operator's act: an item of its own, which outlives the token.

use super::record::{Intervention, Record};
use crate::core::answer::Body;
use crate::core::shard;

/// What an operator did to a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Resolution {
    /// Gave the answer of work that is not known to be done.
    Resolved,
    /// Replaced an answer that an operator had given.
    Corrected,
    /// Let the stored failure of a held token be the answer.
    Closed,
    /// Released the token, so that its work can be done again.
    Released,
}

impl Resolution {
    const ALL: [Self; 4] = [Self::Resolved, Self::Corrected, Self::Closed, Self::Released];

    /// The word, as it is stored in `resolution` and shown.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Resolved => "resolved",
            Self::Corrected => "corrected",
            Self::Closed => "closed",
            Self::Released => "released",
        }
    }

    pub(crate) fn named(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|done| done.as_str() == word)
    }
}

/// An audit record as it is written.
#[derive(Debug, Clone)]
pub(crate) struct Audit {
    pub(crate) key: String,
    pub(crate) status: String,
    pub(crate) resolution: Resolution,
    pub(crate) operator: Intervention,
    /// What the operator saw, without its answer.
    pub(crate) found: Box<Record>,
    /// The answer that the operator gave, or else the one that was found.
    pub(crate) answer: Option<Body>,
    pub(crate) ttl: Option<i64>,
}

/// Between a token's key and the id of its audit record. No key has a space, so neither is mistaken for the other.
const INFIX: &str = " audit ";

impl Audit {
    pub(crate) fn new(
        resolution: Resolution,
        found: &Record,
        operator: Intervention,
        answer: Option<Body>,
        (id, shards, ttl): (&str, u16, Option<i64>),
    ) -> Self {
        let token = found.key.as_str();
        Self {
            key: format!("{token}{INFIX}{id}"),
            status: shard::status(shard::AUDIT, token, shards),
            resolution,
            operator,
            found: Box::new(Record { body: None, ..found.clone() }),
            answer: answer.or_else(|| found.body.clone()),
            ttl,
        }
    }
}

/// The key of the token that an audit record is about.
pub(crate) fn token_of(key: &str) -> &str {
    key.rsplit_once(INFIX).map_or(key, |(token, _)| token)
}
