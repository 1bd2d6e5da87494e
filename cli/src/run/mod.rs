//! The verbs that run a scheduled function once: `scan`, `complete`, `reap`, `relay`. They share
//! their options, the shape of their output and their exit codes.

mod complete;
mod reap;
mod relay;
mod scan;

use std::collections::BTreeMap;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use clap::Args;
use locker::RunReport;
use serde_json::Value;

pub(crate) use complete::Complete;
pub(crate) use reap::Reap;
pub(crate) use relay::Relay;
pub(crate) use scan::Scan;

use crate::connection::Connection;
use crate::exit::Exit;
use crate::hint::Hint;
use crate::options::{Output, duration};
use crate::output;

const EXITS: &str = "\
Prints the counts on standard error; with --output json, the whole report on standard output.
Exits with 0 if the run examined everything that was due and found no problem, and otherwise with 5.
If an error stopped the run, the exit code is that of the error.";

/// The options of every run.
#[derive(Debug, Args)]
#[command(after_help = EXITS)]
pub(crate) struct Bounds {
    /// Process at most N due tokens, workflows or subjects in this run [default: that of the
    /// scheduled function].
    #[arg(long, value_name = "N")]
    limit: Option<usize>,

    /// Stop after this time, such as 5m; the next run continues.
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    deadline: Option<Duration>,
}

/// The option of the runs that change records.
#[derive(Debug, Args)]
pub(crate) struct AtATime {
    /// Process N records at a time [default: that of the scheduled function].
    #[arg(long, value_name = "N", env = "LOCKER_CONCURRENCY")]
    concurrency: Option<usize>,
}

impl Bounds {
    /// The time at which the run stops.
    fn end(&self) -> Option<DateTime<Utc>> {
        let time = TimeDelta::from_std(self.deadline?).ok()?;
        output::now().checked_add_signed(time)
    }
}

/// The arguments of `ls` for the workflows that a run put in quarantine.
const QUARANTINED: &str = "workflows --need quarantined";

/// The end of a run, in the same words for each function.
struct Ran {
    /// The counts, and then each reason to exit with 5.
    sentences: Vec<String>,
    is_well: bool,
}

impl Ran {
    fn new(counts: String) -> Self {
        Self { sentences: vec![counts], is_well: true }
    }

    /// Adds a reason to exit with 5, if the count is not 0.
    fn problem(mut self, count: usize, said: impl FnOnce(usize) -> String) -> Self {
        if count > 0 {
            self.is_well = false;
            self.sentences.push(said(count));
        }
        self
    }

    /// Adds the line that lists the records, if the count is not 0. `ls`: the arguments of `ls`.
    fn listed(self, count: usize, ls: &'static str, connection: &Connection) -> Self {
        self.problem(count, |_| format!("see `{}`", Hint::List(ls).on(connection)))
    }

    /// Adds a fact that is no problem, if the count is not 0.
    fn note(mut self, count: usize, said: impl FnOnce(usize) -> String) -> Self {
        if count > 0 {
            self.sentences.push(said(count));
        }
        self
    }

    /// Adds the records that could not be processed.
    fn failed(self, count: usize) -> Self {
        self.problem(count, |count| format!("{count} could not be processed, see --verbose"))
    }

    /// Adds the records that this command has no code or route for, by name.
    fn unknown(self, unknown: &BTreeMap<String, usize>, said: impl FnOnce(String) -> String) -> Self {
        let names = unknown.iter().map(|(name, count)| format!("{count} of {name}"));
        let names = names.collect::<Vec<_>>().join(", ");
        self.problem(unknown.values().sum(), |_| said(names))
    }

    /// Returns the exit of the run. An error that stopped the run decides the exit code.
    ///
    /// With `--output json`, prints `shown` first.
    fn end<C>(self, report: RunReport<C>, shown: &Value, output: Output) -> Result<Exit, Exit> {
        if output == Output::Json {
            output::json(shown);
        }
        if let Some(error) = report.stopped_by {
            let said = format!("{}; then an error stopped the run", self.sentences.join("; "));
            return Err(Exit::from(error).below(said));
        }
        let ran = self.problem(usize::from(!report.finished), |_| "there may be more".to_owned());
        let code = if ran.is_well { Exit::OK } else { Exit::PROBLEMS };
        Ok(Exit::say(code, ran.sentences.join("; ")))
    }
}

#[cfg(test)]
mod tests {
    use locker::Error;

    use super::*;

    fn ended(ran: Ran, finished: bool) -> (u8, String) {
        let mut report = RunReport::<()>::default();
        report.finished = finished;
        let exit = ran.end(report, &Value::Null, Output::Table).unwrap_or_else(|exit| exit);
        (exit.code(), exit.said().to_owned())
    }

    #[test]
    fn each_problem_is_a_sentence_and_exit_code_5() {
        let ran = || Ran::new("1 sent".to_owned());
        assert_eq!(ended(ran().note(0, |_| String::new()).failed(0), true), (0, "1 sent".into()));
        let noted = ran().note(2, |count| format!("{count} skipped"));
        assert_eq!(ended(noted, true), (0, "1 sent; 2 skipped".into()));
        let cut = ran().failed(1);
        let said = "1 sent; 1 could not be processed, see --verbose; there may be more";
        assert_eq!(ended(cut, false), (5, said.into()));
        let unknown = BTreeMap::from([("a".to_owned(), 2), ("b".to_owned(), 1)]);
        let ran = ran().unknown(&unknown, |names| format!("no route for {names}"));
        assert_eq!(ended(ran, true), (5, "1 sent; no route for 2 of a, 1 of b".into()));
    }

    #[test]
    fn an_error_that_stopped_the_run_decides_the_exit_code() {
        let mut report = RunReport::<()>::default();
        report.stopped_by = Some(Error::Expired { verb: "list" });
        let ran = Ran::new("1 sent".to_owned()).note(2, |count| format!("{count} skipped"));
        let ended = ran.end(report, &Value::Null, Output::Table).unwrap_err();
        assert_eq!(ended.code(), Exit::UNAVAILABLE);
        // The error is about one request, and the run has changed records before.
        let lines: Vec<_> = ended.lines().collect();
        assert_eq!(lines[0], "1 sent; 2 skipped; then an error stopped the run");
        assert!(lines[1].starts_with("  error: could not list: the deadline has passed"));
    }
}
