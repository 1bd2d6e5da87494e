//! The messages of one partition, as queues of one subject each.

use std::collections::{BTreeMap, VecDeque};

use crate::core::message::letter::{Letter, MessageState};

/// Messages of one subject, the oldest first.
pub(crate) type Queue = VecDeque<Letter>;

/// The subjects, and the queue of each. `messages`: in the order of their sort keys. Archived ones hold nothing up.
pub(crate) fn by_subject(messages: Vec<Letter>) -> Vec<(String, Queue)> {
    let mut queues: BTreeMap<String, Queue> = BTreeMap::new();
    for message in messages.into_iter().filter(|message| message.state != MessageState::Archived) {
        queues.entry(message.subject.clone()).or_default().push_back(message);
    }
    queues.into_iter().collect()
}
