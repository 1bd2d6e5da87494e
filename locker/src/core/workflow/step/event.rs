//! The events of a step.

use chrono::{DateTime, Utc};

use super::{Intent, RecordId, StepKind, StepResult};
use crate::core::token::record::Intervention;
use crate::core::workflow::decide::Found;

/// A step as the code requests it.
#[derive(Debug, Clone)]
pub(crate) struct NewStep {
    pub(crate) id: RecordId,
    pub(crate) kind: StepKind,
    /// The run that requests the step.
    pub(crate) owner: String,
    /// The workflow that requests the step, if the step has its own key.
    pub(crate) started_for: Option<String>,
    /// Whether that workflow has a compensation for the step.
    pub(crate) answers: bool,
    pub(crate) run: Option<DateTime<Utc>>,
    pub(crate) number: u32,
    pub(crate) input: Option<String>,
    pub(crate) pivot: bool,
    pub(crate) compensation: Option<Intent>,
    pub(crate) points_to: Option<String>,
}

impl NewStep {
    /// Returns a step of the workflow that was started at this time, without input, compensation or
    /// other options.
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
    /// Its work follows. `version`: the lowest version of its key.
    Start { version: Option<u32>, due: DateTime<Utc>, expired_at: DateTime<Utc> },
    /// The same write ends the step.
    End(End),
}

/// How a step ends.
#[derive(Debug, Clone)]
pub(crate) enum End {
    Completed(StepResult),
    Failed(StepResult),
    Held(StepResult),
}

/// An event that changes a record. The write of a holder is conditional on its attempt. The other
/// writes are conditional on the revision that was read.
#[derive(Debug, Clone)]
pub(crate) enum StepEvent {
    /// By the attempt that started the step.
    Holder {
        attempt: String,
        act: HolderAct,
    },
    /// Another run starts the step again, under the same version of its key.
    TakeOver {
        seen: String,
        new: Box<NewStep>,
        due: DateTime<Utc>,
    },
    /// The workflow no longer waits for the outcome. `anyway`: even if its driver may be at work.
    Cancel {
        seen: String,
        anyway: bool,
    },
    /// An operator closes the workflow of a started compensation. Its driver can no longer write
    /// the record. If the compensation happened, the driver reports that.
    Disowned {
        seen: String,
    },
    /// The compensation of this version of its key is complete.
    Compensated {
        seen: String,
        version: u32,
    },
    Operator {
        seen: String,
        by: Intervention,
        act: OperatorStep,
    },
    /// The code reaches a step whose result an operator recorded before. `new`: the step as the
    /// code declares it, or a pointer to its record.
    Reached {
        seen: String,
        new: Box<NewStep>,
    },
}

/// An act of the attempt that started a step.
#[derive(Debug, Clone)]
pub(crate) enum HolderAct {
    /// No other driver takes the step over before this time.
    Prolong(DateTime<Utc>),
    /// The attempt ends, and it is unknown whether the step happened.
    Leave,
    /// This start did nothing. `doubt`: an earlier start may have happened.
    Withdraw { doubt: bool },
    /// The step ends. `ttl`: of the record of a step with its own key. `by`: the run that records
    /// the outcome. This run may have asked the probe about the start of an earlier run.
    End { end: End, doubt: bool, ttl: Option<i64>, by: String },
}

/// An act of an operator.
#[derive(Debug, Clone)]
pub(crate) enum OperatorStep {
    /// The step may be started again. `new_key`: always under another idempotency key.
    Free {
        new_key: bool,
    },
    Resolve(StepResult),
    /// A cancelled step happened. It is late, so it is compensated, even if its first compensation
    /// found nothing.
    Late(StepResult),
    /// Resolves a step that another workflow started. From now on, the workflow with this run id
    /// compensates the step.
    Answer {
        result: StepResult,
        run: String,
    },
    /// `unreadable`: the code cannot read the result.
    Correct {
        result: StepResult,
        unreadable: bool,
    },
    /// The late step, or the step that no code reached, needs no compensation: the operator has
    /// repaired its effect, or it is the effect of another step.
    Dismiss,
    /// The step never starts. Only for a step without a record.
    Block,
}

/// Why an event does not change a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StepRefusal {
    /// Another record exists, with this meaning for the code.
    Found(Found),
    /// Another attempt has the step, or the step has ended.
    Lost,
    /// An earlier start may have happened. The outcome of this start proves nothing about it.
    InDoubt,
    /// The record has changed since it was read.
    Changed,
    /// Its driver may be at work until this time.
    Busy(DateTime<Utc>),
    NotPossible,
}
