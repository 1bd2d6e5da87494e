//! `locker plan`: an act on all selected records, shown first and applied with `--seen`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use locker::operator::{Act, ApplyOptions};

use super::Request;
use crate::connection::Connection;
use crate::exit::Exit;
use crate::options::{self, Needs, Output, Selection};

#[derive(Debug, Args)]
pub(crate) struct Plan {
    /// Act on each selected record.
    #[arg(value_enum)]
    verb: Verb,

    #[command(flatten)]
    selection: Selection,

    #[command(flatten)]
    needs: Needs,

    #[command(flatten)]
    act: options::Act,

    /// Act on this step of each workflow.
    #[arg(long, value_name = "STEP")]
    step: Option<String>,

    /// Record this result for each, as JSON.
    #[arg(long, value_name = "JSON")]
    result: Option<String>,

    /// Retry the step under a new key: if the step did happen, the provider no longer recognises
    /// it.
    #[arg(long, requires = "step")]
    new_key: bool,

    /// Apply the plan that was shown under this id; without it, print a dry run and exit with 6.
    #[arg(long, value_name = "ID")]
    seen: Option<String>,

    /// Write the plan to this new file, for another reader (see `locker apply`).
    #[arg(long, value_name = "FILE", conflicts_with = "seen")]
    out: Option<PathBuf>,

    /// Change at most N records per second.
    #[arg(long, value_name = "N", default_value_t = super::OF_OTHERS.rate, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    rate: u32,

    /// Plan at most N records.
    #[arg(long, value_name = "N", default_value_t = super::LIMIT)]
    limit: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Verb {
    /// Tokens: the work did not happen; the next caller does it.
    Release,
    /// Tokens, or a step of workflows: record --result as the outcome.
    Resolve,
    /// Held tokens: keep the failure as the result. Workflows in quarantine: end them as they are.
    Close,
    /// Workflows in quarantine, or a step of them: run again.
    Retry,
    /// A step of workflows: continue without it.
    Skip,
    /// Workflows: compensate their steps.
    Compensate,
    /// Workflows: compensate their steps, even if they continued since the plan was made.
    Cancel,
    /// Tokens and workflows that have ended: erase their results; the keys stay used. Reads the
    /// whole table of tokens.
    Redact,
}

impl Plan {
    pub(crate) async fn run(&self, connection: &Connection, output: Output) -> Result<Exit, Exit> {
        if matches!(self.verb, Verb::Retry | Verb::Skip | Verb::Compensate | Verb::Cancel) {
            connection.workflows_table()?;
        }
        let mut act = match self.verb {
            Verb::Release => Act::release(),
            Verb::Resolve => {
                let none = || Exit::say(Exit::USAGE, "a resolve takes a result: add --result JSON");
                Act::resolve(options::result(self.result.as_deref().ok_or_else(none)?)?)
            }
            Verb::Close => Act::close(),
            Verb::Retry => Act::retry(),
            Verb::Skip => Act::skip(),
            Verb::Compensate => Act::compensate(),
            Verb::Cancel => Act::cancel(),
            Verb::Redact => Act::redact(),
        };
        if self.result.is_some() && self.verb != Verb::Resolve {
            return Err(Exit::say(Exit::USAGE, "--result is for resolve only"));
        }
        act = self.step.iter().fold(act, Act::step);
        if self.new_key {
            act = act.new_key();
        }
        let filter = self.needs.add_to(self.selection.filter());
        if filter.is_empty() {
            let all = "select tokens or workflows: add --group, --need, --prefix or another selection (see `locker plan --help`)";
            return Err(Exit::say(Exit::USAGE, all));
        }
        let console = connection.console().await?.limit(self.limit);
        let options = ApplyOptions { per_second: self.rate, ..ApplyOptions::default() };
        let request = Request {
            filter,
            act,
            operator: self.act.operator()?,
            limit: self.limit,
            options,
            seen: self.seen.clone(),
            out: self.out.clone(),
        };
        request.run((connection, &console), output).await
    }
}
