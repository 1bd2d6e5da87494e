//! `locker status`: items that need an operator, once or at an interval.

use std::time::Duration;

use clap::Args;
use locker::operator::{Console, Group, LastRun, Status, Subject};
use serde_json::json;
use tokio::sync::mpsc::Receiver;

use crate::connection::Connection;
use crate::exit::{Exit, cause_of};
use crate::hint::Hint;
use crate::options::{Output, duration};
use crate::output::{self, Text};

/// The longest cause of a row, in characters.
const LONGEST: usize = 70;

/// The shortest interval: a report costs requests.
const SHORTEST: Duration = Duration::from_millis(200);

#[derive(Debug, Args)]
pub(crate) struct Report {
    /// Print the report again at this interval, such as 5s, until Ctrl-C.
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    every: Option<Duration>,
}

impl Report {
    /// Whether the verb prints one report and ends.
    pub(crate) const fn is_once(&self) -> bool {
        self.every.is_none()
    }

    pub(crate) async fn run(&self, connection: &Connection, output: Output) -> Result<Exit, Exit> {
        match self.every {
            None => once(connection, output).await,
            Some(every) => repeat(connection, output, every.max(SHORTEST)).await,
        }
    }
}

/// A report, and whether it covers workflows.
pub(crate) struct Read {
    pub(crate) status: Status,
    with_workflows: bool,
}

/// Reads the report of a console over all tables that exist.
pub(crate) async fn read(connection: &Connection, console: Console) -> Result<Read, Exit> {
    let with_workflows = connection.has_workflows().await?;
    let status = console.status().await?;
    Ok(Read { status, with_workflows })
}

async fn once(connection: &Connection, output: Output) -> Result<Exit, Exit> {
    let read = read(connection, connection.console().await?).await?;
    match output {
        Output::Json => output::json(&read.to_json(connection)),
        Output::Table => output::print(read.text(connection)),
    }
    let said = read.sentence(connection);
    let exit = if read.status.is_well() { Exit::OK } else { Exit::PROBLEMS };
    match read.status.stopped_by {
        Some(error) => Err(error.into()),
        None => Ok(Exit::say(exit, said)),
    }
}

/// Prints reports until Ctrl-C, or until the reader closes the pipe. JSON is one line for each
/// report.
async fn repeat(connection: &Connection, output: Output, every: Duration) -> Result<Exit, Exit> {
    let mut reader_gone: Receiver<()> = output::reader_gone();
    let mut interrupted = std::pin::pin!(tokio::signal::ctrl_c());
    let mut is_first = true;
    loop {
        let next = tokio::time::Instant::now() + every;
        // A report may take a while, and Ctrl-C does not wait for it.
        let console = connection.console().await?;
        let read = tokio::select! {
            read = read(connection, console) => read?,
            _ = &mut interrupted => break,
            _ = reader_gone.recv() => break,
        };
        let at = output::time(output::now());
        let printed = match output {
            Output::Json => {
                let mut report = read.to_json(connection);
                report["at"] = json!(at);
                output::json_line(&report)
            }
            Output::Table => {
                let gap = (!is_first).then(Text::default);
                let said = Text::from(format!("{at}  {}", read.sentence(connection)));
                let parts = [said].into_iter().chain(read.stopped_by()).chain([read.text(connection)]);
                output::try_print(Text::below(gap.into_iter().chain(parts)))
            }
        };
        is_first = false;
        let unprinted =
            |error: std::io::Error| Exit::say(Exit::FAILED, format!("could not print the report: {error}"));
        if !printed.map_err(unprinted)? {
            break;
        }
        tokio::select! {
            () = tokio::time::sleep_until(next) => {}
            _ = &mut interrupted => break,
            _ = reader_gone.recv() => break,
        }
    }
    output::end_line();
    Ok(Exit::quiet(Exit::OK))
}

impl Read {
    fn to_json(&self, connection: &Connection) -> serde_json::Value {
        let mut report = json!(self.status);
        report["place"] = json!(connection.place);
        report["workflowsRead"] = json!(self.with_workflows);
        report
    }

    /// The error that stopped the reading, and its cause.
    fn stopped_by(&self) -> impl Iterator<Item = Text> {
        let error = self.status.stopped_by.as_ref();
        let cause = error.and_then(cause_of).map(|cause| format!("  cause: {cause}"));
        error.map(ToString::to_string).into_iter().chain(cause).map(Text::from)
    }

