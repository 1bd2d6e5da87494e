//! The class of a failure.

use serde::{Deserialize, Serialize};

/// The class of a failure of the work. It determines the next state of the token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Class {
    /// Nothing happened, and the work may be tried again: the token is released. After a takeover,
    /// this class proves nothing about the former attempt: the token is given back, in doubt. The
    /// next caller that takes over does the work at once.
    Transient,
    /// The failure is the answer: it is stored, and every later caller gets it. After a takeover
    /// without a probe, the token is held, since the attempt before may have done the work.
    Permanent,
    /// The failure is stored and waits for an operator: `status` becomes `error`.
    NeedsOperator,
    /// It is unknown whether the work happened: the token stays in progress, and is listed with the
    /// cause at once. The work is not run again unless a caller chose to take over.
    InDoubt,
}

impl Class {
    /// The name of the class, as it is stored and logged.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Transient => "transient",
            Self::Permanent => "permanent",
            Self::NeedsOperator => "needsOperator",
            Self::InDoubt => "inDoubt",
        }
    }

    pub(crate) fn named(name: &str) -> Option<Self> {
        [Self::Transient, Self::Permanent, Self::NeedsOperator, Self::InDoubt]
            .into_iter()
            .find(|class| class.as_str() == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_class_is_read_from_its_stored_word() {
        for (class, word) in [
            (Class::Transient, "transient"),
            (Class::Permanent, "permanent"),
            (Class::NeedsOperator, "needsOperator"),
            (Class::InDoubt, "inDoubt"),
        ] {
            assert_eq!((class.as_str(), Class::named(word)), (word, Some(class)));
            assert_eq!(serde_json::to_value(class).unwrap(), word);
        }
        assert_eq!(Class::named("unknown"), None);
    }
}
