//! The command line.

use std::ffi::OsString;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::parser::ValueSource;
use clap::{Args as ClapArgs, CommandFactory as _, FromArgMatches as _, Parser, Subcommand, ValueEnum};
use locker::Retention;

use crate::{history, workflow};

const EXAMPLES: &str = "\
Examples:
  locker once report/2026-11 -- ./send-report.sh   run it once, however many machines try
  locker ls --overdue                              what should be done by now and is not
  locker show report/2026-11                       who holds it, since when, what it answered
  locker resolve report/2026-11 --reason 'sent by hand' --result '{\"exit\":0}'
  locker workflow ls --quarantine                  workflows that do not go on without a person

Exit codes:
  0 done   2 usage   3 not found   4 changed meanwhile   5 problems found
  65 same key, other request   69 out of reach   74 outcome unknown   75 in progress   78 setup
  once: the command's own code, stored and replayed";

/// Once-only execution with lock tokens on DynamoDB.
#[derive(Debug, Parser)]
#[command(name = "locker", version, after_help = EXAMPLES, max_term_width = 100)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) place: Place,

    /// How to print what is asked for.
    #[arg(long, global = true, value_enum, default_value_t)]
    pub(crate) output: Output,

    /// Say more on standard error; twice for every request.
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,

    /// Append the history of calls to this file, for `locker history check`.
    #[arg(long, global = true, value_name = "FILE", env = "LOCKER_HISTORY")]
    pub(crate) history: Option<PathBuf>,

    #[command(subcommand)]
    pub(crate) verb: Verb,
}

/// Which table, and where.
#[derive(Debug, ClapArgs)]
#[command(next_help_heading = "Where the table is")]
pub(crate) struct Place {
    /// Keep an embedded DynamoDB in this directory [default: .locker].
    #[arg(long, global = true, value_name = "DIR", env = "LOCKER_LOCAL")]
    pub(crate) local: Option<PathBuf>,

    /// Use this table of DynamoDB, through the standard AWS chain.
    #[arg(long, global = true, value_name = "NAME", env = "LOCKER_TABLE")]
    pub(crate) table: Option<String>,

    /// Use this table of DynamoDB for workflows.
    #[arg(long, global = true, value_name = "NAME", env = "LOCKER_WORKFLOWS")]
    pub(crate) workflows: Option<String>,

    /// Reach DynamoDB at this address.
    #[arg(long, global = true, value_name = "URL")]
    pub(crate) endpoint_url: Option<String>,

    /// The AWS region.
    #[arg(long, global = true)]
    pub(crate) region: Option<String>,

    /// The AWS profile.
    #[arg(long, global = true)]
    pub(crate) profile: Option<String>,

    /// Over how many shards unfinished tokens and workflows are spread.
    #[arg(long, global = true, value_name = "N", env = "LOCKER_SHARDS", default_value_t = 1)]
    pub(crate) shards: u16,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    /// For people.
    #[default]
    Table,
    /// For programs.
    Json,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Run a command once per key; everyone after gets its stored output and exit status.
    Once(Once),
    /// Run the whole thing here: the orders API, a payment provider, the scanner, the completer, the reaper.
    Dev(Dev),
    /// List unfinished and failed tokens, oldest due time first.
    Ls(Ls),
    /// Scan for missing tasks once, as the scanner does; exits with 5 if there are any.
    Scan,
    /// Watch how many tokens are in progress, overdue and failed.
    Top(Top),
    /// Look at table, permissions and clock, and say what to change.
    Doctor,
    /// Show one token.
    Show {
        /// The key of the token.
        key: String,
    },
    /// Let go of a token, so that the work may be done anew.
    Release(Change),
    /// Say that work in progress or failed work is done.
    Resolve {
        #[command(flatten)]
        change: Change,
        /// The answer that everyone after gets, as JSON [default: null].
        #[arg(long, value_name = "JSON")]
        result: Option<String>,
    },
    /// Look at workflows, and act on one.
    Workflow {
        #[command(subcommand)]
        verb: workflow::Verb,
    },
    /// Drive the workflows that are due once, as the completer does; exits with 5 if one needs a person.
    Complete(workflow::Drive),
    /// Forget finished workflows once, as the reaper does; exits with 5 if one needs a person.
    Reap(workflow::Drive),
    /// Check what was promised on a history of calls.
    History {
        #[command(subcommand)]
        verb: history::Verb,
    },
    /// Make or check the table.
    Table {
        #[command(subcommand)]
        verb: TableVerb,
    },
}

