//! What can happen to a message until it is sent.

use std::time::Duration;

use chrono::{DateTime, Utc};

use crate::core::token::record::Intervention;

/// The time and the revision of one write.
#[derive(Debug, Clone)]
pub(crate) struct Mark {
    pub(crate) now: DateTime<Utc>,
    pub(crate) revision: String,
}

/// What happens to a message. Each depends on the revision that was seen.
#[derive(Debug, Clone)]
pub(crate) struct OutgoingEvent {
    pub(crate) seen: String,
    pub(crate) act: OutgoingAct,
}

#[derive(Debug, Clone)]
pub(crate) enum OutgoingAct {
    /// A relay takes it, and with it the later ones of its subject. No other relay does for this long.
    Take { by: String, lease: Duration },
    /// It was not sent, as far as is known; it is sent again under the same id.
    Failed { cause: String, pause: Duration },
    /// Its target will never take it.
    Refused { cause: String },
    /// An operator has it sent again.
    Redrive { by: Intervention },
}

/// Why an event does not change a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OutgoingRefusal {
    /// It was written since it was seen.
    Changed,
    /// Another relay has it, or it waits.
    NotDue,
    /// The event is not for this state.
    NotPossible,
}
