//! Inputs of workflows, in the header or in a separate item.

use super::context::Context;
use crate::core::answer::{self, Body};
use crate::core::workflow::place::Place;
use crate::error::Error;
use crate::store::{Guard, Until, beside_item};

/// The largest input, in bytes, that is stored in the header. A larger input has a separate item,
/// which is written before the header.
const MOST_INLINE: usize = 400;

impl Context {
    /// Returns the input of a new workflow for its header. Stores a large input in an item first.
    pub(crate) async fn store_input(
        &self,
        workflow: &str,
        input: String,
        id: impl FnOnce() -> String,
        until: Until,
    ) -> Result<Body, Error> {
        let (encoded, inline) = answer::encode(input, MOST_INLINE, answer::MOST_BYTES)?;
        if inline {
            return Ok(Body::Inline(encoded));
        }
        let (codec, bytes, id) = (encoded.codec, encoded.bytes.len(), id());
        let item = || beside_item(workflow, &Place::Input(&id).to_string(), &encoded);
        Box::pin(self.store().put_item("store the input", &item, None, Guard::None, until)).await?;
        Ok(Body::Beside { codec, id, bytes })
    }

    /// Deletes an input that no header refers to.
    pub(crate) async fn drop_input(&self, workflow: &str, input: Option<&Body>, until: Until) {
        let Some(Body::Beside { id, .. }) = input else { return };
        let item = Place::Input(id).to_string();
        let dropped = self.store().delete_item("drop the input", workflow, &item, Guard::None, until);
        if let Err(error) = Box::pin(dropped).await {
            tracing::debug!(%error, "an unused input could not be deleted");
        }
    }
}
