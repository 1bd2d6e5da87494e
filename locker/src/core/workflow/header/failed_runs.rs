//! The latest failures of a workflow's runs, each cause once.

use std::fmt;

use chrono::{DateTime, Utc};
use serde::Serialize;

use crate::core::alike::alike;
use crate::core::token::record::short_digest;
use crate::core::{cause, time};

/// Causes that are kept.
const MOST: u32 = 3;

/// Runs of a workflow that failed in a row for one cause.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct FailedRuns {
    /// When the first of them failed.
    #[serde(serialize_with = "time::serialize")]
    pub first: DateTime<Utc>,
    /// When the last of them failed.
    #[serde(serialize_with = "time::serialize")]
    pub last: DateTime<Utc>,
    /// Their number.
    pub runs: u32,
    /// The driver of the last of them.
    pub by: String,
    /// The cause of the last of them, on one line. Causes that differ only by ids and numbers are
    /// one cause.
    pub cause: String,
}

/// The cause of runs whose driver was lost.
const LOST: &str = "its driver did not come back";

/// The part of a workflow's failures that its header keeps.
///
/// Each write of the header is billed by its size. So the header keeps the count and a digest of
/// the latest cause, and each cause has a separate record. A run that fails writes the record after
/// the header, without a condition. Lost drivers stay in the header until a run fails of another
/// cause, so a run that takes over and succeeds writes no record.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Failures {
    latest: Option<LatestCause>,
    /// The records that the latest event added, with their places. They are not stored in the
    /// header.
    added: Vec<(u32, FailedRuns)>,
}

/// The cause of the latest run that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LatestCause {
    /// The number of causes so far.
    pub(crate) number: u32,
    /// Runs in a row that failed of it.
    pub(crate) runs: u32,
    /// When the first of them failed.
    pub(crate) first: DateTime<Utc>,
    /// A digest of the text that causes of this kind have in common.
    pub(crate) like: String,
    /// The last driver that was lost, and when, if this is the cause: it has no record.
    pub(crate) lost: Option<(DateTime<Utc>, String)>,
}

impl LatestCause {
    /// Reads the text that `Display` writes.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut parts = text.splitn(5, ' ');
        let at = |millis: &str| DateTime::from_timestamp_millis(millis.parse().ok()?);
        let (number, runs) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
        let (first, fourth) = (at(parts.next()?)?, parts.next()?);
        let (like, lost) = match parts.next() {
            None => (fourth.to_owned(), None),
            Some(by) => (digest(LOST), Some((at(fourth)?, by.to_owned()))),
        };
        Some(Self { number, runs, first, like, lost })
    }

    const fn place(&self) -> u32 {
        self.number % MOST
    }

    /// The runs whose driver was lost, if this is the cause.
    fn lost_runs(&self) -> Option<FailedRuns> {
        let (last, by) = self.lost.clone()?;
        Some(FailedRuns { first: self.first, last, runs: self.runs, by, cause: LOST.to_owned() })
    }
}

/// Short, since it is part of the header. The digest of lost drivers is the same for each.
impl fmt::Display for LatestCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { number, runs, first, like, lost } = self;
        write!(f, "{number} {runs} {} ", first.timestamp_millis())?;
        match lost {
            None => f.write_str(like),
            Some((last, by)) => write!(f, "{} {by}", last.timestamp_millis()),
        }
    }
}

/// A digest of the text that causes of this kind have in common.
fn digest(cause: &str) -> String {
    short_digest(&alike(cause))
}

impl Failures {
    pub(crate) const fn stored(latest: Option<LatestCause>) -> Self {
        Self { latest, added: Vec::new() }
    }

    pub(crate) const fn latest(&self) -> Option<&LatestCause> {
        self.latest.as_ref()
    }

    /// The records that the latest event added, with their places. A new cause replaces the oldest
    /// one.
    pub(crate) fn added(&self) -> &[(u32, FailedRuns)] {
        &self.added
    }

    /// The latest causes, the oldest first, from all records that were read.
    pub(crate) fn all(&self, mut read: Vec<FailedRuns>) -> Vec<FailedRuns> {
        read.sort_by_key(|failed| failed.first);
        read.extend(self.latest.as_ref().and_then(LatestCause::lost_runs));
        let most = usize::try_from(MOST).unwrap_or(usize::MAX);
        read.split_off(read.len().saturating_sub(most))
    }

    /// The places of all records that there may be.
    pub(crate) fn places(&self) -> impl Iterator<Item = u32> + use<> {
        let last = self.latest.as_ref().map_or(0, |latest| latest.number);
        (last.saturating_sub(MOST).saturating_add(1)..=last).map(|number| number % MOST)
    }

    /// Drops the records that an earlier event added.
    pub(super) fn settle(&mut self) {
        self.added.clear();
    }

