//! The log on standard error, and the file of `--history`.

use std::io::Write;
use std::path::Path;

use tracing_subscriber::layer::{Layer as _, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, fmt, registry};

use super::filter;
use super::history::Writer;
use crate::exit::Exit;
use crate::registry::Log;

/// Starts the log on standard error, since standard output is for data, and the history in a
/// separate file.
pub(crate) fn start_log(verbose: u8, is_server: bool, log: &Log, history: Option<&Path>) -> Result<(), Exit> {
    let filter = EnvFilter::try_from_env("LOCKER_LOG");
    let filter = filter.unwrap_or_else(|_| EnvFilter::new(filter_of(verbose, is_server, log)));
    let colour = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
        && std::io::IsTerminal::is_terminal(&std::io::stderr());
    let lines = fmt::layer().with_writer(move || Lines { colour }).with_ansi(colour).with_filter(filter);
    let history = history.map(|file| {
        let cannot = |error| format!("cannot write the history to {}: {error}", file.display());
        Writer::append(file).map_err(|error| Exit::say(Exit::SETUP, cannot(error)))
    });
    let history = history.transpose()?.map(|writer| writer.with_filter(Writer::only()));
    registry().with(lines).with(history).init();
    Ok(())
}

/// Writes the events of the log to standard error. It returns no error, because the log would panic
/// after its reader has gone.
struct Lines {
    colour: bool,
}

impl Write for Lines {
    fn write(&mut self, event: &[u8]) -> std::io::Result<usize> {
        super::write_error(&filter::event(&String::from_utf8_lossy(event), self.colour));
        Ok(event.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The log filter of a verbosity.
pub(crate) fn filter_of(verbose: u8, is_server: bool, log: &Log) -> String {
    let at = |level: &str| {
        let targets = std::iter::once(&"locker").chain(&log.more);
        targets.map(|target| format!("{target}={level}")).collect::<Vec<_>>().join(",")
    };
    match (verbose, is_server) {
        // The command itself prints the facts that the library would log.
        (0, false) => "off".to_owned(),
        (0, true) => log.less.iter().fold(at("info"), |all, directive| format!("{all},{directive}")),
        (1, false) => at("info"),
        _ => format!("{},aws_smithy_runtime=debug", at("debug")),
    }
}
