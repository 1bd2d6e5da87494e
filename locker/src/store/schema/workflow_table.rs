//! The table of workflows.

use aws_sdk_dynamodb::Client;

use super::layout::Layout;
use super::table::{TableCheck, check, create};
use crate::error::Error;

/// Creates the table of workflows with its index, and enables TTL, for development and tests, as
/// [`create_table`](crate::create_table) does for tokens.
///
/// Returns when the table can be used. Cost: 4 requests or more; no write units.
///
/// # Errors
///
/// Same as [`create_table`](crate::create_table).
pub async fn create_table(client: &Client, table: &str) -> Result<(), Error> {
    create(client, table, &Layout::WORKFLOWS).await
}

/// Compares a live table of workflows with the layout that the code needs, as
/// [`check_table`](crate::check_table) does for tokens.
///
/// # Errors
///
/// Same as [`check_table`](crate::check_table).
pub async fn check_table(client: &Client, table: &str) -> Result<TableCheck, Error> {
    check(client, table, &Layout::WORKFLOWS).await
}
