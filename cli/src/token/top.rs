//! `locker top`: live counts of what needs an operator, and the oldest of it.

use std::collections::BTreeMap;
use std::time::Duration;

use clap::Args;
use locker::Count;
use locker::status::{Group, Need, Status, StatusBuilder};
use serde_json::json;

use crate::connection::Connection;
use crate::exit::Exit;
use crate::options::{Output, duration};
use crate::output;

/// The highest count: enough to see a trend, at a bounded price per look.
const COUNT_TO: usize = 10_000;

#[derive(Debug, Args)]
pub(crate) struct Top {
    /// Time between two looks.
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = duration)]
    every: Duration,

    /// Stop after this many looks.
    #[arg(long, value_name = "N")]
    looks: Option<u64>,
}

impl Top {
    pub(crate) async fn run(&self, connection: &Connection, output: Output) -> Result<Exit, Exit> {
        let mut builder = StatusBuilder::new().tokens(&connection.locker).limit(COUNT_TO);
        if connection.has_workflows().await? {
            builder = builder.workflows(&connection.workflows()?);
        }
        let mut looks = 0;
        loop {
            let in_progress = connection.locker.in_progress().count(COUNT_TO).await?;
            let status = builder.read().await?;
            let line = match output {
                Output::Json => as_json(&status, in_progress).to_string(),
                Output::Table => as_text(&status, in_progress),
            };
            // Lines, and no full screen, so that a file or another program can take them, too.
            if output::try_print(line).is_err() {
                // Its reader has gone.
                return Ok(Exit::quiet(Exit::OK));
            }
            looks += 1;
            if self.looks == Some(looks) {
                return Ok(Exit::quiet(Exit::OK));
            }
            tokio::select! {
                () = tokio::time::sleep(self.every.max(Duration::from_millis(200))) => {}
                _ = tokio::signal::ctrl_c() => return Ok(Exit::quiet(Exit::OK)),
            }
        }
    }
}

/// How many need an operator, by need.
fn counts(status: &Status) -> BTreeMap<Need, usize> {
    let mut counts: BTreeMap<_, _> = Need::ALL.into_iter().map(|need| (need, 0)).collect();
    for group in &status.groups {
        *counts.entry(group.need).or_default() += group.count;
    }
    counts
}

fn oldest(status: &Status) -> Option<&Group> {
    status.groups.iter().filter(|group| group.first.is_some()).min_by_key(|group| group.first)
}

fn as_text(status: &Status, in_progress: Count) -> String {
    let plus = |exact: bool| if exact { "" } else { "+" };
    let in_progress = format!("{}{}", in_progress.at_least, plus(in_progress.exact));
    let mut line = format!("{}  in progress {in_progress:>6}", output::time(output::now()));
    for (need, count) in counts(status) {
        let count = format!("{count}{}", plus(status.finished));
        line.push_str(&format!("  {need} {count:>6}"));
    }
    if let Some((group, first)) = oldest(status).and_then(|group| Some((group, group.first?))) {
        let since = output::relative(first, output::now());
        line.push_str(&format!("  oldest {} due {since}", output::plain(&group.sample)));
    }
    line
}

fn as_json(status: &Status, in_progress: Count) -> serde_json::Value {
    let needs: serde_json::Map<_, _> =
        counts(status).into_iter().map(|(need, count)| (need.as_str().to_owned(), json!(count))).collect();
    let silent: Vec<_> = status.silent().map(|run| run.machine.as_str()).collect();
    json!({
        "at": output::time(output::now()),
        "inProgress": in_progress,
        "needs": needs,
        "finished": status.finished,
        "silent": silent,
        "oldest": oldest(status).map(|group| &group.sample),
    })
}
