//! Durations as they are typed.

use std::str::FromStr;
use std::time::Duration;

use locker::Retention;

/// The longest duration of an option. Every time within this distance of now can be computed and
/// printed.
const LONGEST: Duration = Duration::from_secs(1000 * 366 * 86_400);

/// Reads a duration of the command line. Every option uses this function, so no duration is too
/// long to be added to a time.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let hint = "write it like 30s, 5m, 2h or 3d";
    let read = humantime::parse_duration(text).map_err(|error| format!("{error}; {hint}"))?;
    if read <= LONGEST { Ok(read) } else { Err(format!("it is longer than 1000 years; {hint}")) }
}

/// How long an answer is kept.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Kept(pub(crate) Retention);

impl FromStr for Kept {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "forever" {
            return Ok(Self(Retention::Forever));
        }
        let hint = |error| format!("{error}, or forever");
        duration(text).map(|kept| Self(Retention::For(kept))).map_err(hint)
    }
}
