//! Keeping a message in the table: dead for a cause, or queued after other messages of its group.

use std::borrow::Cow;

use chrono::{DateTime, Utc};
use serde_json::Value;

use super::Consumer;
use super::caught::Failed;
use crate::core::argument::InvalidArgument;
use crate::core::class::Class;
use crate::core::message::letter::{
    BodyAt, Letter, MessageState, Order, ReceivedLetter, partition_of_consumer,
};
use crate::core::message::receipt::{Identity, Kept, Receipt, heard_at};
use crate::core::restored;
use crate::error::Error;
use crate::inbox::error::ReceiveError;
use crate::inbox::{Delivery, Incoming};
use crate::metrics;
use crate::store::{Action, Written, message_item};

/// The largest message that an item contains, in bytes. An item has 400 KB at most, including notes
/// of operators.
const LARGEST: usize = 350 * 1024;
/// The most that is kept of the broker's data about a larger message, in bytes: an operator may
/// correct its body.
const SAID: usize = 64 * 1024;
/// The topic of a message that is not an event.
const UNREADABLE: &str = "unreadable";

/// The identity of a message, even of an unreadable one, and the place where it is kept.
pub(super) struct Heard {
    identity: String,
    partition: String,
    source: String,
    id: String,
    topic: String,
    trace: Option<String>,
    /// When its sender committed it.
    time: Option<DateTime<Utc>>,
    /// The data of its broker about it, without its body, as JSON. Without attributes, if they are
    /// too large.
    said: String,
    /// It does not fit into an item.
    pub(super) is_large: bool,
}

/// The messages that are kept in the place of a message.
pub(super) enum Place {
    /// No message waits or is dead.
    Free,
    /// The message itself, or its receipt.
    Duplicate,
    /// Other messages wait or are dead. `after`: the time of the newest.
    After { after: DateTime<Utc> },
    /// The message itself, whose body is still in its queue.
    InQueue(Box<Letter>),
}

impl Place {
    fn of_itself(letter: Letter) -> Self {
        if letter.is_in_queue() { Self::InQueue(Box::new(letter)) } else { Self::Duplicate }
    }
}

impl Heard {
    pub(super) fn identity(&self) -> &str {
        &self.identity
    }

    pub(super) const fn time(&self) -> Option<DateTime<Utc>> {
        self.time
    }

    /// Returns a message that can be kept, its body perhaps elsewhere. Refuses a message that could
    /// not be kept later, because it has no identity, or its names are too large.
    pub(super) fn of(delivery: &Delivery, consumer: &str) -> Result<Self, ReceiveError> {
        let mut said = serde_json::to_string(delivery).map_err(ReceiveError::later)?;
        let event = Incoming::parse(&delivery.body).ok();
        let of = match &event {
            Some(event) => event.identity(),
            None => Identity::of_delivery(&delivery.id).map_err(InvalidArgument::from),
        };
        let of = of.map_err(|error| ReceiveError::later(format!("it is not handled: {error}")))?;
        let (identity, source, id) = (of.digest(), of.source().to_owned(), of.id().to_owned());
        let (topic, trace, time) = event.map_or_else(
            || (UNREADABLE.to_owned(), None, None),
            |event| (event.kind, event.trace, event.time),
        );
        // The texts that its item and its receipt contain in addition to its body.
        let subject = delivery.group.as_deref().unwrap_or(&id);
        let names = [subject, &source, &id, &topic, trace.as_deref().unwrap_or_default()];
        let names: usize = names.into_iter().map(str::len).sum();
        let is_large = names + said.len() + delivery.body.len() > LARGEST;
        if is_large && said.len() > SAID {
            let bare = Delivery { attributes: Value::Null, body: String::new(), ..delivery.clone() };
            said = serde_json::to_string(&bare).map_err(ReceiveError::later)?;
        }
        let bytes = names + said.len();
        if bytes > LARGEST {
            return Err(ReceiveError::later(format!(
                "its names are too large to be kept, so it is not handled: {bytes} bytes of at most {LARGEST}"
            )));
        }
        let partition = partition_of_consumer(consumer, &order_of(delivery, &identity));
        Ok(Self { identity, partition, source, id, topic, trace, time, said, is_large })
    }
}

