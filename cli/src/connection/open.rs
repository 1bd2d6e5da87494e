//! Opening a place: a client of DynamoDB, or the embedded one.

use std::path::Path;
use std::time::Duration;

use aws_config::{BehaviorVersion, SdkConfig};
use aws_sdk_dynamodb::Client;
use chrono::{DateTime, Utc};
use locker::operator::Console;
use locker::{Locker, Settings};

use super::{Aws, Connection, Where};
use crate::engine;
use crate::exit::Exit;
use crate::output::quoted;

/// The embedded tables that a verb uses.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tables {
    pub(crate) tokens: bool,
    pub(crate) workflows: bool,
}

impl Tables {
    pub(crate) const NONE: Self = Self { tokens: false, workflows: false };
    pub(crate) const TOKENS: Self = Self { tokens: true, workflows: false };
    pub(crate) const WORKFLOWS: Self = Self { tokens: false, workflows: true };
    pub(crate) const ALL: Self = Self { tokens: true, workflows: true };
}

/// The action if a store on this machine, or a table in it, does not exist. A table on AWS is never
/// created.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Opening {
    /// It is created.
    Create(Tables),
    /// An error reports it, and nothing is created.
    Existing(Tables),
}

/// Opens a place.
pub(crate) async fn open(
    place: Where,
    shards: u16,
    restored: Option<DateTime<Utc>>,
    opening: Opening,
) -> Result<Connection, Exit> {
    let mut settings = Settings::default();
    (settings.shards, settings.restored) = (shards, restored);
    // If the functions have fewer shards, they still list what the command writes.
    settings.spread_writes = false;
    // An operator or a cron job waits here, so there is time to become certain.
    settings.attempt_timeout = Duration::from_secs(5);
    settings.give_up_after = Duration::from_secs(20);
    match place {
        Where::Table(table, aws) => {
            let options = options_of(&table, &aws) + &shards_option(shards);
            let (client, region) = client(&aws).await?;
            let tables = match &aws.workflows {
                Some(workflows) => format!("tables {table} and {workflows}"),
                None => format!("table {table}"),
            };
            let at = aws.endpoint_url.as_ref().map(|url| format!(", at {url}")).unwrap_or_default();
            let locker = Locker::builder(&client, &table).settings(settings.clone()).build()?;
            Ok(Connection {
                place: format!("{tables}, {region}{at}"),
                workflows: aws.workflows.clone(),
                source: None,
                registered: Console::new(),
                // That endpoint is DynamoDB's.
                aws: Aws { endpoint_url: None, ..aws },
                is_embedded: false,
                directory: None,
                client,
                locker,
                table,
                settings,
                options,
            })
        }
        Where::Local { directory, typed } => {
            let options = typed.map_or_else(
                || " --local".to_owned(),
                |typed| format!(" {}", quoted(&format!("--local={}", typed.display()))),
            ) + &shards_option(shards);
            let client = embedded(&directory, opening).await?;
            let locker = Locker::builder(&client, engine::TABLE).settings(settings.clone()).build()?;
            Ok(Connection {
                place: directory.display().to_string(),
                workflows: Some(engine::WORKFLOWS.to_owned()),
                source: None,
                registered: Console::new(),
                is_embedded: true,
                directory: Some(directory),
                aws: Aws::default(),
                table: engine::TABLE.to_owned(),
                client,
                locker,
                settings,
                options,
            })
        }
    }
}

async fn embedded(directory: &Path, opening: Opening) -> Result<Client, Exit> {
    if matches!(opening, Opening::Existing(_)) && !engine::exists(directory)? {
        let said = format!(
            "there is no store in {}; `locker once` and `locker table create` create one, and no other verb does",
            directory.display()
        );
        return Err(Exit::say(Exit::SETUP, said));
    }
    let client = engine::start(directory)?;
    match opening {
        Opening::Create(tables) => {
            if tables.tokens {
                locker::create_table(&client, engine::TABLE).await?;
            }
            if tables.workflows {
                locker::workflow::create_table(&client, engine::WORKFLOWS).await?;
            }
        }
        Opening::Existing(tables) => {
            if tables.tokens {
                require(&client, engine::TABLE, "locker table create", directory).await?;
            }
            if tables.workflows {
                require(&client, engine::WORKFLOWS, "locker workflow table create", directory).await?;
            }
        }
    }
    Ok(client)
}

/// Whether a table exists is asked of the list of tables: any other answer is for the verb to meet.
async fn require(client: &Client, table: &str, create: &str, directory: &Path) -> Result<(), Exit> {
    let listed = client.list_tables().send().await;
    if listed.is_ok_and(|listed| !listed.table_names().iter().any(|name| name == table)) {
        let store = directory.display();
        let said = format!("the store in {store} has no table {table}; `{create}` creates it");
        return Err(Exit::say(Exit::SETUP, said));
    }
    Ok(())
}

async fn client(aws: &Aws) -> Result<(Client, String), Exit> {
    let (config, region) = config(aws).await?;
    Ok((Client::new(&config), region))
}

/// The configuration of a client, and its region.
pub(super) async fn config(aws: &Aws) -> Result<(SdkConfig, String), Exit> {
    let mut loader =
        aws_config::defaults(BehaviorVersion::v2026_01_12()).http_client(locker::client::http_client());
    if let Some(region) = &aws.region {
        loader = loader.region(aws_config::Region::new(region.clone()));
    }
    if let Some(profile) = &aws.profile {
        loader = loader.profile_name(profile);
    }
    if let Some(endpoint) = &aws.endpoint_url {
        loader = loader.endpoint_url(endpoint);
    }
    let config = loader.load().await;
    // Without one, each request would fail to be signed, and be tried again until its time is up.
    let Some(region) = config.region().map(ToString::to_string) else {
        let unset = "no region is set; add --region, or set AWS_REGION or the region of the profile";
        return Err(Exit::say(Exit::SETUP, unset));
    };
    Ok((config, region))
}

/// The options that name these tables, to be pasted into another call of the command.
fn options_of(table: &str, aws: &Aws) -> String {
    let options = [
        ("--table", Some(table)),
        ("--workflows", aws.workflows.as_deref()),
        ("--endpoint-url", aws.endpoint_url.as_deref()),
        ("--region", aws.region.as_deref()),
        ("--profile", aws.profile.as_deref()),
    ];
    options.into_iter().filter_map(|(option, value)| Some(format!(" {option} {}", quoted(value?)))).collect()
}

/// Without it, a line that is pasted would read fewer shards than the verb that printed it.
fn shards_option(shards: u16) -> String {
    if shards == 1 { String::new() } else { format!(" --shards {shards}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_can_be_pasted() {
        let aws = Aws { workflows: Some("flows".into()), endpoint_url: None, region: None, profile: None };
        assert_eq!(options_of("locks", &aws), " --table locks --workflows flows");
        let some = |text: &str| Some(text.to_owned());
        let aws = Aws {
            workflows: None,
            endpoint_url: some("http://127.0.0.1:8000"),
            region: some("eu-west-1"),
            profile: some("shop's"),
        };
        assert_eq!(
            options_of("locks", &aws),
            r" --table locks --endpoint-url http://127.0.0.1:8000 --region eu-west-1 --profile 'shop'\''s'"
        );
    }
}
