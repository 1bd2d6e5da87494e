//! Workflows that continue under the next version of their key.
//!
//! Each version has a separate partition. The transaction that starts a version also writes its
//! number into the header of the first version. So a reader finds the latest version with one
//! additional read, for any number of versions.

use serde::Serialize;

use super::context::Context;
use super::driver::end::not_reached;
use super::flow::Flow;
use super::outcome::Waiting;
use super::outcome::ended::Ended;
use super::stop::{Stop, StopKind};
use crate::core::answer::{self, AnswerError, Body};
use crate::core::fingerprint::Fingerprint;
use crate::core::name;
use crate::core::private::Private;
use crate::core::workflow::ending::Release;
use crate::core::workflow::event::{EventAct, owes};
use crate::core::workflow::header::{
    Continues, DriverAct, Header, HeaderEvent, HeaderRefusal, NewWorkflow, Pause, State,
};
use crate::core::workflow::place::Place;
use crate::error::Error;
use crate::metrics;
use crate::store::{Guard, Over, Until, Written, beside_item};

const VERB: &str = "continue the workflow";

/// The largest input, in bytes, that is stored in the header. A larger input has a separate item,
/// which is written before the header.
const MOST_INLINE: usize = 400;
/// The most versions that one call, or one run of a completer, drives. Without a limit, code that
/// continues without a wait would occupy its driver without end.
pub(crate) const MOST_VERSIONS: u32 = 100;
/// The most times that events may come or other versions may start while a workflow continues.
const ROUNDS: u32 = 10;
/// The most events that move to the next version. A transaction takes 100 items, 2 for each event.
const MOST_MOVED: usize = 45;
/// The most bytes of their values. A transaction takes 4 MB, and each value twice.
const MOST_BYTES_MOVED: usize = 1536 * 1024;

impl Flow {
    /// Ends this version of the workflow's key, and starts the next version with this input.
    ///
    /// Return the stop: `Err(flow.continue_as_new(&input))`. Nothing happens before the code
    /// returns it.
    ///
    /// Each resume reads all records of the workflow. A loop that polls or waits for months
    /// therefore continues as a new version after some rounds, and starts without records. Put all
    /// state that the next version needs into the input.
    ///
    /// - The steps of this version are not compensated later, like the steps of a completed
    ///   workflow. A step that is at work or in doubt prevents the continuation, as it prevents a
    ///   completion.
    /// - The next version runs steps with the same names again. Their providers receive other
    ///   idempotency keys. A step with a [key of its own](super::Once::key) stays done.
    /// - Events that the code has not read move to the next version, without the
    ///   [`on_late`](super::Wait::on_late) of a wait in this version.
    /// - The next version does not contain the events that this version has read, nor its waits
    ///   that are over. **An event that is sent again after that is a new event**, and a late one
    ///   is accepted. Use another name in each version, such as `PAID.part(month)`: the next
    ///   version does not wait for the old name, and its end makes the event late.
    /// - `outcome`, `start` and `signal` use the latest version, if they are called without a key
    ///   version or with the first version.
    /// - One call, or one run of a completer, drives up to 100 versions. The next run continues.
    /// - The first version is kept until the latest version is deleted. The versions in between are
    ///   deleted after their retention.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use locker::workflow::{Flow, Stop};
    /// # async fn is_shipped(_parcel: &str) -> Result<bool, locker::Failure> { Ok(true) }
    /// async fn run(flow: &Flow, parcel: String) -> Result<(), Stop> {
    ///     for look in 0..48 {
    ///         if flow.step(("look", look)).run(async |_| is_shipped(&parcel).await).await? {
    ///             return Ok(());
    ///         }
    ///         flow.sleep(("pause", look), Duration::from_secs(30 * 60)).await?;
    ///     }
    ///     Err(flow.continue_as_new(&parcel))
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// The workflow is quarantined, and no version is started, in these cases:
    ///
    /// - The input is not of the type `Workflow::Input`, or is larger than 400 KB after
    ///   compression.
    /// - The next version of the key is already in use.
    /// - More than 45 events are unread, or unread events of more than 1.5 MB.
    ///
    /// # Crash window
    ///
    /// None: one transaction ends this version and starts the next one.
    ///
    /// # Cost
    ///
    /// - The first continuation: 1 transaction of 2 items. It costs 4 write units, and 4 for the
    ///   index.
    /// - Each later continuation: 1 more read of 1 unit, and 1 more item in the transaction.
    /// - Each event that moves to the next version: 2 more items.
    /// - An input of more than 400 bytes: 1 more request.
    /// - Each version is claimed like any workflow: 1 read, 1 write and 1 query.
    pub fn continue_as_new(&self, input: &impl Serialize) -> Stop {
        match answer::to_json(input) {
            Ok(json) => StopKind::Continue(Private(json)).into(),
            Err(error) => StopKind::Input { reason: format!("that of continue_as_new: {error}") }.into(),
        }
    }

