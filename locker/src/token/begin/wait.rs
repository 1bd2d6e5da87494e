//! Waiting for another caller's answer, by polling with jitter.

use std::time::Duration;

use tokio::time::Instant;

use super::plan::{Judged, Plan, Round};
use crate::core::token::record::{Record, Seen};
use crate::error::Error;
use crate::session::polling::Polling;
use crate::store::Freshness;

/// How long a probe that returned `Unsafe` is not asked again.
const PROBE_AGAIN: Duration = Duration::from_secs(10);

/// The state of a caller that waits.
pub(crate) struct Patience {
    polling: Polling,
    /// The overdue record that the probe refused to take over, and until when not to ask again.
    refused: Option<(Seen, Instant)>,
}

impl Patience {
    pub(crate) fn new(longest: Duration) -> Self {
        Self { polling: Polling::new(longest), refused: None }
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
            if !patience.polling.pause(self.session.store().jitter()).await {
                return Ok(Round::Held(held));
            }
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
