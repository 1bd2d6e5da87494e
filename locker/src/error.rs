//! The error: the question was not answered. What can be branched on is a value, not an error.

use crate::core::answer::AnswerError;
use crate::core::fingerprint::UnreadableFingerprint;
use crate::core::key::InvalidKey;
use crate::core::record::{Record, State};
use crate::settings::InvalidSetting;
use crate::store::InvalidRecord;

/// A cause from elsewhere.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Why a call has no answer, and what to do next.
///
/// | error | what happened | what to do |
/// |---|---|---|
/// | [`Key`](Self::Key), [`Setting`](Self::Setting) | nothing was sent | mend the call |
/// | [`Denied`](Self::Denied) | nothing was written | mend permissions, table or credentials |
/// | [`Unavailable`](Self::Unavailable) | nothing was written | try again later |
/// | [`Unknown`](Self::Unknown) | it may have been written | see below |
/// | [`LostOwnership`](Self::LostOwnership) | nothing was written | stop; the token is another's |
/// | [`Changed`](Self::Changed), [`Ended`](Self::Ended) | nothing was written | look at the token again |
/// | [`Record`](Self::Record), [`Fingerprint`](Self::Fingerprint) | nothing was written | have a person look |
/// | [`Answer`](Self::Answer) | depends on the variant | see there |
/// | [`Probe`](Self::Probe) | nothing was written | try again later |
///
/// After an unknown **begin**, do not do the work: the token may be held by this very call, and is
/// then reported as overdue when it is due. After an unknown **end**, the outcome is in the log, and
/// [`EndError::again`](crate::EndError::again) sends the very same end once more.
///
/// No message shows a key, a fingerprint or an answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The key was refused.
    #[error(transparent)]
    Key(#[from] InvalidKey),
    /// A setting or an argument was refused.
    #[error(transparent)]
    Setting(#[from] InvalidSetting),
    /// DynamoDB, or the SDK before it, refused the request, and will again.
    #[error("could not {verb}: {advice}")]
    Denied {
        /// What was tried.
        verb: &'static str,
        /// DynamoDB's name for it, such as `ResourceNotFoundException`, if it answered.
        code: Option<String>,
        /// What to do about it.
        advice: String,
        /// What was said.
        source: BoxError,
    },
    /// DynamoDB could not be reached or was too busy, and surely applied nothing.
    #[error(
        "could not {verb}: DynamoDB was out of reach or too busy; nothing was changed, try again later: tries={tries}"
    )]
    Unavailable {
        /// What was tried.
        verb: &'static str,
        /// Requests made.
        tries: u32,
        /// What the last one said.
        source: BoxError,
    },
    /// No clear reply came until the deadline.
    #[error(
        "could not learn whether the {verb} happened: no clear reply until the deadline; it is not safe to assume either: tries={tries}"
    )]
    Unknown {
        /// What was tried.
        verb: &'static str,
        /// Requests made.
        tries: u32,
        /// What the last one said.
        source: BoxError,
    },
    /// The token is no longer this attempt's: taken over, ended by a person, or gone. Nothing was
    /// changed. The record is as it is now, `None` if it is gone.
    #[error("could not {verb}: the token is no longer held by this attempt; nothing was changed")]
    LostOwnership {
        /// What was tried.
        verb: &'static str,
        /// The token now.
        record: Option<Box<Record>>,
    },
    /// The token has changed since a person read it. Nothing was changed. Look again and decide anew.
    #[error("could not {verb}: the token has changed since it was read; nothing was changed, look again")]
    Changed {
        /// What was tried.
        verb: &'static str,
        /// The token now.
        record: Option<Box<Record>>,
    },
    /// There is nothing to resolve: the token has an answer, or was released.
    #[error("could not {verb}: the token has ended already, as {}", state.as_str())]
    Ended {
        /// What was tried.
        verb: &'static str,
        /// Its state.
        state: State,
    },
    /// The stored item cannot be read. It is never taken for an answer, nor for absent.
    #[error(transparent)]
    Record(#[from] InvalidRecord),
    /// The stored fingerprint cannot be compared.
    #[error(transparent)]
    Fingerprint(#[from] UnreadableFingerprint),
    /// The answer cannot be stored or read.
    #[error(transparent)]
    Answer(#[from] AnswerError),
    /// The probe that was to say whether a takeover is safe failed.
    #[error("the probe could not say whether a takeover is safe; nothing was changed")]
    Probe {
        /// What the probe said.
        source: BoxError,
    },
}