    /// Ends this version, and starts the next version, which is due at once.
    pub(crate) async fn continue_with(&self, input: &str, unreached: &[String]) -> Result<Ended, StopKind> {
        let (context, until) = (self.context(), self.until().for_end());
        let seen = self.header();
        let first = seen.continues.unwrap_or(seen.key_version);
        let version = seen.key_version.saturating_add(1);
        let workflow = name::partition(self.key(), version);
        let input = input.to_owned();
        let print = started_with(&seen.name, &input).map_err(Error::from)?;
        let input = context.store_input(&workflow, input, until).await?;
        let new = NewWorkflow {
            workflow,
            name: seen.name.clone(),
            code: seen.code,
            key_version: version,
            owner: None,
            not_before: None,
            fingerprint: Some(print.stored(context.fingerprint_keys()).text),
            input: Some(input),
            expected: seen.expected,
            retention: seen.retention,
            within: seen.within.clone(),
            continues: Some(Continues { first, events: 0 }),
        };
        let note = not_reached(unreached);
        let (ended, next) = self.continue_as(&new, first, note).await?;
        let Some(next) = next else {
            context.drop_input(&new.workflow, new.input.as_ref(), until).await;
            return Ok(ended);
        };
        metrics::count_workflow(metrics::WORKFLOWS_STARTED, &next.name);
        self.report_ended(State::Continued);
        self.report_not_reached(unreached);
        Ok(ended)
    }

    /// Writes the end of this version and the next version. `None`: no version has started.
    async fn continue_as(
        &self,
        new: &NewWorkflow,
        first: u32,
        note: Option<String>,
    ) -> Result<(Ended, Option<Header>), StopKind> {
        let (context, until) = (self.context(), self.until().for_end());
        let (store, version) = (context.store(), new.key_version);
        // Senders may store events between the reads of this run and its end. The header counts
        // them, and refuses the write if this run has not read all of them.
        for _ in 0..ROUNDS {
            let seen = self.header();
            if owes(&self.events()) {
                let release =
                    Release { retry: Some(self.time()), pause: Pause::Elsewhere, ..Release::default() };
                let reason = "a late event is compensated before the workflow continues".to_owned();
                return Ok((self.release(Release { reason, ..release }).await?, None));
            }
            let left: Vec<_> = self
                .events()
                .into_iter()
                .filter_map(|event| {
                    let moved = event.on(&event.revision, &EventAct::Move, context.stamp()).ok()?;
                    Some((event, moved))
                })
                .collect();
            let bytes: usize = left.iter().map(|(event, _)| event.bytes()).sum();
            if left.len() > MOST_MOVED || bytes > MOST_BYTES_MOVED {
                let why = format!(
                    "the code has not read {} events of {bytes} bytes; at most {MOST_MOVED} events of \
                     {MOST_BYTES_MOVED} bytes move to the next version of the key",
                    left.len()
                );
                return Ok((self.quarantine(why).await?, None));
            }
            let act = HeaderEvent::Driver {
                attempt: self.attempt().to_owned(),
                events: self.known_events(false),
                act: DriverAct::Continue { version, note: note.clone() },
            };
            let ended = match seen.on(&act, context.stamp()) {
                Ok(ended) => ended,
                Err(HeaderRefusal::Signalled) => {
                    self.read_events().await?;
                    continue;
                }
                Err(_) => return Err(StopKind::Lost),
            };
            let events = u32::try_from(left.len()).unwrap_or(u32::MAX);
            let new = NewWorkflow { continues: Some(Continues { first, events }), ..new.clone() };
            let next = Header::started(new, context.stamp());
            let mut headers = vec![(Some(&seen), ended.clone()), (None, next.clone())];
            let first_header = match self.key_version() == first {
                true => None,
                false => {
                    let workflow = name::partition(self.key(), first);
                    Box::pin(store.read_header(&workflow, until)).await?
                }
            };
            let followed = HeaderEvent::Followed { version };
            // No act of an operator deletes the first version, and the reaper keeps it while a
            // later version exists.
            let named = first_header.as_ref().map(|seen| seen.on(&followed, context.stamp())).transpose();
            let Ok(named) = named else { return Err(StopKind::Lost) };
            headers.extend(first_header.as_ref().zip(named).map(|(seen, named)| (Some(seen), named)));
            let moved = left.iter().flat_map(|(event, given_up)| {
                let moved = event.moved(&next.workflow, next.created, context.stamp());
                [Over::Event(Some(event), given_up.clone()), Over::Event(None, moved)]
            });
            let records: Vec<_> = moved.collect();
            match Box::pin(store.change_together(VERB, &records, &headers, None, until)).await? {
                Written::Done => {
                    context.record_failed_runs(&ended, until).await;
                    self.hold(ended);
                    let waiting = Waiting::enqueued(next.created, next.created);
                    let ended = Ended::Continued(next.workflow.clone(), waiting);
                    return Ok((ended, Some(next)));
                }
                Written::Refused { found, .. } => {
                    if self.refusal(found) == HeaderRefusal::Lost {
                        return Err(StopKind::Lost);
                    }
                    if Box::pin(store.read_header(&next.workflow, until)).await?.is_some() {
                        let why = format!(
                            "cannot continue: version {version} of the key is in use; cancel that workflow, or close this one"
                        );
                        return Ok((self.quarantine(why).await?, None));
                    }
                    self.read_events().await?;
                }
            }
        }
        Err(Error::Contended { verb: VERB, tries: ROUNDS }.into())
    }
}

