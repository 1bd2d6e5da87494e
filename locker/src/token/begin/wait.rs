//! Waiting for another caller's answer, by polling with jitter.

use std::time::Duration;

use tokio::time::Instant;

use super::plan::{Judged, Plan, Round};
use crate::core::token::record::{Record, Seen};
use crate::error::Error;
use crate::store::Freshness;

/// The first and the longest pause between two reads.
const LOOK_SOON: Duration = Duration::from_millis(50);
const LOOK_LATE: Duration = Duration::from_secs(1);
/// How long a probe that returned `Unsafe` is not asked again.
const PROBE_AGAIN: Duration = Duration::from_secs(10);

/// The state of a caller that waits.
pub(crate) struct Patience {
    until: Instant,
    pause: Duration,
    /// The overdue record that the probe refused to take over, and until when not to ask again.
    refused: Option<(Seen, Instant)>,
}

impl Patience {
    pub(crate) const fn until(until: Instant) -> Self {
        Self { until, pause: LOOK_SOON, refused: None }
    }

    fn refuses(&self, record: &Record) -> bool {
        self.refused.as_ref().is_some_and(|(seen, until)| *seen == record.seen && Instant::now() < *until)
    }
}

impl Plan {
    /// Poll until there is an answer, begin is worth another try, or the time is up.
    pub(crate) async fn wait(&self, held: Box<Record>, patience: &mut Patience) -> Result<Round, Error> {
        let mut held = held;
        if self.due_before(self.session.now()).is_some_and(|limit| held.promised_completion() < limit) {
            patience.refused = Some((held.seen.clone(), Instant::now() + PROBE_AGAIN));
        }
        loop {
            let left = patience.until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(Round::Held(held));
            }
            // Half of the pause is jitter, so that many waiting callers do not read at the same time.
            let jittered = patience.pause.mul_f64(0.5 + self.session.store().jitter() / 2.0);
            tokio::time::sleep(jittered.min(left)).await;
            patience.pause = (patience.pause * 2).min(LOOK_LATE);
            let until = self.session.until(self.deadline);
            let Some(record) = self.session.store().read(self.key.as_str(), Freshness::Strong, until).await?
            else {
                return Ok(Round::Again);
            };
            match self.judge(Box::new(record)).await? {
                Judged::Round(Round::Held(record)) => held = record,
                Judged::Round(round) => return Ok(round),
                Judged::Overdue(record) if patience.refuses(&record) => held = record,
                Judged::Mine(_) | Judged::Overdue(_) | Judged::Remembered(_) => return Ok(Round::Again),
            }
        }
    }
}
