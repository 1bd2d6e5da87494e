//! `locker reap`: deletes finished workflows once, as the reaper does.

use clap::Args;
use locker::workflow::{Completer, Reaper};
use serde_json::json;

use super::{AtATime, Bounds, QUARANTINED, Ran};
use crate::connection::Connection;
use crate::exit::Exit;
use crate::options::Output;

#[derive(Debug, Args)]
pub(crate) struct Reap {
    #[command(flatten)]
    bounds: Bounds,
    #[command(flatten)]
    at_a_time: AtATime,
}

impl Reap {
    /// Without its code, an old unfinished workflow would be quarantined here although its code can
    /// finish it.
    pub(crate) async fn run(
        &self,
        connection: &Connection,
        completer: &Completer,
        output: Output,
    ) -> Result<Exit, Exit> {
        let reaper = self.bounds.limit.into_iter().fold(Reaper::new(completer), Reaper::limit);
        let reaper = self.bounds.end().into_iter().fold(reaper, Reaper::deadline);
        let reaper = self.at_a_time.concurrency.into_iter().fold(reaper, Reaper::concurrency);
        let report = reaper.run().await?;
        let shown = json!(report);
        let counts = format!(
            "{} deleted, {} kept, {} completed, {} in quarantine",
            report.deleted, report.kept, report.completed, report.quarantined
        );
        Ran::new(counts)
            .listed(report.quarantined, QUARANTINED, connection)
            .failed(report.failed)
            .unknown(&report.unknown, |names| {
                format!("no code is registered here for {names}: run the reaper that has the code")
            })
            .end(report, &shown, output)
    }
}
