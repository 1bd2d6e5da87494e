//! Reasons why a stored item cannot be read.

/// Why a stored item cannot be read as a record.
///
/// It blocks its key until an operator has inspected the item itself, and has repaired or deleted
/// it. It counts neither as an answer nor as absent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum InvalidRecord {
    /// An attribute is missing.
    #[error("the stored record cannot be read: it has no {attribute}; inspect and repair the item")]
    Missing {
        /// The name of the attribute.
        attribute: &'static str,
    },
    /// An attribute does not have the expected type or form.
    #[error(
        "the stored record cannot be read: its {attribute} is not {expected}; inspect and repair the item"
    )]
    Form {
        /// The name of the attribute.
        attribute: &'static str,
        /// The expected type or form.
        expected: &'static str,
    },
    /// It was written by a newer version of this library.
    #[error(
        "the stored record has version {version}, this code reads up to {known}; update the code that reads it"
    )]
    Version {
        /// The version of the record.
        version: u32,
        /// The newest version that this code reads.
        known: u32,
    },
    /// A workflow item of an older layout, which this code does not read.
    #[error(
        "the stored record has version {version}, this code reads version {known}; finish its workflow with the code that wrote it, or start with an empty table"
    )]
    Outdated {
        /// The version of the record.
        version: u32,
        /// The version that this code reads.
        known: u32,
    },
    /// It was written by Powertools for AWS Lambda.
    #[error(
        "the stored record was written by Powertools idempotency, which keeps no owner; give each library a table of its own"
    )]
    Powertools,
    /// It has neither a status nor a completion, so its state is unknown.
    #[error("the stored record has neither a status nor a completion; inspect and repair the item")]
    NoState,
    /// It is the audit record of an operator's act.
    #[error("this is the audit record of an operator's act, and not a token; the audit lists it")]
    Audit,
}
