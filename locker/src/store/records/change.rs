//! The one loop that changes a stored record: decide on what is there, write it, and decide again
//! if it was changed meanwhile.

use crate::core::invalid::InvalidRecord;
use crate::core::message::letter::Letter;
use crate::core::workflow::audit::WorkflowAudit;
use crate::core::workflow::header::Header;
use crate::core::workflow::step::StepRecord;
use crate::error::Error;
use crate::store::{
    Action, Guard, Item, Store, Until, Written, found, header_item, header_of, message_item, message_of,
    record_item, record_of, workflow_audit_item,
};

/// How many other writes may come in between.
const ROUNDS: u32 = 10;

/// A record whose every write has a revision of its own.
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

/// What a change came to.
#[derive(Debug)]
pub(crate) enum Changed<T, R> {
    /// This is stored now.
    Done(T),
    /// The rule refuses what is stored.
    Refused { why: R, stored: Option<T> },
    /// It was deleted.
    Gone,
}

impl Store {
    /// Change a record as the rule says.
    ///
    /// `seen`: what the caller last saw; nothing is read first. `rule`: what to write over what is
    /// there, with a revision of its own each time, or why nothing is written.
    ///
    /// # Errors
    ///
    /// [`Error::Contended`] if others write again and again; nothing was written.
    pub(crate) async fn change<T: Versioned, R>(
        &self,
        verb: &'static str,
        seen: Option<T>,
        until: Until,
        rule: impl Fn(Option<&T>) -> Result<T, R>,
    ) -> Result<Changed<T, R>, Error> {
        let mut stored = seen;
        // Two writers may decide on the same record. DynamoDB applies the put only over the
        // revision that was decided on, and returns what it found instead, so that a lost race
        // costs no further read.
        for _ in 0..ROUNDS {
            let next = match rule(stored.as_ref()) {
                Ok(next) => next,
                Err(why) => return Ok(Changed::Refused { why, stored }),
            };
            let guard = stored.as_ref().map_or(Guard::Absent, |stored| Guard::Revision(stored.revision()));
            let item = || next.to_item(self.shards);
            match self.put_item(verb, &item, Some(next.revision()), guard, until).await? {
                Written::Done => return Ok(Changed::Done(next)),
                Written::Refused { found: None, .. } => return Ok(Changed::Gone),
                Written::Refused { found: Some(item), after_silence } => {
                    stored = Some(found(T::of_item(&item), (verb, 1), after_silence)?);
                }
            }
        }
        Err(Error::Contended { verb, tries: ROUNDS })
    }

    /// Write steps and headers over what was seen of each, and what an operator did, in one
    /// transaction, which DynamoDB limits to 100 items. A refusal returns the first header that is
    /// there, if that is what changed.
    pub(crate) async fn change_together(
        &self,
        verb: &'static str,
        steps: &[(Option<&StepRecord>, StepRecord)],
        headers: &[(Option<&Header>, Header)],
        audit: Option<&WorkflowAudit>,
        until: Until,
    ) -> Result<Written<Option<Box<Header>>>, Error> {
        // A transaction costs two units for each KB, and one item needs none.
        match (steps, headers, audit) {
            ([(seen, step)], [], None) => return self.put_over(verb, *seen, step, until).await,
            ([], [(seen, header)], None) => return self.put_over(verb, *seen, header, until).await,
            _ => {}
        }
        let steps_over = steps.iter().map(|(seen, step)| self.over(*seen, step));
        let headers_over = headers.iter().map(|(seen, header)| self.over(*seen, header));
        let audit = audit.map(|audit| Action::Put { item: workflow_audit_item(audit), absent: true });
        let actions: Vec<_> = steps_over.chain(headers_over).chain(audit).collect();
        let token = self.ids.attempt();
        match Box::pin(self.transact(verb, &actions, &token, until)).await? {
            Written::Done => Ok(Written::Done),
            Written::Refused { found: at, after_silence } => {
                let at_header = at.into_iter().find(|(place, _)| *place == steps.len());
                let header = at_header.and_then(|(_, item)| item).map(|item| header_of(&item)).transpose();
                let found = found(header, (verb, 1), after_silence)?.map(Box::new);
                Ok(Written::Refused { found, after_silence })
            }
        }
    }

    fn over<T: Versioned>(&self, seen: Option<&T>, next: &T) -> Action {
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
