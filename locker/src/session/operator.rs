//! Operators and the outcomes of their acts: one contract for tokens and workflows.

use chrono::{DateTime, Utc};

use crate::core::argument::{InvalidArgument, InvalidSetting};
use crate::core::token::record::Intervention;
#[cfg(feature = "workflow")]
use crate::error::Error;
#[cfg(feature = "workflow")]
use crate::store::Written;

/// An operator who acts on a token or a workflow, with a reason. Both are stored as an audit
/// record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operator {
    by: String,
    reason: String,
}

impl Operator {
    /// The longest name and the longest reason, in bytes.
    pub const MAX_BYTES: usize = 1000;

    /// Creates an operator from a name and the reason to act.
    ///
    /// # Errors
    ///
    /// [`InvalidArgument`] if either is empty or longer than 1,000 bytes.
    pub fn new(by: impl Into<String>, reason: impl Into<String>) -> Result<Self, InvalidArgument> {
        let (by, reason) = (by.into(), reason.into());
        check("name", &by, "who acts")?;
        check("reason", &reason, "why, for the next reader of the record")?;
        Ok(Self { by, reason })
    }

    /// The operator of an act that is shown and not written.
    #[cfg(all(feature = "operator", feature = "workflow"))]
    pub(crate) fn nobody() -> Self {
        Self { by: "-".to_owned(), reason: "-".to_owned() }
    }

    /// The operator's name.
    #[must_use]
    pub fn by(&self) -> &str {
        &self.by
    }

    /// The operator's reason.
    #[must_use]
    pub fn reason(&self) -> &str {
        &self.reason
    }

    pub(crate) fn at(&self, at: DateTime<Utc>) -> Intervention {
        Intervention { by: self.by.clone(), reason: self.reason.clone(), at }
    }

    /// The bytes that the name and the reason add to a record.
    pub(crate) const fn bytes(&self) -> usize {
        self.by.len() + self.reason.len()
    }
}

fn check(name: &'static str, text: &str, what: &'static str) -> Result<(), InvalidSetting> {
    match text.trim().len() {
        1..=Operator::MAX_BYTES => Ok(()),
        _ => Err(InvalidSetting::Text { name, what }),
    }
}

/// The outcome of an operator's act.
///
/// Every operator's verb takes the record that the operator read first, then the details of the
/// act, and the [`Operator`] last. An [`Error`](crate::Error) means that nothing was written, or
/// that the outcome is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
#[must_use = "nothing was written unless this is `Done`"]
pub enum Intervened {
    /// It was applied.
    Done,
    /// The token, workflow or step has changed since it was read. Nothing was written; read it
    /// again.
    Changed,
    /// The act does not apply in this state: it has ended, or is in progress. Nothing was written.
    NotPossible,
}

#[cfg(feature = "workflow")]
impl Intervened {
    /// The outcome of an act that writes its records in one transaction.
    ///
    /// # Errors
    ///
    /// [`Error::Unknown`] if the records changed after a silence: an earlier request of the act may
    /// have been applied.
    pub(crate) fn of<T>(verb: &'static str, written: &Written<T>) -> Result<Self, Error> {
        match written {
            Written::Done => Ok(Self::Done),
            Written::Refused { after_silence: false, .. } => Ok(Self::Changed),
            Written::Refused { after_silence: true, .. } => {
                let source = "it changed after a request whose response was lost".into();
                Err(Error::Unknown { verb, tries: 2, source })
            }
        }
    }
}
