//! Limits: how often workflows are driven, and how long their ledger records are kept.

use std::time::Duration;

use crate::core::retention::Retention;
use crate::settings::{InvalidSetting, check_duration};

/// Limits on how often and how long workflows are driven, and how long their ledger records are kept.
///
/// ```
/// let mut limits = locker::workflow::Limits::default();
/// limits.attempts = 5;
/// ```
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Limits {
    /// Maximum attempts to drive a workflow before it is quarantined. An attempt is counted when the workflow is
    /// claimed, so one that crashes its driver is quarantined too. Default: 10.
    pub attempts: u32,
    /// The range of the pause before the second attempt; it doubles with each one, with full jitter. Default: 5
    /// seconds.
    pub backoff_base: Duration,
    /// The longest range of a pause between attempts. Default: 15 minutes.
    pub backoff_cap: Duration,
    /// How long after its start an unfinished workflow gets one last attempt from the reaper; if that does not
    /// finish it, it is quarantined. Default: 72 hours, longer than a weekend.
    pub last_chance_after: Duration,
    /// How long the ledger record of a deleted workflow is kept. Default: indefinitely.
    pub ledger: Retention,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            attempts: 10,
            backoff_base: Duration::from_secs(5),
            backoff_cap: Duration::from_secs(15 * 60),
            last_chance_after: Duration::from_secs(72 * 60 * 60),
            ledger: Retention::Forever,
        }
    }
}

impl Limits {
    pub(crate) fn check(&self) -> Result<(), InvalidSetting> {
        const YEAR: Duration = Duration::from_secs(366 * 24 * 60 * 60);
        if self.attempts == 0 {
            return Err(InvalidSetting::Attempts);
        }
        for (name, given) in [
            ("backoff_base", self.backoff_base),
            ("backoff_cap", self.backoff_cap),
            ("last_chance_after", self.last_chance_after),
        ] {
            check_duration(name, given, Duration::from_millis(1), YEAR)?;
        }
        Ok(())
    }
}
