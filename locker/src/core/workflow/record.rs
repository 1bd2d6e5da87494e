//! The record of one step.

use chrono::{DateTime, Utc};

use crate::core::answer::{self, AnswerError, Encoded};
use crate::core::record::Intervention;

/// What kind of step a record is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StepKind {
    /// At least once.
    Step,
    /// At most once.
    Once,
    /// Exactly once, inside DynamoDB.
    Atomic,
    /// The undoing of a step.
    Undo,
    /// A step that has a key of its own, and its record there.
    Pointer,
}

impl StepKind {
    /// The word that is stored and shown.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Step => "step",
            Self::Once => "once",
            Self::Atomic => "atomic",
            Self::Undo => "undo",
            Self::Pointer => "pointer",
        }
    }

    pub(crate) fn named(name: &str) -> Option<Self> {
        [Self::Step, Self::Once, Self::Atomic, Self::Undo, Self::Pointer]
            .into_iter()
            .find(|kind| kind.as_str() == name)
    }
}

/// How far a step is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StepState {
    /// Begun. Without a driver, nobody knows whether it happened.
    Started,
    /// Done.
    Completed,
    /// Failed for good.
    Failed,
    /// Cancelled before its outcome was known: a start is refused, and a late outcome is undone.
    Cancelled,
    /// Its outcome came after it was cancelled, and is to be undone.
    Late,
    /// Undone.
    Undone,
    /// It may be started again: under the same version of its key if it was withdrawn before anything was done, under
    /// the next one if a person says so.
    Freed,
}

impl StepState {
    /// The word that is stored and shown.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Started => "started",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::Late => "late",
            Self::Undone => "undone",
            Self::Freed => "freed",
        }
    }

    pub(crate) fn named(name: &str) -> Option<Self> {
        use StepState::{Cancelled, Completed, Failed, Freed, Late, Started, Undone};
        [Started, Completed, Failed, Cancelled, Late, Undone, Freed]
            .into_iter()
            .find(|state| state.as_str() == name)
    }
}

/// How a step is to be undone, as it was known when it started.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Intent {
    pub(crate) name: String,
    /// JSON.
    pub(crate) input: String,
    /// How long the provider recognises the key of the undoing, in seconds.
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
    /// The start that it stands for.
    pub(crate) attempt: String,
    pub(crate) owner: String,
    /// The run (the partition, and when it was started) that started it, where it lies elsewhere.
    pub(crate) started_for: Option<String>,
    pub(crate) created: DateTime<Utc>,
    /// Until then, whoever started it may be at work.
    pub(crate) due: DateTime<Utc>,
    pub(crate) ended: Option<DateTime<Utc>>,
    /// In which order the steps of a workflow started.
    pub(crate) number: u32,
    pub(crate) input: Option<String>,
    pub(crate) key_version: u32,
    pub(crate) pivot: bool,
    pub(crate) undo: Option<Intent>,
    /// The key of a pointer's record.
    pub(crate) points_to: Option<String>,
    pub(crate) result: Option<Encoded>,
    pub(crate) ttl: Option<i64>,
    pub(crate) intervention: Option<Intervention>,
}

/// A result or an answer as it is stored: compressed from half a KB on, where that makes it smaller, and as large as
/// an item takes beside what else it holds.
pub(crate) fn encode(json: String) -> Result<Encoded, AnswerError> {
    const COMPRESS_FROM: usize = 512;
    Ok(answer::encode(json, COMPRESS_FROM, MOST_BYTES)?.0)
}

/// What DynamoDB takes in one item, less what lies beside a result, an answer or an input.
pub(crate) const MOST_BYTES: usize = 390 * 1024;

/// Where a record is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct RecordId {
    pub(crate) workflow: String,
    pub(crate) item: String,
}

/// The sort keys of what a workflow consists of.
pub(crate) const HEADER: &str = "#";
pub(crate) const STEP: &str = "step/";
pub(crate) const UNDO: &str = "undo/";
pub(crate) const LATE_UNDO: &str = "undo-late/";
pub(crate) const INPUT: &str = "#input/";
pub(crate) const ANSWER: &str = "#answer/";
pub(crate) const MESSAGE: &str = "message/";
/// Of a step that has a key of its own.
pub(crate) const SHARED: &str = "once";
/// Sorts behind everything that is read to resume.
pub(crate) const LEDGER: &str = "~ledger/";

impl RecordId {
    pub(crate) fn step(workflow: &str, name: &str) -> Self {
        Self { workflow: workflow.to_owned(), item: format!("{STEP}{name}") }
    }

    pub(crate) fn undo(workflow: &str, name: &str, late: bool) -> Self {
        let prefix = if late { LATE_UNDO } else { UNDO };
        Self { workflow: workflow.to_owned(), item: format!("{prefix}{name}") }
    }

    pub(crate) fn shared(key: &str) -> Self {
        Self { workflow: key.to_owned(), item: SHARED.to_owned() }
    }

    /// The name of the step, without what sorts it.
    pub(crate) fn name(&self) -> &str {
        self.item.split_once('/').map_or(&self.item, |(_, name)| name)
    }
}
