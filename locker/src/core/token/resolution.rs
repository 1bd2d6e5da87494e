//! The acts of operators.

/// An act of an operator on a token, a workflow, a step or a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Resolution {
    /// Gave the answer of a token, or the result of a step, that is not known to be done.
    Resolved,
    /// Replaced an answer or a result that an operator had given, or a result that the code cannot
    /// read.
    Corrected,
    /// Let the stored failure of a held token be the answer; or ended a workflow as it was.
    Closed,
    /// Released a token, so that its work can be done again.
    Released,
    /// Made a workflow due, or freed a step so that it runs again under the same key.
    Retried,
    /// Freed a step so that it runs again under another idempotency key.
    RetriedWithNewKey,
    /// Completed a step without a result, completed a compensation with nothing to compensate, or
    /// handled a late event without its compensation.
    Skipped,
    /// Refused the start of a workflow or a step that had not started.
    Cancelled,
    /// Made a workflow compensate its steps.
    Compensated,
    /// Gave an event to a workflow.
    Signalled,
    /// Had a dead message sent, or handled by its consumer, again.
    Redriven,
    /// Archived a dead message.
    Archived,
    /// Took an archived message back.
    Restored,
    /// Deleted a message, which is not sent or handled any more.
    Discarded,
    /// Wrote a note on a message.
    Noted,
    /// Erased the result of a token or a workflow that ended.
    Redacted,
}

impl Resolution {
    const ALL: [Self; 16] = [
        Self::Resolved,
        Self::Corrected,
        Self::Closed,
        Self::Released,
        Self::Retried,
        Self::RetriedWithNewKey,
        Self::Skipped,
        Self::Cancelled,
        Self::Compensated,
        Self::Signalled,
        Self::Redriven,
        Self::Archived,
        Self::Restored,
        Self::Discarded,
        Self::Noted,
        Self::Redacted,
    ];

    /// The word, as it is stored in `resolution` and shown.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Resolved => "resolved",
            Self::Corrected => "corrected",
            Self::Closed => "closed",
            Self::Released => "released",
            Self::Retried => "retried",
            Self::RetriedWithNewKey => "retriedWithNewKey",
            Self::Skipped => "skipped",
            Self::Cancelled => "cancelled",
            Self::Compensated => "compensated",
            Self::Signalled => "signalled",
            Self::Redriven => "redriven",
            Self::Archived => "archived",
            Self::Restored => "restored",
            Self::Discarded => "discarded",
            Self::Noted => "noted",
            Self::Redacted => "redacted",
        }
    }

    pub(crate) fn named(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|done| done.as_str() == word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_act_is_read_from_its_stored_word() {
        let words = Resolution::ALL.map(Resolution::as_str);
        assert_eq!(
            words.join(" "),
            "resolved corrected closed released retried retriedWithNewKey skipped cancelled compensated \
             signalled redriven archived restored discarded noted redacted"
        );
        assert_eq!(words.map(Resolution::named), Resolution::ALL.map(Some));
        assert_eq!(Resolution::named("undone"), None);
    }
}
