//! What can happen to a step.

use chrono::{DateTime, Utc};

use super::{Intent, RecordId, StepKind, StepResult};
use crate::core::token::record::Intervention;
use crate::core::workflow::decide::Found;

/// A step as its code asks for it.
#[derive(Debug, Clone)]
pub(crate) struct NewStep {
    pub(crate) id: RecordId,
    pub(crate) kind: StepKind,
    /// The run that asks.
    pub(crate) owner: String,
    /// The workflow that asks, if the step has a key of its own.
    pub(crate) started_for: Option<String>,
    /// Whether that workflow has a compensation for it.
    pub(crate) answers: bool,
    pub(crate) run: Option<DateTime<Utc>>,
    pub(crate) number: u32,
    pub(crate) input: Option<String>,
    pub(crate) pivot: bool,
    pub(crate) compensation: Option<Intent>,
    pub(crate) points_to: Option<String>,
}

impl NewStep {
    /// A step of the workflow that was started then, without anything that code may say of it.
    pub(crate) const fn of(
        id: RecordId,
        kind: StepKind,
        owner: String,
        run: DateTime<Utc>,
        number: u32,
    ) -> Self {
        Self {
            id,
            kind,
            owner,
            started_for: None,
            answers: false,
            run: Some(run),
            number,
            input: None,
            pivot: false,
            compensation: None,
            points_to: None,
        }
    }
}

/// How a step begins.
#[derive(Debug, Clone)]
pub(crate) enum Begin {
    /// Its work follows. `version`: of its key, at the least.
    Start { version: Option<u32>, due: DateTime<Utc>, expired_at: DateTime<Utc> },
    /// It ends with the same write.
    End(End),
}

/// How a step ends.
#[derive(Debug, Clone)]
pub(crate) enum End {
    Completed(StepResult),
    Failed(StepResult),
    Held(StepResult),
}

/// What happens to a record. A holder depends on its attempt, the others on the revision that they
/// saw.
#[derive(Debug, Clone)]
pub(crate) enum StepEvent {
    /// By the attempt that started it.
    Holder {
        attempt: String,
        act: HolderAct,
    },
    /// Another run starts it again, under the same version of its key.
    TakeOver {
        seen: String,
        new: Box<NewStep>,
        due: DateTime<Utc>,
    },
    /// Its outcome is not waited for any more. `anyway`: also if its driver may be at work.
    Cancel {
        seen: String,
        anyway: bool,
    },
    /// Its compensation ended, so that nothing of it is left.
    Compensated {
        seen: String,
    },
    Operator {
        seen: String,
        by: Intervention,
        act: OperatorStep,
    },
}

/// What the attempt that started a step does to it.
#[derive(Debug, Clone)]
pub(crate) enum HolderAct {
    /// No other driver takes it over before then.
    Prolong(DateTime<Utc>),
    /// It ends without knowing whether it happened.
    Leave,
    /// Surely nothing was done. `doubt`: by this start only; an earlier one may have happened.
    Withdraw { doubt: bool },
    /// `ttl`: of the record of a step with a key of its own. `by`: the run that records it, which
    /// may have asked the probe about the start of an earlier run.
    End { end: End, doubt: bool, ttl: Option<i64>, by: String },
}

#[derive(Debug, Clone)]
pub(crate) enum OperatorStep {
    /// It may be started again. `new_key`: under another idempotency key in any case.
    Free {
        new_key: bool,
    },
    Resolve(StepResult),
    /// The same for a step that another workflow cancelled: the one with this run compensates it
    /// from now on.
    Answer {
        result: StepResult,
        run: String,
    },
    /// `unreadable`: the code cannot read the result.
    Correct {
        result: StepResult,
        unreadable: bool,
    },
    /// Nothing is to be compensated: an operator has repaired what came late, or it is no effect of
    /// its own.
    Dismiss,
    /// It never starts. Only for a step without a record.
    Block,
}

/// Why an event does not change a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StepRefusal {
    /// Another record stands, which means this to the code.
    Found(Found),
    /// Another attempt has it, or it has ended.
    Lost,
    /// An earlier start may have happened, so that nothing of this one proves anything.
    InDoubt,
    /// It was written since it was seen.
    Changed,
    /// Its driver may be at work until then.
    Busy(DateTime<Utc>),
    NotPossible,
}
