//! Waiting for somebody else's answer, by looking again with jitter.

use std::time::Duration;

use tokio::time::Instant;

use super::begin::{Judged, Plan, Round};
use crate::core::record::{Record, Seen};
use crate::error::Error;
use crate::store::Freshness;

/// The first and the longest pause between two looks.
const LOOK_SOON: Duration = Duration::from_millis(50);
const LOOK_LATE: Duration = Duration::from_secs(1);
/// How long a probe is left alone that said that it is not safe.
const PROBE_AGAIN: Duration = Duration::from_secs(10);

/// How a caller waits.
pub(super) struct Patience {
    until: Instant,
    pause: Duration,
    /// The overdue record that the probe said was not safe, and until when it is not asked again.
    refused: Option<(Seen, Instant)>,
}

impl Patience {
    pub(super) const fn until(until: Instant) -> Self {
        Self { until, pause: LOOK_SOON, refused: None }
    }

    fn refuses(&self, record: &Record) -> bool {
        self.refused.as_ref().is_some_and(|(seen, until)| *seen == record.seen && Instant::now() < *until)
    }
}

impl Plan {
    /// Look again and again, until there is an answer, or something to try, or no patience.
    pub(super) async fn wait(&self, held: Box<Record>, patience: &mut Patience) -> Result<Round, Error> {
        let mut held = held;
        if self.due_before(self.locker.now()).is_some_and(|limit| held.expected_completion < limit) {
            patience.refused = Some((held.seen.clone(), Instant::now() + PROBE_AGAIN));
        }
        loop {
            let left = patience.until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(Round::Held(held));
            }
            // Half of it jitters, so that many who wait do not look at once.
            let jittered = patience.pause.mul_f64(0.5 + self.locker.store().jitter() / 2.0);
            tokio::time::sleep(jittered.min(left)).await;
            patience.pause = (patience.pause * 2).min(LOOK_LATE);
            let until = self.locker.until(self.deadline);
            let Some(record) = self.locker.store().read(self.key.as_str(), Freshness::Strong, until).await?
            else {
                return Ok(Round::Again);
            };
            match self.judge(Box::new(record)).await? {
                Judged::Round(Round::Held(record)) => held = record,
                Judged::Round(round) => return Ok(round),
                Judged::Overdue(record) if patience.refuses(&record) => held = record,
                Judged::Mine(_) | Judged::Overdue(_) => return Ok(Round::Again),
            }
        }
    }
}
