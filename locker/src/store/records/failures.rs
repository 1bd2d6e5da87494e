//! The failures of a message that is in its queue.

use chrono::{DateTime, Utc};

use crate::core::message::failures::Failures;
use crate::core::workflow::step::RecordId;
use crate::error::Error;
use crate::store::item::{failures_item, failures_of, item_key};
use crate::store::read::Freshness;
use crate::store::{Guard, Item, Store, Until, Written};

/// Writes for one failure. Two deliveries of one message may fail at the same time.
const WRITES: usize = 3;

impl Store {
    /// How many failures were counted: strongly consistent.
    pub(crate) async fn failures(
        &self,
        at: &RecordId,
        now: DateTime<Utc>,
        until: Until,
    ) -> Result<u32, Error> {
        let found = self.find_failures(at, until).await?;
        Ok(found.map(|item| failures_of(&item, now)).transpose()?.map_or(0, |(count, _)| count))
    }

    async fn find_failures(&self, at: &RecordId, until: Until) -> Result<Option<Item>, Error> {
        let key = item_key(&at.workflow, &at.item);
        self.get("read the failures of the message", key, Freshness::Strong, until).await
    }

    /// Counts a failure and returns the count. `is_first`: the caller knows of no earlier failure,
    /// so the write needs no read before it.
    pub(crate) async fn count_failure(
        &self,
        at: RecordId,
        is_first: bool,
        (now, expires): (DateTime<Utc>, DateTime<Utc>),
        until: Until,
    ) -> Result<u32, Error> {
        let mut found = if is_first { None } else { self.find_failures(&at, until).await? };
        let mut failures = Failures { at, revision: self.ids.attempt(), count: 1, expires };
        for _ in 0..WRITES {
            let seen = found.as_ref().map(|item| failures_of(item, now)).transpose()?;
            failures.count = seen.as_ref().map_or(1, |(count, _)| count.saturating_add(1));
            let guard = seen.as_ref().map_or(Guard::Absent, |(_, revision)| Guard::Revision(revision));
            let item = || failures_item(&failures);
            let revision = Some(failures.revision.as_str());
            let put = self.put_item("count the failure of the message", &item, revision, guard, until);
            match Box::pin(put).await? {
                Written::Done => break,
                Written::Refused { found: other, .. } => found = other,
            }
        }
        Ok(failures.count)
    }
}
