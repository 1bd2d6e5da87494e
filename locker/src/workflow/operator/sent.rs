//! Reports of a caller's own relay.

use super::message::Message;
use crate::core::workflow::step::RecordId;
use crate::error::Error;
use crate::store::{self, Written, message_of};
use crate::workflow::workflows::Workflows;

/// The result of a [report](Workflows::sent) that a message was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
#[must_use = "a message that has changed stays, and may be sent again"]
pub enum SentReport {
    /// It is deleted.
    Deleted,
    /// It was already deleted. If there is a message in its place, it is a different message.
    Gone,
    /// It has changed since it was read, for example because a relay took it. It stays, and may be
    /// sent again: read it again, and report the new state.
    Changed,
}

impl Workflows {
    /// Reports a message as sent, for your own relay. Deletes the message if it is unchanged since
    /// it was read.
    ///
    /// A repeated call or a late report is harmless: a message in the same place in a later
    /// workflow is a different message.
    ///
    /// # Errors
    ///
    /// [`Error::Denied`], [`Error::Unavailable`], [`Error::Unknown`]: call it again.
    /// [`Error::Record`] if the item in its place cannot be read.
    ///
    /// # Cost
    ///
    /// 1 request and 1 write unit for each KB of the message.
    pub async fn sent(&self, message: &Message) -> Result<SentReport, Error> {
        let RecordId { workflow, item } = &message.stored.at;
        let guard = store::Guard::Revision(&message.stored.revision);
        let (context, verb) = (self.context(), "delete the message");
        let delete = context.store().delete_item(verb, workflow, item, guard, context.until(None));
        Ok(match Box::pin(delete).await? {
            Written::Done => SentReport::Deleted,
            Written::Refused { found: Some(item), .. } if message_of(&item)?.id == message.stored.id => {
                SentReport::Changed
            }
            Written::Refused { .. } => SentReport::Gone,
        })
    }
}