    /// A run failed.
    pub(super) fn add(&mut self, by: &str, reason: &str, at: DateTime<Utc>) {
        let cause = cause::shortened(reason);
        let latest = self.count(&cause, at);
        let failed =
            FailedRuns { first: latest.first, last: at, runs: latest.runs, by: by.to_owned(), cause };
        self.added.push((latest.place(), failed));
        self.latest = Some(latest);
    }

    /// The driver of a run was lost.
    pub(super) fn lose(&mut self, by: &str, at: DateTime<Utc>) {
        let latest = self.count(LOST, at);
        self.latest = Some(LatestCause { lost: Some((at, by.to_owned())), ..latest });
    }

    /// One more run of this cause. A cause of another kind that has no record gets one.
    fn count(&mut self, cause: &str, at: DateTime<Utc>) -> LatestCause {
        let like = digest(cause);
        match self.latest.take() {
            None => LatestCause { number: 1, runs: 1, first: at, like, lost: None },
            Some(same) if same.like == like => {
                LatestCause { runs: same.runs.saturating_add(1), lost: None, ..same }
            }
            Some(other) => {
                self.added.extend(other.lost_runs().map(|lost| (other.place(), lost)));
                let number = other.number.saturating_add(1);
                LatestCause { number, runs: 1, first: at, like, lost: None }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_back(failures: &Failures) -> Option<LatestCause> {
        let stored = failures.latest().unwrap().to_string();
        let read = LatestCause::parse(&stored);
        assert_eq!(read.as_ref(), failures.latest(), "{stored}");
        read
    }

    #[test]
    fn lost_drivers_have_a_record_once_a_run_fails_of_another_cause() {
        let at = |second| DateTime::from_timestamp(second, 0).unwrap();
        let lost =
            FailedRuns { first: at(1), last: at(2), runs: 2, by: "b 2".to_owned(), cause: LOST.to_owned() };
        let mut failures = Failures::default();
        failures.lose("a", at(1));
        failures.lose("b 2", at(2));
        assert_eq!(failures.added(), []);
        assert_eq!(failures.all(Vec::new()), std::slice::from_ref(&lost));
        failures = Failures::stored(read_back(&failures));
        failures.add("c", "no route", at(3));
        let (cause, by) = ("no route".to_owned(), "c".to_owned());
        let failed = FailedRuns { first: at(3), last: at(3), runs: 1, by, cause };
        assert_eq!(failures.added(), [(1, lost.clone()), (2, failed.clone())]);
        assert_eq!(failures.all(vec![failed.clone(), lost.clone()]), [lost.clone(), failed.clone()]);
        // The three latest: the place of the oldest one is not used yet.
        failures.settle();
        assert_eq!(failures.added(), []);
        failures.lose("d", at(4));
        let all = failures.all(vec![lost, failed.clone(), failed]);
        assert_eq!((all.len(), all[2].by.as_str()), (3, "d"));
        // Code that fails with the same text is not a lost driver.
        failures.add("e", LOST, at(5));
        assert_eq!(failures.added().len(), 1);
        assert_eq!(failures.latest().expect("a cause").lost, None);
    }

    #[test]
    fn causes_that_are_alike_count_in_one_record() {
        let mut failures = Failures::default();
        let at = |second| DateTime::from_timestamp(second, 0).unwrap();
        let causes =
            ["no route", "HTTP 503 for order 7781", "HTTP 503 for order 9921", "no route", "\n x  y ", "z"];
        let mut written = Vec::new();
        for (second, cause) in (0..).zip(causes) {
            failures.settle();
            assert_eq!(failures.added(), []);
            failures.add(&format!("d{second}"), cause, at(second));
            let [(place, it)] = failures.added() else { panic!("{failures:?}") };
            written.push((*place, it.first, it.last, it.runs, it.by.clone(), it.cause.clone()));
            // The header of the next run has only this.
            failures = Failures::stored(read_back(&failures));
        }
        let record = |place, first, last, runs, cause: &str| {
            (place, at(first), at(last), runs, format!("d{last}"), cause.to_owned())
        };
        assert_eq!(
            written,
            [
                record(1, 0, 0, 1, "no route"),
                record(2, 1, 1, 1, "HTTP 503 for order 7781"),
                record(2, 1, 2, 2, "HTTP 503 for order 9921"),
                record(0, 3, 3, 1, "no route"),
                record(1, 4, 4, 1, "x y"),
                record(2, 5, 5, 1, "z"),
            ]
        );
        let places = |number| {
            let latest = failures.latest().cloned().map(|latest| LatestCause { number, ..latest });
            Failures::stored(latest).places().collect::<Vec<_>>()
        };
        assert_eq!([1, 2, 3, 4].map(places), [vec![1], vec![1, 2], vec![1, 2, 0], vec![2, 0, 1]]);
        assert_eq!(Failures::default().places().count(), 0);
    }

    #[test]
    fn latest_cause_in_another_form_is_none() {
        for text in ["", "7", "7 2", "7 2 x 0a", "x 2 0 0a", "7 2 0", "7 2 0 x by"] {
            assert_eq!(LatestCause::parse(text), None, "{text}");
        }
    }
}
