//! Signals: senders give events to workflows.

use std::future::IntoFuture;
use std::pin::Pin;

use chrono::{DateTime, Utc};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::context::Context;
use super::event::Event;
use super::workflows::Workflows;
use crate::core::answer;
use crate::core::argument::{InvalidArgument, InvalidSetting};
use crate::core::key::{IntoKey, Key};
use crate::core::name;
use crate::core::private::Private;
use crate::core::workflow::event::{
    Decision, EventReceipt, EventRecord, Identity, Met, Read, Signal as Given, Signalled, receipt_places,
};
use crate::core::workflow::header::Header;
use crate::error::Error;
use crate::metrics;
use crate::settings;
use crate::store::{Over, Until, Written};

const VERB: &str = "signal the workflow";

/// The most attempts to store an event whose workflow or record changes in between.
const ROUNDS: u32 = 20;

impl Workflows {
    /// Gives an event to a workflow. Its code waits with [`Flow::wait_for`](super::Flow::wait_for).
    ///
    /// Authenticate the sender first, such as by the signature of the webhook. If the sender has an
    /// id for the event, pass it to [`Signal::id`]: a repeated signal is then harmless. Nothing is
    /// sent until the signal is awaited.
    ///
    /// The event may come before the code reaches its wait, but not before the workflow is started:
    /// see [`Signalled::NotStarted`].
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # use locker::{Error, workflow::{Event, Workflows}};
    /// const PAID: Event<u64> = Event::named("paid");
    ///
    /// # async fn webhook(workflows: &Workflows, order: u64, id: &str, cents: u64) -> Result<bool, Error> {
    /// let signalled = workflows.signal(("order", order), PAID, &cents).id(id).await?;
    /// // `false`: answer with an error, so that the sender sends the event again.
    /// Ok(signalled.is_stored())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Nothing was written:
    ///
    /// - [`Error::Invalid`]: the key, the version, the name or the id of the event is invalid.
    /// - [`Error::Answer`]: the value cannot be stored, or cannot be read back as `T`.
    /// - [`Error::Record`], [`Error::Denied`].
    /// - [`Error::Unavailable`], [`Error::Contended`], [`Error::Expired`]: signal again.
    ///
    /// [`Error::Unknown`]: the event may be stored. Signal again with the same id and value.
    ///
    /// # Cost
    ///
    /// 2 reads of 1 unit, and 1 transaction of 2 items: 4 write units for a value up to 1 KB, and 1
    /// to 3 for the index. A duplicate costs only the reads. Another event under the name costs 1
    /// more query.
    ///
    /// If the workflow has continued as a new version: 1 more read, and 1 more if the event has an
    /// id. If a wait of a former version declared `on_late`: 1 more read, and 2 more if a former
    /// version has waited for this name.
    ///
    /// # Crash window
    ///
    /// None: one transaction writes the event and the header of the workflow.
    pub fn signal<T>(&self, key: impl IntoKey, event: Event<T>, value: &T) -> Signal
    where
        T: Serialize + DeserializeOwned,
    {
        Signal {
            context: self.context().clone(),
            key: key.into_key(),
            version: 1,
            event: event.name().to_owned(),
            value: Private(answer::to_json_and_back(value).map(|(json, _)| json).map_err(Error::from)),
            id: None,
            deadline: None,
        }
    }
}

/// A request that gives an event to a workflow. See [`Workflows::signal`].
#[derive(Debug)]
#[must_use = "nothing is sent until it is awaited"]
pub struct Signal {
    context: Context,
    key: Result<Key, InvalidArgument>,
    version: u32,
    event: String,
    /// JSON.
    value: Private<Result<String, Error>>,
    id: Option<String>,
    deadline: Option<DateTime<Utc>>,
}

