//! Receipts of the events of former versions, for a workflow that has continued.

use std::collections::BTreeSet;

use crate::core::name;
use crate::core::workflow::event::{EventReceipt, EventRecord, Former, Signal, receipt_places};
use crate::core::workflow::header::{Header, State};
use crate::core::workflow::place::Place;
use crate::error::Error;
use crate::store::{Guard, Until, event_receipt_item};
use crate::workflow::context::Context;
use crate::workflow::flow::Flow;

impl Flow {
    /// Returns whether a wait of this or a former version declared a compensation.
    pub(super) fn follows_waits(&self) -> bool {
        self.lock_header().follows_waits || self.events().iter().any(EventRecord::has_compensation)
    }

    /// Writes receipts of all events of this version into the partition of the first version.
    ///
    /// `first`: the header of the first version. `None`: this version is the first version.
    /// `written`: the sort keys of the receipts that this run has written.
    ///
    /// The receipts are written before the next version starts, so they exist when its first event
    /// arrives. If the workflow does not continue, no version reads them.
    pub(super) async fn write_receipts(
        &self,
        first: Option<&Header>,
        written: &mut BTreeSet<String>,
    ) -> Result<(), Error> {
        const VERB: &str = "write a receipt of the event";
        let (seen, until) = (self.header(), self.until().for_end());
        let store = self.context().store();
        let first = first.unwrap_or(&seen);
        let mut events = self.events();
        if seen.surplus > 0 {
            events.extend(Box::pin(store.read_surplus(self.workflow(), None, until)).await?);
        }
        let receipt = EventReceipt { version: seen.key_version, run: seen.created };
        for event in events.iter().filter(|event| event.is_of(seen.created)) {
            for place in receipt_places(event, first.created, self.follows_waits()) {
                if written.contains(&place) {
                    continue;
                }
                let item = || event_receipt_item(&first.workflow, &place, receipt);
                // If the write is refused, a later version has stored its receipt here.
                let guard = Guard::NotOfLater(receipt.version);
                Box::pin(store.put_item(VERB, &item, None, guard, until)).await?;
                written.insert(place);
            }
        }
        Ok(())
    }
}

impl Context {
    /// Reads the receipts of this event and of its name, and the last wait of a former version.
    ///
    /// `read`: a header that the call has read. If it is that of the first version, it is not read
    /// again.
    pub(crate) async fn former(
        &self,
        latest: &Header,
        read: Option<&Header>,
        event: &Signal,
        until: Until,
    ) -> Result<Former, Error> {
        let store = self.store();
        let Some(first) = latest.continues else { return Ok(Former::default()) };
        let first = match read.filter(|read| read.key_version == first) {
            Some(first) => Some(first.clone()),
            None => Box::pin(store.read_header(&name::partition(&latest.key(), first), until)).await?,
        };
        let Some(first) = first else { return Ok(Former::default()) };
        let receipt = async |digest: Option<&str>| {
            let place = Place::Receipt { started: first.created, event: &event.name, digest }.to_string();
            Box::pin(store.read_event_receipt(&first.workflow, &place, until)).await
        };
        if let Some(digest) = event.receipt()
            && receipt(Some(&digest)).await?.is_some()
        {
            return Ok(Former { has_event: true, ..Former::default() });
        }
        let former = Former { first: Some((first.workflow.clone(), first.created)), ..Former::default() };
        if !latest.follows_waits {
            return Ok(former);
        }
        let Some(last) = receipt(None).await? else { return Ok(former) };
        let workflow = name::partition(&first.key(), last.version);
        let header = Box::pin(store.read_header(&workflow, until)).await?;
        // The version of the wait may be deleted: the reaper deletes the versions in between after
        // their retention.
        let is_it = |header: &Header| header.created == last.run && header.state != State::Reaping;
        let Some(header) = header.filter(is_it) else { return Ok(former) };
        let event = Box::pin(store.read_event(&workflow, &event.name, until)).await?;
        let event = event.filter(|event| event.is_of(last.run));
        Ok(Former { last: event.map(|event| (header, event)), ..former })
    }
}
