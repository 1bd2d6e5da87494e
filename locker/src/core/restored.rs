//! The rule for a table that was restored: it has forgotten every write after its snapshot.
//!
//! Until an operator opens the table, three rules hold for tokens, workflows and messages:
//!
//! 1. A request from before the end of the restore may have been processed, although nothing is
//!    stored for it. It is held for an operator.
//! 2. Work that a record from before the end of the restore shows as unfinished may have been
//!    finished. It is held for an operator.
//! 3. If an operator acts on a key after the end of the restore, rules 1 and 2 no longer hold for
//!    that key.

use std::time::Duration;

use chrono::{DateTime, Utc};

use super::time;
use super::token::record::{Record, TokenState};

/// Returns the cause of a token, workflow or message that is held by these rules.
pub(crate) fn cause(requested: Option<DateTime<Utc>>) -> String {
    let requested = requested.map_or_else(|| "at an unknown time".to_owned(), time::to_text);
    format!("the table was restored and may have forgotten this work, requested {requested}")
}

/// Returns the time of the request for a record: its start, or the operator's act that opened it.
pub(crate) fn requested(created: DateTime<Utc>, opened: Option<DateTime<Utc>>) -> DateTime<Utc> {
    opened.map_or(created, |opened| created.max(opened))
}

/// The end of a restore. Its table is closed for older requests.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Restored {
    /// The end of the restore by the slowest clock.
    end: DateTime<Utc>,
}

impl Restored {
    pub(crate) fn new(end: DateTime<Utc>, skew: Duration) -> Self {
        Self { end: time::after(end, skew) }
    }

    /// Returns whether a time is from before the end of the restore. A time that is unknown is.
    pub(crate) fn is_before(&self, at: Option<DateTime<Utc>>) -> bool {
        at.is_none_or(|at| at <= self.end)
    }

    /// Returns whether the work of a token in progress may have been finished.
    pub(crate) fn holds_unfinished(&self, record: &Record) -> bool {
        self.is_before(Some(record.created))
    }

    /// Returns when an operator opened the key of this released token. `None`: its release is from
    /// before the end of the restore.
    ///
    /// A token that was begun after the restore had a new request or an opened key. So its release
    /// does not close the key.
    pub(crate) fn opened(&self, released: &Record) -> Option<DateTime<Utc>> {
        let act = released.intervention.as_ref().map(|act| act.at);
        let latest = Some(requested(released.created, act));
        latest.filter(|_| released.state == TokenState::Released && !self.is_before(latest))
    }

    /// Returns when the key of this token in progress was opened, or its new request came. `None`:
    /// it was begun before the end of the restore.
    ///
    /// A probe may have allowed a takeover of work from before the restore. So a token that was
    /// taken over does not show that its key was opened.
    pub(crate) fn began(&self, working: &Record) -> Option<DateTime<Utc>> {
        let is_new = working.taken_over_from.is_none() && !self.holds_unfinished(working);
        is_new.then_some(working.created)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::token::record::Intervention;
    use crate::core::token::record::tests::{at, begun, by, ended_in};

    /// A restore that ended at 500, with a clock skew of 5 seconds.
    fn restored() -> Restored {
        Restored::new(at(500), Duration::from_secs(5))
    }

    #[test]
    fn time_is_old_up_to_the_end_and_the_skew() {
        for (requested, expected) in
            [(None, true), (Some(10), true), (Some(500), true), (Some(505), true), (Some(506), false)]
        {
            assert_eq!(restored().is_before(requested.map(at)), expected, "{requested:?}");
        }
    }

    #[test]
    fn only_a_release_after_the_restore_opens_a_key() {
        let released = |created, acted: Option<i64>| Record {
            created: at(created),
            intervention: acted.map(|acted| Intervention { at: at(acted), ..by("ann") }),
            ..ended_in(TokenState::Released)
        };
        for (created, acted, opened) in [
            (10, None, None),
            (10, Some(400), None),
            (10, Some(505), None),
            (10, Some(506), Some(506)),
            (505, None, None),
            (506, None, Some(506)),
            (506, Some(600), Some(600)),
        ] {
            let record = released(created, acted);
            assert_eq!(restored().opened(&record), opened.map(at), "{created} {acted:?}");
        }
        let completed = Record { state: TokenState::Completed, ..released(600, Some(600)) };
        assert_eq!(restored().opened(&completed), None);
    }

    #[test]
    fn only_a_first_attempt_after_the_restore_shows_an_open_key() {
        for (created, taken_over, began) in
            [(10, false, None), (505, false, None), (506, false, Some(506)), (506, true, None)]
        {
            let before = taken_over.then(|| "a-0".to_owned());
            let record = Record { created: at(created), taken_over_from: before, ..begun() };
            assert_eq!(restored().began(&record), began.map(at), "{created} {taken_over}");
        }
    }

    #[test]
    fn cause_contains_the_time_of_the_request() {
        assert!(cause(Some(at(10))).ends_with("this work, requested 1970-01-01T00:00:10.000Z"));
        assert!(cause(None).ends_with("requested at an unknown time"));
    }

    #[test]
    fn unfinished_work_is_held_if_it_began_before_the_end() {
        for (created, expected) in [(10, true), (505, true), (506, false)] {
            let record = Record { created: at(created), ..begun() };
            assert_eq!(restored().holds_unfinished(&record), expected, "{created}");
        }
    }
}
