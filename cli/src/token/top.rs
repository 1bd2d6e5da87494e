//! `locker top`: live counts and the oldest missing task.

use std::time::Duration;

use clap::Args;
use locker::{Count, Locker};

use crate::connection::Connection;
use crate::exit::Exit;
use crate::options::duration;
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
    pub(crate) async fn run(&self, connection: &Connection) -> Result<Exit, Exit> {
        let mut looks = 0;
        loop {
            let line = look(&connection.locker).await?;
            // Lines, and no full screen, so that a file or another program can take them, too.
            output::print(format_args!("{}  {line}", output::time(output::now())));
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

async fn look(locker: &Locker) -> Result<String, Exit> {
    let in_progress = locker.in_progress().count(COUNT_TO).await?;
    let overdue = locker.overdue().count(COUNT_TO).await?;
    let held = locker.held().count(COUNT_TO).await?;
    let oldest = locker.overdue().limit(1).fetch().await?.items.pop();
    let oldest = oldest.map_or_else(String::new, |token| {
        let due =
            token.expected_completion.map(|due| output::relative(due, output::now())).unwrap_or_default();
        format!("  oldest {} due {due}", output::plain(&token.token))
    });
    let said = |count: Count| format!("{}{}", count.at_least, if count.exact { "" } else { "+" });
    Ok(format!(
        "in progress {:>6}  overdue {:>6}  held {:>6}{oldest}",
        said(in_progress),
        said(overdue),
        said(held)
    ))
}
