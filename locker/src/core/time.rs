//! Times as they are stored: RFC 3339, UTC, milliseconds, always the same width, so that the texts
//! sort in the order of time.

use std::time::Duration;

use chrono::{DateTime, SecondsFormat, SubsecRound, TimeDelta, Utc};

/// Truncates a time to the stored precision and range, so that a value in memory equals the one
/// read back.
pub(crate) fn stored(at: DateTime<Utc>) -> DateTime<Utc> {
    at.trunc_subsecs(3).clamp(EARLIEST, LATEST)
}

/// The text of a time. A time outside the years 0 to 9999 is written as the nearest time within
/// them: RFC 3339 has four digits for a year, and a longer text could neither be read back nor be
/// sorted.
pub(crate) fn to_text(at: DateTime<Utc>) -> String {
    stored(at).to_rfc3339_opts(SecondsFormat::Millis, true)
}

/// A time in JSON that others read.
#[cfg(any(feature = "workflow", feature = "operator"))]
pub(crate) fn serialize<S: serde::Serializer>(at: &DateTime<Utc>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&to_text(*at))
}

pub(crate) fn from_text(text: &str) -> Option<DateTime<Utc>> {
    DateTime::parse_from_rfc3339(text).ok().map(|at| at.with_timezone(&Utc))
}

/// The earliest time whose text has the stored width, 0000-01-01T00:00:00.000Z.
const EARLIEST: DateTime<Utc> = match DateTime::from_timestamp_millis(-62_167_219_200_000) {
    Some(earliest) => earliest,
    None => DateTime::UNIX_EPOCH,
};

/// The latest time whose text has the stored width, 9999-12-31T23:59:59.999Z.
const LATEST: DateTime<Utc> = match DateTime::from_timestamp_millis(253_402_300_799_999) {
    Some(latest) => latest,
    None => DateTime::UNIX_EPOCH,
};

/// A time plus a duration, at most the latest time that can be stored.
pub(crate) fn after(at: DateTime<Utc>, by: Duration) -> DateTime<Utc> {
    let later = TimeDelta::from_std(by).ok().and_then(|by| at.checked_add_signed(by));
    later.map_or(LATEST, |later| later.min(LATEST))
}

/// A time minus a duration, at least the earliest time that can be represented.
pub(crate) fn before(at: DateTime<Utc>, by: Duration) -> DateTime<Utc> {
    TimeDelta::from_std(by).ok().and_then(|by| at.checked_sub_signed(by)).unwrap_or(DateTime::<Utc>::MIN_UTC)
}

/// The duration from one time to a later one; zero if it is not later.
pub(crate) fn between(from: DateTime<Utc>, to: DateTime<Utc>) -> Duration {
    to.signed_duration_since(from).to_std().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_times_are_of_one_width_and_sort() {
        let early = DateTime::from_timestamp_millis(0).unwrap();
        let late = DateTime::from_timestamp_millis(1_795_259_349_120).unwrap();
        assert_eq!(to_text(early), "1970-01-01T00:00:00.000Z");
        assert_eq!(to_text(late), "2026-11-21T11:09:09.120Z");
        assert!(to_text(early) < to_text(late));
        assert_eq!(from_text(&to_text(late)), Some(late));
    }

    #[test]
    fn no_duration_leads_to_a_time_that_cannot_be_stored() {
        let now = DateTime::from_timestamp_millis(1_795_259_349_120).unwrap();
        assert_eq!(to_text(after(now, Duration::from_millis(3))), "2026-11-21T11:09:09.123Z");
        for by in [Duration::from_secs(9000 * 365 * 86_400), Duration::MAX] {
            let latest = after(now, by);
            assert_eq!(to_text(latest), "9999-12-31T23:59:59.999Z");
            assert_eq!(from_text(&to_text(latest)), Some(latest));
        }
    }

    #[test]
    fn time_without_a_readable_text_is_written_as_the_nearest_one() {
        for (at, text) in [
            (DateTime::<Utc>::MIN_UTC, "0000-01-01T00:00:00.000Z"),
            (EARLIEST - TimeDelta::milliseconds(1), "0000-01-01T00:00:00.000Z"),
            (EARLIEST, "0000-01-01T00:00:00.000Z"),
            (LATEST, "9999-12-31T23:59:59.999Z"),
            (LATEST + TimeDelta::milliseconds(1), "9999-12-31T23:59:59.999Z"),
            (DateTime::<Utc>::MAX_UTC, "9999-12-31T23:59:59.999Z"),
        ] {
            assert_eq!(to_text(at), text);
            assert_eq!(from_text(text), Some(stored(at)));
        }
    }

    #[test]
    fn other_writers_times_are_read_too() {
        let expected = DateTime::from_timestamp_millis(1_795_259_349_000);
        assert_eq!(from_text("2026-11-21T11:09:09Z"), expected);
        assert_eq!(from_text("2026-11-21T12:09:09+01:00"), expected);
        assert_eq!(from_text("yesterday"), None);
    }
    #[test]
    fn times_are_cut_to_milliseconds() {
        let at = DateTime::from_timestamp(1, 2_999_999).unwrap();
        assert_eq!(stored(at), DateTime::from_timestamp_millis(1002).unwrap());
    }

    #[test]
    fn time_before_the_earliest_is_the_earliest() {
        let at = DateTime::from_timestamp(10, 0).unwrap();
        assert_eq!(before(at, Duration::from_secs(3)), DateTime::from_timestamp(7, 0).unwrap());
        assert_eq!(before(at, Duration::MAX), DateTime::<Utc>::MIN_UTC);
    }

    #[test]
    fn duration_to_an_earlier_time_is_zero() {
        let [one, other] = [10, 13].map(|seconds| DateTime::from_timestamp(seconds, 0).unwrap());
        assert_eq!((between(one, other), between(other, one)), (Duration::from_secs(3), Duration::ZERO));
    }

    #[test]
    #[cfg(any(feature = "workflow", feature = "operator"))]
    fn time_in_json_is_its_text() {
        let json = serialize(&DateTime::UNIX_EPOCH, serde_json::value::Serializer).unwrap();
        assert_eq!(json, "1970-01-01T00:00:00.000Z");
    }
}