impl Signal {
    /// Sets the id of the event at its sender: 1 to 256 bytes without control characters.
    ///
    /// Two events with ids are the same event if their ids are equal, even if their values differ.
    /// If one of two events has no id, they are the same event if their values are equal as JSON,
    /// in any order of members. So without ids, a second payment of the same amount is a duplicate.
    ///
    /// If the workflow has [continued](super::Flow::continue_as_new) as a new version, an event of
    /// an earlier version is recognised only by its id.
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.id = Some(id.into());
        self
    }

    /// Sets the version of the workflow's key. Default: 1.
    ///
    /// If this version has [continued](super::Flow::continue_as_new), the latest version receives
    /// the event.
    pub const fn key_version(mut self, version: u32) -> Self {
        self.version = version;
        self
    }

    /// Sets the time after which no more requests are sent to DynamoDB.
    pub fn deadline(mut self, deadline: impl Into<DateTime<Utc>>) -> Self {
        self.deadline = Some(deadline.into());
        self
    }

    async fn send(self) -> Result<Signalled, Error> {
        let Self { context, key, version, event, value, id, deadline } = self;
        let key = key?;
        name::check(&event).map_err(InvalidSetting::EventName)?;
        if version == 0 {
            return Err(InvalidSetting::KeyVersion.into());
        }
        if let Some(id) = &id {
            settings::check_event_id(id)?;
        }
        context.check_deadline(VERB, deadline)?;
        let value = answer::encode_for_item(value.0?)?;
        // All rounds of this call use one attempt id, so the call recognises its own event after a
        // lost reply, even if a driver has changed the record since.
        let given =
            Given { name: event, identity: Identity { id, value }, by: context.new_id(), answer: None };
        let workflow = name::partition(&key, version);
        context.signal(&workflow, given, context.until(deadline)).await
    }
}

impl IntoFuture for Signal {
    type Output = Result<Signalled, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.send())
    }
}

impl Context {
    /// Stores the event and counts it in its workflow, in one transaction.
    async fn signal(&self, workflow: &str, mut given: Given, until: Until) -> Result<Signalled, Error> {
        // The items are read one after the other, and a driver may write any of them in between.
        // The transaction is conditional on the revisions of the header and the event. If the
        // header or the event has changed, this call reads all items again and decides again.
        for _ in 0..ROUNDS {
            let met = Box::pin(self.meet(workflow, &given, until)).await?;
            let (answer, event, header) = match given.decide(&met, self.stamp()) {
                Decision::Answer(answer) => return Ok(answer),
                Decision::Write { answer, event, header } => (answer, event, header),
                Decision::Read(_) => continue,
            };
            let name = header.1.name.clone();
            given.answer = Some(answer);
            let receipts = late_receipts(&met, header.0, &event.1);
            let event = Over::Event(event.0, *event.1);
            let (records, headers) =
                (std::iter::once(event).chain(receipts).collect::<Vec<_>>(), [(Some(header.0), *header.1)]);
            let written = self.store().change_together(VERB, &records, &headers, None, until);
            if matches!(Box::pin(written).await?, Written::Done) {
                metrics::count_event(&name, answer);
                return Ok(answer);
            }
        }
        Err(Error::Contended { verb: VERB, tries: ROUNDS })
    }

    /// Reads all items that the decision depends on.
    async fn meet(&self, workflow: &str, given: &Given, until: Until) -> Result<Met, Error> {
        let store = self.store();
        let first = Box::pin(store.read_header(workflow, until)).await?;
        let header = match &first {
            Some(header) => self.latest(header.clone(), until).await?,
            None => None,
        };
        let event = match &header {
            Some(header) => Box::pin(store.read_event(&header.workflow, &given.name, until)).await?,
            None => None,
        };
        let mut met = Met { header, event, surplus: None, former: None };
        loop {
            let Decision::Read(read) = given.decide(&met, self.stamp()) else { return Ok(met) };
            match (read, &met.header) {
                (Read::Surplus, Some(header)) => {
                    let surplus = store.read_surplus(&header.workflow, Some(&given.name), until);
                    met.surplus = Some(Box::pin(surplus).await?);
                }
                (Read::Former, Some(latest)) => {
                    met.former = Some(self.former(latest, first.as_ref(), given, until).await?);
                }
                (Read::Nothing, _) => met = met.into_former(),
                (_, None) => return Ok(met),
            }
        }
    }
}

/// Returns the receipts of an event that is stored as late in a former version.
///
/// That version has already written the receipts of its other events and of its waits. The receipt
/// of a wait must not be written again: a later version may have replaced it.
fn late_receipts<'a>(met: &'a Met, header: &Header, event: &EventRecord) -> Vec<Over<'a>> {
    let first = met.former.as_ref().and_then(|former| former.first.as_ref());
    let Some((first, started)) = first.filter(|_| header.continued_as.is_some()) else { return Vec::new() };
    let receipt = EventReceipt { version: header.key_version, run: header.created };
    let places = receipt_places(event, *started, false).into_iter();
    places.map(|place| Over::Receipt { first, place, receipt }).collect()
}
