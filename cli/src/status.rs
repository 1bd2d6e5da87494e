//! `locker status`: does anything need an operator?

use locker::status::{Group, Status, StatusBuilder, Subject};
use serde_json::json;

use crate::connection::{Connection, quoted};
use crate::exit::Exit;
use crate::options::Output;
use crate::output;

/// The longest cause of a row, in characters.
const LONGEST: usize = 70;

pub(crate) async fn run(connection: &Connection, output: Output) -> Result<Exit, Exit> {
    let mut builder = StatusBuilder::new().tokens(&connection.locker);
    let with_workflows = connection.has_workflows().await?;
    if with_workflows {
        builder = builder.workflows(&connection.workflows()?);
    }
    let status = builder.read().await?;
    match output {
        Output::Json => {
            let mut report = json!(status);
            report["place"] = json!(connection.place);
            report["workflowsRead"] = json!(with_workflows);
            output::json(&report);
        }
        Output::Table => print(&status, connection),
    }
    let what =
        if with_workflows { "tokens and workflows" } else { "tokens; no table of workflows was named" };
    let read = format!("{what}, in {}", output::shards_read(connection.settings.shards));
    match (status.count(), status.finished, status.stopped_by) {
        (0, true, _) => Ok(Exit::say(Exit::OK, format!("nothing needs an operator ({read})"))),
        (_, false, Some(error)) => Err(error.into()),
        (count, false, None) => Ok(Exit::say(
            Exit::PROBLEMS,
            format!("at least {count} need an operator ({read}); there may be more"),
        )),
        (1, ..) => Ok(Exit::say(Exit::PROBLEMS, format!("1 needs an operator ({read})"))),
        (count, ..) => Ok(Exit::say(Exit::PROBLEMS, format!("{count} need an operator ({read})"))),
    }
}

fn print(status: &Status, connection: &Connection) {
    if status.groups.is_empty() {
        return;
    }
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
    output::print(output::table(Some(["GROUP", "COUNT", "NEED", "OF", "FIRST", "CAUSE"]), rows));
    output::print("\nThe first of each group:");
    for group in &status.groups {
        let verb = if matches!(group.subject, Subject::Tokens) { "show" } else { "workflow show" };
        let options = &connection.options;
        output::print(format_args!("{}  locker{options} {verb} {}", group.id, quoted(&group.sample)));
    }
}

fn subject(group: &Group) -> String {
    match &group.subject {
        Subject::Workflows(name) => format!("workflow {}", output::plain(name)),
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
