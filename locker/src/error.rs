//! The error of a call that got no answer. Outcomes that a caller branches on are values, not
//! errors.

use crate::core::answer::AnswerError;
use crate::core::argument::{InvalidArgument, InvalidSetting};
use crate::core::fingerprint::UnreadableFingerprint;
use crate::core::form::FormMismatch;
use crate::core::invalid::InvalidRecord;
use crate::core::token::record::Record;

/// The cause of an error, of any type.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Why a call has no answer, and what to do next.
///
/// | error | what it means | what to do |
/// |---|---|---|
/// | [`Invalid`](Self::Invalid) | nothing was sent | correct the call |
/// | [`Expired`](Self::Expired) | nothing was written | call again with more time |
/// | [`Denied`](Self::Denied) | nothing was written | fix permissions, table or credentials |
/// | [`Unavailable`](Self::Unavailable) | no token or workflow was changed | try again later |
/// | [`Contended`](Self::Contended) | this call changed nothing; other callers did | try again |
/// | [`Gone`](Self::Gone) | nothing was written | try again; the key is free after the deletion |
/// | [`Deleted`](Self::Deleted) | steps may have been done; no record is left | stop; it was deleted |
/// | [`NotReady`](Self::NotReady) | the table is being created | wait, then check the table |
/// | [`Unknown`](Self::Unknown) | it may have been written | see below |
/// | [`LostOwnership`](Self::LostOwnership) | nothing was written | stop; this attempt no longer owns the token |
/// | [`Record`](Self::Record) | nothing was written | inspect and repair the item |
/// | [`Fingerprint`](Self::Fingerprint) | nothing was written | add the key that made it; do not edit the item |
/// | [`Answer`](Self::Answer) | depends on the variant | see there |
/// | [`Form`](Self::Form) | nothing was sent | give an answer of the form that it shows |
/// | [`Probe`](Self::Probe) | nothing was written | try again later |
///
/// After an unknown **begin**, do not do the work: this call may have acquired the token, which is
/// then reported as overdue once it is past its expected completion, unless it is
/// [unlisted](crate::BeginBuilder::unlisted). After an unknown **end**, the outcome is in the log,
/// and [`EndError::again`](crate::EndError::again) sends the same end once more.
///
/// No message contains a key, a fingerprint or an answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The call has a key, a setting or another argument that is not allowed.
    #[error(transparent)]
    Invalid(#[from] InvalidArgument),
    /// DynamoDB, or the SDK, refused the request, and a retry would be refused too. After refused
    /// credentials or a refused signature, the call has retried while it had time.
    #[error("could not {verb}: {advice}")]
    Denied {
        /// The operation that was tried.
        verb: &'static str,
        /// DynamoDB's error code, such as `ResourceNotFoundException`, if it answered.
        code: Option<String>,
        /// What to do about it.
        advice: String,
        /// The error reported.
        source: BoxError,
    },
    /// The deadline that the caller gave had passed before anything was written.
    #[error("could not {verb}: the deadline has passed; nothing was written, call again with more time")]
    Expired {
        /// The operation that was tried.
        verb: &'static str,
    },
    /// DynamoDB could not be reached or was too busy, and no token or workflow was changed.
    #[error(
        "could not {verb}: DynamoDB was out of reach or too busy; no token or workflow was changed, try again later: tries={tries}"
    )]
    Unavailable {
        /// The operation that was tried.
        verb: &'static str,
        /// Requests made.
        tries: u32,
        /// The error of the last request.
        source: BoxError,
    },
    /// Other callers changed the token or the workflow under every attempt of this call. DynamoDB
    /// is well.
    #[error(
        "could not {verb}: other callers changed it under each of {tries} attempts; this call changed nothing, try again"
    )]
    Contended {
        /// The operation that was tried.
        verb: &'static str,
        /// Attempts made.
        tries: u32,
    },
    /// The workflow was deleted after its retention, or a reaper is deleting it. The key is free
    /// after that. A deletion that was cut short is continued by the next run of the reaper, or by
    /// `locker reap`, 5 minutes after it began at the earliest.
    #[error(
        "could not {verb}: the workflow was finished and has been deleted, or the reaper is deleting it; nothing was changed; try again, and if this stays, the reaper was cut short: run `locker reap`, or wait for its next run"
    )]
    Gone {
        /// The operation that was tried.
        verb: &'static str,
    },
    /// The workflow was deleted while this call ran it: another driver or an operator had ended it.
    /// This call may have done steps of it, of which no record is left. The key is free.
    #[error(
        "could not {verb}: the workflow had ended and was deleted while this call ran it; this call may have done steps of it, and no record of them is left"
    )]
    Deleted {
        /// The operation that was tried.
        verb: &'static str,
    },
    /// The table was created and cannot be used yet.
    #[error("the table {table} is still being created; wait, and check it before you use it")]
    NotReady {
        /// Its name.
        table: String,
    },
    /// No clear reply came before the deadline.
    #[error(
        "could not {verb} for certain: no clear reply before the deadline; it may or may not have been applied, so assume neither: tries={tries}"
    )]
    Unknown {
        /// The operation that was tried.
        verb: &'static str,
        /// Requests made.
        tries: u32,
        /// The error of the last request.
        source: BoxError,
    },
    /// This attempt no longer owns the token: it was taken over, ended by an operator, or deleted.
    /// Nothing was changed.
    #[error("could not {verb}: this attempt no longer owns the token; nothing was changed")]
    LostOwnership {
        /// The operation that was tried.
        verb: &'static str,
        /// The token as it is now; `None` if it does not exist, or the engine did not return it.
        record: Option<Box<Record>>,
    },
    /// The stored item cannot be read. It counts neither as an answer nor as absent, and it blocks
    /// its key until an operator has repaired or deleted it.
    #[error("{reason}")]
    Record {
        /// The attribute that cannot be read, and how to repair it.
        reason: String,
    },
    /// The stored fingerprint cannot be compared, so it is unknown whether the request is the same.
    #[error("{reason}")]
    Fingerprint {
        /// The key or the format that is missing, and what to do.
        reason: String,
    },
    /// The answer cannot be stored or read.
    #[error(transparent)]
    Answer(#[from] AnswerError),
    /// An operator's answer does not have the form that the token was begun for.
    #[error("{reason}")]
    Form {
        /// The form that later callers read, and an example of it.
        reason: String,
    },
    /// The probe that decides whether a takeover is safe failed.
    #[error("the probe failed, so it is unknown whether a takeover is safe; nothing was changed")]
    Probe {
        /// The error of the probe.
        source: BoxError,
    },
}

