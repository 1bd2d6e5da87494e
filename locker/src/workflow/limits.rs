//! Limits on attempts, lost drivers and times of workflows.

use std::time::Duration;

use crate::core::argument::InvalidSetting;
use crate::core::retention::Retention;
use crate::core::workflow::decide::Patience;
use crate::core::workflow::header::MostCrashes;
use crate::settings::check_duration;

/// Limits on attempts, lost drivers and times of workflows.
///
/// Set them for all workflows with [`Builder::limits`](super::Builder::limits), or for a type with
/// [`Workflow::limits`](super::Workflow::limits).
///
/// ```
/// let mut limits = locker::workflow::Limits::default();
/// limits.retry_for = std::time::Duration::from_secs(3600);
/// ```
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Limits {
    /// Time for which a workflow without progress is retried. Default: 72 hours, longer than a
    /// weekend.
    ///
    /// After this time **and** [`attempts`](Self::attempts), the attempts are exhausted: the
    /// workflow is quarantined, or compensated if its type sets
    /// [`Exhausted::Compensate`](super::Exhausted::Compensate). The time counts from the start,
    /// from a run that recorded a step, from the end of a wait that the code chose, or from an
    /// operator's act.
    pub retry_for: Duration,
    /// Number of attempts. Default: 10.
    ///
    /// A workflow without progress gets at least this number of attempts, even if
    /// [`retry_for`](Self::retry_for) has passed, unless a step sets [its own
    /// time](crate::workflow::RetryPolicy::retry_for). It gets no further attempt if this number of
    /// runs in a row lost their driver (the process crashed or hung) and recorded no outcome. A run
    /// counts when it claims the workflow, so a workflow that kills its process is quarantined
    /// without delay.
    pub attempts: u32,
    /// Number of lost runs after which the workflow gets no further attempt. Default: 100.
    ///
    /// Lost runs count from the start or an operator's act, even if they recorded a step. A run is
    /// lost if its process crashes or hangs, or if it is aborted (panic or time limit).
    pub crashes: u32,
    /// Time up to which a driver extends its claim of a workflow, counted from the start of its
    /// run. Default: 15 minutes, the longest run of a Lambda function.
    ///
    /// A driver extends its claim while a step is within its own
    /// [`expect_within`](super::Once::expect_within). A workflow whose driver takes longer is due
    /// for other drivers.
    pub longest_run: Duration,
    /// Time without progress after which a workflow is listed as
    /// [`List::Failing`](crate::workflow::List::Failing). It is still retried. Default: 1 hour.
    pub failing_after: Duration,
    /// Range of the pause before the second attempt. It doubles with each attempt. A pause takes at
    /// least half of its range (equal jitter). Default: 5 seconds.
    pub backoff_base: Duration,
    /// Longest range of a pause between attempts, even if a provider
    /// [asks for](crate::Classify::retry_after) a longer pause. Default: 15 minutes.
    pub backoff_cap: Duration,
    /// Time without progress after which the reaper makes one last attempt. If that brings no
    /// progress and begins no wait, the workflow is quarantined. Default: 96 hours, longer than
    /// [`retry_for`](Self::retry_for).
    pub last_chance_after: Duration,
    /// Retention of the ledger record of a deleted workflow. Default: indefinitely. A reaper
    /// without the code of the type takes it from the limits of its session.
    pub ledger: Retention,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            retry_for: Duration::from_secs(72 * 60 * 60),
            attempts: 10,
            crashes: 100,
            longest_run: Duration::from_secs(15 * 60),
            failing_after: Duration::from_secs(60 * 60),
            backoff_base: Duration::from_secs(5),
            backoff_cap: Duration::from_secs(15 * 60),
            last_chance_after: Duration::from_secs(96 * 60 * 60),
            ledger: Retention::Forever,
        }
    }
}

impl Limits {
    pub(crate) const fn most_crashes(&self) -> MostCrashes {
        MostCrashes { in_a_row: self.attempts, in_all: self.crashes }
    }

    pub(crate) const fn patience(&self) -> Patience {
        Patience { attempts: self.attempts, retry_for: self.retry_for, crashes: self.crashes }
    }

    pub(crate) fn check(&self) -> Result<(), InvalidSetting> {
        const YEAR: Duration = Duration::from_secs(366 * 24 * 60 * 60);
        if self.attempts == 0 {
            return Err(InvalidSetting::Attempts);
        }
        if self.crashes == 0 {
            return Err(InvalidSetting::Crashes);
        }
        check_duration("retry_for", self.retry_for, Duration::ZERO, YEAR)?;
        for (name, given) in [
            ("longest_run", self.longest_run),
            ("failing_after", self.failing_after),
            ("backoff_base", self.backoff_base),
            ("backoff_cap", self.backoff_cap),
            ("last_chance_after", self.last_chance_after),
        ] {
            check_duration(name, given, Duration::from_millis(1), YEAR)?;
        }
        Ok(())
    }
}
