//! The table of order rows.

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::error::DisplayErrorContext;
use aws_sdk_dynamodb::operation::create_table::CreateTableError;
use aws_sdk_dynamodb::types::{
    AttributeDefinition, BillingMode, KeySchemaElement, KeyType, ScalarAttributeType,
};
use clap::Args;
use locker_cli::{Connection, Exit};

/// The embedded table of order rows.
const EMBEDDED: &str = "orders";

#[derive(Debug, Args)]
pub(crate) struct Rows {
    /// Table of order rows [default: orders, if it is embedded].
    #[arg(long, value_name = "NAME", env = "ORDERS_TABLE")]
    orders_table: Option<String>,
}

impl Rows {
    /// The name of the table.
    pub(crate) fn table(&self, connection: &Connection) -> Result<String, Exit> {
        let default = connection.is_embedded.then_some(EMBEDDED);
        let missing = "name the table of order rows, too: --orders-table NAME, or ORDERS_TABLE";
        let name = self.orders_table.as_deref().or(default);
        name.map(str::to_owned).ok_or_else(|| Exit::say(Exit::USAGE, missing))
    }
}

/// Creates the table, unless it exists.
pub(crate) async fn create(client: &Client, table: &str) -> Result<(), Exit> {
    let cannot = |error: &dyn std::fmt::Display| {
        Exit::say(Exit::SETUP, format!("cannot create the table {table}: {error}"))
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
