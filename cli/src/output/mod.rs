//! Everything that the command prints: data on standard output, messages on standard error. Each
//! path goes through the one filter of [`filter`].

#![allow(clippy::print_stderr, reason = "here, and nowhere else but around the command of `once`")]

pub(crate) mod filter;
mod history;
mod log;
mod table;
mod time;

use std::fmt::Display;
use std::io::{IsTerminal as _, Write as _};
use std::os::fd::AsFd as _;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use serde::Serialize;
use tokio::sync::mpsc::Receiver;

pub(crate) use filter::plain;
#[cfg(test)]
pub(crate) use log::filter_of;
pub(crate) use log::start_log;
pub(crate) use table::table;
pub(crate) use time::{now, relative, rough, time};

/// Follows the name of an act that is done, if the record could not be read again.
pub(crate) const UNREAD: &str = "the record could not be read again";

/// Prints data. A reader that has gone away (`| head`) is not an error.
pub(crate) fn print(text: impl Display) {
    let _ = try_print(text);
}

/// Prints data, for a verb that prints more later: it ends when its reader has gone.
pub(crate) fn try_print(text: impl Display) -> std::io::Result<()> {
    write_line(&filter::lines(&text.to_string()))
}

/// Prints data as JSON, on several lines.
pub(crate) fn json(data: &impl Serialize) {
    match serde_json::to_string_pretty(data) {
        Ok(text) => drop(write_line(&filter::json(&text))),
        Err(error) => say(format_args!("the data has no JSON form: {error}")),
    }
}

/// Prints data as one line of JSON, for a verb that prints more later.
pub(crate) fn json_line(data: &impl Serialize) -> std::io::Result<()> {
    write_line(&filter::json(&serde_json::to_string(data)?))
}

fn write_line(text: &str) -> std::io::Result<()> {
    let mut stdout = std::io::stdout().lock();
    writeln!(stdout, "{text}")?;
    stdout.flush()
}

/// Prints a message: a line, or several.
pub(crate) fn say(message: impl Display) {
    eprintln!("locker: {}", filter::lines(&message.to_string()));
}

/// Prints a failure as one line of JSON.
pub(crate) fn say_json(failure: &impl Serialize) {
    match serde_json::to_string(failure) {
        Ok(text) => eprintln!("{}", filter::json(&text)),
        Err(error) => say(format_args!("the failure has no JSON form: {error}")),
    }
}

/// Starts a new line below a bar or below `^C`, which a terminal prints.
pub(crate) fn end_line() {
    if std::io::stderr().is_terminal() {
        eprintln!();
    }
}

/// Draws how much is done over the bar before. Returns `false`, and draws nothing, without a
/// terminal.
pub(crate) fn bar(done: usize, all: usize) -> bool {
    let mut stderr = std::io::stderr();
    if !stderr.is_terminal() {
        return false;
    }
    let filled = 30 * done / all.max(1);
    let _ = write!(stderr, "\rlocker: [{}{}] {done} of {all}", "#".repeat(filled), " ".repeat(30 - filled));
    let _ = stderr.flush();
    true
}

/// Tells when nobody reads standard output any more, without writing to it. Never, if that is a
/// file.
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

/// The user who runs this: `USER@HOST`.
pub(crate) fn operator() -> String {
    let uid = nix::unistd::getuid();
    let user = nix::unistd::User::from_uid(uid).ok().flatten();
    let user = user.map_or_else(|| format!("uid{uid}"), |user| user.name);
    let host = nix::unistd::gethostname().ok().and_then(|host| host.into_string().ok());
    format!("{user}@{}", host.unwrap_or_else(|| "localhost".to_owned()))
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
