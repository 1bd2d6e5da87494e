//! Kinds and states of steps.

/// The kind of a step, as recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StepKind {
    /// Runs at least once.
    Step,
    /// Runs at most once.
    Once,
    /// Runs exactly once, inside DynamoDB.
    Atomic,
    /// A time that the workflow recorded, such as the end of a pause.
    Timer,
    /// Compensates a step.
    Compensation,
    /// Refers to a step that has its own key, and its record under that key.
    Pointer,
    /// An operator recorded the result before the code reached the step. The code declares the kind
    /// and the compensation when it reaches the step.
    Given,
}

impl StepKind {
    /// Returns the name of the kind, as stored and shown.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Step => "step",
            Self::Once => "once",
            Self::Atomic => "atomic",
            Self::Timer => "timer",
            Self::Compensation => "compensation",
            Self::Pointer => "pointer",
            Self::Given => "given",
        }
    }

    pub(crate) fn named(name: &str) -> Option<Self> {
        use StepKind::{Atomic, Compensation, Given, Once, Pointer, Step, Timer};
        [Step, Once, Atomic, Timer, Compensation, Pointer, Given]
            .into_iter()
            .find(|kind| kind.as_str() == name)
    }
}

/// The state of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StepState {
    /// Started. If no driver is at work, it is unknown whether it happened.
    Started,
    /// Completed, with its result.
    Completed,
    /// Failed permanently. The failure is its outcome.
    Failed,
    /// Held for an operator: it failed, and may have happened.
    Held,
    /// Cancelled before its outcome was known. It never starts. A late outcome is compensated.
    Cancelled,
    /// It happened, and its outcome arrived after the step was cancelled. It is compensated.
    Late,
    /// Compensated.
    Compensated,
    /// Withdrawn before anything was done: it may be started again.
    Withdrawn,
    /// An operator freed it: it may be started again.
    Freed,
}

impl StepState {
    /// All states.
    pub(crate) const ALL: [Self; 9] = [
        Self::Started,
        Self::Completed,
        Self::Failed,
        Self::Held,
        Self::Cancelled,
        Self::Late,
        Self::Compensated,
        Self::Withdrawn,
        Self::Freed,
    ];

    /// Returns the name of the state, as stored and shown.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Started => "started",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Held => "held",
            Self::Cancelled => "cancelled",
            Self::Late => "late",
            Self::Compensated => "compensated",
            Self::Withdrawn => "withdrawn",
            Self::Freed => "freed",
        }
    }

    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_is_read_from_its_stored_word() {
        for (kind, word) in [
            (StepKind::Step, "step"),
            (StepKind::Once, "once"),
            (StepKind::Atomic, "atomic"),
            (StepKind::Timer, "timer"),
            (StepKind::Compensation, "compensation"),
            (StepKind::Pointer, "pointer"),
            (StepKind::Given, "given"),
        ] {
            assert_eq!((kind.as_str(), StepKind::named(word)), (word, Some(kind)));
        }
        assert_eq!(StepKind::named("clock"), None);
    }

    #[test]
    fn each_state_is_read_from_its_stored_word() {
        let words = StepState::ALL.map(StepState::as_str);
        assert_eq!(
            words.join(" "),
            "started completed failed held cancelled late compensated withdrawn freed"
        );
        assert_eq!(words.map(StepState::named), StepState::ALL.map(Some));
        assert_eq!(StepState::named("lost"), None);
    }
}
