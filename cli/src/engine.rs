//! The embedded DynamoDB: an engine in this process over a file that several processes may share.

use std::path::Path;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::{BehaviorVersion, Config, Credentials, Region};
use aws_sdk_dynamodb::error::DisplayErrorContext;
use aws_sdk_dynamodb::operation::create_table::CreateTableError;
use aws_sdk_dynamodb::types::{
    AttributeDefinition, BillingMode, KeySchemaElement, KeyType, ScalarAttributeType,
};

use crate::exit::Exit;

/// The table of the embedded engine.
pub(crate) const TABLE: &str = "locks";
/// The table of workflows of the embedded engine.
pub(crate) const WORKFLOWS: &str = "workflows";
/// The table of order rows of the embedded engine.
pub(crate) const ORDERS: &str = "orders";

/// Start the engine over `DIR/locker.db` and make a client for it.
///
/// The engine speaks HTTP on a free port of loopback for as long as this process lives, so that
/// everything but the endpoint is as on AWS.
pub(crate) async fn start(directory: &Path) -> Result<Client, Exit> {
    let cannot = |what: &str, why: String| {
        let directory = directory.display();
        Exit::say(Exit::SETUP, format!("cannot {what} the embedded table in {directory}: {why}"))
    };
    make_private(directory).map_err(|error| cannot("make", error.to_string()))?;
    let file = directory.join("locker.db");
    let file = file.to_str().ok_or_else(|| cannot("open", "its path is not UTF-8".to_owned()))?;
    let database = dynoxide::Database::new(file).map_err(|error| cannot("open", error.to_string()))?;
    let listener = std::net::TcpListener::bind("127.0.0.1:0");
    let listener = listener.and_then(|listener| listener.set_nonblocking(true).map(|()| listener));
    let listener = listener.map_err(|error| cannot("serve", error.to_string()))?;
    let address = listener.local_addr().map_err(|error| cannot("serve", error.to_string()))?;
    // A thread of its own: the engine works, and waits for other processes, on the thread it is called on.
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::from_std(listener)?;
            dynoxide::server::serve_on(listener, database).await;
            Ok::<_, std::io::Error>(())
        })
    });
    let config = Config::builder()
        .behavior_version(BehaviorVersion::v2026_01_12())
        .region(Region::new("local"))
        .credentials_provider(Credentials::new("local", "local", None, None, "embedded"))
        .endpoint_url(format!("http://{address}"))
        .http_client(locker::client::http_client())
        .build();
    Ok(Client::from_conf(config))
}

/// Make the table of order rows, if it is not there.
pub(crate) async fn create_rows(client: &Client, table: &str) -> Result<(), Exit> {
    let cannot = |error: &dyn std::fmt::Display| {
        Exit::say(Exit::SETUP, format!("cannot make the table {table}: {error}"))
    };
    let key = AttributeDefinition::builder().attribute_name("id").attribute_type(ScalarAttributeType::S);
    let hash = KeySchemaElement::builder().attribute_name("id").key_type(KeyType::Hash);
    let create = client.create_table().table_name(table).billing_mode(BillingMode::PayPerRequest);
    let create = create.attribute_definitions(key.build().map_err(|error| cannot(&error))?);
    let created = create.key_schema(hash.build().map_err(|error| cannot(&error))?).send().await;
    match created {
        Ok(_) => Ok(()),
        Err(error)
            if error.as_service_error().is_some_and(CreateTableError::is_resource_in_use_exception) =>
        {
            Ok(())
        }
        Err(error) => Err(cannot(&DisplayErrorContext(&error))),
    }
}

/// Stored output may be private.
fn make_private(directory: &Path) -> std::io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(directory)
}
