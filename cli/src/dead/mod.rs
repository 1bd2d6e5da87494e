//! The verbs on dead messages: those that a target refused, and those that a consumer set aside.

mod act;
mod export;
mod import;
mod ls;
mod show;
mod which;

use clap::Subcommand;
use locker::operator::Act;

use crate::connection::Connection;
use crate::exit::Exit;
use crate::options::Output;

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// List dead messages by cause; with --group or another option, one by one.
    Ls(ls::Ls),
    /// Show one message: where it comes from, what failed, and what may be done.
    Show(show::Show),
    /// Have messages sent, or handled by their consumer, again.
    Redrive(act::Redrive),
    /// Set messages aside: they are kept, are in no count, and hold nothing up.
    Archive(act::Change),
    /// Take archived messages back: they are dead again.
    Restore(act::Change),
    /// Delete messages: they are not sent or handled any more. The audit keeps who did it, and why.
    Discard(act::Change),
    /// Write a note on messages, which stands beside them until the next act.
    Note(act::Change),
    /// Print messages with their bodies, one line of JSON each.
    Export(export::Export),
    /// Bring messages from a dead-letter queue of Amazon SQS, or from an export, into the table.
    Import(import::Import),
}

pub(crate) async fn run(connection: &Connection, verb: Verb, output: Output) -> Result<Exit, Exit> {
    match verb {
        Verb::Ls(ls) => ls.run(connection, output).await,
        Verb::Show(show) => show.run(connection, output).await,
        Verb::Redrive(redrive) => redrive.run(connection, output).await,
        Verb::Archive(change) => change.run(connection, Act::archive(), output).await,
        Verb::Restore(change) => change.run(connection, Act::restore(), output).await,
        Verb::Discard(change) => change.run(connection, Act::discard(), output).await,
        Verb::Note(change) => change.run(connection, Act::note(), output).await,
        Verb::Export(export) => export.run(connection).await,
        Verb::Import(import) => import.run(connection, output).await,
    }
}
