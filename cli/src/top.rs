//! `locker top`: live counts and the oldest missing task.

use std::time::Duration;

use locker::{Count, Locker};

use crate::args::Top;
use crate::connect::Connection;
use crate::exit::Exit;
use crate::output;

/// How far it counts: enough to see a trend, and a known price for each look.
const COUNT_TO: usize = 10_000;

pub(crate) async fn run(connection: &Connection, top: &Top) -> Result<Exit, Exit> {
    let mut looks = 0;
    loop {
        let line = look(&connection.locker).await?;
        // One line under the other can be read on a terminal, in a file and by another program.
        output::print(format_args!("{}  {line}", output::time(output::now())));
        looks += 1;
        if top.looks == Some(looks) {
            return Ok(Exit::quiet(Exit::OK));
        }
        tokio::select! {
            () = tokio::time::sleep(top.every.max(Duration::from_millis(200))) => {}
            _ = tokio::signal::ctrl_c() => return Ok(Exit::quiet(Exit::OK)),
        }
    }
}

async fn look(locker: &Locker) -> Result<String, Exit> {
    let in_progress = locker.in_progress().count(COUNT_TO).await?;
    let overdue = locker.overdue().count(COUNT_TO).await?;
    let failed = locker.failed().count(COUNT_TO).await?;
    let oldest = locker.overdue().limit(1).fetch().await?.tokens.pop();
    let oldest = oldest.map_or_else(String::new, |token| {
        let due =
            token.expected_completion.map(|due| output::relative(due, output::now())).unwrap_or_default();
        format!("  oldest {} due {due}", output::plain(&token.token))
    });
    let said = |count: Count| format!("{}{}", count.at_least, if count.exact { "" } else { "+" });
    Ok(format!(
        "in progress {:>6}  overdue {:>6}  failed {:>6}{oldest}",
        said(in_progress),
        said(overdue),
        said(failed)
    ))
}
