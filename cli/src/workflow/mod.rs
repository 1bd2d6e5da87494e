//! `locker workflow`, `locker complete` and `locker reap`.

mod change;
mod drive;
mod list;
mod show;

use clap::{Args as ClapArgs, Subcommand};
use locker::Key;
use locker::workflow::{WorkflowView, Workflows};

pub(crate) use drive::{Drive, complete, orders_table, reap};

use crate::args::{Output, TableVerb};
use crate::connect::Connection;
use crate::exit::Exit;
use crate::table;

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// List workflows, oldest due time first: unfinished and in quarantine, unless said otherwise.
    Ls(list::Ls),
    /// Show one workflow: its steps in order, its messages, why it waits.
    Show(Which),
    /// Let a workflow be driven again, with its attempts counted anew; or a step, under a new idempotency key.
    Retry {
        #[command(flatten)]
        change: change::Change,
        /// Start this step again that failed, or is in doubt and did not happen.
        #[arg(long, value_name = "STEP")]
        step: Option<String>,
    },
    /// Go on without a step, as if its result were null. The code has to take null for it.
    Skip {
        #[command(flatten)]
        change: change::Change,
        #[command(flatten)]
        step: change::Step,
    },
    /// Say how a step ended that failed, or of which nobody knows.
    Resolve {
        #[command(flatten)]
        change: change::Change,
        #[command(flatten)]
        step: change::Step,
        /// Its result, as JSON.
        #[arg(long, value_name = "JSON")]
        result: String,
    },
    /// Undo an unfinished workflow: what completed or is in doubt, in reverse.
    Compensate(change::Change),
    /// End a workflow in quarantine as it is: nothing more is run and nothing undone.
    Close(change::Change),
    /// Undo it, too; or refuse a workflow or a step that has not started, should it come late.
    Cancel {
        #[command(flatten)]
        change: change::Change,
        /// Refuse this step, which has not started.
        #[arg(long, value_name = "STEP")]
        step: Option<String>,
        /// There is no such workflow yet: refuse it, should it come.
        #[arg(long, conflicts_with = "step")]
        not_started: bool,
    },
    /// Make or check the table of workflows.
    Table {
        #[command(subcommand)]
        verb: TableVerb,
    },
}

/// Which workflow.
#[derive(Debug, ClapArgs)]
pub(crate) struct Which {
    /// Its key.
    pub(crate) key: String,

    /// The version of its key.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) key_version: u32,
}

pub(crate) async fn run(connection: &Connection, verb: Verb, output: Output) -> Result<Exit, Exit> {
    match verb {
        Verb::Ls(ls) => list::run(&connection.workflows()?, &ls, output).await,
        Verb::Show(which) => show::run(&connection.workflows()?, &which, output).await,
        Verb::Table { verb } => {
            table::run_workflows(&connection.client, connection.workflows_table()?, verb, output).await
        }
        verb => change::run(&connection.workflows()?, verb, output).await,
    }
}

impl Which {
    fn key(&self) -> Result<Key, Exit> {
        Key::existing(&self.key).map_err(|error| locker::Error::from(error).into())
    }

    /// As a person says it.
    fn said(&self) -> String {
        let version = (self.key_version > 1).then(|| format!(" --key-version {}", self.key_version));
        format!("{}{}", self.key, version.unwrap_or_default())
    }

    /// The workflow as it is now. `None`: there is none.
    async fn find(&self, workflows: &Workflows) -> Result<Option<WorkflowView>, Exit> {
        Ok(workflows.get(self.key()?, self.key_version).await?)
    }

    /// The same, or why there is none to act on.
    async fn read(&self, workflows: &Workflows) -> Result<WorkflowView, Exit> {
        self.find(workflows).await?.ok_or_else(|| {
            let said = self.said();
            Exit::say(
                Exit::NOT_FOUND,
                format!("there is no workflow {said}; `locker workflow ls` lists what is unfinished"),
            )
        })
    }
}
