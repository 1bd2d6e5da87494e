//! Lists messages for operators, and reads dead messages.

use chrono::{DateTime, Utc};

use crate::core::class::Class;
use crate::core::message::letter::{MessageState, consumer_of, due_of, items_of, work_of};
use crate::core::token::work::Work;
use crate::error::Error;
use crate::session::Session;
use crate::session::listing::{Entry, ListBuilder, Listed, WORKFLOWS_AND_MESSAGES};
use crate::store::Layout;
use crate::workflow::{Message, Workflows};

/// A message in a listing. The index is eventually consistent: read its workflow before you act on
/// it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct MessageSummary {
    /// The place of the message: its workflow, as
    /// [`Summary::workflow`](crate::workflow::Summary::workflow) names it, the outbox of its
    /// subject, or the dead letters of its consumer.
    pub workflow: String,
    /// Its name, by which [`Workflows::message`] reads it.
    pub work: Work,
    /// The consumer that received it. `None`: it is to be sent.
    pub consumer: Option<String>,
    /// Its topic; the type of an event that was received.
    pub topic: Option<String>,
    /// The time of its commit, or the time when it was dead-lettered.
    pub created: Option<DateTime<Utc>>,
    /// The time from which a relay or its consumer may process it. If it is dead: the time of its
    /// death.
    pub due: Option<DateTime<Utc>>,
    /// The relay that sends it, or the consumer that handles it.
    pub locked_by: Option<String>,
    /// How many times it was tried: see [`Message::attempts`](crate::workflow::Message::attempts).
    pub attempts: u32,
    /// The class of the failure, for a received message.
    pub class: Option<Class>,
    /// The reason why it was not sent or processed.
    pub cause: Option<String>,
    /// The note or reason of the last operator who acted on it.
    pub note: Option<String>,
}

impl Listed for MessageSummary {
    fn of(Entry(row): Entry) -> Self {
        Self {
            due: due_of(&row.due),
            work: work_of(&row.key, row.item.as_deref().unwrap_or_default()),
            consumer: consumer_of(&row.key).map(str::to_owned),
            workflow: row.key,
            topic: row.name,
            created: row.created,
            locked_by: row.locked_by,
            attempts: row.attempts.unwrap_or_default(),
            class: row.class.as_deref().and_then(Class::named),
            cause: row.cause,
            note: row.resolved_reason,
        }
    }
}

#[cfg(feature = "operator")]
impl MessageSummary {
    /// The summary of a message as it was read.
    pub(crate) fn of_message(message: &Message) -> Self {
        let stored = &message.stored;
        Self {
            workflow: stored.at.workflow.clone(),
            work: stored.work(),
            consumer: message.consumer().map(str::to_owned),
            topic: Some(stored.topic.clone()),
            created: Some(stored.created),
            due: Some(stored.next_due),
            locked_by: stored.locked_by.clone(),
            attempts: stored.attempts,
            class: stored.class,
            cause: stored.cause.clone(),
            note: stored.intervention.as_ref().map(|by| by.reason.clone()),
        }
    }
}

impl Workflows {
    /// Lists messages in this state from the index, which is eventually consistent, oldest due time
    /// first. Waiting messages are listed by the names of their consumers, then by due time.
    pub fn messages(&self, state: MessageState) -> ListBuilder<MessageSummary> {
        ListBuilder::new(
            Session::clone(self.context()),
            &Layout::WORKFLOWS,
            state.as_str(),
            WORKFLOWS_AND_MESSAGES,
        )
        .also(state.also())
    }

    /// Reads the messages of a workflow or of the outbox, strongly consistent, by its name in a
    /// [listing](Self::messages).
    ///
    /// # Errors
    ///
    /// [`Error::Record`] if a stored item cannot be read, [`Error::Denied`],
    /// [`Error::Unavailable`].
    ///
    /// # Cost
    ///
    /// 1 query for 50 messages, 1 read unit for each 4 KB.
    pub async fn messages_of(&self, listed: &str) -> Result<Vec<Message>, Error> {
        let (mut messages, mut from) = (Vec::new(), None);
        loop {
            let read = self.context().store().read_messages(listed, from, self.context().until(None));
            let (page, next) = Box::pin(read).await?;
            messages.extend(page.into_iter().map(|stored| Message { stored }));
            from = next;
            if from.is_none() {
                return Ok(messages);
            }
        }
    }

    /// Reads a message by its name, strongly consistent. `None`: it was sent, handled or discarded,
    /// or never was.
    ///
    /// # Errors
    ///
    /// [`Error::Record`] if it cannot be read, [`Error::Denied`], [`Error::Unavailable`].
    ///
    /// # Cost
    ///
    /// 1 request, 1 read unit for each 4 KB. 1 more of each if it is archived or does not exist.
    pub async fn message(&self, name: &Work) -> Result<Option<Message>, Error> {
        let Work::Message { of, place } = name else { return Ok(None) };
        for item in items_of(place).into_iter().flatten() {
            let read = self.context().store().read_message(of, &item, self.context().until(None));
            if let Some(stored) = Box::pin(read).await? {
                return Ok(Some(Message { stored }));
            }
        }
        Ok(None)
    }
}
