//! The one loop that changes a stored record: it decides from the stored record, writes the result,
//! and decides again if another writer changed the record in between.

use crate::core::invalid::InvalidRecord;
use crate::core::message::letter::Letter;
use crate::core::workflow::audit::WorkflowAudit;
use crate::core::workflow::event::{EventReceipt, EventRecord};
use crate::core::workflow::header::Header;
use crate::core::workflow::step::StepRecord;
use crate::error::Error;
use crate::store::{
    Action, Guard, Item, Store, Until, Written, event_item, event_of, event_receipt_item, found, header_item,
    header_of, message_item, message_of, record_item, record_of, workflow_audit_item,
};

/// The loop gives up after this many writes of others.
const ROUNDS: u32 = 10;

/// A record that gets a new revision with each write.
pub(crate) trait Versioned: Clone + Sync {
    fn to_item(&self, shards: u16) -> Item;
    fn of_item(item: &Item) -> Result<Self, InvalidRecord>;
    fn revision(&self) -> &str;
}

impl Versioned for Header {
    fn to_item(&self, shards: u16) -> Item {
        header_item(self, shards)
    }

    fn of_item(item: &Item) -> Result<Self, InvalidRecord> {
        header_of(item)
    }

    fn revision(&self) -> &str {
        &self.revision
    }
}

impl Versioned for StepRecord {
    fn to_item(&self, _: u16) -> Item {
        record_item(self)
    }

    fn of_item(item: &Item) -> Result<Self, InvalidRecord> {
        record_of(item)
    }

    fn revision(&self) -> &str {
        &self.revision
    }
}

impl Versioned for EventRecord {
    fn to_item(&self, shards: u16) -> Item {
        event_item(self, shards)
    }

    fn of_item(item: &Item) -> Result<Self, InvalidRecord> {
        event_of(item)
    }

    fn revision(&self) -> &str {
        &self.revision
    }
}

impl Versioned for Letter {
    fn to_item(&self, shards: u16) -> Item {
        message_item(self, shards)
    }

    fn of_item(item: &Item) -> Result<Self, InvalidRecord> {
        message_of(item)
    }

    fn revision(&self) -> &str {
        &self.revision
    }
}

