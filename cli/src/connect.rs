//! From the command line to a locker: the same library over either engine.

use std::time::Duration;

use aws_config::BehaviorVersion;
use aws_sdk_dynamodb::Client;
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
    pub(crate) shards: u16,
}

impl Place {
    /// Connect. An embedded table is made when it is first used; one of AWS never is.
    pub(crate) async fn connect(&self, ready: bool) -> Result<Connection, Exit> {
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
                if ready {
                    locker::create_table(&client, engine::TABLE).await?;
                }
                (client, engine::TABLE.to_owned())
            }
        };
        let mut settings = Settings::default();
        settings.shards = self.shards;
        // A person or a cron job waits here, so there is time to become certain.
        settings.attempt_timeout = Duration::from_secs(5);
        settings.give_up_after = Duration::from_secs(20);
        let locker = Locker::builder(&client, &table).settings(settings).build()?;
        Ok(Connection { locker, client, table, shards: self.shards })
    }

    /// How another call of the command names the same place, as a text to be pasted.
    pub(crate) fn option(&self) -> String {
        let options = [
            ("--table", self.table.clone()),
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
