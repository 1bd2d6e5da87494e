//! The one loop of a caller that waits for what another process does.

use std::time::Duration;

use tokio::time::Instant;

use crate::core::retry::Backoff;

/// The pauses between two reads. Each read costs a read unit, so they become rarer.
const PAUSES: Backoff = Backoff::doubling(Duration::from_millis(50), Duration::from_secs(1));

/// Reads that become rarer, for a limited time.
#[derive(Debug)]
pub(crate) struct Polling {
    until: Instant,
    reads: u32,
}

impl Polling {
    /// `longest`: `None` is no waiting at all.
    pub(crate) fn new(longest: Option<Duration>) -> Self {
        Self { until: Instant::now() + longest.unwrap_or_default(), reads: 0 }
    }

    /// Repeats the read while `waits` is true and time is left. Returns the result of the last
    /// read.
    ///
    /// `jitter`, from 0 to 1: many callers may wait for one key, and must not read it at the same
    /// time.
    pub(crate) async fn look_while<T, E, R>(
        &mut self,
        jitter: impl Fn() -> f64,
        first: T,
        waits: impl Fn(&T) -> bool,
        look: impl Fn(T) -> R,
    ) -> Result<T, E>
    where
        R: Future<Output = Result<T, E>>,
    {
        let mut found = first;
        while waits(&found) {
            let left = self.until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            self.reads = self.reads.saturating_add(1);
            tokio::time::sleep(PAUSES.equal(self.reads, jitter()).min(left)).await;
            // After the last pause follows one more read, because the awaited change may have
            // happened in that pause.
            found = look(found).await?;
        }
        Ok(found)
    }
}
