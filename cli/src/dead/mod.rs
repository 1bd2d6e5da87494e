//! The verbs on dead messages: rejected by a target, or dead-lettered by a consumer.

mod act;
mod correct;
mod export;
mod import;
mod show;
mod which;

use clap::Subcommand;
use locker::operator::Act;
#[cfg(feature = "console")]
pub(crate) use show::{body_elsewhere, facts};

use crate::connection::Connection;
use crate::exit::Exit;
use crate::options::Output;

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Show a message: its origin, its failure, and what may be done.
    Show(show::Show),
    /// Redeliver dead messages: send them again, or pass them to their consumer again.
    Redrive(act::Redrive),
    /// Archive dead messages: they are kept, but not counted, and they block no other message.
    Archive(act::Change),
    /// Restore archived messages: they are dead again.
    Restore(act::Change),
    /// Delete dead messages without sending or processing them. The audit log keeps the act.
    Discard(act::Change),
    /// Replace the body of a dead message. It stays dead until it is redriven; the audit log keeps
    /// both bodies.
    Correct(correct::Correct),
    /// Write a note on messages, which lists show until the next act.
    Note(act::Change),
    /// Print dead messages as lines of JSON, with each body that is not in a queue or a claim-check
    /// store.
    Export(export::Export),
    /// Import messages from a dead-letter queue of Amazon SQS, or from an export.
    Import(import::Import),
}

pub(crate) async fn run(connection: &Connection, verb: Verb, output: Output) -> Result<Exit, Exit> {
    match verb {
        Verb::Show(show) => show.run(connection, output).await,
        Verb::Redrive(redrive) => redrive.run(connection, output).await,
        Verb::Archive(change) => change.run(connection, Act::archive(), output).await,
        Verb::Restore(change) => change.run(connection, Act::restore(), output).await,
        Verb::Discard(change) => change.run(connection, Act::discard(), output).await,
        Verb::Correct(correct) => correct.run(connection, output).await,
        Verb::Note(change) => change.run(connection, Act::note(), output).await,
        Verb::Export(export) => export.run(connection).await,
        Verb::Import(import) => import.run(connection, output).await,
    }
}
