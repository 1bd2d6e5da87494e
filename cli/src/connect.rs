//! From the command line to a locker: the same library over either engine.

use std::time::Duration;

use aws_config::BehaviorVersion;
use aws_sdk_dynamodb::Client;
use locker::workflow::Workflows;
use locker::{Locker, Settings};

use crate::args::Place;
use crate::engine;
use crate::exit::Exit;

/// A table that can be used.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) locker: Locker,
    pub(crate) client: Client,
    pub(crate) table: String,
    /// The table of workflows, if it was named or is embedded.
    pub(crate) workflows: Option<String>,
    pub(crate) is_embedded: bool,
    pub(crate) settings: Settings,
}

impl Connection {
    /// The table of workflows.
    pub(crate) fn workflows_table(&self) -> Result<&str, Exit> {
        let name = "name the table of workflows, too: --workflows NAME, or LOCKER_WORKFLOWS";
        self.workflows.as_deref().ok_or_else(|| Exit::say(Exit::USAGE, name))
    }

    /// Workflows, as a person looks at them.
    pub(crate) fn workflows(&self) -> Result<Workflows, Exit> {
        let builder = Workflows::builder(&self.client, self.workflows_table()?);
        Ok(builder.settings(self.settings.clone()).build()?)
    }
}

impl Place {
    /// Connect. An embedded table is made when it is first used; one of AWS never is.
    ///
    /// `tokens` and `workflows`: whether that table should be there before the verb runs.
    pub(crate) async fn connect(&self, tokens: bool, workflows: bool) -> Result<Connection, Exit> {
        let (client, table) = match &self.table {
            Some(_) if self.local.is_some() => {
                let choose =
                    "--local keeps the table in a directory and --table uses one of DynamoDB; choose one";
                return Err(Exit::say(Exit::USAGE, choose));
            }
            Some(table) => (self.aws().await, table.clone()),
            None => {
                self.refuse_aws_options()?;
                let directory = self.local.as_deref().unwrap_or(std::path::Path::new(".locker"));
                let client = engine::start(directory).await?;
                if tokens {
                    locker::create_table(&client, engine::TABLE).await?;
                }
                if workflows {
                    locker::workflow::create_workflow_table(&client, engine::WORKFLOWS).await?;
                }
                (client, engine::TABLE.to_owned())
            }
        };
        let mut settings = Settings::default();
        settings.shards = self.shards;
        // A person or a cron job waits here, so there is time to become certain.
        settings.attempt_timeout = Duration::from_secs(5);
        settings.give_up_after = Duration::from_secs(20);
        let locker = Locker::builder(&client, &table).settings(settings.clone()).build()?;
        let is_embedded = self.table.is_none();
        let workflows = self.workflows.clone().or_else(|| is_embedded.then(|| engine::WORKFLOWS.to_owned()));
        Ok(Connection { locker, client, table, workflows, is_embedded, settings })
    }

    /// How another call of the command names the same place, as a text to be pasted.
    pub(crate) fn option(&self) -> String {
        let options = [
            ("--table", self.table.clone()),
            ("--workflows", self.workflows.clone()),
            ("--endpoint-url", self.endpoint_url.clone()),
            ("--local", self.local.as_ref().map(|directory| directory.display().to_string())),
        ];
        options.into_iter().filter_map(|(option, value)| Some(format!(" {option} {}", value?))).collect()
    }

    async fn aws(&self) -> Client {
        let mut loader =
            aws_config::defaults(BehaviorVersion::v2026_01_12()).http_client(locker::client::http_client());
        if let Some(region) = &self.region {
            loader = loader.region(aws_config::Region::new(region.clone()));
        }
        if let Some(profile) = &self.profile {
            loader = loader.profile_name(profile);
        }
        if let Some(endpoint) = &self.endpoint_url {
            loader = loader.endpoint_url(endpoint);
        }
        Client::new(&loader.load().await)
    }

    fn refuse_aws_options(&self) -> Result<(), Exit> {
        let options = [
            ("--workflows", &self.workflows),
            ("--endpoint-url", &self.endpoint_url),
            ("--region", &self.region),
            ("--profile", &self.profile),
        ];
        match options.into_iter().find(|(_, value)| value.is_some()) {
            None => Ok(()),
            Some((option, _)) => {
                Err(Exit::say(Exit::USAGE, format!("{option} is for a table of DynamoDB; add --table NAME")))
            }
        }
    }
}