/// A record that replaces a record that was read, if there was one.
#[derive(Debug)]
pub(crate) enum Over<'a> {
    Step(Option<&'a StepRecord>, StepRecord),
    Event(Option<&'a EventRecord>, EventRecord),
    /// This header must not have changed since it was read. It is not written.
    Unchanged(&'a Header),
    /// This item of the workflow is deleted: the new header does not refer to it.
    Erased(&'a str, String),
    /// The receipt of an event, at this sort key in the partition of the first version.
    Receipt {
        first: &'a str,
        place: String,
        receipt: EventReceipt,
    },
}

/// The outcome of a change.
#[derive(Debug)]
pub(crate) enum Changed<T, R> {
    /// The record as it is stored now.
    Done(T),
    /// The rule refuses the stored record.
    Refused { why: R, stored: Option<T> },
    /// The record was deleted.
    Gone,
}

impl Store {
    /// Changes a record by a rule.
    ///
    /// `seen` is the record that the caller read last; the loop does not read it again. `rule`
    /// returns the next record, with a new revision in each call, or the reason to write nothing.
    ///
    /// # Errors
    ///
    /// [`Error::Contended`] if each round met a write of another writer. Nothing was written.
    pub(crate) async fn change<T: Versioned, R>(
        &self,
        verb: &'static str,
        seen: Option<T>,
        until: Until,
        rule: impl Fn(Option<&T>) -> Result<T, R>,
    ) -> Result<Changed<T, R>, Error> {
        let mut stored = seen;
        // Two writers may decide from the same record. DynamoDB applies the put only over the
        // revision from which this writer decided. Otherwise it returns the stored item, so a lost
        // race costs no further read.
        for _ in 0..ROUNDS {
            let next = match rule(stored.as_ref()) {
                Ok(next) => next,
                Err(why) => return Ok(Changed::Refused { why, stored }),
            };
            let guard = stored.as_ref().map_or(Guard::Absent, |stored| Guard::Revision(stored.revision()));
            let item = || next.to_item(self.shards);
            match self.put_item(verb, &item, Some(next.revision()), guard, until).await? {
                Written::Done => return Ok(Changed::Done(next)),
                // The record was read and then deleted, such as with its workflow. A decision
                // without it could write a record into a partition that no reaper finds.
                Written::Refused { found: None, .. } => return Ok(Changed::Gone),
                Written::Refused { found: Some(item), after_silence } => {
                    stored = Some(found(T::of_item(&item), (verb, 1), after_silence)?);
                }
            }
        }
        Err(Error::Contended { verb, tries: ROUNDS })
    }

    /// Writes records, headers and an audit record in one transaction, which DynamoDB limits to 100
    /// items. Each record and header replaces the revision that was read. If the first header had
    /// changed, the refusal contains the stored header.
    pub(crate) async fn change_together(
        &self,
        verb: &'static str,
        records: &[Over<'_>],
        headers: &[(Option<&Header>, Header)],
        audit: Option<&WorkflowAudit>,
        until: Until,
    ) -> Result<Written<Option<Box<Header>>>, Error> {
        // A transaction costs two units for each KB. One item needs no transaction.
        match (records, headers, audit) {
            ([Over::Step(seen, step)], [], None) => return self.put_over(verb, *seen, step, until).await,
            ([Over::Event(seen, event)], [], None) => return self.put_over(verb, *seen, event, until).await,
            ([], [(seen, header)], None) => return self.put_over(verb, *seen, header, until).await,
            _ => {}
        }
        let records_over = records.iter().map(|record| match record {
            Over::Step(seen, step) => self.over(*seen, step),
            Over::Event(seen, event) => self.over(*seen, event),
            Over::Unchanged(header) => {
                Action::Unchanged { workflow: header.workflow.clone(), seen: header.revision.clone() }
            }
            Over::Erased(workflow, item) => {
                Action::Delete { workflow: (*workflow).to_owned(), item: item.clone() }
            }
            Over::Receipt { first, place, receipt } => {
                Action::Put { item: event_receipt_item(first, place, *receipt), absent: false }
            }
        });
        let headers_over = headers.iter().map(|(seen, header)| self.over(*seen, header));
        let audit = audit.map(|audit| Action::Put { item: workflow_audit_item(audit), absent: true });
        let actions: Vec<_> = records_over.chain(headers_over).chain(audit).collect();
        let token = self.ids.attempt();
        match Box::pin(self.transact(verb, &actions, &token, until)).await? {
            Written::Done => Ok(Written::Done),
            Written::Refused { found: at, after_silence } => {
                let is_header = |place| !headers.is_empty() && place == records.len();
                let at_header = at.into_iter().find(|(place, _)| is_header(*place));
                let header = at_header.and_then(|(_, item)| item).map(|item| header_of(&item)).transpose();
                let found = found(header, (verb, 1), after_silence)?.map(Box::new);
                Ok(Written::Refused { found, after_silence })
            }
        }
    }

    /// Returns the action of a transaction that replaces the record `seen` with this record.
    pub(crate) fn over<T: Versioned>(&self, seen: Option<&T>, next: &T) -> Action {
        let item = next.to_item(self.shards);
        match seen {
            Some(seen) => Action::PutOver { item, seen: seen.revision().to_owned() },
            None => Action::Put { item, absent: true },
        }
    }

    async fn put_over<T: Versioned>(
        &self,
        verb: &'static str,
        seen: Option<&T>,
        next: &T,
        until: Until,
    ) -> Result<Written<Option<Box<Header>>>, Error> {
        let guard = seen.map_or(Guard::Absent, |seen| Guard::Revision(seen.revision()));
        let item = || next.to_item(self.shards);
        Ok(match self.put_item(verb, &item, Some(next.revision()), guard, until).await? {
            Written::Done => Written::Done,
            Written::Refused { after_silence, .. } => Written::Refused { found: None, after_silence },
        })
    }
}
