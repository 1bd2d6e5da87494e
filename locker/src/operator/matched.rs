//! A token, a workflow or a message as a list of the index contains it.

use chrono::{DateTime, Utc};
use serde::Serialize;

use super::{Need, Subject, times};
use crate::core::alike;
use crate::core::class::Class;
#[cfg(feature = "workflow")]
use crate::core::listed::List;
use crate::core::listed::MessageState;
use crate::core::token::work::Work;
#[cfg(feature = "workflow")]
use crate::core::workflow::place::Partition;
#[cfg(feature = "messages")]
use crate::dead_letters::MessageSummary;
use crate::token::TokenSummary;
#[cfg(feature = "workflow")]
use crate::workflow::Summary;

/// A token, a workflow or a message as a list contains it: eventually consistent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Match {
    /// The token, the workflow or the message.
    pub work: Work,
    /// The name of the workflow's code, or the consumer of a message that was received.
    ///
    /// `None` for a token and for a message to be sent.
    pub name: Option<String>,
    /// The late event of a workflow, such as `event:paid`. A skip of this step handles it. `None`:
    /// it is no late event.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event: Option<String>,
    /// The topic of a message. `None` for a token and a workflow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topic: Option<String>,
    /// The state of a message. `None` for a token and a workflow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<MessageState>,
    /// The reason of the operator who acted last on a message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// The reason why it needs an operator. `None`: it needs none.
    pub need: Option<Need>,
    /// The id of its group, the same as in a [`Status`](super::Status).
    pub group: String,
    /// The class of its failure, for a token and a message that was received.
    pub class: Option<Class>,
    /// The cause as stored.
    pub cause: Option<String>,
    /// The time since which it needs an operator, or its due time.
    ///
    /// See [`Group::first`](super::Group::first).
    #[serde(serialize_with = "times::optional::serialize")]
    pub since: Option<DateTime<Utc>>,
    /// The due time of a token in progress or an unfinished workflow outside of quarantine.
    #[serde(serialize_with = "times::optional::serialize")]
    pub due: Option<DateTime<Utc>>,
    /// Its owner or its driver.
    pub owner: Option<String>,
    /// The work that it was begun inside.
    pub within: Option<Work>,
    /// The entry of the index, with the fields that only its kind has. `None` for a late event.
    #[serde(skip)]
    pub entry: Option<IndexEntry>,
}

/// An entry of the index, as a list of its kind returns it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum IndexEntry {
    /// A token in progress or held.
    Token(TokenSummary),
    /// A workflow, and the list that contains it.
    #[cfg(feature = "workflow")]
    Workflow(List, Summary),
    /// A message.
    #[cfg(feature = "messages")]
    Message(MessageSummary),
}

impl Match {
    /// A match of which nothing is known but its name.
    pub(super) const fn of(work: Work) -> Self {
        Self {
            work,
            name: None,
            event: None,
            topic: None,
            state: None,
            note: None,
            need: None,
            group: String::new(),
            class: None,
            cause: None,
            since: None,
            due: None,
            owner: None,
            within: None,
            entry: None,
        }
    }

    /// Sets the id of the group.
    pub(super) fn grouped(mut self) -> Self {
        let (kind, name, topic) = match (&self.topic, &self.name) {
            (Some(topic), None) => ("messages", "", topic.as_str()),
            (Some(topic), Some(consumer)) => ("received", consumer.as_str(), topic.as_str()),
            (None, None) => ("tokens", "", ""),
            (None, Some(name)) => ("workflows", name.as_str(), ""),
        };
        let need = self.need.map_or("", Need::as_str);
        let class = self.class.map_or("", Class::as_str);
        self.group = alike::id_of(&[need, kind, name, topic, class, &self.alike()]);
        self
    }

    /// Whether it has this key, or was committed by the workflow with this key, under any version.
    pub(super) fn is_of_key(&self, key: &str) -> bool {
        is_of_key(self.work.key(), key)
    }

    /// Returns whether a later read of the record equals the listed entry.
    ///
    /// In an index of an older layout, the entry of a token has no revision.
    pub(super) fn is_same_entry(&self, listed: &Self) -> bool {
        match (&self.entry, &listed.entry) {
            (Some(IndexEntry::Token(read)), Some(IndexEntry::Token(listed))) => {
                listed.revision.is_none() || read.revision == listed.revision
            }
            (None, None) => (&self.event, self.since) == (&listed.event, listed.since),
            (read, listed) => read == listed,
        }
    }

    /// Returns whether only the key shows the work: an overdue token whose owner left no cause.
    #[must_use]
    pub fn is_of_unknown_work(&self) -> bool {
        self.need == Some(Need::Overdue) && self.alike().is_empty()
    }

    pub(super) fn is_due(&self, now: DateTime<Utc>) -> bool {
        self.due.is_some_and(|due| due <= now)
    }

    /// The cause, with `#` for the parts that differ.
    pub(super) fn alike(&self) -> String {
        self.cause.as_deref().map_or_else(String::new, alike::alike)
    }

    pub(super) fn subject(&self) -> Subject {
        match (&self.topic, &self.name) {
            (Some(topic), None) => Subject::Messages(topic.clone()),
            (Some(topic), Some(consumer)) => {
                Subject::Received { consumer: consumer.clone(), topic: topic.clone() }
            }
            (None, None) => Subject::Tokens,
            (None, Some(name)) => Subject::Workflows(name.clone()),
        }
    }
}

/// Whether this is the key as stored: the whole text, or followed by a version.
///
/// A listing prints the whole text. A key of another writer may have a space, and is no partition
/// key of this library.
#[cfg(feature = "workflow")]
fn is_of_key(stored: &str, key: &str) -> bool {
    stored == key
        || matches!(Partition::parse(stored), Ok(Partition::Workflow { key: found, .. }) if found == key)
}

/// Whether this is the key as stored. Only workflows have versions.
#[cfg(not(feature = "workflow"))]
fn is_of_key(stored: &str, key: &str) -> bool {
    stored == key
}

#[cfg(all(test, feature = "workflow"))]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_found_in_all_its_versions_and_is_no_prefix() {
        let all = [
            "order/1",
            "order/1 v2",
            "order/10",
            "order/10 v2",
            "order",
            "locker outbox order/1",
            "locker dead order/1 7",
        ];
        let of = |key| all.into_iter().filter(|stored| is_of_key(stored, key)).collect::<Vec<_>>();
        assert_eq!(of("order/1"), ["order/1", "order/1 v2"]);
        assert_eq!(of("order/10"), ["order/10", "order/10 v2"]);
        assert_eq!(of("order"), ["order"]);
        assert!(of("locker").is_empty() && of("order/").is_empty());
    }

    #[test]
    fn key_as_a_listing_prints_it_is_found() {
        for stored in ["order/1 v2", "order caf\u{e9} 7", "order/1 v1", "locker outbox order/1"] {
            assert!(is_of_key(stored, stored), "{stored}");
        }
        assert!(!is_of_key("order/1", "order/1 v2") && !is_of_key("order/1 v3", "order/1 v2"));
        assert!(!is_of_key("order caf\u{e9} 7", "order"));
    }
}
