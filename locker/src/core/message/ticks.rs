//! An order of what one process makes within a millisecond.

use std::sync::{Mutex, PoisonError};

use chrono::{DateTime, Utc};

/// Times that never go back, with a number for each of the same millisecond.
#[derive(Debug, Default)]
pub(crate) struct Ticks(Mutex<Option<Tick>>);

/// When a message was made, and how many were made before it in that millisecond.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Tick {
    pub(crate) at: DateTime<Utc>,
    pub(crate) number: u32,
}

impl Ticks {
    /// Returns a tick that is greater than all before, even if the clock was set back. Otherwise a
    /// message that was made after that would sort before an earlier one, and be sent first.
    pub(crate) fn next(&self, now: DateTime<Utc>) -> Tick {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let next = match *last {
            Some(last) if last.at >= now => Tick { at: last.at, number: last.number.saturating_add(1) },
            _ => Tick { at: now, number: 0 },
        };
        *last = Some(next);
        next
    }
}

#[cfg(test)]
mod tests {
    use chrono::TimeDelta;

    use super::*;

    #[test]
    fn each_is_later_than_the_one_before_it() {
        let ticks = Ticks::default();
        let at = |millis| DateTime::UNIX_EPOCH + TimeDelta::milliseconds(millis);
        let made = [5, 5, 4, 6, 5].map(|millis| ticks.next(at(millis)));
        let expected = [(5, 0), (5, 1), (5, 2), (6, 0), (6, 1)];
        assert_eq!(made, expected.map(|(millis, number)| Tick { at: at(millis), number }));
        assert!(made.is_sorted());
    }
}
