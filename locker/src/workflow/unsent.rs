//! The messages of a run that are sent right after their commit, and their order.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::core::message::letter::{Letter, MessageState};
use crate::core::private::Private;

/// The messages of the workflow that this run knows. Earlier messages of a subject are sent before
/// a later message of it.
#[derive(Debug, Default)]
pub(crate) struct Unsent(Private<Mutex<Known>>);

#[derive(Debug, Default)]
struct Known {
    /// Messages that were or may be committed, and are not known to be sent: their places, in
    /// order, and their subjects.
    places: BTreeMap<String, String>,
    /// Committed messages that wait for an earlier message.
    ready: BTreeMap<String, Letter>,
}

impl Unsent {
    /// Of a workflow with these messages. Nothing waits for an archived one.
    pub(super) fn of(messages: &[Letter]) -> Self {
        let waits = |message: &&Letter| message.state != MessageState::Archived;
        let places = messages.iter().filter(waits).map(place_and_subject).collect();
        Self(Private(Mutex::new(Known { places, ready: BTreeMap::new() })))
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        // No code panics while it holds it.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds messages that may be committed from now on, even if no driver waits for the commit.
    pub(crate) fn expect(&self, messages: &[Letter]) {
        self.known().places.extend(messages.iter().map(place_and_subject));
    }

    /// Adds messages that are committed, to be sent as soon as no earlier one of their subject is
    /// left.
    pub(crate) fn queue(&self, messages: Vec<Letter>) {
        let ready = messages.into_iter().map(|message| (message.at.item.clone(), message));
        self.known().ready.extend(ready);
    }

    /// Removes a message that does not exist: it was not committed, or it was sent and deleted.
    pub(crate) fn remove(&self, message: &Letter) {
        self.known().places.remove(&message.at.item);
    }

    /// Takes the messages that may be sent now, in order. Each message is taken once.
    pub(crate) fn take_ready(&self) -> Vec<Letter> {
        let mut known = self.known();
        let Known { places, ready } = &mut *known;
        let mut taken = HashSet::new();
        // Steps commit side by side, so a later message of a subject may be ready while an earlier
        // one is still in its transaction. It waits: receivers see the messages of a subject in the
        // order of their places.
        for (place, message) in &*ready {
            let mut earlier = places.range(..place.clone());
            let waits = earlier.any(|(other, subject)| *subject == message.subject && !taken.contains(other));
            if !waits {
                taken.insert(place.clone());
            }
        }
        let (free, rest) = std::mem::take(ready).into_iter().partition(|(place, _)| taken.contains(place));
        *ready = rest;
        let free: BTreeMap<String, Letter> = free;
        free.into_values().collect()
    }
}

fn place_and_subject(message: &Letter) -> (String, String) {
    (message.at.item.clone(), message.subject.clone())
}
