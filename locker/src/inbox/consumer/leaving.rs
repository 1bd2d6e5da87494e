//! A message that was handled leaves the table, and is remembered.

use std::time::Duration;

use super::Consumer;
use crate::core::message::letter::Letter;
use crate::core::message::receipt::{Kept, Receipt, heard_at};
use crate::core::time;
use crate::inbox::Incoming;
use crate::store::{Guard, Written, receipt_item};
use crate::workflow::context::Context;

/// What became of a message that was handled.
pub(super) enum Left {
    /// It is deleted.
    Gone,
    /// It was changed or deleted while it was handled: it is another's.
    Passed,
    /// It could not be deleted, as far as is known.
    Failed,
}

/// What is remembered of a message that was set aside and leaves the table now.
pub(crate) fn left_receipt(context: &Context, message: &Letter, window: Duration) -> Receipt {
    // As it was when it was set aside: no event has an empty source.
    let source = Incoming::parse(&message.body).map(|event| event.source).unwrap_or_default();
    let at = heard_at(&message.at.workflow, message.identity());
    let kept = Kept::Each { expires: time::after(context.now(), window) };
    Receipt::of_set_aside(at, context.new_id(), (&source, &message.id), message.created, kept)
}

impl Consumer {
    /// Delete a message that was handled, and remember it for the window from now on.
    pub(super) async fn leave(&self, message: &Letter) -> Left {
        let (context, at) = (&self.context, &message.at);
        let guard = Guard::Revision(&message.revision);
        let until = context.until(None);
        let deleted = context.store().delete_item("delete the message", &at.workflow, &at.item, guard, until);
        match Box::pin(deleted).await {
            Ok(Written::Done) => {
                self.remember(message).await;
                Left::Gone
            }
            Ok(Written::Refused { .. }) => {
                tracing::warn!(
                    consumer = self.name,
                    message.id,
                    "a message was handled, and became another's meanwhile: it may be handled twice"
                );
                Left::Passed
            }
            Err(error) => {
                tracing::error!(
                    consumer = self.name,
                    message.id,
                    %error,
                    "a message was handled and is not known to be deleted: if it is still there, it is handled again"
                );
                Left::Failed
            }
        }
    }

    /// After the deletion, so that a copy is known at any time: what is remembered has no end while the message is in the table.
    async fn remember(&self, message: &Letter) {
        let context = &self.context;
        let receipt = left_receipt(context, message, self.window);
        let (item, revision) = (|| receipt_item(&receipt), Some(receipt.revision.as_str()));
        let put = context.store().put_item(
            "remember the message",
            item,
            revision,
            Guard::None,
            context.until(None),
        );
        if let Err(error) = Box::pin(put).await {
            tracing::warn!(message.id, %error, "a message that was handled is remembered without an end");
        }
    }
}
