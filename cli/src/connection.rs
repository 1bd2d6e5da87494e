//! The tables that a verb works on.

mod open;

use std::path::PathBuf;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::error::DisplayErrorContext;
use locker::operator::Console;
use locker::workflow::{Builder, Workflows};
use locker::{Locker, Record, Settings};

pub(crate) use open::{Opening, Tables, open};

use crate::exit::Exit;
use crate::token::process;

/// The tables that the command line names, and a client for them.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Connection {
    /// The client of DynamoDB, embedded or on AWS.
    pub client: Client,
    /// The table of lock tokens.
    pub locker: Locker,
    /// The name of that table.
    pub table: String,
    pub(crate) workflows: Option<String>,
    /// The source of the messages that registered code commits.
    pub(crate) source: Option<String>,
    /// The console of the registry, without tables.
    pub(crate) registered: Console,
    /// Whether the tables are embedded in this process.
    pub is_embedded: bool,
    /// The directory of the embedded tables.
    pub directory: Option<PathBuf>,
    /// The settings of the command, for tokens and workflows.
    pub settings: Settings,
    /// The options that name these tables in another call of the command: text that begins with a
    /// space.
    pub options: String,
    /// Where AWS is reached; empty if the tables are embedded.
    pub(crate) aws: Aws,
    /// The place as a reader knows it: a directory, or the tables and their region.
    pub place: String,
}

/// A place that the command line names. Nothing is opened yet.
#[derive(Debug)]
pub(crate) enum Where {
    /// A table of DynamoDB.
    Table(String, Aws),
    /// A store on this machine.
    Local {
        directory: PathBuf,
        /// The directory as it was typed; `None` is the store of the user.
        typed: Option<PathBuf>,
    },
}

/// How a table of DynamoDB is reached.
#[derive(Debug, Clone, Default)]
pub(crate) struct Aws {
    pub(crate) workflows: Option<String>,
    pub(crate) endpoint_url: Option<String>,
    pub(crate) region: Option<String>,
    pub(crate) profile: Option<String>,
}

impl Connection {
    /// The name of the table of workflows.
    ///
    /// # Errors
    ///
    /// [`Exit::USAGE`] if it is neither named nor embedded.
    pub fn workflows_table(&self) -> Result<&str, Exit> {
        let name = "name the table of workflows, too: --workflows NAME, or LOCKER_WORKFLOWS";
        self.workflows.as_deref().ok_or_else(|| Exit::say(Exit::USAGE, name))
    }

    /// A client of Amazon SQS, with the region and the profile of the command line, and otherwise
    /// those of the environment.
    pub(crate) async fn sqs(&self) -> Result<aws_sdk_sqs::Client, Exit> {
        let (config, _) = open::config(&self.aws).await?;
        Ok(aws_sdk_sqs::Client::new(&config))
    }

    /// Returns a description of the records that were read if there is no table of workflows.
    pub(crate) const fn without_workflows(&self) -> &'static str {
        if self.is_embedded {
            "tokens; the store has no table of workflows"
        } else {
            "tokens; no table of workflows was named"
        }
    }

    /// Returns a description of the records that were read, if the table of workflows was not
    /// named. A local store without this table has no workflows and no messages, so everything was
    /// read.
    pub(crate) fn only_read(&self) -> Option<&'static str> {
        self.workflows.is_none().then(|| self.without_workflows())
    }

    /// The sentence about what was not read, if the table of workflows was not named.
    pub(crate) fn unread(&self) -> Option<String> {
        self.only_read()
            .map(|read| format!("only this was read: {read}; for workflows, add --workflows NAME"))
    }

    /// Adds this sentence to the end of a verb that reads all tables.
    pub(crate) fn with_unread(&self, exit: Exit) -> Exit {
        self.unread().into_iter().map(|unread| format!("  {unread}")).fold(exit, Exit::detail)
    }

    /// Whether there is a table of workflows to read. A local store may have none yet.
    pub(crate) async fn has_workflows(&self) -> Result<bool, Exit> {
        match &self.workflows {
            None => Ok(false),
            Some(table) if self.is_embedded => {
                // That it cannot be read does not mean that there is none.
                let listed = self.client.list_tables().send().await.map_err(|error| {
                    let said = format!(
                        "{}: its tables cannot be listed: {}",
                        self.place,
                        DisplayErrorContext(error)
                    );
                    Exit::say(Exit::UNAVAILABLE, said)
                })?;
                Ok(listed.table_names().contains(table))
            }
            Some(_) => Ok(true),
        }
    }

    /// The console over all tables that exist.
    pub(crate) async fn console(&self) -> Result<Console, Exit> {
        let runs = |record: &Record| process::alive(record.locked_by());
        let console = self.registered.clone().tokens(&self.locker).running(runs);
        Ok(if self.has_workflows().await? { console.workflows(&self.workflows()?) } else { console })
    }

    /// The table of workflows, with the settings of the command and the source of the
    /// [registry](crate::Registry::source).
    ///
    /// # Errors
    ///
    /// As [`workflows_table`](Self::workflows_table); and if its name or the settings are not
    /// valid.
    pub fn workflows(&self) -> Result<Workflows, Exit> {
        let builder = Workflows::builder(&self.client, self.workflows_table()?);
        let builder = builder.settings(self.settings.clone());
        Ok(self.source.iter().fold(builder, Builder::source).build()?)
    }
}
