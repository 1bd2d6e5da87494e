//! `locker workflow ls`.

use clap::Args as ClapArgs;
use locker::workflow::{Listed, WorkflowSummary, Workflows};
use serde_json::json;

use crate::args::Output;
use crate::exit::Exit;
use crate::output;

#[derive(Debug, ClapArgs)]
pub(crate) struct Ls {
    /// Only what does not go on without a person.
    #[arg(long, group = "which")]
    quarantine: bool,

    /// Only what is finished, and waits to be forgotten.
    #[arg(long, group = "which")]
    finished: bool,

    /// Only what is unfinished and due by now.
    #[arg(long, group = "which")]
    due: bool,

    /// At most so many.
    #[arg(long, value_name = "N", default_value_t = 1000)]
    limit: usize,
}

/// A workflow, and where it is listed.
type Row = (&'static str, WorkflowSummary);

pub(super) async fn run(workflows: &Workflows, ls: &Ls, output: Output) -> Result<Exit, Exit> {
    let listings = match (ls.quarantine, ls.finished, ls.due) {
        (true, _, _) => vec![("quarantine", workflows.list(Listed::Quarantine))],
        (_, true, _) => vec![("finished", workflows.list(Listed::Finished))],
        (_, _, true) => vec![("unfinished", workflows.list(Listed::Unfinished).due())],
        _ => vec![
            ("quarantine", workflows.list(Listed::Quarantine)),
            ("unfinished", workflows.list(Listed::Unfinished)),
        ],
    };
    let mut rows: Vec<Row> = Vec::new();
    let mut complete = true;
    for (listed, listing) in listings {
        let found = listing.limit(ls.limit - rows.len()).fetch().await?;
        complete &= found.complete;
        rows.extend(found.workflows.into_iter().map(|summary| (listed, summary)));
    }
    match output {
        Output::Json => print_json(&rows, complete),
        Output::Table => print_table(&rows),
    }
    if !complete {
        return Ok(Exit::say(Exit::OK, format!("there are more than these {}; raise --limit", rows.len())));
    }
    let nothing = rows.is_empty() && output == Output::Table;
    Ok(if nothing { Exit::say(Exit::OK, nothing_to_list(ls)) } else { Exit::quiet(Exit::OK) })
}

const fn nothing_to_list(ls: &Ls) -> &'static str {
    match (ls.quarantine, ls.finished, ls.due) {
        (true, _, _) => "no workflow is in quarantine",
        (_, true, _) => "no workflow is finished and waits to be forgotten",
        (_, _, true) => "no workflow is due",
        _ => "no workflow is unfinished or in quarantine",
    }
}

fn print_table(rows: &[Row]) {
    if rows.is_empty() {
        return;
    }
    let now = output::now();
    let when = |at: Option<_>| at.map_or_else(|| "?".to_owned(), |at| output::relative(at, now));
    let rows = rows.iter().map(|(listed, summary)| {
        [
            output::plain(&summary.workflow),
            output::plain(summary.name.as_deref().unwrap_or("?")),
            summary.state.map_or("?", |state| state.as_str()).to_owned(),
            (*listed).to_owned(),
            summary.attempts.unwrap_or_default().to_string(),
            output::plain(summary.locked_by.as_deref().unwrap_or("-")),
            when(summary.created),
            when(summary.due),
            output::plain(summary.reason.as_deref().unwrap_or("")),
        ]
    });
    let header = ["WORKFLOW", "NAME", "STATE", "LISTED", "ATTEMPTS", "LOCKED BY", "SINCE", "DUE", "REASON"];
    output::print(output::table(Some(header), rows));
}

fn print_json(rows: &[Row], complete: bool) {
    let rows: Vec<_> = rows
        .iter()
        .map(|(listed, summary)| {
            json!({
                "workflow": summary.workflow,
                "name": summary.name,
                "state": summary.state.map(|state| state.as_str()),
                "listed": listed,
                "attempts": summary.attempts,
                "lockedBy": summary.locked_by,
                "created": summary.created.map(output::time),
                "due": summary.due.map(output::time),
                "reason": summary.reason,
            })
        })
        .collect();
    output::print(format_args!("{:#}", json!({ "workflows": rows, "complete": complete })));
}
