//! `locker table`.

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
            Ok(Exit::say(
                Exit::OK,
                format!(
                    "the table {table} is there, with its index and TTL; `locker table check` compares it in full"
                ),
            ))
        }
        TableVerb::Check => {
            let check = locker::check_table(client, table).await?;
            if format == Output::Json {
                output::print(format_args!("{:#}", json!({ "table": table, "problems": check.problems })));
            } else {
                check.problems.iter().for_each(output::print);
            }
            Ok(match check.problems.len() {
                0 => Exit::say(Exit::OK, format!("the table {table} is as the code needs it")),
                1 => Exit::say(Exit::PROBLEMS, "1 thing to change"),
                problems => Exit::say(Exit::PROBLEMS, format!("{problems} things to change")),
            })
        }
    }
}
