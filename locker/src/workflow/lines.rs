//! Chooses the caller of this process that sends the messages of a subject.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::core::message::letter::Letter;
use crate::core::private::Private;

/// The partitions of which a caller sends messages, and the messages that other callers left to it.
#[derive(Debug, Default)]
pub(crate) struct Lines(Private<Mutex<HashMap<String, Vec<Letter>>>>);

/// The right to send the messages of a partition. If it is dropped early, the messages that were
/// left to it are left to the relay.
#[derive(Debug)]
pub(crate) struct Line {
    lines: Arc<Lines>,
    partition: String,
    has_ended: bool,
}

impl Lines {
    fn all(&self) -> MutexGuard<'_, HashMap<String, Vec<Letter>>> {
        // No code panics while it holds it.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds committed messages of one partition. `None`: another caller sends them.
    ///
    /// At any time one caller has the line, so no two callers send messages of one subject side by
    /// side, and none sends a message that another caller committed and is sending.
    pub(crate) fn join(self: &Arc<Self>, partition: &str, messages: Vec<Letter>) -> Option<Line> {
        let mut all = self.all();
        if let Some(waiting) = all.get_mut(partition) {
            waiting.extend(messages);
            return None;
        }
        all.insert(partition.to_owned(), messages);
        Some(Line { lines: Arc::clone(self), partition: partition.to_owned(), has_ended: false })
    }
}

impl Line {
    /// Takes the messages that were added since the last call, in the order of their places.
    ///
    /// `None`: there are none, and the line has ended. Both are one act, so no message is added in
    /// between.
    pub(crate) fn next(&mut self) -> Option<Vec<Letter>> {
        let mut all = self.lines.all();
        let added = take(all.get_mut(&self.partition));
        if added.is_empty() {
            all.remove(&self.partition);
            self.has_ended = true;
        }
        (!added.is_empty()).then_some(added)
    }

    /// Adds the messages that were added to the line since the last call. Returns whether there
    /// were any. In both cases the line continues.
    pub(crate) fn join_to(&mut self, messages: &mut Vec<Letter>) -> bool {
        let added = take(self.lines.all().get_mut(&self.partition));
        let has_any = !added.is_empty();
        messages.extend(added);
        sort(messages);
        has_any
    }
}

fn take(waiting: Option<&mut Vec<Letter>>) -> Vec<Letter> {
    let mut added = waiting.map(std::mem::take).unwrap_or_default();
    sort(&mut added);
    added
}

/// By place: the order of a subject.
fn sort(messages: &mut [Letter]) {
    messages.sort_by(|one, other| one.at.item.cmp(&other.at.item));
}

impl Drop for Line {
    fn drop(&mut self) {
        // Once it has ended, the partition may be another caller's.
        if !self.has_ended {
            self.lines.all().remove(&self.partition);
        }
    }
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;

    use super::*;
    use crate::core::message::letter::tests::content;
    use crate::core::message::letter::{Committed, Origin};
    use crate::core::message::ticks::Tick;

    fn message(number: u32) -> Letter {
        Letter::committed(Committed {
            origin: Origin::Outbox,
            place: 0,
            attempt: "a-1",
            revision: "r-1".to_owned(),
            content: &content(),
            now: DateTime::UNIX_EPOCH,
            tick: Tick { at: DateTime::UNIX_EPOCH, number },
        })
    }

    #[test]
    fn one_caller_sends_what_others_add() {
        let lines = Arc::new(Lines::default());
        let mut line = lines.join("a", vec![message(1)]).unwrap();
        assert_eq!(line.next(), Some(vec![message(1)]));
        assert!(lines.join("a", vec![message(3)]).is_none());
        assert!(lines.join("a", vec![message(2)]).is_none());
        assert!(lines.join("b", vec![message(4)]).is_some(), "another partition");
        let mut messages = line.next().unwrap();
        assert_eq!(messages, [message(2), message(3)], "in their order");
        assert!(!line.join_to(&mut messages));
        assert!(lines.join("a", vec![message(0)]).is_none());
        assert!(line.join_to(&mut messages));
        assert_eq!(messages, [message(0), message(2), message(3)]);
        assert_eq!(line.next(), None);
        let mut other = lines.join("a", vec![message(5)]).unwrap();
        drop(line);
        assert!(lines.join("a", vec![message(6)]).is_none(), "the line is the other caller's");
        assert_eq!(other.next(), Some(vec![message(5), message(6)]));
    }

    #[test]
    fn caller_that_stops_early_leaves_the_line() {
        let lines = Arc::new(Lines::default());
        let line = lines.join("a", vec![message(1)]).unwrap();
        assert!(lines.join("a", vec![message(2)]).is_none());
        drop(line);
        let mut line = lines.join("a", vec![message(3)]).unwrap();
        assert_eq!(line.next(), Some(vec![message(3)]), "the relay sends the others");
    }
}
