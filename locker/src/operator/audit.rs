//! The acts of operators on tokens, workflows and messages.

use chrono::{DateTime, Utc};

use super::Console;
use super::lists::Reading;
use crate::error::Error;
use crate::session::AuditRecord;

/// Records that are read of each table.
const LIMIT: usize = 10_000;

/// The acts of operators in all tables.
#[derive(Debug)]
#[non_exhaustive]
pub struct AuditTrail {
    /// The audit records, the oldest first.
    pub acts: Vec<AuditRecord>,
    /// Whether everything was read. **If not, there may be more acts.**
    pub finished: bool,
    /// The error that stopped the reading; [`Error::Expired`] at the deadline. A limit is no error.
    pub stopped_by: Option<Error>,
    /// Entries of the index that were read: half a read unit for each 4 KB, 10 to 20 entries.
    pub rows_read: u64,
}

impl Console {
    /// Reads the acts of operators since a time, in order.
    ///
    /// An audit record outlives its token or workflow
    /// ([`Settings::audit_retention`](crate::Settings::audit_retention)).
    ///
    /// # Errors
    ///
    /// Same as [`ListBuilder::fetch`](crate::ListBuilder::fetch) if the first request fails. Later
    /// errors are in [`AuditTrail::stopped_by`].
    ///
    /// # Cost
    ///
    /// 1 request for each table, shard and 100 records; half a read unit for each 4 KB of records.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(
    /// #     locker: locker::Locker,
    /// #     workflows: locker::workflow::Workflows,
    /// # ) -> Result<(), locker::Error> {
    /// use locker::operator::Console;
    ///
    /// let console = Console::new().tokens(&locker).workflows(&workflows);
    /// let yesterday = chrono::Utc::now() - chrono::TimeDelta::days(1);
    /// for act in console.audit(yesterday).await?.acts {
    ///     println!("{:?} {:?} {}: {:?}", act.at, act.by, act.work().to_text(), act.reason);
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn audit(&self, since: impl Into<DateTime<Utc>>) -> Result<AuditTrail, Error> {
        let mut reading = Reading { entries: self.limit_or(LIMIT), ..self.reading() };
        let mut acts = self.acts(since.into(), &mut reading).await?;
        acts.sort_by_key(|act| act.at);
        Ok(AuditTrail {
            acts,
            finished: reading.finished,
            stopped_by: reading.stopped_by,
            rows_read: reading.rows_read,
        })
    }

    /// Reads the audit of one table after the other.
    pub(super) async fn acts(
        &self,
        since: DateTime<Utc>,
        reading: &mut Reading<'_>,
    ) -> Result<Vec<AuditRecord>, Error> {
        let mut acts = Vec::new();
        if let Some(locker) = &self.tokens {
            reading.list(locker.audit(since), Some, |act| acts.push(act)).await?;
        }
        #[cfg(feature = "workflow")]
        if let Some(workflows) = &self.workflows {
            reading.list(workflows.audit(since), Some, |act| acts.push(act)).await?;
        }
        Ok(acts)
    }
}
