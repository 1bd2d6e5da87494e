//! What operators see of messages, and what they do about those that are dead.

use chrono::{DateTime, Utc};

use crate::core::message::event::{Mark, OutgoingAct, OutgoingEvent};
use crate::core::message::outgoing::{MessageState, Outgoing};
use crate::core::time;
use crate::core::token::resolution::Resolution;
use crate::core::workflow::audit::Deed;
use crate::error::Error;
use crate::listing::{Entry, ListBuilder, Listed};
use crate::operator::{Intervened, Operator};
use crate::session::Session;
use crate::store::{Action, Layout, Transacted, message_item, workflow_audit_item};
use crate::workflow::{Message, Workflows};

/// How many messages are listed where a caller does not say.
const LIMIT: usize = 100;

/// What a listing shows of a message. The index is eventually consistent: read its workflow before you act on it.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct MessageSummary {
    /// The workflow, as [`Summary::workflow`](crate::workflow::Summary::workflow) names it.
    pub workflow: String,
    /// Its topic.
    pub topic: Option<String>,
    /// When it was committed.
    pub created: Option<DateTime<Utc>>,
    /// Unsent: when a relay may take it. Dead: since when.
    pub due: Option<DateTime<Utc>>,
    /// The relay that sends it.
    pub locked_by: Option<String>,
    /// How many times a relay tried to send it.
    pub attempts: u32,
    /// Why it was not sent.
    pub cause: Option<String>,
}

impl Listed for MessageSummary {
    fn of(Entry(row): Entry) -> Self {
        Self {
            due: time::from_text(&row.due),
            workflow: row.key,
            topic: row.name,
            created: row.created,
            locked_by: row.locked_by,
            attempts: row.attempts.unwrap_or_default(),
            cause: row.cause,
        }
    }
}

impl Workflows {
    /// Lists messages in this state from the index, which is eventually consistent, oldest due time first.
    pub fn messages(&self, state: MessageState) -> ListBuilder<MessageSummary> {
        ListBuilder::new(Session::clone(self.context()), &Layout::WORKFLOWS, state.as_str(), LIMIT)
    }

    /// Read the messages of a workflow or of the outbox, strongly consistent, by its name in a [listing](Self::messages).
    ///
    /// # Errors
    ///
    /// [`Error::Record`] if a stored item cannot be read, [`Error::Denied`], [`Error::Unavailable`].
    ///
    /// # Cost
    ///
    /// 1 query, 1 read unit for each 4 KB.
    pub async fn messages_of(&self, listed: &str) -> Result<Vec<Message>, Error> {
        let read = self.context().store().read_messages(listed, self.context().until(None));
        Ok(Box::pin(read).await?.into_iter().map(|stored| Message { stored }).collect())
    }

    /// Have a dead message sent again, under the same id: a receiver that remembers ids takes it once. Those behind it
    /// follow.
    ///
    /// # Errors
    ///
    /// [`Error::Denied`], [`Error::Unavailable`]: nothing was written. [`Error::Unknown`]: read the workflow again.
    ///
    /// # Cost
    ///
    /// 1 transaction of the message and an audit record: 2 write units for each KB of either, and 4 for the index.
    pub async fn redrive(&self, seen: &Message, operator: &Operator) -> Result<Intervened, Error> {
        let context = self.context();
        let message = &seen.stored;
        let act = OutgoingAct::Redrive { by: operator.at(context.now()) };
        let event = OutgoingEvent { seen: message.revision.clone(), act };
        let mark = Mark { now: context.now(), revision: context.new_id() };
        let Ok(next) = message.on(&event, mark) else { return Ok(Intervened::NotPossible) };
        let item = message_item(&next, context.settings().shards);
        let put = Action::PutOver { item, seen: message.revision.clone() };
        self.act_on_message("redrive the message", message, put, Resolution::Redriven, operator).await
    }

    /// Delete a dead message, which is then never sent. Those behind it follow. The audit record stays.
    ///
    /// # Errors
    ///
    /// Same as [`redrive`](Self::redrive).
    ///
    /// # Cost
    ///
    /// The same.
    pub async fn discard(&self, seen: &Message, operator: &Operator) -> Result<Intervened, Error> {
        let message = &seen.stored;
        if message.state != MessageState::Dead {
            return Ok(Intervened::NotPossible);
        }
        let delete = Action::DeleteOver {
            workflow: message.at.workflow.clone(),
            item: message.at.item.clone(),
            seen: message.revision.clone(),
        };
        self.act_on_message("discard the message", message, delete, Resolution::Discarded, operator).await
    }

    async fn act_on_message(
        &self,
        verb: &'static str,
        message: &Outgoing,
        action: Action,
        resolution: Resolution,
        operator: &Operator,
    ) -> Result<Intervened, Error> {
        let context = self.context();
        let place = format!("message {} {}", message.topic, message.id);
        let deed = Deed::of_step(resolution, &place, None);
        let audit = self.audited(deed, (&message.at.workflow, None), operator.at(context.now()));
        let audit = Action::Put { item: workflow_audit_item(&audit), absent: true };
        let (token, until) = (context.new_id(), context.until(None));
        match Box::pin(context.store().transact(verb, &[action, audit], &token, until)).await? {
            Transacted::Done => Ok(Intervened::Done),
            Transacted::Refused { after_silence: false, .. } => Ok(Intervened::Changed),
            Transacted::Refused { .. } => Err(Error::Unknown {
                verb,
                tries: 2,
                source: "it changed after a request whose response was lost".into(),
            }),
        }
    }
}
