//! The latest failures of a workflow's runs, each cause once.

use chrono::{DateTime, Utc};
use serde::Serialize;

use crate::core::alike::alike;
use crate::core::{cause, time};

/// Causes that a header keeps. It stays small, since each write of it is billed by its size.
const MOST: usize = 3;

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

/// The oldest first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Failures(Vec<FailedRuns>);

impl Failures {
    pub(crate) fn stored(all: Vec<FailedRuns>) -> Self {
        Self(all)
    }

    pub(crate) fn as_slice(&self) -> &[FailedRuns] {
        &self.0
    }

    pub(super) fn add(&mut self, by: &str, reason: &str, at: DateTime<Utc>) {
        let cause = cause::shortened(reason);
        if let Some(last) = self.0.last_mut().filter(|last| alike(&last.cause) == alike(&cause)) {
            last.runs = last.runs.saturating_add(1);
            (last.last, last.by, last.cause) = (at, by.to_owned(), cause);
            return;
        }
        if self.0.len() == MOST {
            self.0.remove(0);
        }
        self.0.push(FailedRuns { first: at, last: at, runs: 1, by: by.to_owned(), cause });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_causes_are_kept_each_once() {
        let mut failures = Failures::default();
        let at = |second| DateTime::from_timestamp(second, 0).unwrap();
        let causes =
            ["no route", "HTTP 503 for order 7781", "HTTP 503 for order 9921", "no route", "\n x  y ", "z"];
        for (second, cause) in (0..).zip(causes) {
            failures.add(&format!("d{second}"), cause, at(second));
        }
        let kept: Vec<_> = failures
            .as_slice()
            .iter()
            .map(|it| (it.first, it.last, it.runs, it.by.as_str(), it.cause.as_str()))
            .collect();
        assert_eq!(
            kept,
            [
                (at(3), at(3), 1, "d3", "no route"),
                (at(4), at(4), 1, "d4", "x y"),
                (at(5), at(5), 1, "d5", "z"),
            ]
        );
        let mut failures = Failures::default();
        failures.add("a", causes[1], at(1));
        failures.add("b", causes[2], at(9));
        let [both] = failures.as_slice() else { panic!("{failures:?}") };
        assert_eq!((both.first, both.last, both.runs, both.by.as_str()), (at(1), at(9), 2, "b"));
        assert!(both.cause.ends_with("9921"));
        assert_eq!(Failures::stored(vec![both.clone()]), failures);
    }
}
