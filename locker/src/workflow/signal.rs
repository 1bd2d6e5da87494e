//! Events that senders give to workflows.

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
use crate::core::workflow::event::{Decision, Identity, Met, Signal as Given, Signalled};
use crate::error::Error;
use crate::metrics;
use crate::settings;
use crate::store::{Over, Until, Written};

const VERB: &str = "signal the workflow";

/// How often the workflow or the event may change while the event is stored.
const ROUNDS: u32 = 20;

impl Workflows {
    /// Gives an event to a workflow, whose code waits for it by
    /// [`Flow::wait_for`](super::Flow::wait_for).
    ///
    /// Nothing is sent until the signal is awaited. Check first that the event is from its sender.
    /// Give the sender's id of the event, if there is one ([`Signal::id`]): the same event may then
    /// be sent any number of times.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # use locker::{Error, workflow::{Event, Workflows}};
    /// const PAID: Event<u64> = Event::named("paid");
    ///
    /// # async fn webhook(workflows: &Workflows, order: u64, id: &str, cents: u64) -> Result<bool, Error> {
    /// let signalled = workflows.signal(("order", order), PAID, &cents).id(id).await?;
    /// // Otherwise the sender sends the event again.
    /// Ok(signalled.is_stored())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`], [`Error::Answer`] if the value cannot be stored or is not read back as
    /// `T`, [`Error::Record`], [`Error::Denied`], [`Error::Unavailable`], [`Error::Contended`]:
    /// nothing was written. [`Error::Unknown`]: signal again with the same id.
    ///
    /// # Cost
    ///
    /// 2 reads of 1 unit, and 1 transaction of 2 items: 4 write units, and 1 to 3 for the index. A
    /// duplicate costs the reads only. Another event under the name: 1 query more.
    ///
    /// # Crash window
    ///
    /// None: the event and its workflow are written in one transaction.
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

/// An event that is to be given to a workflow. See [`Workflows::signal`].
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
    /// Sets the id by which the sender knows the event: 1 to 256 bytes without control characters.
    ///
    /// Two events with ids are the same event if the ids are equal, whatever their values.
    /// Otherwise two events are the same if their values are equal as JSON: the order of members
    /// makes no difference.
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.id = Some(id.into());
        self
    }

    /// Sets the version of the workflow's key. Default: 1.
    pub const fn key_version(mut self, version: u32) -> Self {
        self.version = version;
        self
    }

    /// Send no more requests to DynamoDB after this time.
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
        // One attempt for all rounds of this call: a driver may change the event before the sender
        // finds out that its own write was applied.
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
        let store = self.store();
        // The items are read one after the other, and a driver may write each of them afterwards.
        // The transaction depends on the revision of each item, so it applies only if both still
        // are as they were read. Otherwise both are read and decided again.
        for _ in 0..ROUNDS {
            let header = match Box::pin(store.read_header(workflow, until)).await? {
                Some(header) => self.latest(header, until).await?,
                None => None,
            };
            let event = match &header {
                Some(header) => Box::pin(store.read_event(&header.workflow, &given.name, until)).await?,
                None => None,
            };
            let mut met = Met { header, event, surplus: None };
            let stamp = self.stamp();
            if matches!(given.decide(&met, stamp.clone()), Decision::ReadSurplus) {
                let workflow = met.header.as_ref().map_or(workflow, |header| &header.workflow);
                met.surplus = Some(Box::pin(store.read_surplus(workflow, Some(&given.name), until)).await?);
            }
            let (answer, event, header) = match given.decide(&met, stamp) {
                Decision::Answer(answer) => return Ok(answer),
                Decision::Write { answer, event, header } => (answer, event, header),
                Decision::ReadSurplus => continue,
            };
            let name = header.1.name.clone();
            given.answer = Some(answer);
            let (events, headers) = ([Over::Event(event.0, *event.1)], [(Some(header.0), *header.1)]);
            let written = store.change_together(VERB, &events, &headers, None, until);
            if matches!(Box::pin(written).await?, Written::Done) {
                metrics::count_event(&name, answer);
                return Ok(answer);
            }
        }
        Err(Error::Contended { verb: VERB, tries: ROUNDS })
    }
}
