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
        Self { polling: Polling::new(Some(longest)), refused: None }
    }
}

impl Plan {
    /// Polls until there is an answer, begin is worth another try, or the time is up.
    pub(crate) async fn wait(&self, held: Box<Record>, patience: &mut Patience) -> Result<Round, Error> {
        if self.due_before(self.session.now()).is_some_and(|limit| held.promised_completion() < limit) {
            patience.refused = Some((held.seen.clone(), Instant::now() + PROBE_AGAIN));
        }
        let Patience { polling, refused } = patience;
        let refused = refused.as_ref();
        let refuses = |record: &Record| {
            refused.is_some_and(|(seen, until)| *seen == record.seen && Instant::now() < *until)
        };
        let look = |_| async {
            let until = self.session.until(self.deadline);
            let read = self.session.store().read(self.key.as_str(), Freshness::Strong, until);
            let Some(record) = read.await? else { return Ok::<_, Error>(Round::Again) };
            Ok(match self.judge(Box::new(record)).await? {
                Judged::Round(round) => round,
                // The probe was asked about this record a moment ago.
                Judged::Overdue(record) if refuses(&record) => Round::Held(record),
                Judged::Mine(_) | Judged::Overdue(_) | Judged::Remembered(_) => Round::Again,
            })
        };
        let jitter = || self.session.store().jitter();
        polling.look_while(jitter, Round::Held(held), |round| matches!(round, Round::Held(_)), look).await
    }
}
