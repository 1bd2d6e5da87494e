//! Groups of items that need an operator for the same cause.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::{IndexEntry, Match, times};
use crate::core::class::Class;

/// The reason why a token, a workflow or a message needs an operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum Need {
    /// A token in doubt: the outcome of its work is unknown.
    InDoubt,
    /// A workflow in quarantine: no completer drives it.
    Quarantined,
    /// A dead message: its target or its consumer refused it, or it was tried for long enough.
    Dead,
    /// A held token: its failure waits for an operator.
    Held,
    /// A late event: it came after its time, a cancel or the end of its workflow, was not read
    /// before the end, or its name had another event. It changes nothing.
    Late,
    /// A token in progress past its due time: its owner is late, or has crashed.
    Overdue,
    /// A workflow that has been due for 15 minutes: no completer runs, or it cannot keep up.
    Undriven,
    /// A message that has been unsent, or has waited for its consumer, for 5 minutes.
    ///
    /// No relay or consumer runs, its target cannot be reached, or an earlier message of its order
    /// is dead. The message is still sent or processed.
    Unsent,
    /// A workflow without progress for an hour. It is still retried.
    Failing,
}

impl Need {
    /// All needs, the most urgent first.
    pub const ALL: [Self; 9] = [
        Self::InDoubt,
        Self::Quarantined,
        Self::Dead,
        Self::Held,
        Self::Late,
        Self::Overdue,
        Self::Undriven,
        Self::Unsent,
        Self::Failing,
    ];
    /// How long a message may be unsent before it counts as unsent.
    #[cfg(feature = "messages")]
    pub(crate) const UNSENT_AFTER: Duration = Duration::from_secs(5 * 60);
    /// How long a workflow may be due before it counts as undriven.
    pub(crate) const UNDRIVEN_AFTER: Duration = Duration::from_secs(15 * 60);

    /// Returns the name of the need, as shown.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::InDoubt => "inDoubt",
            Self::Quarantined => "quarantined",
            Self::Dead => "dead",
            Self::Held => "held",
            Self::Overdue => "overdue",
            Self::Undriven => "undriven",
            Self::Unsent => "unsent",
            Self::Failing => "failing",
            Self::Late => "late",
        }
    }
}

impl fmt::Display for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// The kind of items in a group.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum Subject {
    /// Tokens.
    Tokens,
    /// Workflows whose code has this name.
    Workflows(String),
    /// Messages of this topic that are to be sent. Their keys are those of their workflows.
    Messages(String),
    /// Messages that were received and dead-lettered.
    Received {
        /// The consumer that received them.
        consumer: String,
        /// The type of the events.
        topic: String,
    },
}

/// Tokens, workflows or messages that need an operator for the same cause.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Group {
    /// Eight hexadecimal digits of need, subject, class and cause, the same in every report.
    pub id: String,
    /// The reason why the items need an operator.
    pub need: Need,
    /// The kind of the items.
    pub subject: Subject,
    /// The class of the failure, if there was a failure.
    pub class: Option<Class>,
    /// The cause, with `#` for the parts that differ. Empty if no cause is known.
    pub cause: String,
    /// The number of items.
    pub count: usize,
    /// The earliest time since which an item needs an operator.
    ///
    /// This is a due time or the time of the last progress. For a held token it is the begin of its
    /// work.
    #[serde(serialize_with = "times::optional::serialize")]
    pub first: Option<DateTime<Utc>>,
    /// The latest such time.
    #[serde(serialize_with = "times::optional::serialize")]
    pub last: Option<DateTime<Utc>>,
    /// The key of the first item.
    pub sample: String,
    /// The cause of the first item, as stored.
    pub sample_cause: Option<String>,
    /// The revision of the first item, for a token.
    ///
    /// The index contains no revision of a workflow or a message.
    pub sample_revision: Option<String>,
}

/// A group of one item. `None`: the item needs no operator.
fn group_of(it: Match) -> Option<Group> {
    let sample_revision = match &it.entry {
        Some(IndexEntry::Token(token)) => token.revision.clone(),
        _ => None,
    };
    Some(Group {
        sample_revision,
        need: it.need?,
        subject: it.subject(),
        class: it.class,
        cause: it.alike(),
        count: 1,
        first: it.since,
        last: it.since,
        sample: it.work.key().to_owned(),
        id: it.group,
        sample_cause: it.cause,
    })
}

/// Groups under construction.
#[derive(Debug, Default)]
pub(super) struct Groups(BTreeMap<String, Group>);

impl Groups {
    pub(super) fn add(&mut self, it: Match) {
        let Some(new) = group_of(it) else { return };
        let Some(group) = self.0.get_mut(&new.id) else {
            self.0.insert(new.id.clone(), new);
            return;
        };
        group.count += 1;
        // `None`, an unknown time, sorts before every time.
        group.last = group.last.max(new.last);
        if new.first.is_some() && (group.first.is_none() || new.first < group.first) {
            (group.first, group.sample, group.sample_cause) = (new.first, new.sample, new.sample_cause);
            group.sample_revision = new.sample_revision;
        }
    }

    /// The most urgent first: by need, then by count.
    pub(super) fn sorted(self) -> Vec<Group> {
        let mut groups: Vec<_> = self.0.into_values().collect();
        groups.sort_by(|one, other| {
            (one.need, other.count, one.first, &one.id).cmp(&(other.need, one.count, other.first, &other.id))
        });
        groups
    }
}
