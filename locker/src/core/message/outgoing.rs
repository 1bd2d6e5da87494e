//! A message that was committed, until it is sent.

use std::ops::Deref;
use std::time::Duration;

use chrono::{DateTime, Utc};

use super::id;
use crate::core::time;
use crate::core::token::record::Intervention;
use crate::core::workflow::step::{MESSAGE, RecordId};

/// Until then the process that committed a message sends it; afterwards a relay may.
pub(crate) const GRACE: Duration = Duration::from_secs(30);

/// Begins the partitions of messages that were committed outside workflows. No key has a space.
const OUTBOX: &str = "locker outbox ";

/// The partition of the messages of a subject that were committed outside workflows.
pub(crate) fn partition_of(subject: &str) -> String {
    format!("{OUTBOX}{}", id::as_id(subject))
}

/// The state of a message that was not sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MessageState {
    /// It is to be sent.
    Unsent,
    /// It is not sent any more, and an operator has to act: its target refused it, or three days have passed.
    Dead,
}

impl MessageState {
    pub(crate) const ALL: [Self; 2] = [Self::Unsent, Self::Dead];

    /// The name of the state, as stored and shown. It is the value of `status`, too.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unsent => "unsent",
            Self::Dead => "dead",
        }
    }

    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == name)
    }
}

/// A message. Only its [transitions](Outgoing::on) make another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Outgoing(pub(super) OutgoingData);

/// What is stored of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OutgoingData {
    pub(crate) at: RecordId,
    /// Of this commit: the same however often it is sent, and of no other message.
    pub(crate) id: String,
    /// Changes with every write.
    pub(crate) revision: String,
    pub(crate) topic: String,
    /// Messages of one subject are sent in the order of their sort keys.
    pub(crate) subject: String,
    /// Grows within a subject, over workflows, too.
    pub(crate) sequence: String,
    /// JSON.
    pub(crate) body: String,
    pub(crate) created: DateTime<Utc>,
    pub(crate) trace: Option<String>,
    pub(crate) state: MessageState,
    /// When a relay may take it.
    pub(crate) next_due: DateTime<Utc>,
    /// The relay that sends it.
    pub(crate) locked_by: Option<String>,
    /// How many times a relay took it, or tried to send it.
    pub(crate) attempts: u32,
    /// Why it was not sent.
    pub(crate) cause: Option<String>,
    /// How many times an operator had it sent again after it was dead.
    pub(crate) redrives: u32,
    pub(crate) intervention: Option<Intervention>,
}

/// A message that is committed.
#[derive(Debug, Clone)]
pub(crate) struct Committed<'a> {
    pub(crate) origin: Origin<'a>,
    /// Its place in the commit.
    pub(crate) place: usize,
    /// The attempt of its commit.
    pub(crate) attempt: &'a str,
    pub(crate) revision: String,
    pub(crate) topic: &'a str,
    pub(crate) subject: &'a str,
    pub(crate) body: &'a str,
    pub(crate) trace: Option<String>,
    pub(crate) now: DateTime<Utc>,
    /// The latest commit of the workflow so far, whatever the clocks say.
    pub(crate) not_before: DateTime<Utc>,
}

/// Where a message was committed.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Origin<'a> {
    /// With a step of a workflow.
    Step {
        /// The partition.
        workflow: &'a str,
        /// The number of the step in the workflow.
        number: u32,
        name: &'a str,
    },
    /// With a transaction of the caller's own.
    Outbox,
}

impl Deref for Outgoing {
    type Target = OutgoingData;

    fn deref(&self) -> &OutgoingData {
        &self.0
    }
}

impl Outgoing {
    /// A message that is committed now.
    pub(crate) fn committed(new: Committed<'_>) -> Self {
        let (place, committed) = (new.place, new.not_before.max(new.now));
        let (at, step) = match new.origin {
            Origin::Step { workflow, number, name } => {
                let item = format!("{MESSAGE}{number:08}/{place:03}/{name}");
                (RecordId { workflow: workflow.to_owned(), item }, number)
            }
            // No other commit has this place: its attempt is its own.
            Origin::Outbox => {
                let millis = committed.timestamp_millis().max(0);
                let item = format!("{MESSAGE}{millis:015}/{place:03}/{}", new.attempt);
                (RecordId { workflow: partition_of(new.subject), item }, 0)
            }
        };
        Self(OutgoingData {
            at,
            id: id::of_message(new.attempt, place),
            revision: new.revision,
            topic: new.topic.to_owned(),
            subject: new.subject.to_owned(),
            sequence: id::sequence(committed, step, place),
            body: id::without_noncharacters(new.body),
            created: new.now,
            trace: new.trace,
            state: MessageState::Unsent,
            next_due: time::after(new.now, GRACE),
            locked_by: None,
            attempts: 0,
            cause: None,
            redrives: 0,
            intervention: None,
        })
    }

    /// What was read from the table.
    pub(crate) const fn stored(data: OutgoingData) -> Self {
        Self(data)
    }
}
