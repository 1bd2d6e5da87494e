//! `locker reap`: finished workflows are deleted, and old unfinished ones get their last attempt.

use clap::Args;
use locker::workflow::{Completer, Reaper};

use crate::exit::Exit;
use crate::options::Output;
use crate::output;

#[derive(Debug, Args)]
pub(crate) struct Reap {
    /// Maximum number of workflows to look at [default: all that are due].
    #[arg(long, value_name = "N")]
    limit: Option<usize>,

    /// Number of workflows to delete at a time.
    #[arg(long, value_name = "N", env = "LOCKER_CONCURRENCY", default_value_t = 32)]
    concurrency: usize,
}

impl Reap {
    /// Without its code, an old unfinished workflow would be quarantined here although its code can finish it.
    pub(crate) async fn run(&self, completer: &Completer, output: Output) -> Result<Exit, Exit> {
        let reaper = Reaper::new(completer).concurrency(self.concurrency);
        let reaped = self.limit.into_iter().fold(reaper, Reaper::limit).run().await?;
        if output == Output::Json {
            output::json(&reaped);
        }
        let mut said = vec![format!(
            "{} deleted, {} kept, {} completed, {} in quarantine",
            reaped.deleted, reaped.kept, reaped.completed, reaped.quarantined
        )];
        if reaped.quarantined > 0 {
            said.push("see `locker workflow ls --quarantine`".to_owned());
        }
        if reaped.failed > 0 {
            said.push(format!("{} could not be processed, see --verbose", reaped.failed));
        }
        if !reaped.finished {
            said.push("there may be more".to_owned());
        }
        let well = reaped.quarantined + reaped.failed == 0 && reaped.finished;
        match reaped.stopped_by {
            Some(error) => Err(error.into()),
            None => Ok(Exit::say(if well { Exit::OK } else { Exit::PROBLEMS }, said.join("; "))),
        }
    }
}
