//! `locker scan`: one run of the scanner.

use locker::{Count, Record, RunReport, ScanReport};
use serde_json::json;

use crate::connection::Connection;
use crate::exit::Exit;
use crate::options::Output;
use crate::output;

pub(crate) async fn run(connection: &Connection, output: Output) -> Result<Exit, Exit> {
    let scanned = locker::Scanner::new(&connection.locker).run().await?;
    match output {
        Output::Json => print_json(&scanned),
        Output::Table => print_table(&scanned.missing),
    }
    let sentence = format!(
        "{} missing, {} listed in progress, {} held in {}",
        scanned.missing.len() + scanned.unreadable,
        said(scanned.in_progress),
        said(scanned.held),
        output::shards_read(connection.settings.shards)
    );
    let sentence = match scanned.unreadable {
        0 => sentence,
        some => format!("{sentence}; {some} of the missing cannot be read; see --verbose"),
    };
    match (scanned.finished, scanned.stopped_by) {
        (true, _) if scanned.counts.missing.is_empty() && scanned.counts.unreadable == 0 => {
            Ok(Exit::say(Exit::OK, sentence))
        }
        (true, _) => Ok(Exit::say(Exit::PROBLEMS, sentence)),
        (false, Some(error)) => Err(error.into()),
        (false, None) => Ok(Exit::say(Exit::PROBLEMS, format!("{sentence}; there may be more"))),
    }
}

fn said(count: Option<Count>) -> String {
    match count {
        None => "an unknown number".to_owned(),
        Some(count) if count.exact => count.at_least.to_string(),
        Some(count) => format!("at least {}", count.at_least),
    }
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

fn print_json(scanned: &RunReport<ScanReport>) {
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
    let mut report = json!(scanned);
    report["missing"] = json!(missing);
    output::json(&report);
}
