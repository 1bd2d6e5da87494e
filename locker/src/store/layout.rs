//! The keys and indexes of the product's two tables.

use super::attribute as a;

/// The keys of a table, and of its index `byStatus`.
pub(super) struct Layout {
    /// The partition key, and the sort key if there is one. All are strings.
    pub(super) keys: &'static [&'static str],
    pub(super) key_in_words: &'static str,
    /// The sort key of the index; its partition key is `status`.
    pub(super) due: &'static str,
    /// What the index projects.
    pub(super) projected: &'static [&'static str],
}

impl Layout {
    pub(super) const TOKENS: Self = Self {
        keys: &[a::LOCK_TOKEN],
        key_in_words: "the partition key lockToken alone",
        due: a::EXPECTED_COMPLETION,
        projected: &a::PROJECTED,
    };

    /// Every attribute that is part of a key.
    pub(super) fn attributes(&self) -> impl Iterator<Item = &'static str> {
        self.keys.iter().copied().chain([a::STATUS, self.due])
    }
}
