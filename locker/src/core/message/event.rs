//! What can happen to a message that is kept.

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

/// What happens to a message. Each depends on the revision that was seen.
#[derive(Debug, Clone)]
pub(crate) struct LetterEvent {
    pub(crate) seen: String,
    pub(crate) act: LetterAct,
    /// The one who acts holds it.
    pub(crate) holds: bool,
}

impl LetterEvent {
    /// Of one who does not hold it.
    pub(crate) fn new(seen: &str, act: LetterAct) -> Self {
        Self { seen: seen.to_owned(), act, holds: false }
    }
}

#[derive(Debug, Clone)]
pub(crate) enum LetterAct {
    /// A relay or a consumer takes it, and with it the later ones of its subject. No other one does
    /// for this long.
    Take { by: String, lease: Duration },
    /// It was not sent or handled, as far as is known; it is tried again under the same id.
    /// `class`: of a message that was received; of an outgoing one, in doubt if its target may have
    /// it.
    Failed { class: Option<Class>, cause: String, pause: Duration },
    /// Its consumer gives up, or its target refuses it for a reason in the message: it is
    /// dead-lettered. A refusal for any other reason is [`Failed`](Self::Failed).
    Refused { class: Option<Class>, cause: String },
    /// Its consumer stored its body, which was in its queue, in a claim-check store.
    MoveBody { claim: String },
    /// Code takes one that is dead, to decide about it: nobody else acts on it for this long.
    Hold { by: String, lease: Duration },
    /// The code has left it for an operator.
    Release,
    /// An operator has it sent or handled again.
    Redrive { by: Intervention },
    /// An operator sets it aside, and keeps it.
    Archive { by: Intervention },
    /// An operator takes it back: it is dead again.
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
    /// Another relay has it, or code that decides; or it waits.
    NotDue,
    /// The event is not for this state.
    NotPossible,
}
