//! Everything that the command prints: data on standard output, messages on standard error. All
//! text passes the filter of [`filter`]. A reader that closed the pipe is not an error, because the
//! acts of the command are done.

mod filter;
mod history;
mod log;
mod table;
mod text;
mod time;

use std::io::{ErrorKind, IsTerminal as _, Write as _};
use std::os::fd::AsFd as _;
use std::sync::OnceLock;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use serde::Serialize;
use tokio::sync::mpsc::Receiver;

pub(crate) use filter::{json as escaped, plain};
#[cfg(test)]
pub(crate) use log::filter_of;
pub(crate) use log::start_log;
pub(crate) use table::table;
pub(crate) use text::{Text, quoted};
pub(crate) use time::{now, relative, rough, time};

/// Follows the name of an act that is done, if the record could not be read again.
pub(crate) const UNREAD: &str = "the record could not be read again";

/// Stands in the place of a result that was erased.
pub(crate) const NOT_KEPT: &str = "not kept: an operator erased it";

/// The first error of standard output, or of standard error that `once` passes on, such as that of
/// a full disk.
static UNPRINTED: OnceLock<std::io::Error> = OnceLock::new();

/// Returns the first error of the output, except that its reader closed it (`| head`).
pub(crate) fn unprinted() -> Option<&'static std::io::Error> {
    UNPRINTED.get()
}

/// Prints data. The exit code of the command tells whether that failed.
pub(crate) fn print(text: impl Into<Text>) {
    note(try_print(text));
}

fn note(printed: std::io::Result<bool>) {
    if let Err(error) = printed {
        UNPRINTED.get_or_init(|| error);
    }
}

/// Notes the error of output that was passed on from elsewhere, as [`print`] does.
pub(crate) fn note_passed(written: std::io::Result<()>) {
    note(has_reader(written));
}

/// Prints data, for a verb that prints more later. Returns whether its reader reads on.
pub(crate) fn try_print(text: impl Into<Text>) -> std::io::Result<bool> {
    has_reader(write_line(text.into().as_str()))
}

/// Prints a line to paste, and its effect.
pub(crate) fn print_choice(line: &str, effect: &str) {
    print("");
    print(format_args!("  {line}"));
    print(format_args!("      {effect}"));
}

/// Prints data as JSON, on several lines.
pub(crate) fn json(data: &impl Serialize) {
    match serde_json::to_string_pretty(data) {
        Ok(text) => note(has_reader(write_line(&escaped(&text)))),
        Err(error) => say(format_args!("the data has no JSON form: {error}")),
    }
}

/// Prints data as one line of JSON, for a verb that prints more later. Returns whether its
/// reader reads on.
pub(crate) fn json_line(data: &impl Serialize) -> std::io::Result<bool> {
    has_reader(write_line(&escaped(&serde_json::to_string(data)?)))
}

/// Returns `false` if the reader closed the pipe: the verb prints no more, and has not failed.
fn has_reader(written: std::io::Result<()>) -> std::io::Result<bool> {
    match written {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(error),
    }
}

fn write_line(text: &str) -> std::io::Result<()> {
    let mut stdout = std::io::stdout().lock();
    writeln!(stdout, "{text}")?;
    stdout.flush()
}

/// Writes to standard error. `eprintln!` would panic if its reader closed the pipe.
fn write_error(text: &str) {
    let mut stderr = std::io::stderr().lock();
    let _ = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush());
}

/// Prints a message: a line, or several.
pub(crate) fn say(message: impl Into<Text>) {
    write_error(&format!("locker: {}\n", message.into().as_str()));
}

/// Prints a failure as one line of JSON.
pub(crate) fn say_json(failure: &impl Serialize) {
    match serde_json::to_string(failure) {
        Ok(text) => write_error(&format!("{}\n", escaped(&text))),
        Err(error) => say(format_args!("the failure has no JSON form: {error}")),
    }
}

/// Starts a new line below a bar or below `^C`, which a terminal prints.
pub(crate) fn end_line() {
    if std::io::stderr().is_terminal() {
        write_error("\n");
    }
}

/// Draws how much is done over the bar before. Returns `false`, and draws nothing, without a
/// terminal.
pub(crate) fn bar(done: usize, all: usize) -> bool {
    if !std::io::stderr().is_terminal() {
        return false;
    }
    let filled = 30 * done / all.max(1);
    let (filled, empty) = ("#".repeat(filled), " ".repeat(30 - filled));
    write_error(&format!("\rlocker: [{filled}{empty}] {done} of {all}"));
    true
}

/// Returns a receiver that notifies when the reader of standard output closes it, without writing
/// to it. If standard output is a file, it never notifies.
pub(crate) fn reader_gone() -> Receiver<()> {
    let (tell, told) = tokio::sync::mpsc::channel(1);
    // It waits for as long as the process lives.
    std::thread::spawn(move || {
        let stdout = std::io::stdout();
        // Without a requested event, `poll` reports only that the other end was closed.
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

/// Returns the step or the event of an act, to print after the workflow: ` step pay`,
/// ` event:paid`.
pub(crate) fn part(step: Option<&str>) -> String {
    let kind = |step: &str| if step.starts_with("event:") { "" } else { "step " };
    step.map(|step| format!(" {}{step}", kind(step))).unwrap_or_default()
}

/// The shards that a listing read, and what to do if there may be more.
pub(crate) fn shards_read(shards: u16) -> String {
    match shards {
        1 => "the 1 shard that was read; if your functions set LOCKER_SHARDS, add --shards".to_owned(),
        shards => format!("the {shards} shards that were read"),
    }
}
