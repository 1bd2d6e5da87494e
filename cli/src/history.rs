//! `locker history check`: checks the history of your own account against the promises.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufReader};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, Subcommand};
use locker_history::{Effect, Finding, History, Report, Rules, check};
use serde_json::json;

use crate::exit::Exit;
use crate::options::{Output, duration};
use crate::output;

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Check histories against the promises; exits with 5 if one is broken.
    Check(Check),
}

#[derive(Debug, Args)]
pub(crate) struct Check {
    /// History files, or logs that contain histories; - is standard input.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,

    /// The provider's books: a JSON line {token, attempt?, at} for each effect.
    #[arg(long, value_name = "FILE")]
    effects: Option<PathBuf>,

    /// Maximum difference between the clocks of the machines.
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = duration)]
    clock_skew: Duration,

    /// Report every second effect, even one that a takeover or a release explains.
    #[arg(long)]
    at_most_once: bool,

    /// The files are incomplete: only note what earlier events may explain.
    #[arg(long)]
    partial: bool,

    /// Only tokens whose keys begin with this prefix.
    #[arg(long, value_name = "PREFIX", default_value = "", hide_default_value = true)]
    only: String,
}

pub(crate) fn run(verb: &Verb, output: Output) -> Result<Exit, Exit> {
    let Verb::Check(options) = verb;
    let mut history = History::default();
    for file in &options.files {
        read(file, &mut history)?;
    }
    let effects = options.effects.as_deref().map(books).transpose()?;
    let rules = Rules {
        clock_skew: micros(options.clock_skew),
        at_most_once: options.at_most_once,
        partial: options.partial,
    };
    let none = HashMap::new();
    let only = |token: &str| token.starts_with(&options.only);
    let report = check(&history, effects.as_ref().unwrap_or(&none), rules, only);
    match output {
        Output::Json => print_json(&history, &report),
        Output::Table => print_text(&report),
    }
    conclude(&history, &report, options)
}

fn read(file: &Path, history: &mut History) -> Result<(), Exit> {
    if file == Path::new("-") {
        return history.read(io::stdin().lock()).map_err(|error| unreadable(file, &error));
    }
    let opened = File::open(file).map_err(|error| unreadable(file, &error))?;
    history.read(BufReader::new(opened)).map_err(|error| unreadable(file, &error))
}

fn books(file: &Path) -> Result<HashMap<String, Vec<Effect>>, Exit> {
    let opened = File::open(file).map_err(|error| unreadable(file, &error))?;
    Effect::read(BufReader::new(opened)).map_err(|error| unreadable(file, &error))
}

fn unreadable(file: &Path, error: &io::Error) -> Exit {
    let code = if error.kind() == io::ErrorKind::NotFound { Exit::NOT_FOUND } else { Exit::FAILED };
    Exit::say(code, format!("cannot read {}: {error}", file.display()))
}

fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

fn print_text(report: &Report) {
    let line = |word: &str, finding: &Finding| output::plain(&format!("{word}  {finding}"));
    for finding in report.violations() {
        output::print(line("BROKEN", finding));
    }
    for finding in report.notes() {
        output::print(line("note", finding));
    }
    for token in &report.unfinished {
        output::print(line_of("unfinished", token));
    }
    for token in &report.uncertain {
        output::print(line_of("uncertain", token));
    }
}

fn line_of(word: &str, token: &str) -> String {
    output::plain(&format!("{word}  {token}"))
}

fn print_json(history: &History, report: &Report) {
    output::print(format_args!(
        "{:#}",
        json!({
            "events": history.events,
            "otherLines": history.other_lines,
            "damagedLines": history.damaged_lines,
            "repeatedEvents": history.repeated,
            "report": report,
        })
    ));
}

fn conclude(history: &History, report: &Report, options: &Check) -> Result<Exit, Exit> {
    let broken = report.violations().count();
    if broken == 0 && report.tokens == 0 && history.events > 0 {
        let said = format!("no key in this history begins with {:?}", options.only);
        return Err(Exit::say(Exit::NOT_FOUND, said));
    }
    if broken == 0 && history.events == 0 {
        let hint = "the library writes it to the log, at DEBUG for the target locker::history";
        return Err(Exit::say(Exit::NOT_FOUND, format!("no history found; {hint}")));
    }
    let books = options.effects.as_ref().map_or_else(String::new, |_| {
        format!(", {} effects of which {} repeated and explained", report.effects, report.explained_repeats)
    });
    let damaged = match history.damaged_lines {
        0 => String::new(),
        some => format!("; {some} lines could not be read"),
    };
    let sentence = format!(
        "{} calls on {} tokens, {} without an outcome{books}; {} unfinished, {} uncertain; {} notes; {broken} broken promises{damaged}",
        report.calls,
        report.tokens,
        report.open_calls,
        report.unfinished.len(),
        report.uncertain.len(),
        report.notes().count(),
    );
    Ok(Exit::say(if broken == 0 { Exit::OK } else { Exit::PROBLEMS }, sentence))
}
