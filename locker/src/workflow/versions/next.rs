//! The end of a version and the start of the next one.

use std::collections::BTreeSet;

use super::{MOST_BYTES_MOVED, MOST_MOVED, ROUNDS};
use crate::core::name;
use crate::core::token::record::digest_of;
use crate::core::workflow::ending::Release;
use crate::core::workflow::event::{EventAct, EventRecord, owes};
use crate::core::workflow::header::{
    Continues, DriverAct, Header, HeaderEvent, HeaderRefusal, NewWorkflow, Pause, State,
};
use crate::error::Error;
use crate::metrics;
use crate::store::{Over, Written};
use crate::workflow::driver::end::not_reached;
use crate::workflow::flow::Flow;
use crate::workflow::outcome::Waiting;
use crate::workflow::outcome::ended::Ended;
use crate::workflow::stop::StopKind;

const VERB: &str = "continue the workflow";

/// An unread event as this version leaves it, and as the next version receives it.
struct Moved {
    seen: EventRecord,
    left: EventRecord,
}

impl Flow {
    /// Ends this version, and starts the next version, which is due at once.
    pub(crate) async fn continue_with(&self, input: &str, unreached: &[String]) -> Result<Ended, StopKind> {
        let mut new = self.next_version(input)?;
        let note = not_reached(unreached);
        let mut receipts = BTreeSet::new();
        // Senders may store events between the reads of this run and its end. The header counts
        // them, and refuses the write if this run has not read all of them.
        for _ in 0..ROUNDS {
            // A version that has continued runs no compensation of an event that was late before.
            if owes(&self.events()) {
                let reason = "a late event is compensated before the workflow continues".to_owned();
                let pause = Pause::Elsewhere;
                let release = Release { retry: Some(self.time()), pause, reason, ..Release::default() };
                return Ok(self.release(release).await?);
            }
            let moved = self.moved();
            if let Some(why) = too_many(&moved) {
                return Ok(self.quarantine(why).await?);
            }
            let first = self.first_version().await?;
            self.write_receipts(first.as_ref(), &mut receipts).await?;
            if new.input.is_none() {
                // A later run of this workflow computes the same id, so it stores the same item. An
                // earlier workflow of the key has other ids. If the ids were equal, the new input
                // under the key would not be safe: its reaper may still delete the item.
                let id = || digest_of(format!("{} {input}", self.run_id()).as_bytes());
                let until = self.until().for_end();
                let stored = self.context().store_input(&new.workflow, input.to_owned(), id, until);
                new.input = Some(stored.await?);
            }
            match self.write_versions(&new, &moved, first, note.clone()).await? {
                Wrote::Next(next) => {
                    metrics::count_workflow(metrics::WORKFLOWS_STARTED, &next.name);
                    self.report_ended(State::Continued);
                    self.report_not_reached(unreached);
                    let waiting = Waiting::enqueued(next.created, next.created);
                    return Ok(Ended::Continued(next.workflow.clone(), waiting));
                }
                Wrote::InUse => {
                    let version = new.key_version;
                    let why = format!(
                        "cannot continue: version {version} of the key is in use; cancel that workflow, or close this one"
                    );
                    return Ok(self.quarantine(why).await?);
                }
                Wrote::Nothing => self.read_events().await?,
            }
        }
        Err(Error::Contended { verb: VERB, tries: ROUNDS }.into())
    }

    /// Returns the next version, without its input and without the version that it continues.
    fn next_version(&self, input: &str) -> Result<NewWorkflow, StopKind> {
        let seen = self.header();
        let version = seen.key_version.saturating_add(1);
        let print = super::started_with(&seen.name, input).map_err(Error::from)?;
        Ok(NewWorkflow {
            workflow: name::partition(self.key(), version),
            name: seen.name.clone(),
            code: seen.code,
            key_version: version,
            owner: None,
            not_before: None,
            fingerprint: Some(print.stored(self.context().fingerprint_keys()).text),
            input: None,
            expected: seen.expected,
            retention: seen.retention,
            within: seen.within.clone(),
            opened: seen.opened.filter(|_| self.context().restored().is_some()),
            continues: None,
        })
    }

