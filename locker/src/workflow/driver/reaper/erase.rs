//! Deleting the items of a finished workflow.

use std::sync::Arc;

use tokio::task::JoinSet;

use super::Reaper;
use crate::core::answer::Body;
use crate::core::workflow::header::Header;
use crate::core::workflow::place::{HEADER, Place};
use crate::core::workflow::step::RecordId;
use crate::error::Error;
use crate::store::{Everything, Guard, LedgerEntry, ledger_item};

const VERB: &str = "delete the workflow";

impl Reaper {
    /// Deletes all items of the workflow. The ledger record is written first and the header is
    /// deleted last, so after a crash at any point the next run continues.
    pub(super) async fn erase(&self, header: &Header, all: &Everything) -> Result<(), Error> {
        let context = &self.context;
        let store = context.store();
        let now = context.now();
        let ttl = self.limits_of(&header.name)?.ledger.ttl(now);
        let entry = LedgerEntry { header, steps: all.records.len(), at: now, ttl };
        let until = context.until(self.deadline);
        // If the response is lost, the next run finds the header unchanged and puts it again.
        let item = || ledger_item(&entry);
        Box::pin(store.put_item("write the ledger record", &item, None, Guard::None, until)).await?;
        let surplus = self.surplus(header).await?;
        let steps = all.records.iter().map(|record| (&record.id, &record.revision));
        let events = all.events.iter().chain(&surplus).map(|event| (&event.id, &event.revision));
        self.erase_records(steps.chain(events)).await?;
        // Ids of answers, results and inputs are never reused, and places of causes contain the
        // start. An input with another id may belong to the next start, so it stays.
        let input = match &header.input {
            Some(Body::Beside { id, .. }) => Some(id.as_str()),
            _ => None,
        };
        let beside = |item: &&String| match Place::parse(item) {
            Ok(Place::Answer(_) | Place::Result(_)) => true,
            Ok(Place::Input(id)) => Some(id) == input,
            _ => false,
        };
        let started = header.created;
        let failed = header.failures.places().map(|place| Place::FailedRuns { started, place }.to_string());
        let mut items: Vec<String> = all.items.iter().filter(beside).cloned().chain(failed).collect();
        // The receipts of all versions are in the first one. It may also have written some and then
        // failed before it continued.
        let has_events = !all.events.is_empty() || !surplus.is_empty();
        if header.continues.is_none() && (has_events || header.continued_as.is_some()) {
            let until = context.until(self.deadline);
            items.extend(Box::pin(store.receipts_of_events(&header.workflow, started, until)).await?);
        }
        Box::pin(store.delete_items(&header.workflow, &items, context.until(self.deadline))).await?;
        let guard = Guard::Revision(&header.revision);
        let until = context.until(self.deadline);
        Box::pin(store.delete_item(VERB, &header.workflow, HEADER, guard, until)).await?;
        Ok(())
    }

    /// Deletes each record under the condition that it has not changed since it was read. If this
    /// run is suspended, another run may delete the workflow, and the key may be used again. The
    /// new records must stay.
    ///
    /// A batch takes no conditions. A transaction costs twice the write units, and write units cost
    /// more than requests. So the records are deleted by concurrent single requests.
    async fn erase_records<'a>(
        &self,
        records: impl Iterator<Item = (&'a RecordId, &'a String)> + Send,
    ) -> Result<(), Error> {
        let mut deleting = JoinSet::new();
        for (id, revision) in records {
            // No code closes the semaphore.
            let Ok(turn) = Arc::clone(&self.turns).acquire_owned().await else { break };
            let (context, until) = (self.context.clone(), self.context.until(self.deadline));
            let (id, revision) = (id.clone(), revision.clone());
            deleting.spawn(async move {
                let _turn = turn;
                let guard = Guard::Revision(&revision);
                let deleted = context.store().delete_item(VERB, &id.workflow, &id.item, guard, until);
                Box::pin(deleted).await.map(drop)
            });
            while let Some(deleted) = deleting.try_join_next() {
                done(deleted)?;
            }
        }
        while let Some(deleted) = deleting.join_next().await {
            done(deleted)?;
        }
        Ok(())
    }
}

fn done(deleted: Result<Result<(), Error>, tokio::task::JoinError>) -> Result<(), Error> {
    deleted.unwrap_or_else(|error| Err(Error::Unavailable { verb: VERB, tries: 1, source: error.into() }))
}
