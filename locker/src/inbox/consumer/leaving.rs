//! A message that was handled leaves the table, and is remembered.

use std::time::Duration;

use super::Consumer;
use crate::core::message::letter::Letter;
use crate::core::message::receipt::{Kept, Receipt, heard_at};
use crate::core::time;
use crate::store::{Guard, receipt_item};
use crate::workflow::context::Context;
use crate::workflow::send::{Came, DoneWith, delete};

/// What is remembered of a message that was set aside and leaves the table now.
pub(crate) fn left_receipt(context: &Context, message: &Letter, window: Duration) -> Receipt {
    let at = heard_at(&message.at.workflow, message.identity());
    let kept = Kept::Each { expires: time::after(context.now(), window) };
    Receipt::of_received(at, context.new_id(), (&message.source, &message.id), message.created, kept)
}

impl Consumer {
    /// Delete a message that was handled, and remember it for the window from now on.
    pub(super) async fn leave(&self, message: &Letter) -> Came<()> {
        let left = delete(&self.context, message, DoneWith::Handled).await;
        if let Came::To(()) = left {
            self.remember(message).await;
        }
        left
    }

    /// After the deletion, so that a copy is known at any time: what is remembered has no end while
    /// the message is in the table.
    async fn remember(&self, message: &Letter) {
        let context = &self.context;
        let receipt = left_receipt(context, message, self.window);
        let (item, revision) = (|| receipt_item(&receipt), Some(receipt.revision.as_str()));
        let put = context.store().put_item(
            "remember the message",
            &item,
            revision,
            Guard::None,
            context.until(None),
        );
        if let Err(error) = Box::pin(put).await {
            tracing::warn!(message.id, %error, "a message that was handled is remembered without an end");
        }
    }
}
