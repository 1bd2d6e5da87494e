//! Keys of the table of tokens, as they are stored.

use std::fmt;

const AUDIT: &str = " audit ";
const RESULT: &str = " result ";

/// A key in the table of tokens. No key of a token has a space, so no token is mistaken for another
/// item.
///
/// The key of the token comes first, so that a policy on leading keys covers all items of the
/// token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TokenItem<'a> {
    Token(&'a str),
    /// The audit record of an operator's act.
    Audit {
        token: &'a str,
        id: &'a str,
    },
    /// A large answer. Each attempted end uses a new id, so that no late writer can replace an
    /// answer that has been read.
    Answer {
        token: &'a str,
        id: &'a str,
    },
}

impl<'a> TokenItem<'a> {
    /// Reads a key. A text in no other form is a token with that key.
    pub(crate) fn parse(text: &'a str) -> Self {
        if let Some((token, id)) = text.rsplit_once(AUDIT) {
            Self::Audit { token, id }
        } else if let Some((token, id)) = text.rsplit_once(RESULT) {
            Self::Answer { token, id }
        } else {
            Self::Token(text)
        }
    }

    /// Returns the key of the token to which the item belongs.
    pub(crate) const fn token(self) -> &'a str {
        match self {
            Self::Token(token) | Self::Audit { token, .. } | Self::Answer { token, .. } => token,
        }
    }
}

impl fmt::Display for TokenItem<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Token(token) => f.write_str(token),
            Self::Audit { token, id } => write!(f, "{token}{AUDIT}{id}"),
            Self::Answer { token, id } => write!(f, "{token}{RESULT}{id}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_item_is_read_from_its_text(token in "[!-~]{1,40}", id in "[0-9a-f-]{1,36}") {
            let (token, id) = (token.as_str(), id.as_str());
            for (item, text) in [
                (TokenItem::Token(token), token.to_owned()),
                (TokenItem::Audit { token, id }, format!("{token} audit {id}")),
                (TokenItem::Answer { token, id }, format!("{token} result {id}")),
            ] {
                prop_assert_eq!(item.to_string(), text.clone());
                prop_assert_eq!(TokenItem::parse(&text), item);
                prop_assert_eq!(item.token(), token);
            }
        }
    }
}
