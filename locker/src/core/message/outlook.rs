//! Decides from the index alone which due messages are worth a read of their partition.

use std::collections::HashMap;

use super::letter::{consumer_of, is_of_one_subject};

/// A message as the index shows it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Listed<'a> {
    pub(crate) partition: &'a str,
    /// The sort key. Messages of one subject are sent in this order.
    pub(crate) item: &'a str,
    pub(crate) subject: Option<&'a str>,
}

/// Whether a relay has a way to the target of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// No route fits its topic.
    None,
    /// Its target took none of the last messages of this run.
    Down,
    Open,
}

/// The next step for a due message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outlook {
    /// An earlier message of its subject cannot be sent, so this one waits.
    Blocked,
    NoRoute,
    Down,
    /// Read its partition and send.
    Send,
}

/// The first message of each subject that this run found and cannot send.
///
/// The index follows the table, so a message may be here that was redriven, archived or discarded a
/// moment ago. Then the later messages of its subject wait for the next run. A message that is
/// missing here costs a read of its partition, and nothing else.
#[derive(Debug, Default)]
pub(crate) struct Stuck(HashMap<(String, String), String>);

impl Stuck {
    /// Adds a message that is dead or has no route.
    pub(crate) fn add(&mut self, message: Listed<'_>) {
        // Consumers' messages are not a relay's.
        if let (None, Some(line)) = (consumer_of(message.partition), line_of(message)) {
            let first = self.0.entry(line).or_insert_with(|| message.item.to_owned());
            if message.item < first.as_str() {
                message.item.clone_into(first);
            }
        }
    }

    /// The next step for a due message.
    pub(crate) fn outlook(&self, message: Listed<'_>, way: Way) -> Outlook {
        let first = line_of(message).and_then(|line| self.0.get(&line));
        match way {
            Way::None => Outlook::NoRoute,
            _ if first.is_some_and(|first| first.as_str() < message.item) => Outlook::Blocked,
            Way::Down => Outlook::Down,
            Way::Open => Outlook::Send,
        }
    }
}

/// The messages that wait for each other. `None`: unknown.
fn line_of(message: Listed<'_>) -> Option<(String, String)> {
    let subject = if is_of_one_subject(message.partition) { "" } else { message.subject? };
    Some((message.partition.to_owned(), subject.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTBOX: &str = "locker outbox order/7";

    fn listed<'a>(partition: &'a str, item: &'a str, subject: Option<&'a str>) -> Listed<'a> {
        Listed { partition, item, subject }
    }

    #[test]
    fn later_messages_of_a_subject_wait_for_a_stuck_one() {
        let mut stuck = Stuck::default();
        stuck.add(listed(OUTBOX, "message/5", None));
        stuck.add(listed(OUTBOX, "message/3", None));
        stuck.add(listed(OUTBOX, "message/4", None));
        let outlook = |item| stuck.outlook(listed(OUTBOX, item, Some("order/7")), Way::Open);
        assert_eq!(outlook("message/2"), Outlook::Send);
        assert_eq!(outlook("message/3"), Outlook::Send, "the message itself was redriven");
        assert_eq!(outlook("message/4"), Outlook::Blocked, "the first one counts, in whichever order");
        assert_eq!(outlook("message/6"), Outlook::Blocked);
        let other = listed("locker outbox order/8", "message/6", None);
        assert_eq!(stuck.outlook(other, Way::Open), Outlook::Send);
    }

    #[test]
    fn subjects_of_a_workflow_do_not_wait_for_each_other() {
        let mut stuck = Stuck::default();
        stuck.add(listed("order/7", "message/3", Some("a")));
        stuck.add(listed("order/7", "message/1", None));
        stuck.add(listed("locker dead packer d1", "message/1", Some("a")));
        let outlook = |subject| stuck.outlook(listed("order/7", "message/4", subject), Way::Open);
        assert_eq!(outlook(Some("a")), Outlook::Blocked);
        assert_eq!(outlook(Some("b")), Outlook::Send);
        assert_eq!(outlook(None), Outlook::Send, "it is not known to wait");
    }

    #[test]
    fn message_without_a_way_is_not_read() {
        let mut stuck = Stuck::default();
        let outlook = |stuck: &Stuck, way| stuck.outlook(listed(OUTBOX, "message/4", None), way);
        assert_eq!(outlook(&stuck, Way::None), Outlook::NoRoute);
        assert_eq!(outlook(&stuck, Way::Down), Outlook::Down);
        stuck.add(listed(OUTBOX, "message/3", None));
        assert_eq!(outlook(&stuck, Way::None), Outlook::NoRoute, "it is counted");
        assert_eq!(outlook(&stuck, Way::Down), Outlook::Blocked);
    }
}
