//! Workflows that continue under the next version of their key.
//!
//! Each version has a separate partition. The transaction that starts a version also writes the
//! number of that version into the header of the first version. So a caller with the header of the
//! first version finds the latest version by one more read, for any number of versions.

mod next;
mod receipts;

use serde::Serialize;

use super::context::Context;
use super::flow::Flow;
use super::stop::{Stop, StopKind};
use crate::core::answer::{self, AnswerError};
use crate::core::fingerprint::Fingerprint;
use crate::core::name;
use crate::core::private::Private;
use crate::core::workflow::header::Header;
use crate::error::Error;
use crate::store::Until;

/// The most versions that one call, or one run of a completer, drives. Without this limit, code
/// that continues without a wait would occupy its driver forever.
pub(crate) const MOST_VERSIONS: u32 = 100;
/// The most attempts to write or to find the next version, while senders or drivers change records.
const ROUNDS: u32 = 10;
/// The most events that move to the next version. A transaction takes 100 items, and each event
/// that moves is 2 items.
const MOST_MOVED: usize = 45;
/// The most bytes of the values of these events. A transaction takes 4 MB, and contains each value
/// twice.
const MOST_BYTES_MOVED: usize = 1536 * 1024;

impl Flow {
    /// Ends this version of the workflow's key, and starts the next version with this input.
    ///
    /// Return the stop: `Err(flow.continue_as_new(&input))`. Nothing is written before the code
    /// returns the stop.
    ///
    /// Each resume reads all records of the workflow. A loop that polls or waits for months
    /// therefore continues as a new version after some rounds, and starts without records of steps.
    /// Put all state that the next version needs into the input.
    ///
    /// - The steps of this version are not compensated later, like the steps of a completed
    ///   workflow. A step that is at work or in doubt prevents the continuation, in the same way as
    ///   it prevents a completion.
    /// - The next version runs steps with the same names again. Their providers receive other
    ///   idempotency keys. A step with [its own key](super::Once::key) stays done.
    /// - Events that the code has not read move to the next version. An event keeps the
    ///   [`on_late`](super::Wait::on_late) of its wait until the code of the next version receives
    ///   it at its own wait.
    /// - An event with an [id](super::Signal::id) is recognised in each later version, so a
    ///   repeated signal is a duplicate. **An event without an id is a new event in each version.**
    /// - If the time of a wait with `on_late` has passed, an event of that name is also late in the
    ///   next versions, and its compensation runs once. A version that has reached its own wait for
    ///   the name receives the event instead. If the version of the late wait was deleted after its
    ///   retention, the latest version accepts the event.
    /// - If `outcome`, `start` and `signal` are called without a key version or with the first
    ///   version, they use the latest version.
    /// - One call, or one run of a completer, drives up to 100 versions. The next run continues.
    /// - The first version is kept until the latest version is deleted. The versions in between are
    ///   deleted after their retention.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use locker::workflow::{Flow, Stop};
    /// # async fn is_shipped(_parcel: &str) -> Result<bool, locker::Failure> { Ok(true) }
    /// async fn run(flow: &Flow, parcel: String) -> Result<(), Stop> {
    ///     for look in 0..48 {
    ///         if flow.step(("look", look)).run(async |_| is_shipped(&parcel).await).await? {
    ///             return Ok(());
    ///         }
    ///         flow.sleep(("pause", look), Duration::from_secs(30 * 60)).await?;
    ///     }
    ///     Err(flow.continue_as_new(&parcel))
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// The workflow is quarantined, and no version is started, in these cases:
    ///
    /// - The input is not of the type `Workflow::Input`, or is larger than 390 KB after
    ///   compression.
    /// - The next version of the key is already in use.
    /// - More than 45 events are unread, or unread events of more than 1.5 MB.
    ///
    /// # Crash window
    ///
    /// None: one transaction ends this version and starts the next version. If the driver crashes
    /// before the transaction, the input and the receipts of events may be stored. The next run
    /// uses them.
    ///
    /// # Cost
    ///
    /// - The first continuation: 1 transaction of 2 items. It costs 4 write units, and 4 for the
    ///   index.
    /// - Each later continuation: 1 more read of 1 unit, and 1 more item in the transaction.
    /// - Each event that moves to the next version: 2 more items.
    /// - Each event that arrived at this version: 1 write of 1 unit for its receipt.
    /// - If a wait of this or a former version declared `on_late`: 1 write of 1 unit for the
    ///   receipt of each wait of this version.
    /// - An input of more than 400 bytes: 1 more request.
    /// - Each version is claimed like any workflow: 1 read, 1 write and 1 query.
    pub fn continue_as_new(&self, input: &impl Serialize) -> Stop {
        match answer::to_json(input) {
            Ok(json) => StopKind::Continue(Private(json)).into(),
            Err(error) => StopKind::Input { reason: format!("that of continue_as_new: {error}") }.into(),
        }
    }
}

/// Returns the fingerprint of a start, computed from the name of the code and the input as JSON.
pub(crate) fn started_with(name: &str, input: &str) -> Result<Fingerprint, AnswerError> {
    Ok(Fingerprint::of_json_text(&format!("[{},{input}]", answer::to_json(name)?)))
}

impl Context {
    /// Returns the latest version of the workflow with this header. `None`: it was deleted.
    pub(crate) async fn latest(&self, header: Header, until: Until) -> Result<Option<Header>, Error> {
        let mut header = header;
        // The workflow may continue between two reads.
        for _ in 0..ROUNDS {
            let Some(next) = header.continued_as else { return Ok(Some(header)) };
            // A version in between names only the next version. The first version names the latest.
            let version = header.continues.unwrap_or(next);
            let workflow = name::partition(&header.key(), version);
            // The key of a version that was deleted may be used again.
            let is_its = |next: &Header| match header.continues {
                None => next.continues == Some(header.key_version),
                Some(_) => next.created <= header.created,
            };
            match Box::pin(self.store().read_header(&workflow, until)).await?.filter(is_its) {
                Some(next) => header = next,
                None => return Ok(None),
            }
        }
        Err(Error::Contended { verb: "find the latest version of the workflow", tries: ROUNDS })
    }
}
