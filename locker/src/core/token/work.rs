//! Tokens, workflows and messages by their names: what operators act on, and what work is begun
//! inside.

use std::fmt;

use serde::{Deserialize, Serialize, Serializer};

use crate::core::alike;

/// A token, a workflow or a message.
///
/// A token or a workflow may be begun inside the work of another token or workflow, so that an
/// operator sees them together. All work that is begun on the task of
/// [`run`](crate::BeginBuilder::run), of a handler inside the HTTP layer, or of a workflow's code
/// refers to it. A task that you spawn does not: give it [`Attempt::work`](crate::Attempt::work)
/// and [`BeginBuilder::within`](crate::BeginBuilder::within).
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Work {
    /// The token with this key.
    Token(String),
    /// This workflow: its key as it is stored, followed by ` v2` under the second version.
    Workflow(String),
    /// A message that is kept.
    Message {
        /// Its place: the workflow that committed it, the outbox of its subject, or the dead
        /// letters of its consumer.
        of: String,
        /// Its place there.
        place: String,
    },
}

impl Work {
    /// The key of the token or the workflow; of a message, where it is.
    #[must_use]
    pub fn key(&self) -> &str {
        match self {
            Self::Token(key) | Self::Workflow(key) | Self::Message { of: key, .. } => key,
        }
    }

    /// As it is stored and shown: `token order/7`, `workflow order/7` or
    /// `message PLACE of order/7`.
    #[must_use]
    pub fn to_text(&self) -> String {
        match self {
            Self::Token(key) => format!("token {key}"),
            Self::Workflow(key) => format!("workflow {key}"),
            Self::Message { of, place } => format!("message {place} of {of}"),
        }
    }

    /// Eight hexadecimal digits that name it, as lists of messages show them.
    #[must_use]
    pub fn short_id(&self) -> String {
        alike::id_of(&[&self.to_text()])
    }

    /// How an audit record names a message, where it names a step otherwise. No step has a space in
    /// its name.
    #[cfg(feature = "messages")]
    pub(crate) fn to_audited(&self, topic: &str, id: &str) -> String {
        match self {
            Self::Message { place, .. } => format!("message {place} {topic} {id}"),
            Self::Token(_) | Self::Workflow(_) => String::new(),
        }
    }

    /// The message of this partition that an audit record names. `None`: it names a step.
    pub(crate) fn of_audited(step: &str, of: &str) -> Option<Self> {
        let place = step.strip_prefix("message ")?.split(' ').next()?;
        Some(Self::Message { of: of.to_owned(), place: place.to_owned() })
    }

    pub(crate) fn of_text(text: &str) -> Option<Self> {
        match text.split_once(' ')? {
            ("token", key) => Some(Self::Token(key.to_owned())),
            ("workflow", key) => Some(Self::Workflow(key.to_owned())),
            ("message", rest) => {
                let (place, of) = rest.split_once(" of ")?;
                Some(Self::Message { of: of.to_owned(), place: place.to_owned() })
            }
            _ => None,
        }
    }
}

impl fmt::Debug for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self {
            Self::Token(_) => "Token",
            Self::Workflow(_) => "Workflow",
            Self::Message { .. } => "Message",
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
            serde::de::Error::custom(format!(
                "{text:?} is not `token KEY`, `workflow KEY` or `message PLACE of KEY`"
            ))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token() -> Work {
        Work::Token("order/7".to_owned())
    }

    fn workflow() -> Work {
        Work::Workflow("order/7 v2".to_owned())
    }

    fn message() -> Work {
        Work::Message { of: "locker outbox order/7".to_owned(), place: "0001/000/a-1".to_owned() }
    }

    #[test]
    fn each_name_is_read_from_its_text() {
        for (work, text, key) in [
            (token(), "token order/7", "order/7"),
            (workflow(), "workflow order/7 v2", "order/7 v2"),
            (message(), "message 0001/000/a-1 of locker outbox order/7", "locker outbox order/7"),
        ] {
            assert_eq!((work.to_text().as_str(), work.key()), (text, key));
            assert_eq!(Work::of_text(text), Some(work.clone()));
            let json = serde_json::to_string(&work).unwrap();
            assert_eq!(json, format!("{text:?}"));
            assert_eq!(serde_json::from_str::<Work>(&json).unwrap(), work);
        }
    }

    #[test]
    fn other_text_is_no_name() {
        for text in ["", "order/7", "step order/7", "message 0001/000/a-1"] {
            assert_eq!(Work::of_text(text), None, "{text}");
            let error = serde_json::from_value::<Work>(text.into()).unwrap_err().to_string();
            assert!(error.contains("is not `token KEY`"), "{error}");
        }
    }

    #[test]
    fn names_have_different_short_ids() {
        let ids = [token(), workflow(), message()].map(|work| work.short_id());
        assert!(ids.iter().all(|id| id.len() == 8), "{ids:?}");
        assert!(ids[0] != ids[1] && ids[1] != ids[2] && ids[0] != ids[2], "{ids:?}");
    }

    #[test]
    #[cfg(feature = "messages")]
    fn audit_record_names_the_message_and_never_a_step() {
        let audited = message().to_audited("order/placed", "m-1");
        assert_eq!(audited, "message 0001/000/a-1 order/placed m-1");
        assert_eq!(Work::of_audited(&audited, "locker outbox order/7"), Some(message()));
        assert_eq!(token().to_audited("order/placed", "m-1"), "");
        assert_eq!(Work::of_audited("charge", "order/7"), None);
    }

    #[test]
    fn debug_shows_the_kind_and_a_digest_only() {
        for (work, kind) in [(token(), "Token"), (workflow(), "Workflow"), (message(), "Message")] {
            let shown = format!("{work:?}");
            assert!(shown.starts_with(&format!("{kind}(#")) && !shown.contains("order"), "{shown}");
        }
    }
}