impl From<InvalidSetting> for Error {
    fn from(error: InvalidSetting) -> Self {
        Self::Invalid(error.into())
    }
}

impl From<InvalidRecord> for Error {
    fn from(error: InvalidRecord) -> Self {
        Self::Record { reason: error.to_string() }
    }
}

impl From<UnreadableFingerprint> for Error {
    fn from(error: UnreadableFingerprint) -> Self {
        Self::Fingerprint { reason: error.to_string() }
    }
}

impl From<FormMismatch> for Error {
    fn from(error: FormMismatch) -> Self {
        Self::Form { reason: error.to_string() }
    }
}

impl Error {
    /// [`unsure`](Self::unsure), if the call may have written something before.
    #[cfg(feature = "workflow")]
    pub(crate) fn unsure_if(self, written: bool) -> Self {
        if written { self.unsure() } else { self }
    }

    /// Returns the error of a call that may have written before. If the error means that nothing
    /// was changed, returns [`Error::Unknown`] instead.
    pub(crate) fn unsure(self) -> Self {
        match self {
            Self::Unavailable { verb, tries, source } => Self::Unknown { verb, tries, source },
            Self::Denied { verb, advice, source, .. } => {
                Self::Unknown { verb, tries: 1, source: format!("{advice}: {source}").into() }
            }
            // Only facts about this last request: something may have been written before it.
            Self::Contended { verb, tries } => {
                let source = "other callers changed it under each attempt".into();
                Self::Unknown { verb, tries, source }
            }
            Self::Expired { verb } => {
                Self::Unknown { verb, tries: 1, source: "the deadline has passed".into() }
            }
            Self::Gone { verb } => Self::Deleted { verb },
            error => error,
        }
    }
}

/// Serializes an error of a report as its text.
pub(crate) fn as_text<S: serde::Serializer>(error: &Option<Error>, serializer: S) -> Result<S::Ok, S::Error> {
    match error {
        Some(error) => serializer.collect_str(error),
        None => serializer.serialize_none(),
    }
}

#[cfg(test)]
mod tests {
    use super::Error;

    #[test]
    fn after_a_write_no_error_says_that_nothing_was_changed() {
        let verb = "begin";
        for error in [
            Error::Unavailable { verb, tries: 1, source: "busy".into() },
            Error::Denied { verb, code: None, advice: "a".into(), source: "b".into() },
            Error::Contended { verb, tries: 1 },
            Error::Expired { verb },
        ] {
            let text = error.to_string();
            let Error::Unknown { source, .. } = error.unsure() else { panic!("{text}") };
            assert!(!source.to_string().contains("nothing"), "{source}");
        }
        let deleted = Error::Gone { verb }.unsure();
        assert!(matches!(deleted, Error::Deleted { .. }) && !deleted.to_string().contains("nothing"));
    }
}
