//! `locker workflow ls`: the workflows of a list.

use clap::Args;
use locker::workflow::{List, Summary, Workflows};
use serde_json::json;

use crate::exit::Exit;
use crate::options::Output;
use crate::output;

#[derive(Debug, Args)]
pub(crate) struct Ls {
    /// Only workflows that wait for an operator.
    #[arg(long, group = "which")]
    quarantine: bool,

    /// Only finished workflows, which the reaper deletes after their retention.
    #[arg(long, group = "which")]
    finished: bool,

    /// Only workflows that make no progress, and are retried.
    #[arg(long, group = "which")]
    failing: bool,

    /// Only unfinished workflows that are due.
    #[arg(long, group = "which")]
    due: bool,

    /// Maximum number of workflows.
    #[arg(long, value_name = "N", default_value_t = 1000)]
    limit: usize,
}

/// A workflow, and where it is listed.
type Row = (&'static str, Summary);

impl Ls {
    pub(super) async fn run(&self, workflows: &Workflows, output: Output) -> Result<Exit, Exit> {
        let lists: &[List] = match (self.quarantine, self.finished, self.failing, self.due) {
            (true, ..) => &[List::Quarantine],
            (_, true, ..) => &[List::Finished],
            (_, _, true, _) => &[List::Failing],
            (.., true) => &[List::Failing, List::Unfinished],
            _ => &[List::Quarantine, List::Failing, List::Unfinished],
        };
        let mut rows: Vec<Row> = Vec::new();
        let mut complete = true;
        let mut stopped_by = None;
        for list in lists {
            let (listed, listing) = (list.as_str(), workflows.list(*list));
            let listing = if self.due { listing.due() } else { listing };
            let found = listing.limit(self.limit - rows.len()).fetch().await?;
            complete &= found.is_complete();
            stopped_by = stopped_by.or(found.stopped_by);
            rows.extend(found.items.into_iter().map(|summary| (listed, summary)));
        }
        match output {
            Output::Json => print_json(&rows, complete),
            Output::Table => print_table(&rows),
        }
        if let Some(error) = stopped_by {
            return Err(Exit::from(error));
        }
        if !complete {
            let said = format!("there are more than these {}; raise --limit", rows.len());
            return Ok(Exit::say(Exit::OK, said));
        }
        let nothing = rows.is_empty() && output == Output::Table;
        Ok(if nothing { Exit::say(Exit::OK, self.nothing_to_list()) } else { Exit::quiet(Exit::OK) })
    }

    const fn nothing_to_list(&self) -> &'static str {
        match (self.quarantine, self.finished, self.failing, self.due) {
            (true, ..) => "no workflow is in quarantine",
            (_, true, ..) => "no finished workflow is kept",
            (_, _, true, _) => "every unfinished workflow makes progress",
            (.., true) => "no workflow is due",
            _ => "no workflow is unfinished or in quarantine",
        }
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
                "since": summary.since.map(output::time),
                "due": summary.due.map(output::time),
                "reason": summary.reason,
            })
        })
        .collect();
    output::print(format_args!("{:#}", json!({ "workflows": rows, "complete": complete })));
}
