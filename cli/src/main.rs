//! `locker`: run a command once, see what is stuck, resolve it.

mod args;
mod change;
mod child;
mod connect;
mod dev;
mod doctor;
mod engine;
mod exit;
mod history;
mod list;
mod once;
mod output;
mod scan;
mod show;
mod table;
mod top;
mod try_out;
mod workflow;

use std::process::ExitCode;

use args::{Args, Verb};
use exit::Exit;

#[tokio::main(worker_threads = 2)]
async fn main() -> ExitCode {
    let args = Args::read();
    let log = output::start_log(args.verbose, matches!(args.verb, Verb::Dev(_)), args.history.as_deref());
    let ran = match log {
        Ok(()) => Box::pin(run(args)).await,
        Err(exit) => Err(exit),
    };
    Exit::code_of(ran)
}

async fn run(args: Args) -> Result<Exit, Exit> {
    let Args { place, output, verb, .. } = args;
    // It reads files, and needs no table.
    if let Verb::History { verb } = &verb {
        return history::run(verb, output);
    }
    let connection = place.connect(verb.wants_table_ready(), verb.wants_workflows_ready()).await?;
    match verb {
        Verb::Workflow { verb } => workflow::run(&connection, verb, output).await,
        Verb::Complete(drive) => workflow::complete(&connection, &drive, output).await,
        Verb::Reap(drive) => workflow::reap(&connection, &drive, output).await,
        Verb::Once(once) => once::run(&connection, once).await,
        Verb::Ls(ls) => list::run(&connection, &ls, output).await,
        Verb::Dev(dev) => dev::run(&connection, &dev, &place.option()).await,
        Verb::Doctor => doctor::run(&connection, output).await,
        Verb::Top(top) => top::run(&connection, &top).await,
        Verb::Scan => scan::run(&connection, output).await,
        Verb::History { verb } => history::run(&verb, output),
        Verb::Show { key } => show::run(&connection, &key, output).await,
        Verb::Release(change) => change::release(&connection, &change).await,
        Verb::Resolve { change, result } => change::resolve(&connection, &change, result.as_deref()).await,
        Verb::Table { verb } => table::run(&connection, verb, output).await,
    }
}
