//! Durations as they are typed.

use std::str::FromStr;
use std::time::Duration;

use locker::Retention;

pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text).map_err(|error| format!("{error}; write it like 30s, 5m, 2h or 3d"))
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
