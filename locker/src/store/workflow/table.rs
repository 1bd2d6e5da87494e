//! The table of workflows.

use aws_sdk_dynamodb::Client;

use super::attribute as w;
use crate::error::Error;
use crate::store::layout::Layout;
use crate::store::table::{TableCheck, check, create};

const WORKFLOWS: Layout = Layout {
    keys: &[w::WORKFLOW, w::ITEM],
    key_in_words: "the partition key workflow and the sort key item",
    due: w::NEXT_DUE,
    projected: &w::PROJECTED,
};

/// Make the table of workflows with its index and switch its TTL on, for development and tests, as
/// [`create_table`](crate::create_table) does for tokens.
///
/// Returns when the table can be used. Cost: 4 requests or more; no write units.
///
/// # Errors
///
/// As of [`create_table`](crate::create_table).
pub async fn create_workflow_table(client: &Client, table: &str) -> Result<(), Error> {
    create(client, table, &WORKFLOWS).await
}

/// Compare a live table of workflows with what the code needs, as
/// [`check_table`](crate::check_table) does for tokens.
///
/// # Errors
///
/// As of [`check_table`](crate::check_table).
pub async fn check_workflow_table(client: &Client, table: &str) -> Result<TableCheck, Error> {
    check(client, table, &WORKFLOWS).await
}
