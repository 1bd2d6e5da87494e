//! The fence around a driver: its writes of the header, and whether it still holds the workflow.

use super::flow::Flow;
use super::stop::Stop;
use crate::core::workflow::header::Header;
use crate::error::Error;
use crate::store::workflow::{Guard, Put, header_item, header_of};

/// How often a header is written again that changed by an own write that was believed lost.
const ROUNDS: usize = 3;

impl Flow {
    /// Write the header anew, if this drive still holds the workflow.
    pub(crate) async fn change(&self, verb: &'static str, change: impl Fn(&mut Header)) -> Result<(), Stop> {
        let mut header = self.lock_header().await;
        for _ in 0..ROUNDS {
            let mut next = header.clone();
            change(&mut next);
            next.revision = self.workflows().new_id();
            let item = header_item(&next, self.workflows().settings().shards);
            let store = self.workflows().store();
            // What ends a drive is worth one try even when time is up.
            let until = self.until().for_end();
            match Box::pin(store.put_item(verb, &item, Guard::Revision(&header.revision), until)).await? {
                Put::Done => {
                    *header = next;
                    return Ok(());
                }
                Put::Refused { item: None, .. } => return Err(Stop::Lost),
                Put::Refused { item: Some(item), .. } => {
                    let stored = header_of(&item).map_err(Error::from)?;
                    if stored.attempt != header.attempt {
                        return Err(Stop::Lost);
                    }
                    // An earlier write of ours, of which nothing was heard at the time. (One that let go of the
                    // workflow has another attempt.)
                    *header = stored;
                }
            }
        }
        Err(Stop::Lost)
    }

    /// Whether this drive still holds the workflow. After a start was written, this settles who sees whom: whoever
    /// takes over or cancels writes the header first and reads the starts then.
    pub(crate) async fn is_held(&self) -> Result<bool, Stop> {
        let stored = Box::pin(self.workflows().store().read_header(self.workflow(), self.until())).await?;
        Ok(stored.is_some_and(|stored| stored.attempt == self.attempt()))
    }
}
