//! What a token or a workflow was begun inside.

use std::fmt;

use serde::{Deserialize, Serialize, Serializer};

/// The token or the workflow whose work began another one, so that an operator sees together what belongs together.
///
/// Everything that is begun on the task of [`run`](crate::BeginBuilder::run), of a handler behind the HTTP layer, or of a
/// workflow's code has it. A task that you spawn does not: give it
/// [`Attempt::work`](crate::Attempt::work) and [`BeginBuilder::within`](crate::BeginBuilder::within).
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Work {
    /// The token with this key.
    Token(String),
    /// This workflow: its key as it is stored, followed by ` v2` under the second version.
    Workflow(String),
}

impl Work {
    /// The key of the token or the workflow.
    #[must_use]
    pub fn key(&self) -> &str {
        match self {
            Self::Token(key) | Self::Workflow(key) => key,
        }
    }

    /// As it is stored and shown: `token order/7` or `workflow order/7`.
    #[must_use]
    pub fn to_text(&self) -> String {
        match self {
            Self::Token(key) => format!("token {key}"),
            Self::Workflow(key) => format!("workflow {key}"),
        }
    }

    pub(crate) fn of_text(text: &str) -> Option<Self> {
        match text.split_once(' ')? {
            ("token", key) => Some(Self::Token(key.to_owned())),
            ("workflow", key) => Some(Self::Workflow(key.to_owned())),
            _ => None,
        }
    }
}

impl fmt::Debug for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self {
            Self::Token(_) => "Token",
            Self::Workflow(_) => "Workflow",
        };
        write!(f, "{kind}(#{})", crate::core::key::digest_of(self.key()))
    }
}

impl Serialize for Work {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.to_text())
    }
}

impl<'de> Deserialize<'de> for Work {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::of_text(&text).ok_or_else(|| {
            serde::de::Error::custom(format!("{text:?} is neither `token KEY` nor `workflow KEY`"))
        })
    }
}
