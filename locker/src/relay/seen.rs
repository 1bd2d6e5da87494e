//! The partitions that a run has listed, and which of them it reads.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::kept::listed;
use super::partition::Sender;
use super::relay::RelayReport;
use crate::core::message::outlook::{Outlook, Stuck, Way};
use crate::store::Row;

/// Decides by the rows of the index. A partition is read only if a message in it can be sent, so a
/// target that is down, a dead message and a missing route cost no request but those of the list.
pub(super) struct Seen(Mutex<Listing>);

struct Listing {
    stuck: Stuck,
    /// For each partition that has or had its turn, how many rows of each target it has.
    partitions: HashMap<String, BTreeMap<usize, usize>>,
}

impl Seen {
    pub(super) fn new(stuck: Stuck) -> Self {
        Self(Mutex::new(Listing { stuck, partitions: HashMap::new() }))
    }

    fn listing(&self) -> MutexGuard<'_, Listing> {
        // No code panics while it holds it.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a row brings a partition that has not had its turn and can be worked on.
    pub(super) fn is_new(&self, row: &Row, sender: &Sender<'_>, counts: &mut RelayReport) -> bool {
        let topic = row.name.as_deref().unwrap_or_default();
        let target = sender.router.target_of(topic);
        let way = match target {
            None => Way::None,
            Some(target) if sender.batcher.is_down(target) => Way::Down,
            Some(_) => Way::Open,
        };
        let mut listing = self.listing();
        let Some(message) = listed(row) else { return false };
        match (listing.stuck.outlook(message, way), target) {
            (Outlook::Send, Some(target)) => {
                let is_new = !listing.partitions.contains_key(&row.key);
                *listing.partitions.entry(row.key.clone()).or_default().entry(target).or_default() += 1;
                return is_new;
            }
            (Outlook::NoRoute, _) => {
                *counts.unknown.entry(topic.to_owned()).or_default() += 1;
                listing.stuck.add(message);
            }
            (Outlook::Down, _) => counts.left_alone += 1,
            (Outlook::Blocked | Outlook::Send, _) => {}
        }
        false
    }

    /// Leaves a partition alone if the targets of all of its rows are down. Returns the number of
    /// its rows. A later row of it, with another target, brings it again.
    pub(super) fn leave(&self, partition: &str, sender: &Sender<'_>) -> Option<usize> {
        let mut listing = self.listing();
        let rows = listing.partitions.get(partition)?;
        let is_left = rows.keys().all(|target| sender.batcher.is_down(*target));
        is_left.then(|| listing.partitions.remove(partition).map_or(0, |rows| rows.values().sum()))
    }
}
