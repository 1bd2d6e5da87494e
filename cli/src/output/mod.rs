//! Text for the terminal: times, tables, and the log.

mod history;
mod table;

use std::fmt::Display;
use std::io::Write as _;
use std::os::fd::AsFd as _;
use std::path::Path;
use std::time::Duration;

use chrono::{DateTime, SecondsFormat, Utc};
use locker::{Clock as _, SystemClock};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use serde::Serialize;
use tokio::sync::mpsc::Receiver;
use tracing_subscriber::layer::{Layer as _, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, fmt, registry};

pub(crate) use table::table;

use self::history::Writer;
use crate::exit::Exit;
use crate::registry::Log;

/// What an act says that was done, and that could not be looked at again.
pub(crate) const UNREAD: &str = "how it is now could not be read";

/// Starts the log on standard error, since standard output is for data, and the history in a file of its own.
pub(crate) fn start_log(verbose: u8, is_server: bool, log: &Log, history: Option<&Path>) -> Result<(), Exit> {
    let filter = EnvFilter::try_from_env("LOCKER_LOG");
    let filter = filter.unwrap_or_else(|_| EnvFilter::new(filter_of(verbose, is_server, log)));
    let colour = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
        && std::io::IsTerminal::is_terminal(&std::io::stderr());
    let lines = fmt::layer().with_writer(std::io::stderr).with_ansi(colour).with_filter(filter);
    let history = history.map(|file| {
        let cannot = |error| format!("cannot write the history to {}: {error}", file.display());
        Writer::append(file).map_err(|error| Exit::say(Exit::SETUP, cannot(error)))
    });
    let history = history.transpose()?.map(|writer| writer.with_filter(Writer::only()));
    registry().with(lines).with(history).init();
    Ok(())
}

/// The log filter of a verbosity.
pub(crate) fn filter_of(verbose: u8, is_server: bool, log: &Log) -> String {
    let at = |level: &str| {
        let targets = std::iter::once(&"locker").chain(&log.more);
        targets.map(|target| format!("{target}={level}")).collect::<Vec<_>>().join(",")
    };
    match (verbose, is_server) {
        // The command itself says what the library would log.
        (0, false) => "off".to_owned(),
        (0, true) => log.less.iter().fold(at("info"), |all, directive| format!("{all},{directive}")),
        (1, false) => at("info"),
        _ => format!("{},aws_smithy_runtime=debug", at("debug")),
    }
}

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

/// Prints data. A reader that has gone away (`| head`) is not an error.
pub(crate) fn print(text: impl Display) {
    let _ = try_print(text);
}

/// Prints data, for a verb that goes on printing: it ends when its reader has gone.
pub(crate) fn try_print(text: impl Display) -> std::io::Result<()> {
    writeln!(std::io::stdout().lock(), "{text}")
}

/// Tells when nobody reads standard output any more, without writing to it. Never, if that is a file.
pub(crate) fn reader_gone() -> Receiver<()> {
    let (tell, told) = tokio::sync::mpsc::channel(1);
    // It waits for as long as the process lives.
    std::thread::spawn(move || {
        let stdout = std::io::stdout();
        // Without an event that is asked for, it is told of the other end only.
        let mut stdout = [PollFd::new(stdout.as_fd(), PollFlags::empty())];
        loop {
            match poll(&mut stdout, PollTimeout::NONE) {
                Err(Errno::EINTR) => {}
                Ok(_) => return tell.blocking_send(()).unwrap_or_default(),
                Err(_) => std::thread::park(),
            }
        }
    });
    told
}

/// Prints data as JSON, as it serializes itself.
pub(crate) fn json(data: &impl Serialize) {
    match serde_json::to_string_pretty(data) {
        Ok(text) => print(text),
        Err(error) => eprintln!("locker: this has no JSON form: {error}"),
    }
}

/// The user who runs this: `USER@HOST`.
pub(crate) fn operator() -> String {
    let uid = nix::unistd::getuid();
    let user = nix::unistd::User::from_uid(uid).ok().flatten();
    let user = user.map_or_else(|| format!("uid{uid}"), |user| user.name);
    let host = nix::unistd::gethostname().ok().and_then(|host| host.into_string().ok());
    format!("{user}@{}", host.unwrap_or_else(|| "localhost".to_owned()))
}

/// Stored text, without control characters for the terminal.
pub(crate) fn plain(text: &str) -> String {
    text.chars().map(|character| if character.is_control() { '\u{fffd}' } else { character }).collect()
}

/// The start of a long JSON text.
pub(crate) fn shortened(json: &str, shown: usize) -> String {
    match json.char_indices().nth(shown) {
        None => json.to_owned(),
        Some((end, _)) => format!("{} ... of {} bytes; --output json prints all", &json[..end], json.len()),
    }
}

/// The shards that a listing read, and what to do if there may be more.
pub(crate) fn shards_read(shards: u16) -> String {
    match shards {
        1 => "the 1 shard that was read; if your functions set LOCKER_SHARDS, add --shards".to_owned(),
        shards => format!("the {shards} shards that were read"),
    }
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
