//! The verbs on workflows.

mod act;
mod change;
mod show;
mod which;

use clap::Subcommand;

pub(crate) use show::show;

use crate::connection::Connection;
use crate::exit::Exit;
use crate::options::Output;
use crate::table;

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Show a workflow: its steps in order, its messages, and the reason why it waits.
    Show(show::Show),
    /// Retry a workflow, with a new count of attempts; or one of its steps.
    Retry(change::Retry),
    /// Continue without a step: its result is null, which the code has to accept. Or handle a late
    /// event without its compensation.
    Skip(change::Skip),
    /// Record the result of a step that failed or is in doubt.
    Resolve(change::Resolve),
    /// Give a workflow an event, such as an approval, as its sender does.
    Signal(change::Signal),
    /// Correct a recorded result that an operator gave, or a result or an event that the code
    /// cannot read.
    Correct(change::Correct),
    /// Compensate the steps of an unfinished workflow that completed or are in doubt, in reverse.
    Compensate(change::Compensate),
    /// End a workflow in quarantine as it is: no step runs, and none is compensated.
    Close(change::Close),
    /// Erase the input and the result of a workflow that has ended; the key stays used.
    Redact(change::Redact),
    /// Cancel and compensate a workflow; or block a workflow or a step that has not started.
    Cancel(change::Cancel),
    /// Create or check the table of workflows.
    Table {
        #[command(subcommand)]
        verb: table::Verb,
    },
}

pub(crate) async fn run(connection: &Connection, verb: Verb, output: Output) -> Result<Exit, Exit> {
    if let Verb::Table { verb } = verb {
        return table::run_workflows(&connection.client, connection.workflows_table()?, verb, output).await;
    }
    let workflows = connection.workflows()?;
    let acting = act::Acting { connection, workflows: &workflows, output };
    match verb {
        Verb::Show(show) => show.run(connection, output).await,
        Verb::Retry(retry) => retry.run(&acting).await,
        Verb::Skip(skip) => skip.run(&acting).await,
        Verb::Resolve(resolve) => resolve.run(&acting).await,
        Verb::Signal(signal) => signal.run(&acting).await,
        Verb::Correct(correct) => correct.run(&acting).await,
        Verb::Compensate(compensate) => compensate.run(&acting).await,
        Verb::Close(close) => close.run(&acting).await,
        Verb::Redact(redact) => redact.run(&acting).await,
        Verb::Cancel(cancel) => cancel.run(&acting).await,
        Verb::Table { .. } => Ok(Exit::quiet(Exit::OK)),
    }
}
