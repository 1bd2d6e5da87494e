//! The keys and indexes of the two tables.

#![cfg_attr(not(feature = "workflow"), allow(dead_code, reason = "only workflows use all of it"))]

use crate::store::schema::attribute as a;

/// The keys of a table and of its index `byStatus`.
#[derive(Debug)]
pub(crate) struct Layout {
    /// The partition key, and the sort key if there is one. All are strings.
    pub(crate) keys: &'static [&'static str],
    pub(crate) key_in_words: &'static str,
    /// The sort key of the index; its partition key is `status`.
    pub(crate) due: &'static str,
    /// The attributes that the index projects in addition to keys.
    pub(crate) projected: &'static [&'static str],
    /// The verbs that create and check it.
    pub(crate) command: &'static str,
}

impl Layout {
    pub(crate) const TOKENS: Self = Self {
        keys: &[a::LOCK_TOKEN],
        key_in_words: "the partition key lockToken alone",
        due: a::EXPECTED_COMPLETION,
        projected: &a::TOKEN_PROJECTED,
        command: "locker table",
    };

    pub(crate) const WORKFLOWS: Self = Self {
        keys: &[a::WORKFLOW, a::ITEM],
        key_in_words: "the partition key workflow and the sort key item",
        due: a::NEXT_DUE,
        projected: &a::WORKFLOW_PROJECTED,
        command: "locker workflow table",
    };

    /// Every attribute that is part of a key.
    pub(crate) fn attributes(&self) -> impl Iterator<Item = &'static str> {
        self.keys.iter().copied().chain([a::STATUS, self.due])
    }
}
