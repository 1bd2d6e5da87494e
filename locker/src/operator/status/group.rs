//! Groups of what needs an operator for the same cause.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize, Serializer};

use crate::core::class::Class;
use crate::core::time;
use crate::operator::Match;

/// Why something needs an operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum Need {
    /// A token in doubt: it is unknown whether its work happened.
    InDoubt,
    /// A workflow in quarantine: no completer drives it.
    Quarantined,
    /// A message that is not sent or handled any more: its target or its consumer refused it, or it was tried for long enough.
    Dead,
    /// A token that is held: its failure waits for an operator.
    Held,
    /// A token in progress past its due time: its owner is late, or has died.
    Overdue,
    /// A workflow that has been due for a quarter of an hour: no completer runs, or it cannot keep up.
    Undriven,
    /// A message that has been unsent, or has waited for its consumer, for five minutes: no relay or consumer runs, its target cannot
    /// be reached, or one before it is dead. It is still sent or handled.
    Unsent,
    /// A workflow without progress for an hour. It is still retried.
    Failing,
}

impl Need {
    /// All of them, the most urgent first.
    pub const ALL: [Self; 8] = [
        Self::InDoubt,
        Self::Quarantined,
        Self::Dead,
        Self::Held,
        Self::Overdue,
        Self::Undriven,
        Self::Unsent,
        Self::Failing,
    ];
    /// How long a message may be unsent before it counts as one.
    pub(crate) const UNSENT_AFTER: Duration = Duration::from_secs(5 * 60);
    /// How long a workflow may be due before it counts as one that no completer drives.
    pub(crate) const UNDRIVEN_AFTER: Duration = Duration::from_secs(15 * 60);

    /// The name of the need, as shown.
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
        }
    }
}

impl fmt::Display for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// What a group is about.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum Subject {
    /// Tokens.
    Tokens,
    /// Workflows whose code has this name.
    Workflows(String),
    /// Messages of this topic that are to be sent; the keys are those of their workflows.
    Messages(String),
    /// Messages that were received and set aside.
    Received {
        /// The consumer that received them.
        consumer: String,
        /// The type of the events.
        topic: String,
    },
}

/// Tokens, or workflows of one name, that need an operator for the same cause.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Group {
    /// Eight hexadecimal digits, the same in every report: of the need, the subject, the class and the cause.
    pub id: String,
    /// Why it needs an operator.
    pub need: Need,
    /// What it is about.
    pub subject: Subject,
    /// The class of the failure, if there was one.
    pub class: Option<Class>,
    /// The cause, with `#` for what differs. Empty if none is known.
    pub cause: String,
    /// How many there are.
    pub count: usize,
    /// When the first of them began to need an operator: a due time, the time since which there is no progress, or, of one
    /// that is held, when its work began.
    #[serde(serialize_with = "as_text")]
    pub first: Option<DateTime<Utc>>,
    /// The same of the last.
    #[serde(serialize_with = "as_text")]
    pub last: Option<DateTime<Utc>>,
    /// The key of the first.
    pub sample: String,
    /// The cause of the first, as it is stored.
    pub sample_cause: Option<String>,
}

fn as_text<S: Serializer>(at: &Option<DateTime<Utc>>, serializer: S) -> Result<S::Ok, S::Error> {
    at.map(time::to_text).serialize(serializer)
}

/// A group of one. `None`: it needs no operator.
fn group_of(it: Match) -> Option<Group> {
    Some(Group {
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
        // `None`, which says nothing, comes before every time.
        group.last = group.last.max(new.last);
        if new.first.is_some() && (group.first.is_none() || new.first < group.first) {
            (group.first, group.sample, group.sample_cause) = (new.first, new.sample, new.sample_cause);
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
