//! The embedded DynamoDB: an engine in this process over a file that several processes may share.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use aws_sdk_dynamodb::Client;
use chrono::{DateTime, Utc};
use lock_token_testing::Embedded;
use locker::Settings;
use nix::fcntl::AT_FDCWD;
use nix::sys::stat::{UtimensatFlags, utimensat};
use nix::sys::time::TimeSpec;

use crate::exit::Exit;
use crate::output::{self, quoted};

/// The table of the embedded engine.
pub(crate) const TABLE: &str = "locks";
/// The table of workflows of the embedded engine.
pub(crate) const WORKFLOWS: &str = "workflows";

fn file_in(directory: &Path) -> PathBuf {
    directory.join("locker.db")
}

/// Returns whether a directory contains a store. Fails if that is unknown: in a second store, work
/// would be done again.
pub(crate) fn exists(directory: &Path) -> Result<bool, Exit> {
    match std::fs::symlink_metadata(file_in(directory)) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => {
            Err(unusable(directory, &format!("{error}; run this as its owner, or name another directory")))
        }
    }
}

/// Starts the engine over `DIR/locker.db` and returns a client for it.
///
/// The engine serves this process only, without a port, for as long as the client lives.
pub(crate) fn start(directory: &Path) -> Result<Client, Exit> {
    let file = file_in(directory);
    check_clock(directory, output::now())?;
    let engine = Embedded::open(&file).map_err(|error| unusable(directory, &error))?;
    remember_clock(&file);
    Ok(engine.client())
}

fn unusable(directory: &Path, error: &dyn std::fmt::Display) -> Exit {
    Exit::say(Exit::SETUP, format!("cannot open the embedded tables in {}: {error}", directory.display()))
}

/// Refuses a clock that is earlier than the last use of the store. An answer that is stored with a
/// time of that clock would expire too early, and its work would be done again.
///
/// The modification time of the file is the time of the last use.
fn check_clock(directory: &Path, now: DateTime<Utc>) -> Result<(), Exit> {
    let file = file_in(directory);
    let log = directory.join("locker.db-wal");
    let changed = |path: &Path| std::fs::symlink_metadata(path).and_then(|found| found.modified()).ok();
    let latest = [&file, &log].into_iter().filter_map(|path| changed(path)).max();
    let latest: DateTime<Utc> = latest.map_or(now, DateTime::from);
    let behind = (latest - now).to_std().unwrap_or_default();
    if behind <= Settings::default().max_clock_skew {
        return Ok(());
    }
    let (behind, latest, file) = (output::rough(behind), output::time(latest), file.display().to_string());
    let said = format!(
        "the clock of this machine is {behind} behind {latest}, when the store was last used, and nothing was \
         done; correct the clock; if it is right now, and was ahead then, run `touch {}`",
        quoted(&file)
    );
    Err(unusable(directory, &said))
}

/// Sets the modification time of the file to now, because a verb that only reads does not change
/// it. The file is not opened: closing it would release the locks of this process on it.
fn remember_clock(file: &Path) {
    let now = TimeSpec::UTIME_NOW;
    if let Err(error) = utimensat(AT_FDCWD, file, &now, &now, UtimensatFlags::NoFollowSymlink) {
        tracing::warn!(%error, "the time at which the store is used could not be recorded");
    }
}

#[cfg(test)]
mod tests {
    use chrono::TimeDelta;

    use super::*;

    #[test]
    fn a_clock_behind_the_last_use_is_refused_beyond_the_allowance() {
        let place = tempfile::tempdir().unwrap();
        let last = DateTime::from_timestamp(1_800_000_000, 0).unwrap();
        let check = |behind: TimeDelta| check_clock(place.path(), last - behind);
        assert!(check(TimeDelta::days(9)).is_ok(), "no store yet");
        for name in ["locker.db", "locker.db-wal"] {
            let file = std::fs::File::create(place.path().join(name)).unwrap();
            file.set_modified(last.into()).unwrap();
            for (behind, is_refused) in [(-9_000, false), (0, false), (5, false), (6, true), (86_400, true)] {
                let checked = check(TimeDelta::seconds(behind));
                assert_eq!(checked.is_err(), is_refused, "{name} {behind}");
            }
            // The other file has it alone.
            file.set_modified((last - TimeDelta::days(30)).into()).unwrap();
        }
        let said = check(TimeDelta::days(31)).unwrap_err();
        let said = said.said();
        assert!(said.contains("is 1d behind 2026-12-16T08:00:00.000Z, when"), "{said}");
        assert!(
            said.ends_with(&format!("run `touch {}`", place.path().join("locker.db").display())),
            "{said}"
        );
    }
}