/// Returns the fingerprint of a start: of the name of the code, and the input as JSON.
pub(crate) fn started_with(name: &str, input: &str) -> Result<Fingerprint, AnswerError> {
    Ok(Fingerprint::of_json_text(&format!("[{},{input}]", answer::to_json(name)?)))
}

impl Context {
    /// Returns the latest version of the workflow with this header. `None`: it was deleted.
    pub(crate) async fn latest(&self, header: Header, until: Until) -> Result<Option<Header>, Error> {
        let mut header = header;
        // The workflow may continue between two reads.
        for _ in 0..ROUNDS {
            let Some(next) = header.continued_as else { return Ok(Some(header)) };
            // A version in between names only the next one. The first version names the latest one.
            let version = header.continues.unwrap_or(next);
            let workflow = name::partition(&header.key(), version);
            match Box::pin(self.store().read_header(&workflow, until)).await? {
                // The key of a first version that was deleted may be used again.
                Some(next) if header.continues.is_none() || next.created <= header.created => header = next,
                Some(_) | None => return Ok(None),
            }
        }
        Err(Error::Contended { verb: "find the latest version of the workflow", tries: ROUNDS })
    }

    /// Returns the input of a new workflow for its header. Stores a large input in an item first.
    pub(crate) async fn store_input(
        &self,
        workflow: &str,
        input: String,
        until: Until,
    ) -> Result<Body, Error> {
        let (encoded, inline) = answer::encode(input, MOST_INLINE, answer::MOST_BYTES)?;
        if inline {
            return Ok(Body::Inline(encoded));
        }
        let (codec, bytes, id) = (encoded.codec, encoded.bytes.len(), self.new_id());
        let item = || beside_item(workflow, &Place::Input(&id).to_string(), &encoded);
        Box::pin(self.store().put_item("store the input", &item, None, Guard::None, until)).await?;
        Ok(Body::Beside { codec, id, bytes })
    }

    /// Deletes an input that no header refers to.
    pub(crate) async fn drop_input(&self, workflow: &str, input: Option<&Body>, until: Until) {
        let Some(Body::Beside { id, .. }) = input else { return };
        let item = Place::Input(id).to_string();
        let dropped = self.store().delete_item("drop the input", workflow, &item, Guard::None, until);
        if let Err(error) = Box::pin(dropped).await {
            tracing::debug!(%error, "an unused input could not be deleted");
        }
    }
}
