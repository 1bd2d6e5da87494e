//! What an operator's act came to.

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
