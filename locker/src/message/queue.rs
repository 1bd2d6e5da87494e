//! The messages of one partition, as queues of one subject each.

use std::collections::{BTreeMap, VecDeque};

use crate::core::message::outgoing::Outgoing;

/// Messages of one subject, the oldest first.
pub(super) type Queue = VecDeque<Outgoing>;

/// One queue for each subject. `messages`: in the order of their sort keys.
pub(super) fn by_subject(messages: Vec<Outgoing>) -> Vec<Queue> {
    let mut queues: BTreeMap<String, Queue> = BTreeMap::new();
    for message in messages {
        queues.entry(message.subject.clone()).or_default().push_back(message);
    }
    queues.into_values().collect()
}
