//! Limits: how often workflows are driven, and how long their ledger records are kept.

use std::time::Duration;

use crate::core::argument::InvalidSetting;
use crate::core::retention::Retention;
use crate::core::workflow::decide::Patience;
use crate::core::workflow::header::MostCrashes;
use crate::settings::check_duration;

/// Limits on how often and how long workflows are driven, and how long their ledger records are
/// kept.
///
/// ```
/// let mut limits = locker::workflow::Limits::default();
/// limits.retry_for = std::time::Duration::from_secs(3600);
/// ```
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Limits {
    /// How long a workflow that makes no progress is retried before its attempts are exhausted.
    /// Default: 72 hours, longer than a weekend.
    ///
    /// The time counts from its start, from a run that recorded a step, from the end of a wait that
    /// the code chose, or from an operator's act.
    pub retry_for: Duration,
    /// How many attempts it gets at the least, also after that time, unless
    /// [a step](crate::workflow::RetryPolicy::retry_for) sets a time of its own. And at the most, in a row, of
    /// those that kill or hang their driver: an attempt is counted when the workflow is claimed, so
    /// that a workflow that crashes the process is quarantined without delay. Default: 10.
    pub attempts: u32,
    /// How many runs may kill or hang their driver since the start or an operator's act, also if
    /// they recorded steps. Default: 100.
    pub crashes: u32,
    /// How long one driver extends its claim of a workflow at the most. A workflow whose driver
    /// takes longer is due for other drivers. Default: 15 minutes, the longest run of a Lambda
    /// function.
    pub longest_run: Duration,
    /// After this time without progress a workflow is listed as
    /// [`List::Failing`](crate::workflow::List::Failing); it is retried all the same. Default: 1
    /// hour.
    pub failing_after: Duration,
    /// The range of the pause before the second attempt; it doubles with each one. A pause takes
    /// half of its range at least (equal jitter). Default: 5 seconds.
    pub backoff_base: Duration,
    /// The longest range of a pause between attempts, also if a provider
    /// [asks for](crate::Classify::retry_after) a longer one. Default: 15 minutes.
    pub backoff_cap: Duration,
    /// How long an unfinished workflow may be without progress before it gets one last attempt from
    /// the reaper; if that does not finish it, it is quarantined. Default: 96 hours, longer than
    /// [`retry_for`](Self::retry_for).
    pub last_chance_after: Duration,
    /// How long the ledger record of a deleted workflow is kept. Default: indefinitely.
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