    /// The groups, the first of each, and the last runs.
    fn text(&self, connection: &Connection) -> Text {
        let mut parts = Vec::new();
        if !self.status.groups.is_empty() {
            parts.push(groups(&self.status));
            parts.push(firsts(&self.status, connection));
        }
        parts.extend(waiting(&self.status).map(Text::from));
        parts.push(runs(&self.status));
        Text::apart(parts)
    }

    /// How many need an operator, and which lists were read.
    pub(crate) fn sentence(&self, connection: &Connection) -> String {
        let status = &self.status;
        let what = if self.with_workflows {
            "tokens, workflows and messages"
        } else {
            connection.without_workflows()
        };
        let read = format!("{what}, in {}", output::shards_read(connection.settings.shards));
        let silent = status
            .silent()
            .map(|run| format!("no run of the {} has seen everything for {}; ", run.machine, late(run)));
        let said = match (status.count(), status.finished) {
            (0, true) => "nothing needs an operator".to_owned(),
            (1, true) => "1 needs an operator".to_owned(),
            (count, true) => format!("{count} need an operator"),
            (count, false) => format!("at least {count} need an operator, and there may be more"),
        };
        format!("{}{said} ({read})", silent.collect::<String>())
    }
}

fn late(run: &LastRun) -> String {
    let late = run.saw_all.and_then(|at| (output::now() - at).to_std().ok());
    output::rough(late.unwrap_or_default())
}

/// How many workflows wait for an event or a timer, which needs no operator.
pub(crate) fn waiting(status: &Status) -> Option<String> {
    let count = status.waiting.filter(|count| count.at_least > 0)?;
    let more = if count.exact { "" } else { "at least " };
    Some(format!("waiting: {more}{} for an event or a timer", count.at_least))
}

/// When each scheduled function ran last.
fn runs(status: &Status) -> Text {
    output::table(None, status.runs.iter().map(last_run))
}

/// The name of a scheduled function, when it ran last, how that run ended, and its owner.
pub(crate) fn last_run(run: &LastRun) -> [String; 4] {
    let ran = match run.at {
        None => "has not run on this table".to_owned(),
        Some(at) => format!("ran {}", output::relative(at, output::now())),
    };
    let how = match (run.is_silent, run.finished || run.at.is_none()) {
        (true, _) => "SILENT",
        (_, false) => "cut short",
        _ => "",
    };
    [run.machine.to_string(), ran, how.to_owned(), run.by.clone().unwrap_or_default()]
}

/// A line to paste for each group.
fn firsts(status: &Status, connection: &Connection) -> Text {
    let mut lines = vec![Text::from("The first of each group:")];
    for Group { id, subject, need, sample, sample_revision, .. } in &status.groups {
        let hint = Hint::first_of(subject, *need, id, sample).on(connection);
        lines.push(format!("{id}  {hint}").into());
        let shown = sample_revision.as_ref().map(|revision| format!("          its id is {revision}"));
        lines.extend(shown.map(Text::from));
    }
    Text::below(lines)
}

/// A row for each group.
fn groups(status: &Status) -> Text {
    let now = output::now();
    let rows = status.groups.iter().map(|group| {
        [
            group.id.clone(),
            group.count.to_string(),
            group.need.to_string(),
            subject(&group.subject),
            group.first.map_or_else(String::new, |first| output::relative(first, now)),
            cause(group),
        ]
    });
    output::table(Some(["GROUP", "COUNT", "NEED", "OF", "FIRST", "CAUSE"]), rows)
}

/// The kind of the items of a group.
pub(crate) fn subject(subject: &Subject) -> String {
    match subject {
        Subject::Workflows(name) => format!("workflow {name}"),
        Subject::Messages(topic) => format!("message {topic}"),
        Subject::Received { consumer, topic } => format!("message {topic} at {consumer}"),
        _ => "token".to_owned(),
    }
}

fn cause(group: &Group) -> String {
    match group.cause.char_indices().nth(LONGEST) {
        None if group.cause.is_empty() => "-".to_owned(),
        None => group.cause.clone(),
        Some((end, _)) => format!("{}…", &group.cause[..end]),
    }
}
