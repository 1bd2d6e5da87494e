//! The values of `status` by which the index lists workflows and messages. The console names them
//! in every set of features.

#![cfg_attr(
    not(feature = "messages"),
    allow(dead_code, unreachable_pub, reason = "only workflows, messages and the console use all of it")
)]

use serde::{Deserialize, Serialize};

use super::shard;

/// The list of the index that contains a workflow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum List {
    /// Unfinished: a completer drives it once it is due.
    Unfinished,
    /// Unfinished, and without progress for
    /// [`Limits::failing_after`](crate::workflow::Limits::failing_after): its runs fail. A
    /// completer continues to drive it.
    Failing,
    /// Quarantined: it waits for an operator.
    Quarantine,
    /// Finished: the reaper deletes it once it is due.
    Finished,
}

/// Lists late events until they are handled.
pub(crate) const LATE: &str = "late";

impl List {
    /// The name of the list, as shown.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        self.base()
    }

    /// The value of `status`, without the shard suffix.
    pub(crate) const fn base(self) -> &'static str {
        match self {
            Self::Unfinished => "unfinished",
            Self::Failing => "failing",
            Self::Quarantine => "quarantine",
            Self::Finished => "finished",
        }
    }

    pub(crate) fn of_status(status: &str) -> Option<Self> {
        [Self::Unfinished, Self::Failing, Self::Quarantine, Self::Finished]
            .into_iter()
            .find(|listed| shard::is_of(status, listed.base()))
    }
}

/// The state of a message that is kept in the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum MessageState {
    /// It is to be sent.
    Unsent,
    /// It was received, and its consumer is to process it: an operator redrove it, or it waited for
    /// a dead message.
    Waiting,
    /// It is not sent or handled any more, and an operator has to act: its target or its consumer
    /// refused it, or it was tried for long enough.
    Dead,
    /// An operator archived it: nothing happens to it, and nothing waits for it.
    Archived,
}

/// Lists unsent messages that are not due half a minute after their commit: messages that were
/// tried, redriven or delayed.
const RETRYING: &str = "retrying";

impl MessageState {
    pub(crate) const ALL: [Self; 4] = [Self::Unsent, Self::Waiting, Self::Dead, Self::Archived];

    /// The name of the state, as stored and shown.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unsent => "unsent",
            Self::Waiting => "waiting",
            Self::Dead => "dead",
            Self::Archived => "archived",
        }
    }

    /// Further values of `status` of messages in this state, next to its name.
    pub(crate) const fn also(self) -> &'static [&'static str] {
        match self {
            Self::Unsent => &[RETRYING],
            Self::Waiting | Self::Dead | Self::Archived => &[],
        }
    }

    /// The value of `status` of a message. `is_retried`: its due time was changed.
    ///
    /// The list of the other unsent messages is therefore in the order of their commits, and its
    /// first message is the oldest one.
    pub(crate) const fn status(self, is_retried: bool) -> &'static str {
        match self {
            Self::Unsent if is_retried => RETRYING,
            state => state.as_str(),
        }
    }

    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_list_is_read_from_its_status_in_any_shard() {
        for (list, word) in [
            (List::Unfinished, "unfinished"),
            (List::Failing, "failing"),
            (List::Quarantine, "quarantine"),
            (List::Finished, "finished"),
        ] {
            assert_eq!((list.as_str(), list.base()), (word, word));
            assert_eq!(List::of_status(word), Some(list));
            assert_eq!(List::of_status(&format!("{word}_3")), Some(list));
        }
        assert_eq!(List::of_status("inProgress"), None);
    }

    #[test]
    fn each_state_of_a_message_is_read_from_its_word() {
        let words = MessageState::ALL.map(MessageState::as_str);
        assert_eq!(words, ["unsent", "waiting", "dead", "archived"]);
        assert_eq!(words.map(MessageState::named), MessageState::ALL.map(Some));
        assert_eq!(MessageState::named("sent"), None);
    }

    #[test]
    fn each_message_is_in_one_list_of_its_state() {
        for state in MessageState::ALL {
            for is_retried in [false, true] {
                let status = state.status(is_retried);
                assert!(status == state.as_str() || state.also().contains(&status), "{state:?}");
            }
        }
        assert_ne!(MessageState::Unsent.status(false), MessageState::Unsent.status(true));
    }
}