impl Verb {
    /// Whether an embedded table should be there before the verb runs.
    pub(crate) const fn wants_table_ready(&self) -> bool {
        !matches!(
            self,
            Self::Table { .. }
                | Self::History { .. }
                | Self::Workflow { .. }
                | Self::Complete(_)
                | Self::Reap(_)
        )
    }

    /// The same for the table of workflows.
    pub(crate) const fn wants_workflows_ready(&self) -> bool {
        match self {
            Self::Workflow { verb } => !matches!(verb, workflow::Verb::Table { .. }),
            Self::Complete(_) | Self::Reap(_) | Self::Dev(_) => true,
            _ => false,
        }
    }
}

#[derive(Debug, Clone, Copy, Subcommand)]
pub(crate) enum TableVerb {
    /// Make the table with its index and TTL, for development.
    Create,
    /// Compare the table with what the code needs.
    Check,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Once {
    /// What is done once, such as report/2026-11.
    pub(crate) key: String,

    /// How long it should take. The token is extended for as long as the command runs.
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = duration)]
    pub(crate) expect: Duration,

    /// How long the answer is kept, such as 3d, or forever.
    #[arg(long, value_name = "DURATION", default_value = "30d")]
    pub(crate) retain: Kept,

    /// What the request is recognised by; the same key with another text is refused.
    #[arg(long, value_name = "TEXT")]
    pub(crate) fingerprint: Option<String>,

    /// If somebody else is at it, wait so long for their answer.
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub(crate) wait: Option<Duration>,

    /// Hold the token under this name [default: USER@HOST/PID].
    #[arg(long = "as", value_name = "NAME")]
    pub(crate) owner: Option<String>,

    /// If the command fails, release the token, so that it may be tried again.
    #[arg(long, conflicts_with = "hold_on_failure")]
    pub(crate) retry_on_failure: bool,

    /// If the command fails, hold the token for a person to look.
    #[arg(long)]
    pub(crate) hold_on_failure: bool,

    /// The command, after --.
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Dev {
    /// Where the orders API listens; 0 takes any free port.
    #[arg(long, default_value_t = 4000)]
    pub(crate) port: u16,

    /// Where the payment provider listens; 0 takes any free port.
    #[arg(long, default_value_t = 4001)]
    pub(crate) provider_port: u16,

    /// Seconds between two runs of the scanner, the completer and the reaper.
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    pub(crate) scan_every: u64,

    /// The table of order rows [default: orders, in the embedded one].
    #[arg(long, value_name = "NAME", env = "ORDERS_TABLE")]
    pub(crate) orders_table: Option<String>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Top {
    /// How often to look.
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = duration)]
    pub(crate) every: Duration,

    /// Stop after so many looks.
    #[arg(long, value_name = "N")]
    pub(crate) looks: Option<u64>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Ls {
    /// Only these.
    #[arg(long, value_enum)]
    pub(crate) status: Option<Status>,

    /// Only what should be done by now.
    #[arg(long, conflicts_with = "status")]
    pub(crate) overdue: bool,

    /// At most so many.
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub(crate) limit: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Status {
    /// Somebody is at work, or died at it.
    #[value(name = "inProgress")]
    InProgress,
    /// It failed, and waits for a person.
    #[value(name = "error")]
    Error,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Change {
    /// The key of the token.
    pub(crate) key: String,

    /// Why; it is kept on the record.
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: String,

    /// Who; it is kept on the record [default: USER@HOST].
    #[arg(long = "as", value_name = "NAME")]
    pub(crate) person: Option<String>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Kept(pub(crate) Retention);

impl FromStr for Kept {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "forever" {
            return Ok(Self(Retention::Forever));
        }
        let hint = |error| format!("{error}; or say forever");
        duration(text).map(|kept| Self(Retention::For(kept))).map_err(hint)
    }
}

pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text).map_err(|error| format!("{error}; write it like 30s, 5m, 2h or 3d"))
}

impl Args {
    /// Read the command line; on a mistake, say what is wrong and exit with 2.
    pub(crate) fn read() -> Self {
        let matches = Self::command().get_matches();
        let mut args = Self::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
        // What was typed beats what was exported.
        let typed = |name: &str| {
            let mut matches = Some(&matches);
            while let Some(level) = matches {
                if level.value_source(name) == Some(ValueSource::CommandLine) {
                    return true;
                }
                matches = level.subcommand().map(|(_, deeper)| deeper);
            }
            false
        };
        match (typed("local"), typed("table")) {
            (true, false) => {
                args.place.table = None;
                args.place.workflows = args.place.workflows.filter(|_| typed("workflows"));
            }
            (false, true) => args.place.local = None,
            _ => {}
        }
        args
    }
}

#[cfg(test)]
mod properties;
