//! Refused arguments: one error for keys, names, settings, messages and fingerprint keys.

#![cfg_attr(
    not(all(feature = "workflow", feature = "operator")),
    allow(dead_code, reason = "each feature uses a part of the arguments")
)]

use std::fmt;
use std::time::Duration;

use chrono::{DateTime, Utc};

use crate::core::fingerprint::InvalidFingerprintKey;
use crate::core::key::InvalidKey;
#[cfg(feature = "workflow")]
use crate::core::message::id::InvalidMessage;
use crate::core::name::InvalidName;
use crate::core::time;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// A refused key, setting, message or other argument. Nothing was sent.
///
/// The text names the argument and its allowed values. Correct the argument and call again. The
/// text never contains a key.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error(transparent)]
pub struct InvalidArgument(Refused);

/// Shows the text of the error. A `main` that returns an error prints it with `Debug`.
impl fmt::Debug for InvalidArgument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "InvalidArgument({self})")
    }
}

/// The argument that was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(transparent)]
enum Refused {
    Key(InvalidKey),
    Name(InvalidName),
    Setting(InvalidSetting),
    FingerprintKey(InvalidFingerprintKey),
    #[cfg(feature = "workflow")]
    Message(InvalidMessage),
}

impl InvalidArgument {
    /// Returns whether a key was refused.
    ///
    /// Parts of a key often come from a client, which should then receive `400 Bad Request`.
    #[must_use]
    pub const fn is_key(&self) -> bool {
        self.key().is_some()
    }

    pub(crate) const fn key(&self) -> Option<&InvalidKey> {
        match &self.0 {
            Refused::Key(error) => Some(error),
            _ => None,
        }
    }
}

/// Converts the error of each kind of argument to [`InvalidArgument`].
macro_rules! refused {
    ($($refusal:ident: $error:ty),* $(,)?) => {$(
        impl From<$error> for InvalidArgument {
            fn from(error: $error) -> Self {
                Self(Refused::$refusal(error))
            }
        }
    )*};
}

refused!(Key: InvalidKey, Name: InvalidName, Setting: InvalidSetting, FingerprintKey: InvalidFingerprintKey);
#[cfg(feature = "workflow")]
refused!(Message: InvalidMessage);

/// A refused setting, with the rule that it breaks.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum InvalidSetting {
    /// The act of a plan is contradictory or incomplete.
    #[error("{0}")]
    Act(&'static str),
    /// A condition of a filter has an empty text. It would select every record, or none.
    #[error("the {name} of a filter is empty; leave the condition out, or name what it selects")]
    EmptyCondition {
        /// The condition.
        name: &'static str,
    },
    /// A condition of a filter selects no work with a result.
    #[error("{name} does not select work with a result, which a redact is for; leave the condition out")]
    NotForResults {
        /// The condition.
        name: &'static str,
    },
    /// A duration is outside its range.
    #[error(
        "{name} must be between {} and {}, got {}{hint}",
        readable(*least), readable(*most), readable(*given)
    )]
    Duration {
        /// The name of the setting or argument.
        name: &'static str,
        /// The value given.
        given: Duration,
        /// The smallest value allowed.
        least: Duration,
        /// The largest value allowed.
        most: Duration,
        /// Advice for the caller; empty if there is none.
        hint: &'static str,
    },
    /// The number of shards is outside its range.
    #[error("shards must be between 1 and 1000, got {given}")]
    Shards {
        /// The value given.
        given: u16,
    },
    /// The end of the restore is in the future.
    #[error(
        "restored is the end of a restore, and {} is in the future; set the time at which the restore ended",
        time::to_text(*given)
    )]
    Restored {
        /// The value given.
        given: DateTime<Utc>,
    },
    /// The owner is empty, is too long, or contains a control character.
    #[error("the owner must be 1 to 256 bytes without control characters, such as order_update/<request id>")]
    Owner,
    /// DynamoDB does not accept the table name.
    #[error("a table name must be 3 to 255 letters, digits, -, _ and ., or the ARN of a table")]
    Table,
    /// The name of a workflow is not allowed.
    #[error("invalid workflow name: {0}")]
    Name(InvalidName),
    /// The name of an event is not allowed.
    #[error("invalid event name: {0}")]
    EventName(InvalidName),
    /// The id of an event is empty, is too long, or contains a control character.
    #[error("the id of an event must be 1 to 256 bytes without control characters, such as evt_17")]
    EventId,
    /// A variable that AWS Lambda sets is missing from the environment.
    #[cfg(feature = "client")]
    #[error("{variable} is not set; AWS Lambda sets it; outside Lambda, build the client with aws-config")]
    Variable {
        /// The name of the variable.
        variable: &'static str,
    },
    /// The version of a key is 0; versions start at 1.
    #[error("key_version must be at least 1, got 0")]
    KeyVersion,
    /// The maximum number of attempts is 0.
    #[error("attempts must be at least 1, got 0")]
    Attempts,
    /// The maximum number of lost drivers is 0.
    #[error("crashes must be at least 1, got 0")]
    Crashes,
    /// The limits of a type of workflow are not allowed.
    #[cfg(feature = "workflow")]
    #[error("the limits of workflow {name}: {why}; correct its `limits`")]
    Limits {
        /// The name of the workflow.
        name: &'static str,
        /// The limit that is refused.
        why: Box<Self>,
    },
    /// Two types of workflow with one name are registered.
    #[cfg(feature = "workflow")]
    #[error(
        "workflow {name} is registered twice, so that one code would drive the workflows of the other; give each type a `NAME` of its own"
    )]
    RegisteredTwice {
        /// The name of both.
        name: &'static str,
    },
    /// An unlisted token has no takeover, or a provider has to recognise its key.
    #[error("an unlisted token needs take_over_after or take_over_if, and cannot have recognised_for")]
    Unlisted,
    /// The name or the reason of an operator is empty or too long.
    #[error("the {name} must be 1 to 1000 bytes; say {what}")]
    Text {
        /// `name` or `reason`.
        name: &'static str,
        /// The content that the text should have.
        what: &'static str,
    },
}

/// Shows 2 days or more as days, and a shorter duration as `Debug` does.
fn readable(duration: Duration) -> String {
    if duration < 2 * DAY {
        format!("{duration:?}")
    } else {
        format!("{} days", duration.as_secs() / DAY.as_secs())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_days_or_more_are_shown_in_days() {
        let shown = |seconds| readable(Duration::from_secs(seconds));
        assert_eq!(shown(90), "90s");
        assert_eq!(shown(172_799), "172799s");
        assert_eq!(shown(172_800), "2 days");
        assert_eq!(shown(366 * 86_400), "366 days");
    }

    #[test]
    fn only_a_refused_key_counts_as_a_key() {
        let refused = crate::core::key::Key::new("", 7).unwrap_err();
        assert!(refused.is_key() && refused.key().is_some(), "{refused}");
        let refused = InvalidArgument::from(InvalidSetting::Attempts);
        assert!(!refused.is_key() && refused.key().is_none());
    }

    #[test]
    fn error_that_main_returns_contains_its_text() {
        let refused = InvalidArgument::from(InvalidSetting::Attempts);
        assert_eq!(format!("{refused:?}"), "InvalidArgument(attempts must be at least 1, got 0)");
    }
}
