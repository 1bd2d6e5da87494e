//! What can happen to a workflow.

use std::fmt;
use std::time::Duration;

use chrono::{DateTime, Utc};
use serde::Serialize;

use super::State;
use crate::core::answer::Body;
use crate::core::name::EVENT_PREFIX;
use crate::core::time;
use crate::core::token::record::Intervention;
use crate::core::workflow::decide::Standing;

/// The time of a write, and the ids that it uses up.
#[derive(Debug, Clone)]
pub(crate) struct Stamp {
    pub(crate) now: DateTime<Utc>,
    pub(crate) skew: Duration,
    pub(crate) revision: String,
    pub(crate) attempt: String,
}

/// What happens to a workflow. It says itself what it depends on: a driver on its attempt, an
/// operator and the reaper on the revision that they saw, the others on nothing but the state.
#[derive(Debug, Clone)]
pub(crate) enum HeaderEvent {
    Claim(Claim),
    /// By the run with this attempt.
    Driver {
        attempt: String,
        events: Events,
        act: DriverAct,
    },
    /// By an operator who saw this revision.
    Operator {
        seen: String,
        by: Intervention,
        act: OperatorAct,
    },
    /// By the reaper, which saw this revision.
    Reaper {
        seen: String,
        act: ReaperAct,
    },
    /// A step of this item completed after all, and the workflow runs forward.
    Settled {
        item: String,
    },
    /// A step happened that should not stand, and is stored as late.
    Late,
    /// A step happened twice under one idempotency key, as it seems.
    Twice,
    /// An event from outside is stored. `is_waited_for`: the code waits for it. `owed`: it is late,
    /// and has a compensation.
    Signalled {
        is_waited_for: bool,
        owed: bool,
    },
    /// Another event under a name that has its event is stored.
    Surplus,
    /// It is the first version, and the workflow continues as this one.
    Followed {
        version: u32,
    },
}

/// What a run knows of the events of its workflow.
///
/// `known` is compared with [`HeaderData::signals`](super::HeaderData::signals). It is counted from
/// the records that the run has read, and not copied from the header: a query and a transaction are
/// isolated item by item, so the query of a run may return the header of a signal and the record
/// of the event as it was before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Events {
    /// The events whose records the run has read.
    pub(crate) known: u32,
    /// Whether the compensation of a late event is to follow the end of the workflow.
    pub(crate) owed: bool,
}

/// The wait of a workflow that ends first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Waits {
    pub(crate) on: Awaited,
    /// The number of other waits.
    pub(crate) others: u32,
}

/// An event or a timer that the code of a workflow waits for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Awaited {
    /// The event, such as `event:paid`, or the step of a timer.
    pub name: String,
    /// When the code reached the wait first.
    #[serde(serialize_with = "time::serialize")]
    pub since: DateTime<Utc>,
    /// When the wait ends, if its event does not come.
    #[serde(serialize_with = "time::serialize")]
    pub until: DateTime<Utc>,
}

/// `event:paid`, or `timer pause`.
impl fmt::Display for Awaited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.name.starts_with(EVENT_PREFIX) { "" } else { "timer " };
        f.pad(&format!("{kind}{}", self.name))
    }
}

impl fmt::Display for Waits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Awaited { name, since, until } = &self.on;
        write!(f, "{name} {} {} +{}", time::to_text(*since), time::to_text(*until), self.others)
    }
}

impl Waits {
    /// Reads what [`Display`](fmt::Display) writes.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut parts = text.splitn(4, ' ');
        let name = parts.next()?.to_owned();
        let (since, until) = (time::from_text(parts.next()?)?, time::from_text(parts.next()?)?);
        let others = parts.next()?.strip_prefix('+')?.parse().ok()?;
        Some(Self { on: Awaited { name, since, until }, others })
    }
}

/// A run begins.
#[derive(Debug, Clone)]
pub(crate) struct Claim {
    /// The type of the code that drives it.
    pub(crate) name: String,
    /// The version of that code.
    pub(crate) code: u32,
    /// The start of the workflow that the driver read.
    pub(crate) started: DateTime<Utc>,
    pub(crate) owner: String,
    /// The caller gave this name, and so states that it is the owner that drove the workflow last,
    /// if that has the name.
    pub(crate) is_named: bool,
    /// `None`: as before.
    pub(crate) expected: Option<Duration>,
    /// How long this run may take, if that is longer.
    pub(crate) may_take: Duration,
    /// Whether the last driver recorded an outcome before it was lost.
    pub(crate) progressed: bool,
    /// How many runs may kill or hang their driver. `None`: any number.
    pub(crate) most_crashes: Option<MostCrashes>,
}

/// How many runs may kill or hang their driver.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MostCrashes {
    /// In a row, without an outcome that they recorded.
    pub(crate) in_a_row: u32,
    /// Since the start or an operator's act.
    pub(crate) in_all: u32,
}

/// What a driver does to the workflow that it runs.
#[derive(Debug, Clone)]
pub(crate) enum DriverAct {
    /// No other driver claims it before then. `held_since`: of a run that takes longer than its
    /// type allows, which operators see.
    Extend {
        due: DateTime<Utc>,
        held_since: Option<DateTime<Utc>>,
    },
    /// `note`: for the reader of the completed workflow.
    Complete {
        result: Option<Body>,
        note: Option<String>,
    },
    /// It continues as this version of its key. `note`: for the reader of this version.
    Continue {
        version: u32,
        note: Option<String>,
    },
    /// It failed, and there is nothing to compensate.
    Fail {
        result: Body,
    },
    /// It failed, and is compensated by this driver under another attempt.
    Compensate {
        result: Body,
        reason: String,
    },
    EndCompensated,
    Release {
        at: DateTime<Utc>,
        pause: Pause,
        reason: String,
        progressed: bool,
        failing_after: Duration,
        waits: Option<Waits>,
    },
    Quarantine {
        reason: String,
        waits_for: Option<String>,
    },
}

/// Why a run ends before the workflow does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pause {
    /// It failed, and is tried again.
    Failed,
    /// It panicked or exceeded its time limit.
    BrokenOff,
    /// The code chose to wait.
    Chosen,
    /// It could not run: another driver may be at a step, too little time was left, DynamoDB cannot
    /// be reached.
    Elsewhere,
    /// Its runs lost too many drivers, so its code did not run. It ends once no effect is at work.
    NotRun,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OperatorAct {
    Retry,
    Compensate,
    /// `seen`: the number of the last step that the operator saw.
    Close {
        seen: u32,
    },
    /// A late event is handled without its compensation, which no driver can be running.
    Dismiss,
}

#[derive(Debug, Clone)]
pub(crate) enum ReaperAct {
    /// It is kept, and looked at again then.
    Keep(DateTime<Utc>),
    /// It is deleted; until then no other reaper continues.
    Delete(DateTime<Utc>),
    Quarantine {
        reason: String,
    },
}

/// Why an event does not change a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HeaderRefusal {
    /// Another run has it, or it has ended.
    Lost,
    /// It was written since it was seen.
    Changed,
    /// The event is not for this state.
    NotPossible,
    /// It cannot be claimed.
    Standing(Standing),
    /// Code of this version has driven it, which is newer.
    Newer(u32),
    /// An event is stored that the run has not read: read the events, and decide again.
    Signalled,
}

impl State {
    /// Whether it ended in one of the three ways that a caller is told.
    pub(crate) const fn is_answered(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }
}