    /// Returns the events that the code has not read.
    fn moved(&self) -> Vec<Moved> {
        let moved = |seen: EventRecord| {
            let left = seen.on(&seen.revision, &EventAct::Move, self.context().stamp()).ok()?;
            Some(Moved { seen, left })
        };
        self.events().into_iter().filter_map(moved).collect()
    }

    /// Reads the header of the first version. `None`: this version is the first version.
    async fn first_version(&self) -> Result<Option<Header>, Error> {
        let Some(first) = self.header().continues else { return Ok(None) };
        let workflow = name::partition(self.key(), first);
        Box::pin(self.context().store().read_header(&workflow, self.until().for_end())).await
    }

    /// Writes the end of this version, the next version, and its number in the first version.
    async fn write_versions(
        &self,
        new: &NewWorkflow,
        moved: &[Moved],
        first: Option<Header>,
        note: Option<String>,
    ) -> Result<Wrote, StopKind> {
        let (context, store, until) = (self.context(), self.context().store(), self.until().for_end());
        let (seen, version) = (self.header(), new.key_version);
        let act = HeaderEvent::Driver {
            attempt: self.attempt().to_owned(),
            events: self.known_events(false),
            act: DriverAct::Continue { version, note },
        };
        let ended = match seen.on(&act, context.stamp()) {
            Ok(ended) => ended,
            Err(HeaderRefusal::Signalled) => return Ok(Wrote::Nothing),
            Err(_) => return Err(StopKind::Lost),
        };
        let continues = Continues {
            first: seen.continues.unwrap_or(seen.key_version),
            events: u32::try_from(moved.len()).unwrap_or(u32::MAX),
            follows_waits: self.follows_waits(),
        };
        let next = NewWorkflow { continues: Some(continues), ..new.clone() };
        let next = Header::started(next, context.stamp());
        let mut headers = vec![(Some(&seen), ended.clone()), (None, next.clone())];
        if let Some(first) = &first {
            // The first version exists: no operator can delete it, and the reaper keeps it while
            // the latest version exists.
            let named = first.on(&HeaderEvent::Followed { version }, context.stamp());
            headers.push((Some(first), named.map_err(|_| StopKind::Lost)?));
        }
        let records = moved.iter().flat_map(|Moved { seen, left }| {
            let received = seen.moved(&next.workflow, next.created, context.stamp());
            [Over::Event(Some(seen), left.clone()), Over::Event(None, received)]
        });
        let records: Vec<_> = records.collect();
        let Written::Refused { found, .. } =
            Box::pin(store.change_together(VERB, &records, &headers, None, until)).await?
        else {
            context.record_failed_runs(&ended, until).await;
            self.hold(ended);
            return Ok(Wrote::Next(Box::new(next)));
        };
        if self.refusal(found) == HeaderRefusal::Lost {
            return Err(StopKind::Lost);
        }
        // Another caller may have started the next version of the key. No further read of the
        // events would change that.
        let is_in_use = Box::pin(store.read_header(&next.workflow, until)).await?.is_some();
        Ok(if is_in_use { Wrote::InUse } else { Wrote::Nothing })
    }
}

/// The outcome of the transaction.
enum Wrote {
    /// All items were written: the next version has started.
    Next(Box<Header>),
    /// Nothing was written: the next version of the key exists.
    InUse,
    /// Nothing was written: an event came, or a record has changed.
    Nothing,
}

/// Returns the reason if these events cannot move to the next version.
fn too_many(moved: &[Moved]) -> Option<String> {
    let bytes: usize = moved.iter().map(|moved| moved.seen.bytes()).sum();
    let fit = moved.len() <= MOST_MOVED && bytes <= MOST_BYTES_MOVED;
    (!fit).then(|| {
        format!(
            "the code has not read {} events of {bytes} bytes; at most {MOST_MOVED} events of \
             {MOST_BYTES_MOVED} bytes move to the next version of the key",
            moved.len()
        )
    })
}
