//! The pauses of a caller that waits for what another process does.

use std::time::Duration;

use tokio::time::Instant;

/// The first and the longest pause between two reads.
const LOOK_SOON: Duration = Duration::from_millis(50);
const LOOK_LATE: Duration = Duration::from_secs(1);

/// Reads that become rarer, for a limited time.
#[derive(Debug)]
pub(crate) struct Polling {
    until: Instant,
    pause: Duration,
}

impl Polling {
    pub(crate) fn new(longest: Duration) -> Self {
        Self { until: Instant::now() + longest, pause: LOOK_SOON }
    }

    /// Wait for the next read. `false`: the time is up.
    ///
    /// `jitter`, from 0 to 1: half of the pause, so that many waiting callers do not read at the same time.
    pub(crate) async fn pause(&mut self, jitter: f64) -> bool {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return false;
        }
        tokio::time::sleep(self.pause.mul_f64(0.5 + jitter / 2.0).min(left)).await;
        self.pause = (self.pause * 2).min(LOOK_LATE);
        true
    }
}
