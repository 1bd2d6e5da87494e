//! `locker audit`: what operators did.

use std::time::Duration;

use clap::Args;
use locker::AuditRecord;
use serde_json::json;

use crate::connection::Connection;
use crate::exit::Exit;
use crate::options::{Output, duration};
use crate::output;

#[derive(Debug, Args)]
pub(crate) struct Audit {
    /// How far back to look.
    #[arg(long, value_name = "DURATION", default_value = "7d", value_parser = duration)]
    since: Duration,

    /// Maximum number of acts.
    #[arg(long, value_name = "N", default_value_t = 1000)]
    limit: usize,
}

impl Audit {
    pub(crate) async fn run(&self, connection: &Connection, output: Output) -> Result<Exit, Exit> {
        let since = output::now() - self.since;
        let page = connection.locker.audit(since).limit(self.limit).fetch().await?;
        match output {
            Output::Json => print_json(&page.items, page.is_complete()),
            Output::Table => print_table(&page.items),
        }
        if let Some(error) = page.stopped_by {
            return Err(Exit::from(error));
        }
        let said = match (page.next.is_none(), page.items.is_empty()) {
            (false, _) => format!("there are more than these {}; raise --limit", page.items.len()),
            (true, true) if output == Output::Table => {
                format!("no operator acted in the last {}", output::rough(self.since))
            }
            _ => return Ok(Exit::quiet(Exit::OK)),
        };
        Ok(Exit::say(Exit::OK, said))
    }
}

fn print_table(acts: &[AuditRecord]) {
    if acts.is_empty() {
        return;
    }
    let text = |text: &Option<String>| output::plain(text.as_deref().unwrap_or("?"));
    let rows = acts.iter().map(|act| {
        [
            act.at.map_or_else(|| "?".to_owned(), output::time),
            text(&act.by),
            act.resolution.map_or("?", |done| done.as_str()).to_owned(),
            output::plain(&act.token),
            text(&act.reason),
        ]
    });
    output::print(output::table(Some(["AT", "OPERATOR", "DID", "TOKEN", "REASON"]), rows));
}

fn print_json(acts: &[AuditRecord], complete: bool) {
    let acts: Vec<_> = acts
        .iter()
        .map(|act| {
            json!({
                "lockToken": act.token,
                "at": act.at.map(output::time),
                "resolution": act.resolution.map(|done| done.as_str()),
                "resolvedBy": act.by,
                "resolvedReason": act.reason,
                "lockedBy": act.locked_by,
                "attempt": act.attempt,
                "cause": act.cause,
            })
        })
        .collect();
    output::print(format_args!("{:#}", json!({ "acts": acts, "complete": complete })));
}
