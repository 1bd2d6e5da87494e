//! The options that all verbs take, and the types of their values.

mod duration;
mod moment;
mod operator;
mod place;
mod result;
mod seen;
pub(crate) mod select;
mod store;
pub(crate) mod variables;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::parser::ValueSource;
use clap::{ArgMatches, Args, FromArgMatches as _, ValueEnum};

pub(crate) use duration::{Kept, duration};
pub(crate) use moment::moment;
pub(crate) use operator::{Act, By};
pub(crate) use place::Place;
#[cfg(feature = "console")]
pub(crate) use result::json_in_form;
pub(crate) use result::{result, value};
pub(crate) use seen::{Differs, Seen, compare};
pub(crate) use select::{Needs, Selection};

/// Apart from the options of one verb.
const EVERY_VERB: &str = "Options of every verb";

/// The options of every verb.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Format of the data on standard output.
    #[arg(long, global = true, value_enum, default_value_t, help_heading = EVERY_VERB)]
    pub(crate) output: Output,

    /// Increase verbosity; repeat to log every request.
    #[arg(short, long, global = true, action = clap::ArgAction::Count, help_heading = EVERY_VERB)]
    pub(crate) verbose: u8,

    /// Append the history of calls to this file, as JSON lines.
    #[arg(long, global = true, value_name = "FILE", env = "LOCKER_HISTORY", help_heading = EVERY_VERB)]
    pub(crate) history: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) place: Place,
}

/// The format of the data that a verb prints.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// Text and tables, for reading.
    #[default]
    #[value(help = None)]
    Table,
    /// JSON, for programs.
    #[value(help = None)]
    Json,
}

impl Options {
    /// Reads the options of a command line.
    pub(crate) fn read(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut options = Self::from_arg_matches(matches)?;
        let [local, table, workflows] =
            ["local", "table", "workflows"].map(|option| is_typed(matches, option));
        // A typed option has precedence over an exported variable.
        if local && !table {
            options.place.table = None;
            options.place.workflows = options.place.workflows.filter(|_| workflows);
        }
        if table && !local {
            options.place.local = None;
        }
        // The exported tables belong together.
        let place = &options.place;
        let differs = |variable, typed: &Option<String>| {
            std::env::var(variable).is_ok_and(|exported| !exported.is_empty() && Some(exported) != *typed)
        };
        let other = match (table, workflows) {
            (true, false) if place.workflows.is_some() && differs("LOCKER_TABLE", &place.table) => {
                "--workflows"
            }
            (false, true) if place.table.is_some() && differs("LOCKER_WORKFLOWS", &place.workflows) => {
                "--table"
            }
            _ => return Ok(options),
        };
        let said = format!(
            "LOCKER_TABLE and LOCKER_WORKFLOWS name other tables; type {other}, too, or unset both\n"
        );
        Err(clap::Error::raw(clap::error::ErrorKind::ArgumentConflict, said))
    }
}

/// Whether a command line has `--output json`. The command line may be invalid.
pub(crate) fn asks_for_json(arguments: impl IntoIterator<Item = OsString>) -> bool {
    let own = arguments.into_iter().take_while(|argument| argument != "--");
    let own: Vec<_> = own.map(|argument| argument.to_string_lossy().to_lowercase()).collect();
    let apart = own.windows(2).any(|pair| pair == ["--output", "json"]);
    apart || own.iter().any(|argument| argument == "--output=json")
}

/// Whether an option was given on the command line, at any level of it.
fn is_typed(matches: &ArgMatches, option: &str) -> bool {
    let mut level = Some(matches);
    while let Some(matches) = level {
        if matches.value_source(option) == Some(ValueSource::CommandLine) {
            return true;
        }
        level = matches.subcommand().map(|(_, deeper)| deeper);
    }
    false
}
