//! `locker apply`: runs a plan, or goes on with one.

use std::io::{IsTerminal as _, Write as _};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::Args;
use locker::bulk::{Acted, BulkReport, Done};
use serde_json::json;

use super::file::{Kept, Results};
use super::plan::{bulk, print};
use crate::connection::Connection;
use crate::exit::Exit;
use crate::options::Output;
use crate::output;

#[derive(Debug, Args)]
pub(crate) struct Apply {
    /// The file of a plan that `locker plan` made.
    file: PathBuf,

    /// Records a second.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    rate: u32,
}

impl Apply {
    pub(crate) async fn run(&self, connection: &Connection, output: Output) -> Result<Exit, Exit> {
        let Kept { place, plan } = Kept::read(&self.file)?;
        if place != connection.place {
            let said =
                format!("the plan is for {place}, and this is {}; nothing was changed", connection.place);
            return Err(Exit::say(Exit::USAGE, said));
        }
        if output == Output::Table {
            print(&plan);
        }
        let made = output::relative(plan.made, output::now());
        eprintln!("locker: plan {} of {}, made {made}: {}", plan.id, plan.by, output::plain(&plan.reason));
        let mut results = Results::beside(&self.file)?;
        let stops = stops();
        let (all, mut told, mut unwritten) = (plan.items.len(), 0, None);
        let each = |outcome: &Acted| {
            told += 1;
            unwritten = unwritten.take().or(results.add(outcome).err());
            progress(told, all, outcome);
            if stops.load(Ordering::SeqCst) || unwritten.is_some() {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        };
        let report = bulk(connection).await?.per_second(self.rate).run(&plan, each).await?;
        if std::io::stderr().is_terminal() {
            eprintln!();
        }
        if output == Output::Json {
            output::json(&json!({ "plan": plan.id, "report": report }));
        }
        if let Some(error) = unwritten {
            return Err(error);
        }
        let said = said(&report, &results);
        Ok(match report {
            report if !report.is_finished() => Exit::say(
                Exit::PROBLEMS,
                format!("{said}; run it again to go on: what is done is not done twice"),
            ),
            BulkReport { changed: 0, not_possible: 0, .. } => Exit::say(Exit::OK, said),
            _ => Exit::say(Exit::CHANGED, format!("{said}; look at what changed, and plan anew")),
        })
    }
}

fn said(report: &BulkReport, results: &Results) -> String {
    let mut parts = vec![format!("{} done", report.done)];
    let counts = [
        (report.done_before, "of them before"),
        (report.changed, "changed meanwhile and left as they are"),
        (report.not_possible, "not possible"),
        (report.failed, "failed"),
        (report.unknown, "unknown"),
        (report.left, "not begun"),
    ];
    parts
        .extend(counts.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")));
    format!("{} ({})", parts.join(", "), results.path().display())
}

/// How far it is, on a terminal only.
fn progress(told: usize, all: usize, outcome: &Acted) {
    let mut stderr = std::io::stderr();
    if !stderr.is_terminal() {
        if let (Done::Failed | Done::Unknown, Some(error)) = (outcome.done, &outcome.error) {
            eprintln!("locker: {}: {error}", output::plain(&outcome.work.to_text()));
        }
        return;
    }
    let filled = 30 * told / all.max(1);
    let _ = write!(stderr, "\rlocker: [{}{}] {told} of {all}", "#".repeat(filled), " ".repeat(30 - filled));
    let _ = stderr.flush();
}

/// Set by Ctrl-C: what is under way is finished, and nothing new is begun.
fn stops() -> Arc<AtomicBool> {
    let stops = Arc::new(AtomicBool::new(false));
    let heard = Arc::clone(&stops);
    tokio::spawn(async move {
        if tokio::signal::ctrl_c().await.is_ok() {
            heard.store(true, Ordering::SeqCst);
        }
    });
    stops
}
