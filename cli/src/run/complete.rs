//! `locker complete`: drives due workflows once, as the completer does.

use clap::Args;
use locker::workflow::Completer;
use serde_json::json;

use super::{AtATime, Bounds, QUARANTINED, Ran};
use crate::connection::Connection;
use crate::exit::Exit;
use crate::options::Output;

#[derive(Debug, Args)]
pub(crate) struct Complete {
    #[command(flatten)]
    bounds: Bounds,
    #[command(flatten)]
    at_a_time: AtATime,
}

impl Complete {
    pub(crate) async fn run(
        &self,
        connection: &Connection,
        completer: Completer,
        output: Output,
    ) -> Result<Exit, Exit> {
        let completer = self.bounds.limit.into_iter().fold(completer, Completer::limit);
        let completer = self.bounds.end().into_iter().fold(completer, Completer::deadline);
        let completer = self.at_a_time.concurrency.into_iter().fold(completer, Completer::concurrency);
        let report = completer.run().await?;
        let shown = json!(report);
        let counts = format!(
            "{} claimed: {} completed, {} compensated, {} waiting, {} in quarantine",
            report.claimed, report.completed, report.compensated, report.waiting, report.quarantined
        );
        let unknown = |names: String| {
            format!(
                "no code is registered here for {names}: run the completer that has the code, or a newer \
                 version of this command"
            )
        };
        Ran::new(counts)
            .listed(report.quarantined, QUARANTINED, connection)
            .failed(report.broken_off + report.failed)
            .unknown(&report.unknown, unknown)
            .end(report, &shown, output)
    }
}
