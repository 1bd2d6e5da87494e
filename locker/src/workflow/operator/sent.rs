//! What a relay of a caller's own reports.

use super::message::Message;
use crate::core::workflow::step::RecordId;
use crate::error::Error;
use crate::store::{self, Written, message_of};
use crate::workflow::workflows::Workflows;

/// What became of a message that was [reported as sent](Workflows::sent).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
#[must_use = "a message that has changed stays, and may be sent again"]
pub enum SentReport {
    /// It is deleted.
    Deleted,
    /// It was not there any more. If there is a message in its place, it is another one.
    Gone,
    /// It has changed since it was read, such as by a relay that took it. It stays, and may be sent
    /// again: read it again, and report that one.
    Changed,
}

impl Workflows {
    /// Report a message as sent, which deletes it as it was read, for a relay of your own.
    /// Repeating the call is harmless, and so is a report that comes late: a message of the same
    /// place in a later workflow is another one.
    ///
    /// # Errors
    ///
    /// [`Error::Denied`], [`Error::Unavailable`], [`Error::Unknown`]: call it again.
    /// [`Error::Record`] if what is in its place cannot be read.
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
