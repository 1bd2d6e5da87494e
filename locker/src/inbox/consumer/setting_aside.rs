//! Where messages are set aside, and what is there already.

use chrono::{DateTime, Utc};

use super::Consumer;
use super::receive::NotNow;
use crate::core::message::letter::{Letter, MessageState, Order, SetAside, partition_of_consumer};
use crate::core::message::receipt::digest_of;
use crate::error::Error;
use crate::failure::Class;
use crate::inbox::{Delivery, Incoming};
use crate::observe::metrics;

/// The largest message that is set aside, in bytes. An item has 400 KB at most.
const LARGEST: usize = 350 * 1024;
/// The topic of what is no event.
const UNREADABLE: &str = "unreadable";

/// What identifies a message, also one that cannot be read.
pub(super) struct Heard {
    identity: String,
    id: String,
    topic: String,
    trace: Option<String>,
}

/// What is kept of a group.
pub(super) enum Place {
    /// Nothing that waits or is dead.
    Free { after: Option<DateTime<Utc>> },
    /// This very message.
    Same,
    /// Others, the last of which was set aside then.
    Behind { after: DateTime<Utc> },
}

impl Heard {
    pub(super) fn of(delivery: &Delivery) -> Self {
        match Incoming::parse(&delivery.body) {
            Ok(event) => Self {
                identity: digest_of(&event.source, &event.id),
                id: event.id,
                topic: event.kind,
                trace: event.trace,
            },
            // No event has an empty source.
            Err(_) => Self {
                identity: digest_of("", &delivery.id),
                id: delivery.id.clone(),
                topic: UNREADABLE.to_owned(),
                trace: None,
            },
        }
    }
}

impl Consumer {
    pub(super) async fn place(&self, group: &str, heard: &Heard) -> Result<Place, Error> {
        let partition = partition_of_consumer(&self.name, &Order::Group(group));
        let store = self.context.store();
        let (mut newest, mut start) = (None, None);
        loop {
            let (messages, next) =
                store.read_newest_messages(&partition, start, self.context.until(None)).await?;
            let open: Vec<_> =
                messages.iter().filter(|message| message.state != MessageState::Archived).collect();
            newest = newest.or_else(|| messages.first().map(|message| message.created));
            if open.iter().any(|message| message.is(&heard.identity)) {
                return Ok(Place::Same);
            }
            if let (Some(after), false) = (newest, open.is_empty()) {
                return Ok(Place::Behind { after });
            }
            start = next;
            if start.is_none() {
                return Ok(Place::Free { after: newest });
            }
        }
    }

    /// Keep a message: dead for this cause, or behind others.
    pub(super) async fn keep(
        &self,
        delivery: &Delivery,
        heard: &Heard,
        after: Option<DateTime<Utc>>,
        dead: Option<(Class, String)>,
    ) -> Result<(), NotNow> {
        let cause = dead.as_ref().map(|(_, cause)| format!("{cause}; ")).unwrap_or_default();
        let said = serde_json::to_string(delivery).map_err(NotNow::because)?;
        if delivery.body.len() + said.len() > LARGEST {
            return Err(NotNow::because(format!("{cause}the message is too large to be set aside")));
        }
        let context = &self.context;
        let letter = Letter::set_aside(SetAside {
            consumer: &self.name,
            order: delivery.group.as_deref().map_or(Order::None(&heard.identity), Order::Group),
            identity: &heard.identity,
            id: &heard.id,
            revision: context.new_id(),
            topic: &heard.topic,
            body: &delivery.body,
            delivery: said,
            trace: heard.trace.clone(),
            now: context.now(),
            after,
            receives: delivery.receives,
            dead,
        });
        let put = context.store().put_new_message(&letter, context.until(None));
        let is_new = Box::pin(put)
            .await
            .map_err(|error| NotNow::because(format!("{cause}it could not be set aside: {}", error)))?;
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
        Ok(())
    }
}
