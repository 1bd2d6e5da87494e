//! The events of a workflow.

use std::fmt;
use std::time::Duration;

use chrono::{DateTime, Utc};
use serde::Serialize;

use super::State;
use crate::core::answer::Body;
use crate::core::name::EVENT_PREFIX;
use crate::core::restored::Restored;
use crate::core::time;
use crate::core::token::record::Intervention;
use crate::core::workflow::decide::Standing;

/// The time of a write, and new ids for it.
#[derive(Debug, Clone)]
pub(crate) struct Stamp {
    pub(crate) now: DateTime<Utc>,
    pub(crate) skew: Duration,
    pub(crate) revision: String,
    pub(crate) attempt: String,
}

/// An event that changes a header. The write of a driver is conditional on its attempt. The writes
/// of an operator and the reaper are conditional on the revision that they read. The other writes
/// depend only on the state.
#[derive(Debug, Clone)]
pub(crate) enum HeaderEvent {
    Claim(Claim),
    /// By the run with this attempt.
    Driver {
        attempt: String,
        events: Events,
        act: DriverAct,
    },
    /// By an operator who read this revision.
    Operator {
        seen: String,
        by: Intervention,
        act: OperatorAct,
    },
    /// By the reaper, which read this revision.
    Reaper {
        seen: String,
        act: ReaperAct,
    },
    /// The step of this item has a recorded outcome that needs no compensation.
    Settled {
        item: String,
    },
    /// The step of this item is stored as late: it happened, and must be compensated.
    Late {
        item: String,
    },
    /// An effect may have happened twice.
    Twice {
        why: &'static str,
    },
    /// An event from outside is stored. `is_waited_for`: the code waits for it. `owed`: it is late
    /// and has a compensation.
    Signalled {
        is_waited_for: bool,
        owed: bool,
    },
    /// A surplus event is stored: another event under a name that has an event.
    Surplus,
    /// The workflow has this new latest version. Only for the header of the first version.
    Followed {
        version: u32,
    },
}

/// The events of a workflow that a run has read.
///
/// `known` is compared with [`HeaderData::signals`](super::HeaderData::signals). The run counts the
/// records that it has read, and does not copy the count of the header: DynamoDB isolates a query
/// from a transaction only item by item. So one query may return the header after a signal, and the
/// record of the event before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Events {
    /// The number of events whose records the run has read.
    pub(crate) known: u32,
    /// Whether a late event must be compensated after the end of the workflow.
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
    /// When the code first reached the wait.
    #[serde(serialize_with = "time::serialize")]
    pub since: DateTime<Utc>,
    /// When the wait ends if its event does not come.
    #[serde(serialize_with = "time::serialize")]
    pub until: DateTime<Utc>,
}

/// Writes `event:paid` or `timer pause`.
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
    /// Parses the text that [`Display`](fmt::Display) writes.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        // The name of a timer in a compensation may contain a space.
        let mut parts = text.rsplitn(4, ' ');
        let others = parts.next()?.strip_prefix('+')?.parse().ok()?;
        let (until, since) = (time::from_text(parts.next()?)?, time::from_text(parts.next()?)?);
        let name = parts.next()?.to_owned();
        Some(Self { on: Awaited { name, since, until }, others })
    }
}

/// A run begins.
#[derive(Debug, Clone)]
pub(crate) struct Claim {
    /// The type of the code that drives the workflow.
    pub(crate) name: String,
    /// The version of that code.
    pub(crate) code: u32,
    /// The start of the workflow that the driver read.
    pub(crate) started: DateTime<Utc>,
    pub(crate) owner: String,
    /// Whether the caller set the owner. If the last driver has the same owner, the caller states
    /// that it is this driver.
    pub(crate) is_named: bool,
    /// The new expected time of a run. `None`: it stays.
    pub(crate) expected: Option<Duration>,
    /// The longest time of this run. It counts if it is longer than the expected time.
    pub(crate) may_take: Duration,
    /// Whether the last driver recorded an outcome before it was lost.
    pub(crate) progressed: bool,
    /// The most runs that lose their driver. `None`: any number.
    pub(crate) most_crashes: Option<MostCrashes>,
    /// The restore of the table, while the table is closed.
    pub(crate) restored: Option<Restored>,
}

/// The most runs that lose their driver: the driver crashes or hangs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MostCrashes {
    /// In a row, without a recorded outcome.
    pub(crate) in_a_row: u32,
    /// Since the start or an operator's act.
    pub(crate) in_all: u32,
}

/// An act of a driver on the workflow that it runs.
#[derive(Debug, Clone)]
pub(crate) enum DriverAct {
    /// No other driver claims the workflow before `due`. `held_since`: the start of a run that
    /// takes longer than its type allows. Operators see it.
    Extend {
        due: DateTime<Utc>,
        held_since: Option<DateTime<Utc>>,
    },
    /// `note`: for the reader of the completed workflow.
    Complete {
        result: Option<Body>,
        note: Option<String>,
    },
    /// The workflow continues as this version of its key. `note`: for the reader of the version
    /// that ends.
    Continue {
        version: u32,
        note: Option<String>,
    },
    /// The workflow failed, and no step needs a compensation.
    Fail {
        result: Body,
    },
    /// The workflow failed. This driver compensates it under another attempt.
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

/// The reason why a run ends before the workflow ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pause {
    /// The run failed, and a later run retries.
    Failed,
    /// The run panicked or exceeded its time limit.
    BrokenOff,
    /// The code chose to wait.
    Chosen,
    /// The run could not continue: another driver may be at a step, DynamoDB is out of reach, or
    /// not enough time was left.
    Elsewhere,
    /// The code did not run, because earlier runs lost too many drivers. The workflow ends once no
    /// effect is at work.
    NotRun,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OperatorAct {
    Retry,
    /// A decision about one step or event, which makes the workflow due.
    Decide,
    Compensate,
    /// `seen`: the number of the last step that the operator saw.
    Close {
        seen: u32,
    },
    /// A late event is handled without its compensation. Refused while a driver may be running the
    /// compensation.
    Dismiss,
    /// The input, the answer and the failure of an ended workflow are erased.
    Redact,
}

#[derive(Debug, Clone)]
pub(crate) enum ReaperAct {
    /// Keep the workflow, and check it again at this time.
    Keep(DateTime<Utc>),
    /// Delete the workflow. No other reaper continues before this time.
    Delete(DateTime<Utc>),
    Quarantine {
        reason: String,
    },
}

/// Why an event does not change a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HeaderRefusal {
    /// Another run has the workflow, or it has ended.
    Lost,
    /// The header has changed since it was read.
    Changed,
    /// The state does not allow the event.
    NotPossible,
    /// The workflow cannot be claimed.
    Standing(Standing),
    /// Newer code, with this version, has driven the workflow.
    Newer(u32),
    /// The run has not read a stored event: read the events, and decide again.
    Signalled,
}

impl State {
    /// Returns whether the state is an outcome that a caller receives.
    pub(crate) const fn is_answered(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }

    /// Returns whether the workflow has ended, and its deletion has not begun.
    pub(crate) const fn is_kept(self) -> bool {
        self.is_answered() || matches!(self, Self::Continued)
    }
}
