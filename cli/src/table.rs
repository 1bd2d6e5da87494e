//! `locker table` and `locker workflow table`.

use aws_sdk_dynamodb::Client;
use locker::TableCheck;
use serde_json::json;

use crate::args::{Output, TableVerb};
use crate::connect::Connection;
use crate::exit::Exit;
use crate::output;

pub(crate) async fn run(connection: &Connection, verb: TableVerb, format: Output) -> Result<Exit, Exit> {
    let Connection { client, table, .. } = connection;
    match verb {
        TableVerb::Create => {
            locker::create_table(client, table).await?;
            Ok(created(table, "locker table check"))
        }
        TableVerb::Check => Ok(checked(table, &locker::check_table(client, table).await?, format)),
    }
}

/// The same for the table of workflows.
pub(crate) async fn run_workflows(
    client: &Client,
    table: &str,
    verb: TableVerb,
    format: Output,
) -> Result<Exit, Exit> {
    match verb {
        TableVerb::Create => {
            locker::workflow::create_workflow_table(client, table).await?;
            Ok(created(table, "locker workflow table check"))
        }
        TableVerb::Check => {
            Ok(checked(table, &locker::workflow::check_workflow_table(client, table).await?, format))
        }
    }
}

fn created(table: &str, check: &str) -> Exit {
    let said = format!("the table {table} is there, with its index and TTL; `{check}` compares it in full");
    Exit::say(Exit::OK, said)
}

fn checked(table: &str, check: &TableCheck, format: Output) -> Exit {
    if format == Output::Json {
        output::print(format_args!("{:#}", json!({ "table": table, "problems": check.problems })));
    } else {
        check.problems.iter().for_each(output::print);
    }
    match check.problems.len() {
        0 => Exit::say(Exit::OK, format!("the table {table} is as the code needs it")),
        1 => Exit::say(Exit::PROBLEMS, "1 thing to change"),
        problems => Exit::say(Exit::PROBLEMS, format!("{problems} things to change")),
    }
}
