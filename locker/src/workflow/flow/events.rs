//! The events of a workflow as a run knows them.

use std::collections::HashMap;
use std::sync::Mutex;

use super::{Flow, locked};
use crate::core::private::Private;
use crate::core::workflow::event::{EventRecord, EventState};
use crate::core::workflow::header::Events;
use crate::core::workflow::step::RecordId;
use crate::error::Error;

/// The events of the workflow that this run knows, by their items.
#[derive(Debug, Default)]
pub(super) struct Known(Private<Mutex<HashMap<String, EventRecord>>>);

impl Known {
    pub(super) fn of(events: Vec<EventRecord>) -> Self {
        Self(Private(Mutex::new(by_item(events))))
    }
}

fn by_item(events: Vec<EventRecord>) -> HashMap<String, EventRecord> {
    events.into_iter().map(|event| (event.id.item.clone(), event)).collect()
}

impl Flow {
    pub(crate) fn event(&self, id: &RecordId) -> Option<EventRecord> {
        locked(&self.inner.events.0).get(&id.item).cloned()
    }

    /// The events, in the order in which they arrived.
    pub(crate) fn events(&self) -> Vec<EventRecord> {
        let mut events: Vec<_> = locked(&self.inner.events.0).values().cloned().collect();
        events.sort_by_cached_key(|event| {
            (event.arrived.as_ref().map(|arrived| arrived.at), event.id.item.clone())
        });
        events
    }

    /// Remembers an event that this run has read or written.
    pub(crate) fn note_event(&self, event: EventRecord) {
        if !event.is_of(self.created()) {
            return;
        }
        let was_ended = matches!(event.state, EventState::Taken | EventState::Expired)
            && event.ended_by.as_deref() == Some(self.attempt());
        if was_ended {
            self.has_recorded();
        }
        locked(&self.inner.events.0).insert(event.id.item.clone(), event);
    }

    /// Replaces the known events by those just read.
    pub(crate) fn note_events(&self, mut events: Vec<EventRecord>) {
        events.retain(|event| event.is_of(self.created()));
        *locked(&self.inner.events.0) = by_item(events);
    }

    /// Reads the events again.
    pub(crate) async fn read_events(&self) -> Result<(), Error> {
        let until = self.until().for_end();
        self.note_events(Box::pin(self.context().store().read_events(self.workflow(), until)).await?);
        Ok(())
    }

    /// Returns the events that this run knows. `owed`: whether a compensation follows the end.
    pub(crate) fn known_events(&self, owed: bool) -> Events {
        let arrived = locked(&self.inner.events.0).values().filter(|event| event.arrived.is_some()).count();
        Events { known: u32::try_from(arrived).unwrap_or(u32::MAX), owed }
    }
}
