//! The fence around a driver: its writes of the header, and whether it still owns the workflow.

use crate::core::workflow::header::Header;
use crate::error::Error;
use crate::store::{Guard, Put, header_item, header_of};
use crate::workflow::flow::Flow;
use crate::workflow::stop::Stop;

/// Maximum attempts to write the header after an own write whose response was lost.
const ROUNDS: usize = 3;

/// Why a header was not written.
#[derive(Debug)]
pub(crate) enum Unwritten {
    /// Another driver has the workflow, or it has ended.
    Lost,
    Store(Error),
}

impl From<Error> for Unwritten {
    fn from(error: Error) -> Self {
        Self::Store(error)
    }
}

impl From<Unwritten> for Stop {
    fn from(unwritten: Unwritten) -> Self {
        match unwritten {
            Unwritten::Lost => Self::Lost,
            Unwritten::Store(error) => Self::Store(error),
        }
    }
}

impl Flow {
    /// Change the header, if this driver still owns the workflow.
    pub(crate) async fn change(
        &self,
        verb: &'static str,
        change: impl Fn(&mut Header),
    ) -> Result<(), Unwritten> {
        let mut header = self.lock_header().await;
        for _ in 0..ROUNDS {
            let mut next = header.clone();
            change(&mut next);
            next.revision = self.context().new_id();
            let item = header_item(&next, self.context().settings().shards);
            let store = self.context().store();
            // A write that ends a run is worth one attempt even past the deadline.
            let until = self.until().for_end();
            match Box::pin(store.put_item(verb, &item, Guard::Revision(&header.revision), until)).await? {
                Put::Done => {
                    *header = next;
                    return Ok(());
                }
                Put::Refused { item: None, .. } => return Err(Unwritten::Lost),
                Put::Refused { item: Some(item), .. } => {
                    let stored = header_of(&item).map_err(Error::from)?;
                    if stored.attempt != header.attempt {
                        return Err(Unwritten::Lost);
                    }
                    // An earlier write of our own whose response was lost. (One that released the workflow has
                    // another attempt.)
                    *header = stored;
                }
            }
        }
        Err(Unwritten::Lost)
    }

    /// Whether this driver still owns the workflow. Read after a start was written, so one side always sees the
    /// other: a takeover or a cancel writes the header first and reads the starts after that.
    pub(crate) async fn is_held(&self) -> Result<bool, Stop> {
        let stored = Box::pin(self.context().store().read_header(self.workflow(), self.until())).await?;
        Ok(stored.is_some_and(|stored| stored.attempt == self.attempt()))
    }
}
