//! Times as they are shown.

use std::time::Duration;

use chrono::{DateTime, SecondsFormat, Utc};
use locker::{Clock as _, SystemClock};

pub(crate) fn now() -> DateTime<Utc> {
    SystemClock.now()
}

pub(crate) fn time(at: DateTime<Utc>) -> String {
    at.to_rfc3339_opts(SecondsFormat::Millis, true)
}

/// A time relative to now: `3m 20s ago`, `in 40s`.
pub(crate) fn relative(at: DateTime<Utc>, now: DateTime<Utc>) -> String {
    let apart = |from: DateTime<Utc>, to: DateTime<Utc>| (to - from).to_std().unwrap_or_default();
    if at <= now { format!("{} ago", rough(apart(at, now))) } else { format!("in {}", rough(apart(now, at))) }
}

/// A duration to its two largest units: `3m 20s`, `29d 23h`.
pub(crate) fn rough(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let units =
        [(seconds / 86_400, 'd'), (seconds / 3600 % 24, 'h'), (seconds / 60 % 60, 'm'), (seconds % 60, 's')];
    let largest = units.iter().position(|(count, _)| *count > 0).unwrap_or(units.len() - 1);
    let said = units.iter().skip(largest).take(2).enumerate();
    let said = said.filter(|(number, (count, _))| *number == 0 || *count > 0);
    said.map(|(_, (count, unit))| format!("{count}{unit}")).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_has_two_units_at_most() {
        let cases = [
            (0, "0s"),
            (59, "59s"),
            (60, "1m"),
            (200, "3m 20s"),
            (3600, "1h"),
            (3601, "1h"),
            (86_399, "23h 59m"),
            (30 * 86_400 - 1, "29d 23h"),
            (400 * 86_400, "400d"),
        ];
        for (seconds, said) in cases {
            assert_eq!(rough(Duration::from_secs(seconds)), said);
        }
    }
}
