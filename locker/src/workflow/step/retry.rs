//! How often a step is retried, and the pauses between attempts.

use std::time::Duration;

use crate::core::retry::{Backoff, heeding};
use crate::workflow::stop::StopKind;

/// How a step is retried while its failure is transient.
///
/// The pause before attempt *n* is a random part (full jitter) of `initial_interval` times
/// `backoff_coefficient` to the power of *n* - 2, up to `max_interval`, and at least the pause that
/// the provider asked for. When the attempts or the total time are exhausted, the workflow waits
/// for a completer. Source: AWS, "Exponential Backoff and Jitter".
#[derive(Debug, Clone, PartialEq)]
pub struct RetryPolicy {
    max_attempts: u32,
    initial_interval: Duration,
    backoff_coefficient: f64,
    max_interval: Duration,
    total: Duration,
    retry_for: Option<Duration>,
}

impl Default for RetryPolicy {
    /// 3 attempts within 10 seconds, with pauses from 100 milliseconds, doubling up to 2 seconds.
    fn default() -> Self {
        Self {
            max_attempts: 3,
            initial_interval: Duration::from_millis(100),
            backoff_coefficient: 2.0,
            max_interval: Duration::from_secs(2),
            total: Duration::from_secs(10),
            retry_for: None,
        }
    }
}

impl RetryPolicy {
    /// A policy with one attempt and no retries.
    #[must_use]
    pub fn never() -> Self {
        Self { max_attempts: 1, ..Self::default() }
    }

    /// Maximum number of attempts, including the first. At least one is made.
    #[must_use]
    pub const fn max_attempts(mut self, attempts: u32) -> Self {
        self.max_attempts = attempts;
        self
    }

    /// The range of the first pause.
    #[must_use]
    pub const fn initial_interval(mut self, interval: Duration) -> Self {
        self.initial_interval = interval;
        self
    }

    /// The factor by which the range grows with each attempt. Less than 1 counts as 1.
    #[must_use]
    pub const fn backoff_coefficient(mut self, coefficient: f64) -> Self {
        self.backoff_coefficient = coefficient;
        self
    }

    /// The longest range of a pause.
    #[must_use]
    pub const fn max_interval(mut self, interval: Duration) -> Self {
        self.max_interval = interval;
        self
    }

    /// Total time for pauses: none ends later than this after the first attempt began.
    #[must_use]
    pub const fn total(mut self, total: Duration) -> Self {
        self.total = total;
        self
    }

    /// Sets how long the workflow is retried because of this step. The first run that fails after
    /// this time without progress is the last one, at any number of attempts. Default: the limits
    /// of the workflow type, [`Limits::retry_for`](crate::workflow::Limits::retry_for), and at
    /// least [`Limits::attempts`](crate::workflow::Limits::attempts).
    #[must_use]
    pub const fn retry_for(mut self, time: Duration) -> Self {
        self.retry_for = Some(time);
        self
    }

    /// The same stop with the step's own limit.
    pub(crate) fn stop(&self, mut stop: StopKind) -> StopKind {
        if let StopKind::Later { retry_for, .. } | StopKind::InDoubt { retry_for, .. } = &mut stop {
            *retry_for = self.retry_for;
        }
        stop
    }

    /// The pause after this many attempts, or `None` if that was the last one. `jitter` is in 0..1.
    pub(crate) fn pause(
        &self,
        tries: u32,
        elapsed: Duration,
        asked: Option<Duration>,
        jitter: f64,
    ) -> Option<Duration> {
        if tries >= self.max_attempts.max(1) {
            return None;
        }
        let (base, cap) = (self.initial_interval, self.max_interval);
        let backoff = Backoff { base, cap, factor: self.backoff_coefficient };
        let pause = heeding(backoff.full(tries, jitter), asked, self.total);
        (elapsed.saturating_add(pause) < self.total).then_some(pause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_are_jittered_and_end() {
        let policy = RetryPolicy::default().max_attempts(4);
        let pause = |tries, jitter| policy.pause(tries, Duration::ZERO, None, jitter);
        assert_eq!(pause(1, 1.0), Some(Duration::from_millis(100)));
        assert_eq!(pause(3, 1.0), Some(Duration::from_millis(400)));
        assert_eq!(pause(3, 0.5), Some(Duration::from_millis(200)));
        assert_eq!(pause(4, 0.0), None);
        let long = policy.clone().max_attempts(u32::MAX);
        assert_eq!(long.pause(1000, Duration::ZERO, None, 1.0), Some(Duration::from_secs(2)));
    }

    #[test]
    fn a_pause_is_at_least_what_the_provider_asks_for_and_within_the_total() {
        let policy = RetryPolicy::default();
        let asked = Some(Duration::from_secs(4));
        assert_eq!(policy.pause(1, Duration::ZERO, asked, 0.0), asked);
        assert_eq!(policy.pause(1, Duration::from_secs(7), asked, 0.0), None);
    }
}