fn order_of<'a>(delivery: &'a Delivery, identity: &'a str) -> Order<'a> {
    delivery.group.as_deref().map_or(Order::None(identity), Order::Group)
}

impl Consumer {
    /// Returns the failure of a message of this time that a restored table may have forgotten.
    pub(super) fn held_by_restore(&self, time: Option<DateTime<Utc>>) -> Option<Failed> {
        let is_held = self.context.may_have_forgotten(time);
        is_held.then(|| Failed::at_once(Class::InDoubt, restored::cause(time)))
    }

    pub(super) async fn place(&self, heard: &Heard) -> Result<Place, Error> {
        let (context, partition) = (&self.context, &heard.partition);
        let (store, until) = (context.store(), || context.until(None));
        let newest = store.read_newest(partition, until()).await?;
        if !newest.has_any {
            return Ok(Place::Free);
        }
        let known = heard_at(partition, &heard.identity);
        if let Some(remembered) = store.remembers(&known, context.expired_at(context.now()), until()).await? {
            let Some(item) = remembered.letter else { return Ok(Place::Duplicate) };
            // If it is gone, it was handled or discarded.
            let letter = store.read_message(partition, &item, until()).await?;
            return Ok(letter.map_or(Place::Duplicate, Place::of_itself));
        }
        Ok(match newest.message {
            Some(message) if message.identity() == heard.identity => Place::of_itself(message),
            Some(message) => Place::After { after: message.created },
            None => Place::Free,
        })
    }

    /// Keeps a message, dead for this cause or queued after other messages. Returns whether it was
    /// new.
    pub(super) async fn keep(
        &self,
        delivery: &Delivery,
        heard: Heard,
        (body, body_at): (Cow<'_, str>, BodyAt),
        after: Option<DateTime<Utc>>,
        attempts: u32,
        dead: Option<(Class, String)>,
    ) -> Result<bool, ReceiveError> {
        let cause = dead.as_ref().map(|(_, cause)| format!("{cause}; ")).unwrap_or_default();
        let context = &self.context;
        let now = context.now();
        let at = heard_at(&heard.partition, &heard.identity);
        let letter = Letter::received(ReceivedLetter {
            consumer: &self.name,
            order: order_of(delivery, &heard.identity),
            identity: &heard.identity,
            id: &heard.id,
            source: &heard.source,
            revision: context.new_id(),
            topic: &heard.topic,
            body: &body,
            body_at,
            delivery: heard.said,
            trace: heard.trace.clone(),
            now,
            after,
            receives: attempts,
            dead,
        });
        let at_letter = letter.is_in_queue().then(|| letter.at.item.clone());
        let kept = Kept::Beside { window: self.window, letter: at_letter };
        let receipt = Receipt::of_received(at, context.new_id(), (&heard.source, &heard.id), now, kept);
        let item = message_item(&letter, context.settings().write_shards());
        let actions = [
            Action::Receive { receipt: Box::new(receipt), expired_at: context.expired_at(now) },
            Action::Put { item, absent: true },
        ];
        // Two deliveries of one message may fail at the same time. The condition on the receipt
        // keeps one dead letter, also after an operator has discarded the first.
        let token = context.new_id();
        let put = context.store().transact("keep the message", &actions, &token, context.until(None));
        let is_new = match Box::pin(put).await {
            Ok(done) => matches!(done, Written::Done),
            Err(error @ Error::Unknown { .. }) => {
                let what = "it is unknown whether it was kept, so it may be delivered again";
                return Err(ReceiveError::later(format!("{cause}{what}: {error}")));
            }
            Err(error) => {
                return Err(ReceiveError::later(format!("{cause}it could not be kept: {error}")));
            }
        };
        // Another delivery may have left the body in the queue, which must not delete it.
        if !is_new && heard.is_large {
            let what = "it was kept meanwhile, and its next delivery reads where its body is";
            return Err(ReceiveError::later(format!("{cause}{what}")));
        }
        if is_new && letter.state == MessageState::Dead {
            metrics::count_dead(&self.name);
            tracing::error!(
                consumer = self.name,
                message.id = letter.id,
                message.topic = letter.topic,
                message.cause = letter.cause,
                "a message is dead"
            );
        }
        Ok(is_new)
    }
}
