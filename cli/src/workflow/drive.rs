//! `locker complete` and `locker reap`: the functions' own code, once.

use std::collections::BTreeMap;
use std::time::Duration;

use clap::Args as ClapArgs;
use locker::workflow::{Completer, Reaper};
use locker_functions::payments::Payments;
use locker_functions::purchase::Purchase;
use locker_functions::workflows;
use serde_json::json;

use crate::args::Output;
use crate::connect::Connection;
use crate::engine;
use crate::exit::Exit;
use crate::output;

/// Where `locker dev` has its provider.
const DEV_PROVIDER: &str = "http://127.0.0.1:4001";
/// As the functions have it.
const PATIENCE: Duration = Duration::from_secs(5);

#[derive(Debug, ClapArgs)]
pub(crate) struct Drive {
    /// The table of order rows [default: orders, in the embedded one].
    #[arg(long, value_name = "NAME", env = "ORDERS_TABLE")]
    orders_table: Option<String>,

    /// The payment provider [default: that of locker dev, beside the embedded table].
    #[arg(long, value_name = "URL", env = "PAYMENTS_URL")]
    payments_url: Option<String>,

    /// Take no more than so many.
    #[arg(long, value_name = "N", default_value_t = 1000)]
    limit: usize,
}

/// The table of order rows, or what to say.
pub(crate) fn orders_table(connection: &Connection, named: Option<&str>) -> Result<String, Exit> {
    let default = connection.is_embedded.then_some(engine::ORDERS);
    let missing = "name the table of order rows, too: --orders-table NAME, or ORDERS_TABLE";
    named.or(default).map(str::to_owned).ok_or_else(|| Exit::say(Exit::USAGE, missing))
}

impl Drive {
    /// The workflows that are compiled into this command.
    fn completer(&self, connection: &Connection) -> Result<Completer, Exit> {
        let default = connection.is_embedded.then_some(DEV_PROVIDER);
        let Some(url) = self.payments_url.as_deref().or(default) else {
            let missing = "name the payment provider, too: --payments-url URL, or PAYMENTS_URL";
            return Err(Exit::say(Exit::USAGE, missing));
        };
        let payments = Payments::new(url, PATIENCE)
            .map_err(|error| Exit::say(Exit::USAGE, format!("--payments-url: {error}")))?;
        let orders_table = orders_table(connection, self.orders_table.as_deref())?;
        let code = Purchase { payments, dynamodb: connection.client.clone(), orders_table };
        Ok(workflows::completer(&connection.workflows()?, code))
    }
}

pub(crate) async fn complete(connection: &Connection, drive: &Drive, output: Output) -> Result<Exit, Exit> {
    let done = drive.completer(connection)?.limit(drive.limit).run().await?;
    if output == Output::Json {
        output::print(format_args!(
            "{:#}",
            json!({
                "taken": done.taken,
                "completed": done.completed,
                "undone": done.undone,
                "waiting": done.waiting,
                "quarantined": done.quarantined,
                "passedBy": done.passed_by,
                "brokenOff": done.broken_off,
                "failed": done.failed,
                "unknown": done.unknown,
                "finished": done.finished,
            })
        ));
    }
    if let Some(error) = done.stopped_by {
        return Err(error.into());
    }
    let mut said = vec![format!(
        "{} taken: {} completed, {} undone, {} waiting, {} in quarantine",
        done.taken, done.completed, done.undone, done.waiting, done.quarantined
    )];
    if done.quarantined > 0 {
        said.push("see `locker workflow ls --quarantine`".to_owned());
    }
    let broken = done.broken_off + done.failed;
    if broken > 0 {
        said.push(format!("{broken} could not be driven to a stop, see --verbose"));
    }
    said.extend(unknown(&done.unknown));
    if !done.finished {
        said.push("there may be more".to_owned());
    }
    let well = done.quarantined + broken == 0 && done.unknown.is_empty() && done.finished;
    Ok(Exit::say(if well { Exit::OK } else { Exit::PROBLEMS }, said.join("; ")))
}

/// Workflows of others: they were left as they are.
fn unknown(unknown: &BTreeMap<String, usize>) -> Option<String> {
    if unknown.is_empty() {
        return None;
    }
    let names = unknown.iter().map(|(name, count)| format!("{count} named {}", output::plain(name)));
    let names = names.collect::<Vec<_>>().join(", ");
    Some(format!("no code here for {names}: run the completer that registers them, or a newer command"))
}

pub(crate) async fn reap(connection: &Connection, drive: &Drive, output: Output) -> Result<Exit, Exit> {
    let reaped = Reaper::new(&drive.completer(connection)?).limit(drive.limit).run().await?;
    if output == Output::Json {
        output::print(format_args!(
            "{:#}",
            json!({
                "forgotten": reaped.forgotten,
                "kept": reaped.kept,
                "completed": reaped.completed,
                "quarantined": reaped.quarantined,
                "failed": reaped.failed,
                "finished": reaped.finished,
            })
        ));
    }
    let mut said = vec![format!(
        "{} forgotten, {} kept, {} completed, {} in quarantine",
        reaped.forgotten, reaped.kept, reaped.completed, reaped.quarantined
    )];
    if reaped.quarantined > 0 {
        said.push("see `locker workflow ls --quarantine`".to_owned());
    }
    if reaped.failed > 0 {
        said.push(format!("{} could not be reaped, see --verbose", reaped.failed));
    }
    if !reaped.finished {
        said.push("there may be more".to_owned());
    }
    let well = reaped.quarantined + reaped.failed == 0 && reaped.finished;
    Ok(Exit::say(if well { Exit::OK } else { Exit::PROBLEMS }, said.join("; ")))
}
