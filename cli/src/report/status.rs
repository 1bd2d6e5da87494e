//! `locker status`: does anything need an operator?

use locker::operator::{Console, Group, LastRun, Need, Status, Subject};
use serde_json::json;

use crate::connection::{Connection, quoted};
use crate::exit::Exit;
use crate::options::Output;
use crate::output;

/// The longest cause of a row, in characters.
const LONGEST: usize = 70;

pub(crate) async fn run(connection: &Connection, output: Output) -> Result<Exit, Exit> {
    let mut console = Console::new().tokens(&connection.locker);
    let with_workflows = connection.has_workflows().await?;
    if with_workflows {
        console = console.workflows(&connection.workflows()?);
    }
    let status = console.status().await?;
    match output {
        Output::Json => {
            let mut report = json!(status);
            report["place"] = json!(connection.place);
            report["workflowsRead"] = json!(with_workflows);
            output::json(&report);
        }
        Output::Table => {
            print(&status, connection);
            print_runs(&status);
        }
    }
    let what = if with_workflows { "tokens, workflows and messages" } else { connection.without_workflows() };
    let read = format!("{what}, in {}", output::shards_read(connection.settings.shards));
    let silent: Vec<_> = status
        .silent()
        .map(|run| format!("no run of the {} has seen everything for {}", run.machine, late(run)))
        .collect();
    let silent = if silent.is_empty() { String::new() } else { format!("{}; ", silent.join("; ")) };
    let said = match (status.count(), status.finished) {
        (0, true) => "nothing needs an operator".to_owned(),
        (1, true) => "1 needs an operator".to_owned(),
        (count, true) => format!("{count} need an operator"),
        (count, false) => format!("at least {count} need an operator, and there may be more"),
    };
    let exit = if status.is_well() { Exit::OK } else { Exit::PROBLEMS };
    match status.stopped_by {
        Some(error) => Err(error.into()),
        None => Ok(Exit::say(exit, format!("{silent}{said} ({read})"))),
    }
}

fn late(run: &LastRun) -> String {
    let late = run.saw_all.and_then(|at| (output::now() - at).to_std().ok());
    output::rough(late.unwrap_or_default())
}

/// When the scanner, the completer and the reaper ran last.
fn print_runs(status: &Status) {
    let rows = status.runs.iter().map(|run| {
        let ran = match run.at {
            None => "has not run on this table".to_owned(),
            Some(at) => format!("ran {}", output::relative(at, output::now())),
        };
        let how = match (run.is_silent, run.finished || run.at.is_none()) {
            (true, _) => "SILENT",
            (_, false) => "cut short",
            _ => "",
        };
        [run.machine.to_string(), ran, how.to_owned(), output::plain(run.by.as_deref().unwrap_or_default())]
    });
    output::print(output::table(None, rows));
}

fn print(status: &Status, connection: &Connection) {
    if status.groups.is_empty() {
        return;
    }
    output::print(groups(status));
    output::print("\nThe first of each group:");
    for group in &status.groups {
        let (options, id) = (&connection.options, &group.id);
        let line = match (&group.subject, group.need) {
            (Subject::Tokens, _) => format!("show {}", quoted(&group.sample)),
            (Subject::Workflows(_), _) => format!("workflow show {}", quoted(&group.sample)),
            (_, Need::Dead) => format!("dead ls --group {id}"),
            _ => format!("find --group {id}"),
        };
        output::print(format_args!("{id}  locker{options} {line}"));
    }
    output::print("");
}

/// A row for each group.
pub(crate) fn groups(status: &Status) -> String {
    let now = output::now();
    let rows = status.groups.iter().map(|group| {
        [
            group.id.clone(),
            group.count.to_string(),
            group.need.to_string(),
            subject(group),
            group.first.map_or_else(String::new, |first| output::relative(first, now)),
            cause(group),
        ]
    });
    output::table(Some(["GROUP", "COUNT", "NEED", "OF", "FIRST", "CAUSE"]), rows)
}

fn subject(group: &Group) -> String {
    match &group.subject {
        Subject::Workflows(name) => format!("workflow {}", output::plain(name)),
        Subject::Messages(topic) => format!("message {}", output::plain(topic)),
        Subject::Received { consumer, topic } => {
            format!("message {} at {}", output::plain(topic), output::plain(consumer))
        }
        _ => "token".to_owned(),
    }
}

fn cause(group: &Group) -> String {
    let cause = output::plain(&group.cause);
    match cause.char_indices().nth(LONGEST) {
        None if cause.is_empty() => "-".to_owned(),
        None => cause,
        Some((end, _)) => format!("{}…", &cause[..end]),
    }
}
