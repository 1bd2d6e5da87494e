//! A processed message leaves the table, and is remembered.

use std::time::Duration;

use super::Consumer;
use crate::core::message::letter::Letter;
use crate::core::message::receipt::{Kept, Receipt, heard_at};
use crate::core::time;
use crate::store::{Guard, receipt_item};
use crate::workflow::context::Context;
use crate::workflow::send::{Came, DoneWith, delete};

/// Returns the receipt of a dead letter that leaves the table now.
pub(crate) fn left_receipt(context: &Context, message: &Letter, window: Duration) -> Receipt {
    let at = heard_at(&message.at.workflow, message.identity());
    let kept = Kept::Each { expires: time::after(context.now(), window) };
    Receipt::of_received(at, context.new_id(), (&message.source, &message.id), message.created, kept)
}

impl Consumer {
    /// Deletes a message that was processed, and remembers it for the window from now on.
    pub(super) async fn leave(&self, message: &Letter) -> Came<()> {
        let left = delete(&self.context, message, DoneWith::Handled).await;
        if let Came::To(()) = left {
            self.remember(message).await;
        }
        left
    }

    /// Limits the receipt to the window. The receipt has no end while the message is in the table,
    /// so this write follows the deletion: a copy is recognised at any time.
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
