//! `locker scan`: reports missing tasks once, as the scanner does.

use clap::Args;
use locker::{Count, Record, Scanner};
use serde_json::{Value, json};

use super::{Bounds, Ran};
use crate::connection::Connection;
use crate::exit::Exit;
use crate::options::Output;
use crate::output::{self, Text};

#[derive(Debug, Args)]
pub(crate) struct Scan {
    #[command(flatten)]
    bounds: Bounds,
}

impl Scan {
    pub(crate) async fn run(&self, connection: &Connection, output: Output) -> Result<Exit, Exit> {
        let scanner = Scanner::new(&connection.locker);
        let scanner = self.bounds.limit.into_iter().fold(scanner, Scanner::limit);
        let scanner = self.bounds.end().into_iter().fold(scanner, Scanner::deadline);
        let report = scanner.run().await?;
        let mut shown = json!(report);
        shown["missing"] = to_json(&report.missing);
        if output == Output::Table && !report.missing.is_empty() {
            output::print(table(&report.missing));
        }
        let missing = report.missing.len() + report.unreadable;
        let counts = format!(
            "{missing} missing, {} listed in progress, {} held in {}",
            counted(report.in_progress),
            counted(report.held),
            output::shards_read(connection.settings.shards)
        );
        Ran::new(counts)
            .listed(missing, "tokens --due", connection)
            .failed(report.unreadable)
            .end(report, &shown, output)
    }
}

fn counted(count: Option<Count>) -> String {
    match count {
        None => "an unknown number".to_owned(),
        Some(count) if count.exact => count.at_least.to_string(),
        Some(count) => format!("at least {}", count.at_least),
    }
}

fn table(missing: &[Record]) -> Text {
    let now = output::now();
    let rows = missing.iter().map(|record| {
        [
            record.key().as_str().to_owned(),
            record.locked_by().to_owned(),
            output::relative(record.created(), now),
            output::relative(record.expected_completion(), now),
        ]
    });
    output::table(Some(["MISSING", "LOCKED BY", "SINCE", "DUE"]), rows)
}

fn to_json(missing: &[Record]) -> Value {
    let missing = missing.iter().map(|record| {
        json!({
            "lockToken": record.key().as_str(),
            "lockedBy": record.locked_by(),
            "created": output::time(record.created()),
            "expectedCompletion": output::time(record.expected_completion()),
        })
    });
    missing.collect()
}
