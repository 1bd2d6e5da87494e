//! `locker scan`: the scanner once, as a table.

use locker::{Count, Record, Scanned};
use serde_json::json;

use crate::args::Output;
use crate::connect::Connection;
use crate::exit::Exit;
use crate::output;

pub(crate) async fn run(connection: &Connection, output: Output) -> Result<Exit, Exit> {
    let scanned = connection.locker.scan().run().await?;
    match output {
        Output::Json => print_json(&scanned),
        Output::Table => print_table(&scanned.missing),
    }
    let sentence = format!(
        "{} missing, {} in progress, {} failed",
        scanned.missing.len(),
        said(scanned.in_progress),
        said(scanned.failed)
    );
    match (scanned.finished, scanned.stopped_by) {
        (true, _) if scanned.missing.is_empty() => Ok(Exit::say(Exit::OK, sentence)),
        (true, _) => Ok(Exit::say(Exit::PROBLEMS, sentence)),
        (false, Some(error)) => Err(error.into()),
        (false, None) => Ok(Exit::say(Exit::PROBLEMS, format!("{sentence}; there may be more"))),
    }
}

fn said(count: Count) -> String {
    if count.exact { count.at_least.to_string() } else { format!("at least {}", count.at_least) }
}

fn print_table(missing: &[Record]) {
    if missing.is_empty() {
        return;
    }
    let now = output::now();
    let rows = missing.iter().map(|record| {
        [
            output::plain(record.key().as_str()),
            output::plain(record.locked_by()),
            output::relative(record.created(), now),
            output::relative(record.expected_completion(), now),
        ]
    });
    output::print(output::table(Some(["MISSING", "LOCKED BY", "SINCE", "DUE"]), rows));
}

fn print_json(scanned: &Scanned) {
    let missing: Vec<_> = scanned
        .missing
        .iter()
        .map(|record| {
            json!({
                "lockToken": record.key().as_str(),
                "lockedBy": record.locked_by(),
                "created": output::time(record.created()),
                "expectedCompletion": output::time(record.expected_completion()),
            })
        })
        .collect();
    let count = |count: Count| json!({ "atLeast": count.at_least, "exact": count.exact });
    output::print(format_args!(
        "{:#}",
        json!({
            "missing": missing,
            "oldestSeconds": scanned.oldest.as_secs(),
            "inProgress": count(scanned.in_progress),
            "failed": count(scanned.failed),
            "finished": scanned.finished,
        })
    ));
}
