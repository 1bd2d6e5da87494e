//! The record of one step.

use chrono::{DateTime, Utc};

use crate::core::answer::Encoded;
use crate::core::token::record::Intervention;
use crate::failure::Class;

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
    /// Compensates a step.
    Compensation,
    /// Refers to a step that has its own key, and its record under that key.
    Pointer,
}

impl StepKind {
    /// The name of the kind, as stored and shown.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Step => "step",
            Self::Once => "once",
            Self::Atomic => "atomic",
            Self::Compensation => "compensation",
            Self::Pointer => "pointer",
        }
    }

    pub(crate) fn named(name: &str) -> Option<Self> {
        [Self::Step, Self::Once, Self::Atomic, Self::Compensation, Self::Pointer]
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
    /// Failed permanently.
    Failed,
    /// Cancelled before its outcome was known: it may not start, and a late outcome is compensated.
    Cancelled,
    /// Its outcome arrived after it was cancelled, and is to be compensated.
    Late,
    /// Compensated.
    Compensated,
    /// It may be started again: under the same version of its key if it was withdrawn before anything
    /// was done, under the next version if an operator freed it.
    Freed,
}

impl StepState {
    /// The name of the state, as stored and shown.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Started => "started",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::Late => "late",
            Self::Compensated => "compensated",
            Self::Freed => "freed",
        }
    }

    pub(crate) fn named(name: &str) -> Option<Self> {
        use StepState::{Cancelled, Compensated, Completed, Failed, Freed, Late, Started};
        [Started, Completed, Failed, Cancelled, Late, Compensated, Freed]
            .into_iter()
            .find(|state| state.as_str() == name)
    }
}

/// The compensation of a step, as declared when the step started.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Intent {
    pub(crate) name: String,
    /// JSON.
    pub(crate) input: String,
    /// How long the provider recognises the compensation's key, in seconds.
    pub(crate) recognised: u64,
}

// Its input may be private.
impl std::fmt::Debug for Intent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Intent({}, {} bytes)", self.name, self.input.len())
    }
}

/// A record of a step, as stored.
#[derive(Debug, Clone)]
pub(crate) struct StepRecord {
    pub(crate) id: RecordId,
    pub(crate) kind: StepKind,
    pub(crate) state: StepState,
    /// Changes with every write.
    pub(crate) revision: String,
    /// The attempt that it records.
    pub(crate) attempt: String,
    pub(crate) owner: String,
    /// The workflow (its partition, and when it was started) that started it, if the step has its own key.
    pub(crate) started_for: Option<String>,
    pub(crate) created: DateTime<Utc>,
    /// Until then, the driver that started it may be at work.
    pub(crate) due: DateTime<Utc>,
    pub(crate) ended: Option<DateTime<Utc>>,
    /// The position of the step in the order of starts.
    pub(crate) number: u32,
    pub(crate) input: Option<String>,
    pub(crate) key_version: u32,
    pub(crate) pivot: bool,
    pub(crate) compensation: Option<Intent>,
    /// The key of the record that a pointer refers to.
    pub(crate) points_to: Option<String>,
    pub(crate) result: Option<Encoded>,
    /// The class of its failure, if it failed.
    pub(crate) class: Option<Class>,
    pub(crate) ttl: Option<i64>,
    pub(crate) intervention: Option<Intervention>,
}

impl StepRecord {
    /// The record of a step that starts now, with a revision and an attempt of its own.
    pub(crate) fn started(
        id: RecordId,
        kind: StepKind,
        (revision, attempt): (String, String),
        owner: String,
        number: u32,
        now: DateTime<Utc>,
    ) -> Self {
        Self {
            id,
            kind,
            state: StepState::Started,
            revision,
            attempt,
            owner,
            started_for: None,
            created: now,
            due: now,
            ended: None,
            number,
            input: None,
            key_version: 1,
            pivot: false,
            compensation: None,
            points_to: None,
            result: None,
            class: None,
            ttl: None,
            intervention: None,
        }
    }

    /// Without what the pointer has of a step with a key of its own.
    pub(crate) fn without_pointer(mut self) -> Self {
        if self.started_for.is_some() {
            (self.compensation, self.pivot, self.points_to) = (None, false, None);
        }
        self
    }

    /// Whether it failed and waits for an operator: it may have happened.
    pub(crate) fn is_held(&self) -> bool {
        self.state == StepState::Failed && self.class == Some(Class::NeedsOperator)
    }
}

/// Where a record is stored.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct RecordId {
    pub(crate) workflow: String,
    pub(crate) item: String,
}

/// The sort keys of the items of a workflow.
pub(crate) const HEADER: &str = "#";
pub(crate) const STEP: &str = "step/";
pub(crate) const COMPENSATION: &str = "compensation/";
pub(crate) const LATE_COMPENSATION: &str = "compensation-late/";
pub(crate) const INPUT: &str = "#input/";
pub(crate) const ANSWER: &str = "#answer/";
pub(crate) const MESSAGE: &str = "message/";
/// For a step that has its own key.
pub(crate) const SHARED: &str = "once";
/// Sorts after everything that a resume reads.
pub(crate) const LEDGER: &str = "~ledger/";

impl RecordId {
    pub(crate) fn step(workflow: &str, name: &str) -> Self {
        Self { workflow: workflow.to_owned(), item: format!("{STEP}{name}") }
    }

    pub(crate) fn compensation(workflow: &str, name: &str, late: bool) -> Self {
        let prefix = if late { LATE_COMPENSATION } else { COMPENSATION };
        Self { workflow: workflow.to_owned(), item: format!("{prefix}{name}") }
    }

    pub(crate) fn shared(key: &str) -> Self {
        Self { workflow: key.to_owned(), item: SHARED.to_owned() }
    }

    /// The name of the step, without the prefix of its sort key.
    pub(crate) fn name(&self) -> &str {
        self.item.split_once('/').map_or(&self.item, |(_, name)| name)
    }
}
