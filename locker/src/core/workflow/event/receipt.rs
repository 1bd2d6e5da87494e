//! Receipts of the events of former versions, for a workflow that has continued.
//!
//! Each version of a key has separate events. A sender may repeat an event after the version that
//! received it has ended. A sender may also send an event after the wait of a former version has
//! ended. So a version writes receipts of its events before it continues. All receipts of a
//! workflow are in the partition of the first version, which exists as long as the latest version
//! exists.

use chrono::{DateTime, Utc};
use sha2::{Digest as _, Sha256};

use super::{EventRecord, EventState, Identity};
use crate::core::workflow::header::Header;
use crate::core::workflow::place::Place;

/// A reference to the version that has an event or a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EventReceipt {
    pub(crate) version: u32,
    /// The start of that version. Distinguishes a later workflow under the same key version.
    pub(crate) run: DateTime<Utc>,
}

/// The facts about events of former versions on which a signal depends.
#[derive(Debug, Default)]
pub(crate) struct Former {
    /// Whether a former version has received this event.
    pub(crate) has_event: bool,
    /// The partition and the start of the first version, which has the receipts.
    pub(crate) first: Option<(String, DateTime<Utc>)>,
    /// The last version whose wait for this name declared a compensation: its header, and its event
    /// record of the name.
    pub(crate) last: Option<(Header, EventRecord)>,
}

impl Former {
    /// Returns whether the last wait for the name ended before its event came. An event that comes
    /// now belongs to that version, where it is late.
    pub(super) fn is_late(&self) -> bool {
        let event = self.last.as_ref().map(|(_, event)| event);
        event.is_some_and(|event| {
            event.has_compensation() && (event.state == EventState::Expired || event.cause.is_some())
        })
    }
}

/// Returns the part of a sort key that identifies an event: the digest of its id. If the event has
/// no id, the digest of the call that stored it.
///
/// The value does not identify an event across versions: the same amount is paid every month.
pub(super) fn digest(identity: &Identity, by: &str) -> String {
    let text = match &identity.id {
        Some(id) => format!("id {id}"),
        None => format!("call {by}"),
    };
    hex::encode(Sha256::digest(text))
}

/// Returns the sort keys of the receipts of an event. `started`: the start of the first version.
/// `of_waits`: whether a wait of this or a former version declared a compensation.
pub(crate) fn receipt_places(event: &EventRecord, started: DateTime<Utc>, of_waits: bool) -> Vec<String> {
    let Ok(Place::Event(name) | Place::Surplus { event: name, .. }) = event.id.place() else {
        return Vec::new();
    };
    let place = |digest: Option<&str>| Place::Receipt { started, event: name, digest }.to_string();
    let arrived = event.arrived.as_ref().map(|arrived| digest(&arrived.identity, &arrived.by));
    let of_event = arrived.map(|digest| place(Some(&digest)));
    let of_wait = (of_waits && event.wait.is_some()).then(|| place(None));
    of_event.into_iter().chain(of_wait).collect()
}
