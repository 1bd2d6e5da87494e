//! The failures of a message that is in its queue, and when they are enough.

use chrono::{DateTime, Utc};

use crate::core::workflow::place::{Partition, Place};
use crate::core::workflow::step::RecordId;

/// The stored failures of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failures {
    pub(crate) at: RecordId,
    pub(crate) revision: String,
    pub(crate) count: u32,
    pub(crate) expires: DateTime<Utc>,
}

/// The place of the failures of the message with this identity.
pub(crate) fn failures_at(consumer: &str, identity: &str) -> RecordId {
    RecordId::at(&Partition::Inbox { consumer, digest: identity }.to_string(), Place::Failures)
}

/// Whether a transient failure is the last one, so that its message is dead.
///
/// An attempt counts if its handler returned a failure. The receives of a message do not count: a
/// queue receives messages that are not begun, since an earlier message of their group failed or
/// the time was over. If a process dies in its handler, nothing is written, so this receive and a
/// receive that was not begun look the same: only the queue's own dead-letter queue gives up such
/// a message, after its `maxReceiveCount`, and an import of it is in doubt.
pub(crate) const fn is_last(failures: u32, attempts: u32) -> bool {
    failures >= attempts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_counted_failures_are_enough() {
        for (failures, attempts, last) in
            [(1, 1, true), (1, 2, false), (9, 10, false), (10, 10, true), (11, 10, true)]
        {
            assert_eq!(is_last(failures, attempts), last, "{failures} of {attempts}");
        }
        let at = failures_at("packer", "0a1b");
        assert_eq!((at.workflow.as_str(), at.item.as_str()), ("locker inbox packer 0a1b", "failures"));
    }
}
