//! The acts of operators on workflows and their steps.

use chrono::{DateTime, Utc};

#[cfg(feature = "messages")]
use crate::core::token::work::Work;
#[cfg(feature = "messages")]
use crate::core::workflow::place::Place;
use crate::core::{answer, shard};
use crate::error::Error;
use crate::session::AuditRecord;
use crate::session::Session;
use crate::session::listing::{ListBuilder, TOKENS_AND_ACTS};
use crate::store::Layout;
use crate::workflow::workflows::Workflows;

impl Workflows {
    /// Lists operators' acts on workflows and their steps since a time, oldest first: the operator,
    /// the act and the reason.
    ///
    /// An audit record outlives its workflow
    /// ([`Settings::audit_retention`](crate::Settings::audit_retention)).
    pub fn audit(&self, since: impl Into<DateTime<Utc>>) -> ListBuilder<AuditRecord> {
        let list = ListBuilder::new(
            Session::clone(self.context()),
            &Layout::WORKFLOWS,
            shard::AUDIT,
            TOKENS_AND_ACTS,
        );
        list.since(since.into())
    }

    /// Reads the acts of operators on one workflow, oldest first. This includes acts on an earlier
    /// run under the same key and acts on a deleted workflow.
    ///
    /// # Errors
    ///
    /// [`Error::Denied`], [`Error::Unavailable`].
    ///
    /// # Cost
    ///
    /// 1 strongly consistent query: 1 read unit for each 4 KB.
    pub async fn acts(&self, workflow: &str) -> Result<Vec<AuditRecord>, Error> {
        let context = self.context();
        let rows = Box::pin(context.store().read_acts(workflow, context.until(None))).await?;
        Ok(rows.into_iter().map(AuditRecord::of_row).collect())
    }

    /// Reads the result that an operator gave with an act, as JSON text. `None`: the act has no
    /// result, the result is longer than 100,000 bytes, or the record has expired.
    ///
    /// # Errors
    ///
    /// [`Error::Denied`], [`Error::Unavailable`], [`Error::Answer`] if the stored result is
    /// damaged.
    ///
    /// # Cost
    ///
    /// 1 strongly consistent read: 1 read unit for each 4 KB.
    pub async fn given(&self, act: &AuditRecord) -> Result<Option<String>, Error> {
        if !act.is_of_workflow {
            return Ok(None);
        }
        let context = self.context();
        let read = context.store().given_to_workflow(&act.key, &act.id, context.until(None));
        Ok(Box::pin(read).await?.map(answer::decode).transpose()?)
    }

    /// Reads the body that the correction of a message replaced, as a JSON string.
    /// [`given`](Self::given) reads the corrected body.
    ///
    /// `None`: the act is not a correction of a message, or the record has expired.
    ///
    /// # Errors
    ///
    /// Same as [`given`](Self::given).
    ///
    /// # Cost
    ///
    /// 1 strongly consistent read: 1 read unit for each 4 KB.
    #[cfg(feature = "messages")]
    pub async fn replaced(&self, act: &AuditRecord) -> Result<Option<String>, Error> {
        let Ok(Place::Audit { at, id }) = Place::parse(&act.id) else { return Ok(None) };
        if !matches!(act.work(), Work::Message { .. }) {
            return Ok(None);
        }
        let context = self.context();
        let place = Place::Replaced { at, id }.to_string();
        let read = context.store().given_to_workflow(&act.key, &place, context.until(None));
        Ok(Box::pin(read).await?.map(answer::decode).transpose()?)
    }
}
