//! `locker table` and `locker workflow table`: create or check a table.

use aws_sdk_dynamodb::Client;
use clap::Subcommand;
use locker::TableCheck;
use serde_json::json;

use crate::connection::Connection;
use crate::exit::Exit;
use crate::options::Output;
use crate::output;

#[derive(Debug, Clone, Copy, Subcommand)]
pub(crate) enum Verb {
    /// Create the table with its index and TTL, for development.
    Create,
    /// Compare the table with what the code needs.
    Check,
}

impl Verb {
    pub(crate) const fn creates(self) -> bool {
        matches!(self, Self::Create)
    }
}

pub(crate) async fn run(connection: &Connection, verb: Verb, format: Output) -> Result<Exit, Exit> {
    let Connection { client, table, .. } = connection;
    match verb {
        Verb::Create => {
            locker::create_table(client, table).await?;
            Ok(created(table, "locker table check", format))
        }
        Verb::Check => Ok(checked(table, &locker::check_table(client, table).await?, format)),
    }
}

/// The same for the table of workflows.
pub(crate) async fn run_workflows(
    client: &Client,
    table: &str,
    verb: Verb,
    format: Output,
) -> Result<Exit, Exit> {
    match verb {
        Verb::Create => {
            locker::workflow::create_table(client, table).await?;
            Ok(created(table, "locker workflow table check", format))
        }
        Verb::Check => Ok(checked(table, &locker::workflow::check_table(client, table).await?, format)),
    }
}

fn created(table: &str, check: &str, format: Output) -> Exit {
    if format == Output::Json {
        output::json(&json!({ "table": table, "exists": true }));
    }
    let said = format!("the table {table} exists, with its index and TTL; `{check}` checks it in full");
    Exit::say(Exit::OK, said)
}

fn checked(table: &str, check: &TableCheck, format: Output) -> Exit {
    if format == Output::Json {
        output::json(&json!({ "table": table, "problems": check.problems }));
    } else {
        check.problems.iter().for_each(output::print);
    }
    match check.problems.len() {
        0 => Exit::say(Exit::OK, format!("the table {table} matches what the code needs")),
        1 => Exit::say(Exit::PROBLEMS, "1 problem found"),
        problems => Exit::say(Exit::PROBLEMS, format!("{problems} problems found")),
    }
}
