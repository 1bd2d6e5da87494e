//! Times as they are typed.

use chrono::{DateTime, NaiveDate, NaiveDateTime, Utc};

/// Reads a day, or a time of RFC 3339; without a zone it is in UTC.
pub(crate) fn moment(text: &str) -> Result<DateTime<Utc>, String> {
    let zoned = DateTime::parse_from_rfc3339(text).ok().map(|at| at.with_timezone(&Utc));
    let day = || text.parse::<NaiveDate>().ok().map(|day| day.and_time(chrono::NaiveTime::MIN).and_utc());
    let time = || text.parse::<NaiveDateTime>().ok().map(|at| at.and_utc());
    let hint = "write it like 2026-11-01 or 2026-11-01T08:30:00Z";
    zoned.or_else(day).or_else(time).ok_or_else(|| format!("it is no time; {hint}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_a_time_and_a_zone() {
        for (text, at) in [
            ("2026-11-01", "2026-11-01T00:00:00+00:00"),
            ("2026-11-01T08:30:00", "2026-11-01T08:30:00+00:00"),
            ("2026-11-01T08:30:00Z", "2026-11-01T08:30:00+00:00"),
            ("2026-11-01T08:30:00.5+02:00", "2026-11-01T06:30:00.500+00:00"),
        ] {
            assert_eq!(moment(text).map(|at| at.to_rfc3339()), Ok(at.to_owned()));
        }
        for text in ["", "yesterday", "2026-13-01", "2026-11-01T25:00:00Z", "2h"] {
            assert!(moment(text).is_err(), "{text}");
        }
    }
}
