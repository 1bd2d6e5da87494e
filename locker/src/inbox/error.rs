//! The error of a message that was not processed.

use std::time::Duration;

use chrono::{DateTime, Utc};

use crate::core::argument::InvalidArgument;
use crate::core::class::Class;
use crate::core::restored;
use crate::error::Error;
use crate::failure::Failure;

/// A message was not processed. Each variant documents the next step for the caller.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReceiveError {
    /// The text is not an event of CloudEvents 1.0, or its data does not have the requested type.
    ///
    /// A retry returns the same error. Keep the text for an operator.
    #[error("the message cannot be read: {reason}")]
    Event {
        /// The kind of the error and its position. It contains no part of the message.
        reason: String,
    },
    /// The message or its writes do not fit into one transaction, or it cannot be ordered.
    ///
    /// [`latest`](super::Receive::latest) needs a subject and a sequence,
    /// [`gapless`](super::Receive::gapless) a subject and a number of at least 1. Nothing was sent.
    /// A retry returns the same error.
    #[error("the message cannot be taken: {0}")]
    Invalid(String),
    /// The identity of the message is not allowed, such as no id or no source, or a message to send
    /// with it is not allowed.
    ///
    /// Nothing was sent. A retry returns the same error. Keep the message where an operator sees
    /// it.
    #[error(transparent)]
    Argument(#[from] InvalidArgument),
    /// The message is older than the window of the inbox, so it is unknown whether it was taken.
    ///
    /// Nothing was sent. Check your own rows. If the message was not taken, take it with a longer
    /// [`window`](super::Inbox::window), or without its [`time`](super::Incoming::time).
    #[error(
        "the message is of {time}, and the inbox remembers {} days: it is unknown whether the message was taken; check your own rows",
        window.as_secs() / 86_400
    )]
    TooOld {
        /// The time at which the message was committed, from its own attribute.
        time: DateTime<Utc>,
        /// How long the inbox remembers messages.
        window: Duration,
    },
    /// The table was restored, and may have forgotten that the message was taken.
    ///
    /// Nothing was sent. A [`Consumer`](super::Consumer) dead-letters such a message, and an
    /// operator's redrive takes it. See [`Settings::restored`](crate::Settings::restored).
    #[error("{}", restored::cause(*time))]
    Restored {
        /// The time at which the message was committed, if the message contains it.
        time: Option<DateTime<Utc>>,
    },
    /// The message was not processed to its end.
    ///
    /// Do not acknowledge the message, so that its broker delivers it again.
    #[error("{cause}")]
    #[non_exhaustive]
    Later {
        /// The cause of the failure.
        cause: String,
        /// The pause before the next delivery, 11 hours at most.
        ///
        /// The pause grows with each delivery, unless the handler set it by
        /// [`Failure::after`](crate::Failure::after), or the message stays in its queue for an
        /// operator. `None` if the table could not be read or written, or if the names of the
        /// message are too large.
        pause: Option<Duration>,
    },
    /// The message was not taken, or it is unknown whether it was taken.
    ///
    /// Call again: the message is taken once.
    #[error(transparent)]
    Locker(#[from] Error),
}

impl ReceiveError {
    /// Returns the pause before the next delivery, if [`Later`](Self::Later) has one.
    #[must_use]
    pub const fn pause(&self) -> Option<Duration> {
        match self {
            Self::Later { pause, .. } => *pause,
            _ => None,
        }
    }

    pub(super) fn later(cause: impl std::fmt::Display) -> Self {
        Self::Later { cause: cause.to_string(), pause: None }
    }
}

impl From<ReceiveError> for Failure {
    /// Converts the error to the failure that a handler returns to a [`Consumer`](super::Consumer).
    ///
    /// The failure is transient if a retry may succeed. If no retry succeeds, the message is
    /// dead-lettered as in doubt, because an attempt without a response may have taken it.
    fn from(error: ReceiveError) -> Self {
        let said = error.to_string();
        match error {
            ReceiveError::Locker(_) | ReceiveError::Later { .. } => {
                Self::transient(said).given_up_as(Class::InDoubt)
            }
            ReceiveError::Restored { .. } => Self::in_doubt(said).code("inbox.restored"),
            ReceiveError::TooOld { .. } => Self::needs_operator(said).code("inbox.tooOld"),
            ReceiveError::Event { .. } => Self::permanent(said).code("inbox.unreadable"),
            ReceiveError::Invalid(_) | ReceiveError::Argument(_) => Self::permanent(said),
        }
    }
}
