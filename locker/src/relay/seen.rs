//! The partitions that a run has listed, and which of them it reads.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::kept::listed;
use super::partition::{Partition, Sender};
use super::relay::RelayReport;
use crate::core::message::letter::Letter;
use crate::core::message::outlook::{Outlook, Stuck, Way};
use crate::store::Row;

/// Decides by the rows of the index. A partition is read only if a message in it can be sent, so a
/// target that is down, a dead message and a missing route cost no request but those of the list.
pub(super) struct Seen(Mutex<Listing>);

struct Listing {
    stuck: Stuck,
    /// The partitions that have or had their turns.
    partitions: HashMap<String, Progress>,
}

/// The progress of a partition.
enum Progress {
    /// It has its turns. Its rows are counted after them, since a turn may send their messages.
    Open(BTreeMap<usize, Vec<Place>>),
    /// The rest of it was not read because the target of its subject is down.
    Down,
    /// It was read to its end, or up to a message that waits for another reason.
    Read,
}

/// The due messages of a run that were read, or whose target is down. Each message is counted once,
/// although a row of the index and a read of its partition may both contain it.
#[derive(Default)]
pub(super) struct Skipped {
    places: Mutex<HashSet<Place>>,
    hasher: RandomState,
}

/// The digest of the place of a message. It is short, because an outage may delay a million
/// messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Place(u64);

impl Skipped {
    fn place(&self, partition: &str, item: &str) -> Place {
        Place(self.hasher.hash_one((partition, item)))
    }

    /// Returns how many of these places are new.
    fn count_places(&self, places: impl IntoIterator<Item = Place>) -> usize {
        // No code panics while it holds it.
        let mut all = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        places.into_iter().filter(|place| all.insert(*place)).count()
    }

    /// Returns how many of these messages are not counted yet.
    pub(super) fn count<'a>(&self, messages: impl IntoIterator<Item = &'a Letter>) -> usize {
        self.count_places(self.places(messages))
    }

    pub(super) fn places<'a>(&self, messages: impl IntoIterator<Item = &'a Letter>) -> Vec<Place> {
        let place = |message: &Letter| self.place(&message.at.workflow, &message.at.item);
        messages.into_iter().map(place).collect()
    }

    /// Leaves these messages uncounted, unless they are counted already.
    pub(super) fn leave(&self, places: Vec<Place>) {
        self.count_places(places);
    }
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
        let place = sender.skipped.place(message.partition, message.item);
        let outlook = listing.stuck.outlook(message, way);
        match (outlook, target, listing.partitions.get_mut(&row.key)) {
            (Outlook::NoRoute, ..) => {
                *counts.unknown.entry(topic.to_owned()).or_default() += 1;
                listing.stuck.add(message);
            }
            (Outlook::Send | Outlook::Down, Some(target), Some(Progress::Open(rows))) => {
                rows.entry(target).or_default().push(place);
            }
            (Outlook::Send, Some(target), None) => {
                let rows = BTreeMap::from([(target, vec![place])]);
                listing.partitions.insert(row.key.clone(), Progress::Open(rows));
                return true;
            }
            (Outlook::Send | Outlook::Down, _, Some(Progress::Down)) | (Outlook::Down, _, None) => {
                counts.target_down += sender.skipped.count_places([place]);
            }
            _ => {}
        }
        false
    }

    /// Skips a partition if the targets of all of its rows are down. Returns how many of its rows
    /// were not counted yet. A later row with another target gives the partition another turn.
    pub(super) fn skip(&self, partition: &str, sender: &Sender<'_>) -> Option<usize> {
        let mut listing = self.listing();
        let Progress::Open(rows) = listing.partitions.get(partition)? else { return None };
        if !rows.keys().all(|target| sender.batcher.is_down(*target)) {
            return None;
        }
        let Progress::Open(rows) = listing.partitions.remove(partition)? else { return None };
        Some(sender.skipped.count_places(rows.into_values().flatten()))
    }

    /// Ends the turns of a partition. Returns how many of its messages were listed, but not read
    /// because the target of their subject is down.
    pub(super) fn end(&self, partition: &Partition, sender: &Sender<'_>) -> usize {
        let progress = if partition.is_down { Progress::Down } else { Progress::Read };
        match self.listing().partitions.insert(partition.workflow.clone(), progress) {
            Some(Progress::Open(rows)) if partition.is_down => {
                sender.skipped.count_places(rows.into_values().flatten())
            }
            _ => 0,
        }
    }
}
