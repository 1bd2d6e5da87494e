//! Deletes expired messages that the index lists.
//!
//! A run deletes an expired message in the turn of its partition. A message has no such turn if its
//! topic has no route, its target is down, or an earlier message of its subject is dead. So the row
//! of the index decides, and the run reads no partition.

use chrono::{DateTime, Utc};

use super::relay::RelayReport;
use crate::core::message::letter::is_long_over;
use crate::metrics;
use crate::store::{Guard, Row, Written};
use crate::workflow::context::Context;

/// A message that expired.
pub(super) struct Expired {
    partition: String,
    item: String,
    revision: String,
    topic: String,
}

impl Expired {
    /// Returns the message of a row if no relay sends it any more.
    ///
    /// A relay has a lease on the first message of a subject, and sends later messages under this
    /// lease. A later message may expire during its call. So a message is deleted only a minute
    /// after its expiry.
    pub(super) fn of(row: &Row, now: DateTime<Utc>) -> Option<Self> {
        if !is_long_over(row.expires, now) {
            return None;
        }
        Some(Self {
            partition: row.key.clone(),
            item: row.item.clone()?,
            revision: row.revision.clone()?,
            topic: row.name.clone().unwrap_or_default(),
        })
    }

    pub(super) fn partition(&self) -> &str {
        &self.partition
    }

    /// Deletes the message. The index is eventually consistent. If the message has been changed or
    /// deleted since, nothing is deleted and nothing is counted.
    pub(super) async fn delete(&self, context: &Context) -> RelayReport {
        let mut done = RelayReport::default();
        let (guard, until) = (Guard::Revision(&self.revision), context.until(None));
        let store = context.store();
        let deleted = store.delete_item("delete the message", &self.partition, &self.item, guard, until);
        match Box::pin(deleted).await {
            Ok(Written::Done) => {
                metrics::count_expired(&self.topic);
                let (key, topic) = (context.shown(&self.partition), &self.topic);
                tracing::warn!(workflow.key = key, self.item, topic, "a message expired and is deleted");
                done.expired = 1;
            }
            Ok(Written::Refused { .. }) => {}
            Err(error) => {
                let key = context.shown(&self.partition);
                tracing::warn!(workflow.key = key, self.item, %error, "an expired message may not be deleted");
                done.failed = 1;
            }
        }
        done
    }
}
