//! `locker complete`: the registered code, once over what is due.

use std::collections::BTreeMap;

use clap::Args;
use locker::RunReport;
use locker::workflow::{Completer, CompleterReport};

use crate::exit::Exit;
use crate::options::Output;
use crate::output;

#[derive(Debug, Args)]
pub(crate) struct Complete {
    /// Maximum number of workflows to claim.
    #[arg(long, value_name = "N", default_value_t = 1000)]
    limit: usize,

    /// Number of workflows to drive at a time.
    #[arg(long, value_name = "N", env = "LOCKER_CONCURRENCY", default_value_t = 8)]
    concurrency: usize,
}

impl Complete {
    pub(crate) async fn run(&self, completer: Completer, output: Output) -> Result<Exit, Exit> {
        let done = completer.limit(self.limit).concurrency(self.concurrency).run().await?;
        if output == Output::Json {
            output::json(&done);
        }
        let (sentence, well) = (said(&done), is_well(&done));
        match done.stopped_by {
            Some(error) => Err(error.into()),
            None => Ok(Exit::say(if well { Exit::OK } else { Exit::PROBLEMS }, sentence)),
        }
    }
}

fn is_well(done: &RunReport<CompleterReport>) -> bool {
    done.quarantined + done.broken_off + done.failed == 0 && done.unknown.is_empty() && done.finished
}

fn said(done: &RunReport<CompleterReport>) -> String {
    let mut said = vec![format!(
        "{} claimed: {} completed, {} compensated, {} waiting, {} in quarantine",
        done.claimed, done.completed, done.compensated, done.waiting, done.quarantined
    )];
    if done.quarantined > 0 {
        said.push("see `locker workflow ls --quarantine`".to_owned());
    }
    let broken = done.broken_off + done.failed;
    if broken > 0 {
        said.push(format!("{broken} could not be processed, see --verbose"));
    }
    said.extend(unknown(&done.unknown));
    if !done.finished {
        said.push("there may be more".to_owned());
    }
    said.join("; ")
}

/// Names the due workflows whose code is not registered here. They were not changed.
fn unknown(unknown: &BTreeMap<String, usize>) -> Option<String> {
    if unknown.is_empty() {
        return None;
    }
    let names = unknown.iter().map(|(name, count)| format!("{count} named {}", output::plain(name)));
    let names = names.collect::<Vec<_>>().join(", ");
    Some(format!(
        "no code is registered here for {names}: run the completer that has it, or a newer version of this command"
    ))
}
