//! The events of a stored message.

#![cfg_attr(
    not(feature = "messages"),
    allow(dead_code, reason = "only relay, inbox and dead letters use all of it")
)]

use std::time::Duration;

use chrono::{DateTime, Utc};

use crate::core::class::Class;
use crate::core::token::record::Intervention;

/// The time and the revision of one write.
#[derive(Debug, Clone)]
pub(crate) struct Mark {
    pub(crate) now: DateTime<Utc>,
    pub(crate) revision: String,
}

/// An event of a message. It applies only to the revision that was seen.
#[derive(Debug, Clone)]
pub(crate) struct LetterEvent {
    pub(crate) seen: String,
    pub(crate) act: LetterAct,
    /// The caller holds the message.
    pub(crate) holds: bool,
}

impl LetterEvent {
    /// An event of a caller that does not hold the message.
    pub(crate) fn new(seen: &str, act: LetterAct) -> Self {
        Self { seen: seen.to_owned(), act, holds: false }
    }
}

#[derive(Debug, Clone)]
pub(crate) enum LetterAct {
    /// A relay or a consumer takes the message, and with it the later messages of its subject. No
    /// other relay or consumer takes it for this long.
    Take { by: String, lease: Duration },
    /// The message was not sent or processed, or its outcome is unknown. It is tried again under
    /// the same id. `class`: the class of the failure of a received message. For an outgoing
    /// message: in doubt if its target may have it.
    Failed { class: Option<Class>, cause: String, pause: Duration },
    /// Its consumer gives up, or its target refuses it for a reason in the message: it is
    /// dead-lettered. A refusal for any other reason is [`Failed`](Self::Failed).
    Refused { class: Option<Class>, cause: String },
    /// Its consumer stored its body, which was in its queue, in a claim-check store.
    MoveBody { claim: String },
    /// Code holds a dead message to decide about it. No other caller acts on it for this long.
    Hold { by: String, lease: Duration },
    /// The code leaves the message for an operator.
    Release,
    /// An operator has it sent or processed again.
    Redrive { by: Intervention },
    /// An operator archives it.
    Archive { by: Intervention },
    /// An operator restores it from the archive: it is dead again.
    Restore { by: Intervention },
    /// An operator writes a note on it.
    Note { by: Intervention },
    /// An operator replaces its body.
    Correct { by: Intervention, body: String },
}

/// Why an event does not change a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LetterRefusal {
    /// It was written since it was seen.
    Changed,
    /// Another relay or other code holds it, or it waits.
    NotDue,
    /// The event is not for this state.
    NotPossible,
}
